"""The adapter of RunPod over real HTTP: every outcome of a call, from the double."""

import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from quantgrid.errors import ConfigRefusal
from quantgrid.rental.errors import CallFault, Trouble
from quantgrid.rental.port import Ended, MachineState
from quantgrid.rental.runpod import RunPod, Settings, from_environment, open_api
from quantgrid.rental.runpod.calls import Api, refuse_odd
from runpod_rig import GPU, LIMITS, OWNER, PLACE, Rig


def test_pod_lives_from_launch_to_stop(runpod: Rig) -> None:
    """A pod boots, runs, is found by name and id, ends for ever, and costs what the bill says."""
    order = runpod.order("sleep", "1000")
    made = runpod.platform.launch(order)
    assert (made.state, made.is_billing) == (MachineState.BOOTING, True)
    runpod.double.wait(made.id, "RUNNING")
    seen = runpod.platform.observe(made.id)
    assert seen is not None
    assert seen.state is MachineState.RUNNING
    assert runpod.platform.find(str(order.name)) == seen._replace(uptime_s=None) or seen
    assert [each.id for each in runpod.platform.machines(OWNER)] == [made.id]
    assert runpod.platform.machines("f" * 8) == ()

    runpod.platform.stop(made.id)

    assert runpod.platform.observe(made.id) is None
    assert runpod.platform.find(str(order.name)) is None
    runpod.platform.stop(made.id)  # 404 is no error
    assert runpod.double.show()["spent_usd"][runpod.account] > 0


def test_cost_is_told_when_a_pod_is_gone_long_enough(runpod: Rig) -> None:
    """By the account's bill: not of a living pod, and not before its figures count as whole."""
    order = runpod.order("sleep", "1000")
    made = runpod.platform.launch(order)
    asked = [Ended(order.name, made.id, 1.5, time.time())]
    assert runpod.platform.statements(asked) == {}

    runpod.platform.stop(made.id)

    (told,) = runpod.platform.statements(asked).values()
    spent = runpod.double.show()["spent_usd"][runpod.account] * 1e6
    assert 0 < told.microusd == pytest.approx(spent, abs=1)
    assert runpod.adapter(bill_s=600.0).statements(asked) == {}
    assert runpod.platform.statements([asked[0]._replace(id="")]) == {}
    assert len(runpod.requests("listPodBilling")) == 2


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("lost", {}),
        ("cut", {}),
        ("answer-after", {"status": 500}),
        ("html-after", {"status": 502}),
        ("slow", {"seconds": 2.5}),
    ],
)
def test_create_is_ambiguous_and_found_when_it_was_done(
    runpod: Rig, kind: str, values: dict[str, float]
) -> None:
    """CP 4.1: a create whose reply is lost made one pod, which is found by its name."""
    order = runpod.order()
    runpod.double.fault("createPod", kind, **values)

    with pytest.raises(CallFault) as caught:
        runpod.platform.launch(order)

    assert caught.value.trouble is Trouble.AMBIGUOUS
    assert len(runpod.requests("createPod")) == 1  # and was not repeated
    found = runpod.platform.find(str(order.name))
    assert found is not None
    runpod.platform.stop(found.id)


@pytest.mark.parametrize(
    ("kind", "status", "detail", "expected"),
    [
        ("answer", 400, "capacity", Trouble.CAPACITY),
        ("answer", 402, "insufficient balance", Trouble.ACCOUNT),
        ("answer", 422, "bogus", Trouble.FATAL),
        ("html", 503, "", Trouble.AMBIGUOUS),
        ("reset", 0, "", Trouble.AMBIGUOUS),
    ],
)
def test_create_says_what_may_be_done_next_when_nothing_was_made(
    runpod: Rig, kind: str, status: int, detail: str, expected: Trouble
) -> None:
    """Each refusal has its class, and what broke before it was done is looked for all the same."""
    runpod.double.fault("createPod", kind, status=status, detail=detail)
    with pytest.raises(CallFault) as caught:
        runpod.platform.launch(runpod.order())
    assert caught.value.trouble is expected
    assert runpod.pods == []


def test_rate_limit_is_waited_for_when_it_is_used_up(runpod: Rig) -> None:
    """429 says how long; until then nothing is sent, and afterwards it is."""
    runpod.double.fault("listPods", "answer", status=429, retry_after_s=12)
    with pytest.raises(CallFault) as caught:
        runpod.platform.machines(OWNER)
    assert (caught.value.trouble, caught.value.retry_after_s) == (Trouble.RETRY, 12.0)

    runpod.clock.now_s += 11
    with pytest.raises(CallFault, match="rate limit"):
        runpod.platform.machines(OWNER)
    assert len(runpod.double.requests("listPods")[-2:]) >= 1
    sent = len(runpod.requests())

    runpod.clock.now_s += 2
    assert runpod.platform.machines(OWNER) == ()
    assert len(runpod.requests()) == sent + 1


def test_looking_leaves_room_for_ending_when_the_rate_runs_out(runpod: Rig) -> None:
    """The last requests of a minute are kept for creates and ends."""
    machine = runpod.platform.launch(runpod.order())
    runpod.double.act("options", per_minute=10)

    def look() -> None:
        for _ in range(20):
            runpod.platform.observe(machine.id)

    with pytest.raises(CallFault, match="rate limit"):
        look()
    assert 2 <= len(runpod.requests("getPod")) <= 5
    runpod.platform.stop(machine.id)
    assert runpod.billing == []


def test_capacity_is_another_place_when_one_is_full(runpod: Rig) -> None:
    """CP 4.32: the catalogue may say what it likes; the next candidate is asked."""
    runpod.double.act("stock", kind=GPU, place=PLACE, count=0)
    runpod.double.act("options", catalog="HIGH")
    free = runpod.adapter(volume="")
    regions = [each.region for each in free.candidates(GPU, 1)]
    assert regions == [PLACE, "US-KS-2"]
    order = runpod.order(volume="")
    with pytest.raises(CallFault) as caught:
        free.launch(order)
    assert caught.value.trouble is Trouble.CAPACITY
    there = order.candidate._replace(region="US-KS-2")
    free.stop(free.launch(order._replace(candidate=there)).id)


def test_candidates_stay_where_the_volume_is(runpod: Rig) -> None:
    """A network volume is mounted in its own data centre only."""
    assert {each.region for each in runpod.platform.candidates("", 1)} == {PLACE}
    assert {each.device for each in runpod.platform.candidates("", 0)} == {"cpu3c"}
    assert {e.device for e in runpod.platform.candidates(f"{GPU} | other", 1)} == {GPU}


def test_account_is_another_when_it_does_not_own_the_pinned_volume(runpod: Rig) -> None:
    """The key of another account, and a twin of the volume by name, are seen before any create."""
    other = str(runpod.double.act("account", name=f"{runpod.account}-other"))
    runpod.double.act("volume", id="twin", account=f"{runpod.account}-other")
    assert runpod.platform.whoami().id == "lab"
    seen = runpod.adapter(other).whoami().id
    assert seen == f"another (without volume {runpod.volume})"
    assert runpod.platform.volume("twin") is None
    mine, twin = runpod.platform.volume(runpod.volume), runpod.adapter(other).volume("twin")
    assert mine is not None
    assert twin is not None
    assert mine.name == twin.name
    assert mine.id != twin.id


def test_key_is_an_account_trouble_when_it_is_revoked(runpod: Rig) -> None:
    """Nothing more is created; what runs is ended later with another key."""
    machine = runpod.platform.launch(runpod.order())
    runpod.double.act("key", key=runpod.key, is_revoked=True)
    for call in (lambda: runpod.platform.machines(OWNER), lambda: runpod.platform.stop(machine.id)):
        with pytest.raises(CallFault) as caught:
            call()
        assert caught.value.trouble is Trouble.ACCOUNT
        assert runpod.key not in str(caught.value)
    runpod.double.act("key", key=runpod.key, is_revoked=False)
    runpod.platform.stop(machine.id)


def test_stop_is_no_proof_when_a_fresh_pod_hides(runpod: Rig) -> None:
    """CP 4.4: a fresh pod answers 404 to its end as well, and is there later."""
    runpod.double.act("options", hidden_s=90.0)
    order = runpod.order()
    machine = runpod.platform.launch(order)
    assert runpod.platform.observe(machine.id) is None
    assert runpod.platform.find(str(order.name)) is None
    runpod.platform.stop(machine.id)
    assert runpod.billing == [machine.id]
    runpod.double.advance(91)
    assert runpod.platform.find(str(order.name)) is not None
    runpod.platform.stop(machine.id)


def test_listing_is_whole_when_it_has_pages(runpod: Rig) -> None:
    """Every page is asked for."""
    made = {runpod.platform.launch(runpod.order(volume="")).id for _ in range(5)}
    runpod.double.act("options", page=2)
    assert {each.id for each in runpod.platform.machines(OWNER)} == made
    assert len(runpod.requests("listPods")) == 3
    for each in made:
        runpod.platform.stop(each)


def test_listing_is_shared_when_many_names_are_looked_for(runpod: Rig) -> None:
    """A hundred looks by name are one request; a create in between makes the next look new."""
    first = runpod.order(volume="")
    assert all(runpod.platform.find(f"{first.name}{i}") is None for i in range(100))
    assert len(runpod.requests("listPods")) == 1
    made = runpod.platform.launch(first)
    assert runpod.platform.find(str(first.name)) is not None
    runpod.platform.stop(made.id)
    assert runpod.platform.find(str(first.name)) is None


def test_call_is_given_up_when_nothing_is_answered(runpod: Rig) -> None:
    """A silent socket costs a deadline, not a controller."""
    runpod.double.fault("listPods", "silent", seconds=60.0)
    begin_s = time.monotonic()
    with pytest.raises(CallFault) as caught:
        runpod.platform.machines(OWNER)
    assert caught.value.trouble is Trouble.RETRY
    assert time.monotonic() - begin_s < 59  # the deadline of the test's client is one second


def test_listing_is_asked_for_again_when_it_is_a_page_of_the_network(runpod: Rig) -> None:
    """A page that says 200 is no listing: nothing is concluded from it."""
    runpod.double.fault("listPods", "html", status=200)

    with pytest.raises(CallFault) as caught:
        runpod.platform.machines(OWNER)

    assert caught.value.trouble is Trouble.RETRY


@pytest.mark.parametrize(("first_s", "pause_s"), [(0.0, 0.01), (3.0, 0.0)], ids=["drips", "stops"])
def test_call_is_given_up_when_its_reply_does_not_end(first_s: float, pause_s: float) -> None:
    """Each byte comes in time and the whole of it does not; or the second byte never comes."""

    class Dripping(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"pods": []}'.rjust(400)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body[:1])
                time.sleep(first_s)
                for byte in body[1:]:
                    self.wfile.write(bytes([byte]))
                    time.sleep(pause_s)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        api = Api(f"http://127.0.0.1:{server.server_port}/v2", "key", within_s=0.5)
        with pytest.raises(CallFault) as caught:
            RunPod(api, Settings("lab", "", LIMITS)).machines(OWNER)
        server.shutdown()

    assert caught.value.trouble is Trouble.RETRY


def test_call_may_be_repeated_when_nobody_listens() -> None:
    """Without a connection nothing was done, not even by a create."""
    api = Api("http://127.0.0.1:9/v2", "key", within_s=1.0)
    rig = RunPod(api, Settings("lab", "", LIMITS))
    with pytest.raises(CallFault) as caught:
        rig.machines(OWNER)
    assert caught.value.trouble is Trouble.RETRY


def test_logs_end_when_their_stream_does_not(runpod: Rig) -> None:
    """The last lines come from a stream that stays open, in bounded time."""
    machine = runpod.launch("sh", "-c", "seq 1 50; sleep 1000")
    end_s = time.monotonic() + 180
    while "50" not in (text := runpod.platform.logs(machine.id, 3)).splitlines():
        assert time.monotonic() < end_s
    assert text.splitlines() == ["48", "49", "50"]
    runpod.platform.stop(machine.id)


def test_pod_ends_itself_with_the_key_of_the_platform(runpod: Rig) -> None:
    """The key that a pod finds ends that pod, and no other, and lists nothing."""
    code = (
        "import os\n"
        "from quantgrid.rental.errors import CallFault\n"
        "from quantgrid.rental.runpod import from_environment\n"
        "me = from_environment(os.environ)\n"
        "for act in (lambda: me.stop(os.environ['OTHER']), lambda: me.machines('0' * 8)):\n"
        "    try: act()\n"
        "    except CallFault as fault: print(fault.trouble, flush=True)\n"
        "me.stop(os.environ['RUNPOD_POD_ID'])\n"
    )
    other = runpod.launch()
    url = ("QG_RUNPOD_URL", f"{runpod.double.url}/v2")
    environment = (url, ("OTHER", other.id), ("RUNPOD_API_KEY", "shadowed"))
    machine = runpod.platform.launch(
        runpod.order(sys.executable, "-c", code, environment=environment)
    )

    ended = runpod.double.wait(machine.id, "TERMINATED")

    assert ended["starts"] == 1
    assert runpod.billing == [other.id]
    log = runpod.double.folder / "pods" / machine.id / "container.log"
    assert log.read_text().split() == ["account", "account"]
    runpod.platform.stop(other.id)


def test_secret_is_in_the_process_and_nowhere_else(runpod: Rig) -> None:
    """The platform fills a secret in: no request and no listing holds it."""
    runpod.double.act("account", name=runpod.account, secrets={"TOKEN": "hush-hush"})
    words = ("sh", "-c", 'printf %s "$TOKEN" > /workspace/seen; sleep 1000')
    machine = runpod.launch(*words, secrets=("TOKEN",))
    seen = runpod.double.folder / "volumes" / runpod.volume / "seen"
    end_s = time.monotonic() + 180
    while not (seen.exists() and seen.read_text()):
        assert time.monotonic() < end_s
        time.sleep(0.02)
    assert seen.read_text() == "hush-hush"
    assert "hush-hush" not in (runpod.double.folder / "requests.jsonl").read_text()
    runpod.platform.stop(machine.id)


def test_pod_counts_as_ended_when_it_came_without_its_volume(runpod: Rig) -> None:
    """A pod without its mount is paid for and of no use: another one takes its place."""
    runpod.double.act("options", unmounted=True)
    machine = runpod.platform.launch(runpod.order())
    assert (machine.state, machine.is_billing) == (MachineState.ENDED, True)
    runpod.platform.stop(machine.id)


def test_pod_counts_as_ended_when_it_came_back_without_a_gpu(runpod: Rig) -> None:
    """A container that starts again on a host whose GPU is gone computes nothing."""
    machine = runpod.launch()
    runpod.double.act("take-gpu", pod=machine.id)
    seen = runpod.platform.observe(machine.id)
    assert seen is not None
    assert (seen.state, seen.is_billing) == (MachineState.ENDED, True)
    runpod.platform.stop(machine.id)


def test_nothing_is_sent_when_there_is_no_key_or_no_secrecy() -> None:
    """The key is asked for by name, and never crosses a network in clear."""
    with pytest.raises(ConfigRefusal, match="RUNPOD_API_KEY"):
        from_environment({})
    with pytest.raises(ConfigRefusal, match="unencrypted"):
        refuse_odd("http://example.com/v2")
    api = open_api({"RUNPOD_API_KEY": "rpa_HIDDEN", "QG_RUNPOD_URL": "https://example.com/v2/"})
    assert "HIDDEN" not in repr(api)
