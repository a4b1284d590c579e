"""What a store in a bucket does beyond the contract: every failure of a service is told apart."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal, PlatformFault
from quantgrid.store import Store, open_store
from quantgrid.store import s3 as s3_module
from quantgrid.store.s3 import S3Store
from quantgrid.store.s3_calls import Calls
from quantgrid.store.s3_place import parse_place
from s3_proxy import Plan, Proxy, Request, proxy
from s3_server import HASTY, NO_SERVER, Server, program, rclone

BIG = bytes(range(256)) * 4 * 6000


@pytest.fixture
def between(seaweed: Server, s3_address: str) -> Iterator[Proxy]:
    """A proxy before the server, without faults yet."""
    with proxy(seaweed.port) as made:
        yield made


@pytest.fixture
def store(between: Proxy, s3_address: str, tmp_path: Path) -> S3Store:
    """A store behind the proxy that was proved already, and that gives up soon."""
    place = s3_address.partition("?")[0]
    made = S3Store(f"{place}?endpoint_url={between.endpoint}", tmp_path / "stores", HASTY)
    made.put_once("a/1", b"1")
    return made


def once(fault: str, at: Callable[[Request], bool] = lambda _: True, times: int = 1) -> Plan:
    """A fault for the first requests of a kind."""
    left = [times]

    def plan(request: Request) -> str:
        if not at(request) or not left[0]:
            return ""
        left[0] -= 1
        return fault

    return plan


def always(fault: str) -> Plan:
    """A fault for every request."""
    return lambda _: fault


CALLS: dict[str, Callable[[Store], object]] = {
    "find": lambda store: store.find("a/1"),
    "size": lambda store: store.size("a/1"),
    "list": lambda store: list(store.list("a")),
    "now": lambda store: store.now() is not None,
    "fetch": lambda store: store.fetch("a/1", Path(os.environ["PYTEST_CACHE"])).read_bytes(),
}
ANSWERS = {"find": b"1", "size": 1, "list": ["a/1"], "now": True, "fetch": b"1"}


@pytest.mark.parametrize("fault", ["reset", "half", "503", "lost"])
@pytest.mark.parametrize("call", CALLS)
def test_s3_reads_the_truth_when_a_fault_passes(
    between: Proxy, store: S3Store, call: str, fault: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Two faults and then none: the answer is the one without faults."""
    monkeypatch.setenv("PYTEST_CACHE", str(tmp_path / "cache"))
    if (call, fault) == ("size", "half"):
        pytest.skip("an answer to HEAD has no second half")
    between.plan = once(fault, times=2)

    assert CALLS[call](store) == ANSWERS[call]
    assert between.faults == [fault, fault]


@pytest.mark.parametrize("fault", ["reset", "503", "lost"])
@pytest.mark.parametrize("call", CALLS)
def test_s3_is_a_fault_and_never_empty_when_it_stays_silent(
    between: Proxy, store: S3Store, call: str, fault: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A store that does not answer is never taken for one that holds nothing."""
    monkeypatch.setenv("PYTEST_CACHE", str(tmp_path / "cache"))
    between.plan = always(fault)

    with pytest.raises(PlatformFault, match="the store does not answer") as caught:
        CALLS[call](store)

    assert between.endpoint in str(caught.value)
    assert len(between.faults) == HASTY.attempts


@pytest.mark.parametrize("fault", ["reset", "half", "503", "lost"])
def test_s3_creates_once_and_knows_it_when_an_answer_is_lost(
    between: Proxy, store: S3Store, fault: str
) -> None:
    """Whether the first attempt had its effect or not, its writer is told that it created."""
    between.plan = once(fault, lambda request: request.method == "PUT")

    assert store.put_once("a/2", b"2")

    assert store.get("a/2") == b"2"
    assert not store.put_once("a/2", b"3")


def test_s3_does_not_claim_a_key_when_another_wrote_it_in_the_gap(
    between: Proxy, store: S3Store, seaweed: Server, s3_address: str, tmp_path: Path
) -> None:
    """A reset before the effect, another writer, then the repeat: the other one created it."""
    other = open_store(s3_address, tmp_path / "other")

    def plan(request: Request) -> str:
        if request.method == "PUT" and "a/2" in request.path and not between.faults:
            other.put_once("a/2", b"2")  # equal bytes even
            return "reset"
        return ""

    between.plan = plan

    assert not store.put_once("a/2", b"2")


def test_s3_leaves_it_open_when_it_cannot_be_told_whether_it_wrote(
    between: Proxy, store: S3Store
) -> None:
    """Answers lost without end are a fault, and the next call finds out."""
    between.plan = always("lost")
    with pytest.raises(PlatformFault, match="cannot"):
        store.put_once("a/2", b"2")

    between.plan = always("")
    assert store.find("a/2") == b"2"
    assert not store.put_once("a/2", b"2")


SENTENCES = {
    "denied": "the store denies access to these credentials",
    "expired": "the credentials have expired",
    "skewed": "the clock of this machine is too far from the store's",
    "region": "the bucket is in another region",
    "nobucket": "the bucket does not exist at this endpoint",
}


@pytest.mark.parametrize("fault", SENTENCES)
@pytest.mark.parametrize("call", ["find", "list", "put"])
def test_s3_says_what_to_mend_when_a_repeat_would_not_help(
    between: Proxy, store: S3Store, fault: str, call: str
) -> None:
    """Credentials, clock, region and bucket have a sentence each, at the first answer."""
    between.plan = always(fault)
    before = len(between.seen)

    with pytest.raises(PlatformFault, match=SENTENCES[fault]) as caught:
        {**CALLS, "put": lambda store: store.put_once("a/2", b"")}[call](store)

    assert len(between.seen) == before + 1
    assert caught.value.exit_code == 71
    assert caught.value.do


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_s3_signs_for_the_region_when_the_environment_names_it(
    credentials: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The variable that the message about another region names is one that is read."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv(name, "eu-north-1")

    assert Calls("s3://bucket", None, HASTY).client.meta.region_name == "eu-north-1"


def test_s3_refuses_wrong_secrets_when_the_server_knows_better(
    s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real server's own answers to a wrong key, a wrong secret and no credentials at all."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PlatformFault, match="does not accept this secret key"):
        open_store(s3_address, tmp_path).find("a")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    with pytest.raises(PlatformFault, match="does not know these credentials"):
        open_store(s3_address, tmp_path).find("a")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(PlatformFault, match="no credentials were found"):
        open_store(s3_address, tmp_path).find("a")


def test_s3_makes_no_bucket_when_there_is_none(
    seaweed: Server, credentials: None, tmp_path: Path
) -> None:
    """The server would make one at a put; neither reading nor writing lets it."""
    store = open_store(seaweed.address("nobody-made-it"), tmp_path)
    source = tmp_path / "source"
    source.write_bytes(b"1")
    calls: list[Callable[[], object]] = [
        lambda: store.put_once("a", b"1"),
        lambda: store.put_file_once("a", source),
        lambda: store.find("a"),
        lambda: store.size("a"),
        lambda: list(store.list("a")),
        store.now,
    ]
    for call in calls:
        with pytest.raises(PlatformFault, match="bucket does not exist"):
            call()

    buckets = seaweed.client().list_buckets()["Buckets"]
    assert [each["Name"] for each in buckets if "nobody" in each["Name"]] == []


def test_s3_makes_no_bucket_when_its_service_was_proved_before(
    seaweed: Server, credentials: None, tmp_path: Path
) -> None:
    """What was remembered of a service says nothing about a bucket that is gone by now."""
    address = seaweed.bucket("short-lived")
    open_store(address, tmp_path).put_once("a", b"1")
    client = seaweed.client()
    client.delete_object(Bucket="short-lived", Key="grid/a")
    client.delete_bucket(Bucket="short-lived")

    with pytest.raises(PlatformFault, match="bucket does not exist"):
        open_store(address, tmp_path).put_once("a", b"1")


# -- services that ignore conditions --------------------------------------------------------------


def test_s3_refuses_a_service_when_it_overwrites(credentials: None, tmp_path: Path) -> None:
    """`rclone serve s3` answers 200 to everything: refused before the first write, and again."""
    binary = program("rclone")
    if binary is None:
        pytest.skip(NO_SERVER.replace("seaweedfs", "rclone"))
    with rclone(tmp_path / "rclone", binary) as server:
        address = server.bucket("bucket")
        for _ in range(2):
            with pytest.raises(ConfigRefusal, match="overwrites objects") as caught:
                open_store(address, tmp_path / "copy").put_once("a/1", b"1")
        names = [path.name for path in (tmp_path / "rclone" / "data").rglob("*") if path.is_file()]

    assert caught.value.exit_code == 78
    assert names == []


def test_s3_is_proved_once_when_processes_follow(
    between: Proxy, store: S3Store, tmp_path: Path
) -> None:
    """A second process of the working copy does not probe again."""
    seen = len(between.seen)
    again = S3Store(store.address, tmp_path / "stores", HASTY)

    assert again.put_once("a/2", b"2")

    assert [request.method for request in between.seen[seen:]] == ["GET", "PUT"]


def test_s3_refuses_a_service_when_it_does_not_know_the_condition(
    between: Proxy, s3_address: str, tmp_path: Path
) -> None:
    """501 to the condition is a refusal too."""
    place = s3_address.partition("?")[0]
    between.plan = once("deaf", lambda request: request.method == "PUT", times=9)

    with pytest.raises(ConfigRefusal, match="created once"):
        S3Store(f"{place}?endpoint_url={between.endpoint}", tmp_path, HASTY).put_once("a", b"")


# -- large files ----------------------------------------------------------------------------------


@pytest.fixture
def big(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of several parts."""
    monkeypatch.setattr(s3_module, "_PART", 5 << 20)
    path = tmp_path / "big"
    path.write_bytes(BIG)
    assert len(BIG) > 5 << 20
    return path


@pytest.mark.parametrize("fault", ["reset", "half", "503", "lost"])
@pytest.mark.parametrize("step", ["uploads", "partNumber", "uploadId"])
def test_s3_puts_a_large_file_when_a_step_fails_once(
    between: Proxy, store: S3Store, big: Path, tmp_path: Path, fault: str, step: str
) -> None:
    """Begin, part or completion fails once: the file is there once, and whole."""
    methods = {"uploads": "POST", "partNumber": "PUT", "uploadId": "POST"}
    between.plan = once(fault, lambda r: step in r.path and r.method == methods[step])

    assert store.put_file_once("big", big)
    assert not store.put_file_once("big", big)

    assert store.fetch("big", tmp_path / "cache").read_bytes() == BIG


def test_s3_keeps_the_first_file_when_another_completes_in_between(
    between: Proxy, store: S3Store, s3_address: str, big: Path, tmp_path: Path
) -> None:
    """The completion is conditional: the second writer of a large file is told so."""
    other = S3Store(s3_address, tmp_path / "stores", HASTY)

    def plan(request: Request) -> str:
        if "partNumber=2" in request.path:
            other.put_once("big", b"small")
        return ""

    between.plan = plan

    assert not store.put_file_once("big", big)

    assert store.get("big") == b"small"


def test_s3_has_nothing_when_a_large_file_stays_unfinished(
    between: Proxy, store: S3Store, big: Path, s3_address: str, seaweed: Server
) -> None:
    """Parts without completion are no key, and they are given up."""
    between.plan = lambda request: "reset" if "partNumber=2" in request.path else ""

    with pytest.raises(PlatformFault, match="cannot write part 2 of big"):
        store.put_file_once("big", big)

    place = parse_place(s3_address)
    uploads = seaweed.client().list_multipart_uploads(Bucket=place.bucket, Prefix=place.prefix)
    assert store.find("big") is None
    assert uploads.get("Uploads", []) == []


def test_s3_goes_on_where_it_was_cut_when_a_large_file_is_fetched(
    between: Proxy, store: S3Store, big: Path, tmp_path: Path
) -> None:
    """Half of the bytes are not fetched twice, and the copy is whole."""
    store.put_file_once("big", big)
    between.plan = once("half", lambda request: request.method == "GET")

    path = store.fetch("big", tmp_path / "cache")

    assert path.read_bytes() == BIG
    assert [file.name for file in path.parent.iterdir()] == ["big"]


# -- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["s3://", "s3:///prefix", "s3://b/a?region=x", "s3://b/a/../c", "s3://b/a//c", "s3://b/a#c"],
)
def test_s3_refuses_an_address_when_it_is_none(address: str, tmp_path: Path) -> None:
    """An address that cannot be meant is refused before any request."""
    with pytest.raises(ConfigRefusal, match="not the address of a store"):
        open_store(address, tmp_path)


def test_s3_refuses_secrets_when_they_stand_in_an_address(tmp_path: Path) -> None:
    """And it does not repeat them."""
    with pytest.raises(ConfigRefusal) as caught:
        open_store("s3://key:secret@bucket/prefix", tmp_path)

    assert "secret" not in str(caught.value).replace("never from an address", "")


def test_s3_lists_all_pages_when_there_are_many(store: S3Store, between: Proxy) -> None:
    """More keys than a page holds."""
    from concurrent.futures import ThreadPoolExecutor

    keys = {f"many/{number:04d}" for number in range(1_050)}
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda key: store.put_once(key, b""), sorted(keys)))
    seen = len(between.seen)

    assert set(store.list("many")) == keys
    assert len(between.seen) - seen == 2
