"""The adapter of Modal: the vendor's own SDK against a control plane on this machine."""

import math
from collections.abc import Iterator

import pytest

import modal_parts as parts
from quantgrid.errors import VolumeRefusal
from quantgrid.rental.errors import CallFault, Trouble
from quantgrid.rental.modal import Modal
from quantgrid.rental.modal.troubles import trouble
from quantgrid.rental.port import Ended, MachineState, Name, find_name
from rehearsal.modal.double import Double, until

FACTOR = 1000.0


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """One double for all tests here; each cleans up what it did."""
    with parts.doubled(tmp_path_factory.mktemp("modal"), FACTOR) as double:
        yield double


@pytest.fixture
def platform(double: Double) -> Iterator[Modal]:
    """The adapter; nothing costs anything when its test is over."""
    yield parts.connected(double)
    double.plant()
    double.put("capacity", {})
    for box in double.living():
        parts.connected(double, box["workspace"]).stop(box["id"])
    assert double.living() == []


@pytest.fixture
def volume(platform: Modal) -> str:
    """A volume that somebody made."""
    return parts.made_volume(platform)


def _ended(platform: Modal, machine: str) -> int | None:
    def is_over() -> bool:
        seen = platform.observe(machine)
        return seen is not None and seen.state is MachineState.ENDED

    until(is_over, f"{machine} ends")
    seen = platform.observe(machine)
    return seen.exit_code if seen else None


def _refused(platform: Modal, *words: str, **changes: object) -> CallFault:
    with pytest.raises(CallFault) as caught:
        platform.launch(parts.order(platform, *words, **changes))
    return caught.value


# -- from the launch to the end --------------------------------------------------------------------


@pytest.mark.parametrize("candidate", [parts.CPU, parts.GPU], ids=["cpu", "gpu"])
def test_sandbox_is_found_by_name_and_listing_until_it_ends(
    platform: Modal, candidate: object, double: Double
) -> None:
    """A launched sandbox is ours by its name, in one listing, and shows its words and its end."""
    wanted = parts.order(platform, "sh", "-c", "echo said; exec sleep 60", candidate=candidate)

    made = platform.launch(wanted)

    (listed,) = platform.machines(parts.OWNER)
    assert find_name(listed.name) == wanted.name
    assert listed.id == made.id
    assert platform.find(str(wanted.name)) == listed
    assert platform.observe(made.id) == listed
    assert listed.state is MachineState.RUNNING
    assert listed.is_billing
    until(lambda: platform.logs(made.id, 3) == "said\n", "its words")
    platform.stop(made.id)
    assert platform.machines(parts.OWNER) == ()
    found = platform.find(str(wanted.name)) if parts.IS_NEW else platform.observe(made.id)
    assert found is not None
    assert (found.id, found.state, found.is_billing) == (made.id, MachineState.ENDED, False)
    assert found.exit_code == 137
    platform.stop(made.id)  # asking twice is no error
    assert double.calls().count("AppClientDisconnect") == 0


def test_nothing_is_found_when_nothing_is_there(platform: Modal, double: Double) -> None:
    """Looking makes neither app nor sandbox nor volume, and a missing one is no error."""
    assert platform.find_volume("nobody-made-it") is None
    before = len(double.calls())
    assert platform.machines("ffffffff") == ()
    assert parts.LIST not in double.calls()[before:]  # without an app there is nothing to list
    assert platform.find(str(Name("ffffffff", "5" * 12, 1, "b" * 12))) is None
    assert platform.find("somebody-elses") is None
    assert platform.observe("sb-0000000000000000000000") is None
    platform.stop("sb-0000000000000000000000")
    assert platform.logs("sb-0000000000000000000000", 3) == ""


def test_listing_costs_one_call_when_asked_again(platform: Modal, double: Double) -> None:
    """Names are learnt once: later sweeps make one request for all sandboxes."""
    for nonce in ("a" * 12, "b" * 12, "c" * 12):
        platform.launch(parts.order(platform, "sleep", "60", nonce=nonce))
    stranger = parts.connected(double)  # another controller knows no name yet
    first = stranger.machines(parts.OWNER)
    before = len(double.calls())

    second = stranger.machines(parts.OWNER)

    assert len(first) == 3
    assert first == second
    assert double.calls()[before:] == [parts.LIST] * 2  # the second page is empty


def test_sandbox_sees_order_and_named_secrets_only(
    platform: Modal, volume: str, double: Double
) -> None:
    """Environment, secrets by name and the volume arrive; the double's files hold no secret."""
    double.put("secrets", {"lab/main/archive": {"ARCHIVE_KEY": "s3cret"}})
    script = "echo $PLAIN $ARCHIVE_KEY > $PLACE/said; sync $PLACE"
    environment = (("PLAIN", "plain"), ("PLACE", "/grid"))
    made = platform.launch(
        parts.order(
            platform, "sh", "-c", script,
            environment=environment, secrets=("archive",), volume=volume,
        )
    )  # fmt: skip

    assert _ended(platform, made.id) == 0
    assert (double.committed(volume) / "said").read_text() == "plain s3cret\n"
    kept = [p.read_text(errors="replace") for p in double.root.glob("boxes/*/box.json")]
    assert kept
    assert not any("s3cret" in text for text in kept)


def test_cores_and_memory_are_bounded_so_that_a_price_is_a_bound(double: Double) -> None:
    """What is used above a request is billed as well, so that nothing can be used above it."""
    platform = parts.connected(double, cpu=2.0, memory_mib=512)
    made = platform.launch(parts.order(platform, "sleep", "60"))
    assert double.boxes()[-1]["bounds"] == {
        "milli_cpu": 2000, "milli_cpu_max": 2000, "memory_mb": 512, "memory_mb_max": 512,
    }  # fmt: skip
    platform.stop(made.id)


def test_corpus_volume_is_mounted_read_only_and_never_committed(
    double: Double, platform: Modal
) -> None:
    """What a consumer writes below the corpus reaches nobody."""
    corpus = parts.made_volume(platform, "corpus")
    (double.committed(corpus) / "shard").write_text("tokens")
    reader = parts.connected(double, corpus_volume=corpus, corpus_mount="/corpus")

    made = reader.launch(
        parts.order(reader, "sh", "-c", "cat /corpus/shard; echo x > /corpus/new; exit 0")
    )

    assert _ended(reader, made.id) == 0
    assert "tokens" in reader.logs(made.id, 5)
    assert [path.name for path in double.committed(corpus).iterdir()] == ["shard"]
    assert double.boxes()[-1]["mounts"][0]["read_only"]


# -- the cap ---------------------------------------------------------------------------------------


def test_timeout_never_passes_the_cap_when_more_is_wanted(platform: Modal, double: Double) -> None:
    """A deadline of six days asks for 24 hours."""
    platform.launch(parts.order(platform, "sleep", "60", deadline_s=platform.now() + 6 * 86_400))

    assert double.boxes()[-1]["timeout_s"] == 86_400


def test_sandbox_ends_at_its_deadline_by_the_platform(platform: Modal) -> None:
    """Whoever is dead by then: the platform ends it, and says 124."""
    made = platform.launch(parts.order(platform, "sleep", "60", deadline_s=platform.now() + 2))

    assert _ended(platform, made.id) == 124


def test_launch_is_refused_when_its_deadline_is_over(platform: Modal, double: Double) -> None:
    """A late launch makes nothing and may be made again."""
    before = len(double.boxes())

    fault = _refused(platform, "true", deadline_s=platform.now() - 1)

    assert fault.trouble is Trouble.RETRY
    assert len(double.boxes()) == before


# -- what goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"call": parts.CREATE, "do": "lost"}, Trouble.AMBIGUOUS),
        ({"call": parts.CREATE, "do": "status", "status": "INTERNAL"}, Trouble.AMBIGUOUS),
        (
            {"call": parts.CREATE, "do": "status", "status": "RESOURCE_EXHAUSTED"},
            Trouble.CAPACITY,
        ),
        ({"call": "ImageGetOrCreate", "do": "status", "status": "UNAVAILABLE"}, Trouble.RETRY),
        ({"call": "AppGetOrCreate", "do": "status", "status": "UNAVAILABLE"}, Trouble.RETRY),
        (
            {"call": parts.CREATE, "do": "status", "status": "PERMISSION_DENIED"},
            Trouble.ACCOUNT,
        ),
    ],
    ids=["lost", "internal", "capacity", "image", "app", "unpaid"],
)
def test_launch_tells_what_may_be_done_next_when_it_fails(
    double: Double, platform: Modal, fault: dict[str, object], expected: Trouble
) -> None:
    """Only a create that may have been done is ambiguous; what comes before it is not."""
    fresh = parts.connected(double)  # no app known
    double.plant(fault)

    assert _refused(fresh, "sleep", "60").trouble is expected
    assert bool(double.living()) == (fault["do"] == "lost")


def test_lost_replies_make_one_sandbox_when_the_sdk_repeats(
    platform: Modal, double: Double
) -> None:
    """One lost reply is repeated under the same key; always lost ones leave one, found by name."""
    double.plant({"call": parts.CREATE, "do": "lost", "nth": 1})
    platform.launch(parts.order(platform, "sleep", "60", nonce="b" * 12))
    assert len(double.living()) == 1
    double.plant({"call": parts.CREATE, "do": "lost"})
    wanted = parts.order(platform, "sleep", "60", nonce="c" * 12)

    assert _refused(platform, "sleep", "60", nonce="c" * 12).trouble is Trouble.AMBIGUOUS

    double.plant()
    assert len(double.living()) == 2
    found = platform.find(str(wanted.name))
    assert found is not None
    assert _refused(platform, "sleep", "60", nonce="c" * 12).trouble is Trouble.ALREADY
    assert len(double.living()) == 2


@pytest.mark.skipif(not parts.IS_NEW, reason="SDK 1.5 does not wait for a GPU")
def test_waiting_for_a_gpu_ends_at_our_bound_and_leaves_nothing(double: Double) -> None:
    """A create that blocks is given up, and the sandbox that was queued does not start later."""
    double.put("capacity", {"H100:1": 0})
    platform = parts.connected(double, capacity_s=3.0)

    assert _refused(platform, "true", candidate=parts.GPU).trouble is Trouble.AMBIGUOUS

    double.put("capacity", {})
    until(lambda: not double.living(), "nothing is left")
    assert double.boxes()[-1]["started_s"] == 0


def test_image_without_digest_is_refused_before_any_call(platform: Modal, double: Double) -> None:
    """A tag may mean another image tomorrow."""
    before = len(double.calls())

    fault = _refused(platform, "true", image="example.invalid/quantgrid:latest")

    assert fault.trouble is Trouble.FATAL
    assert len(double.calls()) == before


def test_image_that_cannot_be_built_is_fatal(platform: Modal, double: Double) -> None:
    """Nothing is created for an image that the registry does not have."""
    image = f"example.invalid/no-such-image@sha256:{'0' * 64}"

    assert _refused(platform, "true", image=image).trouble is Trouble.FATAL


def test_reads_are_retried_when_the_service_is_gone(double: Double, platform: Modal) -> None:
    """With no control plane nothing is concluded, and what runs goes on."""
    made = platform.launch(parts.order(platform, "sleep", "60"))
    double.crash()

    with pytest.raises(CallFault) as caught:
        platform.machines(parts.OWNER)
    double.restart()

    assert caught.value.trouble is Trouble.RETRY
    assert [each.id for each in platform.machines(parts.OWNER)] == [made.id]


def test_revoked_token_is_trouble_of_the_account(double: Double) -> None:
    """Nothing is submitted with a key that is gone."""
    platform = parts.connected(double, "gone")
    double.revoke("gone")

    with pytest.raises(CallFault) as caught:
        platform.whoami()

    assert caught.value.trouble is Trouble.ACCOUNT


@pytest.mark.parametrize(
    ("kinds", "is_create", "expected"),
    [
        (["ConflictError", "InvalidError", "Error"], True, Trouble.AMBIGUOUS),
        (["ConflictError", "InvalidError", "Error"], False, Trouble.RETRY),
        (["InvalidError", "Error"], True, Trouble.FATAL),
        (["ImageBuildError", "RemoteError", "Error"], True, Trouble.FATAL),
        (["AlreadyExistsError", "Error"], True, Trouble.ALREADY),
        (["NeverHeardOf", "Exception"], True, Trouble.AMBIGUOUS),
        (["NeverHeardOf", "Exception"], False, Trouble.RETRY),
    ],
)
def test_trouble_is_classed_by_the_most_special_name(
    kinds: list[str], *, is_create: bool, expected: Trouble
) -> None:
    """What is not known is ambiguous for a create, and may be asked again otherwise."""
    assert trouble(kinds, is_create=is_create) is expected


# -- who and where ---------------------------------------------------------------------------------


def test_place_is_refused_with_both_identities_when_a_twin_is_meant(
    platform: Modal, volume: str, double: Double
) -> None:
    """Two workspaces have a volume of one name; each is told from the other before any create."""
    other = parts.connected(double, "home")
    twin = parts.made_volume(other)
    assert platform.volume(volume) is not None
    assert platform.volume(twin) is None
    platform.refuse_other("lab/main", volume)
    before = len(double.boxes())

    with pytest.raises(VolumeRefusal) as caught:
        other.refuse_other("lab/main", volume)

    told = str(caught.value)
    assert all(each in told for each in ("lab/main", volume, "home/main", twin))
    assert "nothing is lost" in told
    assert len(double.boxes()) == before


def test_volume_is_refused_when_it_was_made_anew(platform: Modal, double: Double) -> None:
    """Deleted and made again under its name, a volume has another id: not the one that is meant."""
    import modal

    old = parts.made_volume(platform, "renewed")
    modal.Volume.objects.delete("renewed", client=platform._client)
    new = parts.made_volume(platform, "renewed")

    assert new != old
    assert platform.volume(old) is None
    assert platform.volume(new) is not None


def test_candidates_are_those_of_the_kind(platform: Modal) -> None:
    """A CPU sandbox is no candidate for a GPU."""
    assert platform.candidates("H100", 1) == (parts.GPU,)
    assert platform.candidates("", 0) == (parts.CPU,)
    assert platform.candidates("H100", 8) == ()


@pytest.mark.skipif(not parts.IS_NEW, reason="SDK 1.5 has no statistics of sandboxes")
def test_cost_is_told_when_a_sandbox_ended_long_enough_ago(platform: Modal, double: Double) -> None:
    """Not of a living one, and not at once: statistics are late by minutes."""
    before = double.bill()
    order = parts.order(platform, "sleep", "60")
    made = platform.launch(order)
    until(lambda: double.living()[0]["started_s"], "a start")
    asked = [Ended(order.name, made.id, 1.5, platform.now())]
    assert platform.statements(asked) == {}

    platform.stop(made.id)

    (told,) = platform.statements(asked).values()
    assert told.microusd == pytest.approx(double.bill() - before, abs=1)
    assert (told.begin_s, told.end_s) == (1, math.ceil(asked[0].end_s))
    assert parts.connected(double, bill_s=600.0).statements(asked) == {}
