"""A training diverges, stands still, slows down, or a device computes wrong: someone hears of it.

Incident: a training ran on for a day after its loss had become NaN, another after a device had
returned one wrong product, a third at a tenth of its speed, and one stood still until its cap; each
was paid for to the end, and was looked at the next morning.

Guard: `quantgrid.watch.training.TrainingWatch` stops the cell by `quantgrid.watch.rules.NonFinite`
and `Spike`, or by `quantgrid.watch.heart.Heart`, records `Throughput`, and computes a spike again
from the checkpoint before it; `quantgrid.noticing.of_attempt` and `of_running` tell a person.
Remains: a device that computes the same wrong number again, and a slow divergence that no
evaluation shows.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import own_source
from detached import await_true
from own_source import OwnSource
from quantgrid import layout, processes, standing
from working_copy import PROJECT

GRID = "one"
BASE = "n0-t400k-s0"
AT = 110
WATCH = "src/quantgrid/watch/training.py"
"""Where losses come to the watch: a fault that is put here changes no fingerprint."""
HEARD = "        now_s = self._clock.monotonic_s()\n        seconds, "
FIRST = "        losses, first = list(losses), last - len(losses) + 1\n"
HERE = f"        if first <= {AT} < first + len(losses): "
ONCE = """\
        import os
        from pathlib import Path
        once = Path(os.environ["QG_STATE"]) / "once"
"""
BLOCKS = """\
corpus: shakespeare
evaluation: {sequences: 32}
blocks:
  main: {models: [n0], tokens: [400_000], seeds: [0], forms: [{method: none}]}
"""


@pytest.fixture
def copy(tmp_path: Path) -> OwnSource:
    """A working copy with its own source, checkpoints every few steps, and somebody who listens."""
    made = own_source.lay(tmp_path / "copy")
    made.edit("config/platforms/local.yaml", "interruption_s: null", "interruption_s: 1")
    hear = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"
    words = json.dumps([sys.executable, "-c", hear, str(made / "heard")])
    made.edit(layout.CONFIG, "command: []", f"command: {words}")
    layout.section_file(made.root, "grid", GRID).write_text(BLOCKS)
    return made


def _spoil(copy: OwnSource, lines: str) -> None:
    """Put lines where losses have come from the device."""
    copy.edit(WATCH, HEARD, FIRST + lines + HEARD)


def _told(copy: OwnSource) -> list[dict[str, str]]:
    path = copy / "heard"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _heard(copy: OwnSource) -> list[dict[str, str]]:
    return [each for each in _told(copy) if each["kind"] in {"alarm", "stall"}]


def _run(copy: OwnSource, code: int) -> str:
    """What was said, logs included."""
    path = f"results/{BASE}/none/result.json"
    said = copy.snakemake(path, grid=GRID, code=code, timeout_s=1200).text
    return said + "\n".join(path.read_text() for path in sorted((copy / "logs").rglob("*.log")))


def _goes_on(copy: OwnSource) -> str:
    """Mended, the cell goes on from a checkpoint of before the trouble; returns its notes."""
    shutil.copy(PROJECT / WATCH, copy / WATCH)
    copy.quantgrid("retry", "--all", code=None)
    said = _run(copy, code=0)
    (tokens,) = {int(n.replace(",", "")) for n in re.findall(r"resumed after ([\d,]+) tok", said)}
    assert 0 < tokens < AT * 2048
    return said


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_cell_stops_and_a_person_hears_when_a_loss_is_no_number(copy: OwnSource) -> None:
    """Delay: the report of ten steps that it is in."""
    _spoil(copy, HERE + f'losses[{AT} - first] = float("nan")\n')

    assert f"rule non-finite; expected a finite loss; seen nan (step {AT}," in _run(copy, code=1)

    (notice,) = _heard(copy)
    assert notice["kind"] == "alarm"
    assert "rule non-finite" in notice["text"]
    _goes_on(copy)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_person_hears_of_an_alarm_when_the_controller_is_dead(copy: OwnSource) -> None:
    """Killed on the spot while the cell trains: its runner tells alarm and silence, each once."""
    go = copy / "go"
    wait = f"""\
        import pathlib, time
        while last >= {AT} and not pathlib.Path({str(go)!r}).exists():
            time.sleep(0.1)
"""
    _spoil(copy, wait + HERE + f'losses[{AT} - first] = float("nan")\n')
    kept = "volume/state/*/*/*.link.json"

    with copy.start(f"results/{BASE}/none/result.json", grid=GRID) as controller:
        await_true(lambda: any(copy.root.glob(kept)), "the trunk saved nothing")
        controller.kill()
        controller.wait()
        go.touch()
        await_true(lambda: len(_told(copy)) == 2, f"nobody told it: {_told(copy)}")

    told = {each["kind"]: each["text"] for each in _told(copy)}
    assert "rule non-finite" in told["alarm"]
    assert "the controller died" in told["silence"]
    holder = standing.look(copy.root).holder
    assert holder
    await_true(lambda: not processes.marked(holder.id), "something of it goes on")
    _goes_on(copy)
    assert [each["kind"] for each in _told(copy)].count("alarm") == 1


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_cell_stops_when_a_spike_comes_again_in_its_replay(copy: OwnSource) -> None:
    """Two processes see the same loss of the same step: data or rate, and no device."""
    _spoil(copy, HERE + f"losses[{AT} - first] = 9.0\n")

    said = _run(copy, code=1)

    assert "computed again from the checkpoint before it" in said
    assert "It was computed again and came out the same" in said
    (notice,) = _heard(copy)
    assert "rule spike" in notice["text"]
    _goes_on(copy)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_host_is_named_when_a_spike_does_not_come_again(copy: OwnSource) -> None:
    """A device that computed wrong once: a fault of class device, and a note in the record."""
    lines = f"""\
        if first <= {AT} < first + len(losses) and not once.exists():
            once.write_text("")
            losses[{AT} - first] = 9.0
"""
    _spoil(copy, ONCE + lines)

    said = _run(copy, code=1)
    assert f"step {AT} of " in said
    assert "came out otherwise when it was computed again" in said

    _goes_on(copy)
    trunk = next((copy / "archive" / "trunks").rglob("record.json"))
    notes = json.dumps(json.loads(trunk.read_text())["links"])
    assert f"computed step {AT} as 9.0" in notes
    assert "that host is suspect" in notes


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_cell_is_ended_when_it_stands_still(copy: OwnSource) -> None:
    """No step for the time that the configuration allows: ended with an alarm, not at the cap."""
    copy.edit(layout.CONFIG, "stall_s: 900", "stall_s: 6")
    _spoil(copy, "        import time\n" + HERE + "time.sleep(500)\n")

    assert "rule stall; expected a step within 6 s" in _run(copy, code=1)

    (notice,) = _heard(copy)
    assert "rule stall" in notice["text"]
    _goes_on(copy)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_person_hears_when_a_cell_is_far_slower_than_its_probe(copy: OwnSource) -> None:
    """Three slow windows running; the cell goes on, its record has the note, and its numbers too.

    Windows of a quarter of a second stand for minutes.
    """
    copy.edit("src/quantgrid/watch/rules.py", "WINDOW_S: ClassVar[float] = 60.0", "WINDOW_S = 0.25")
    copy.edit(layout.CONFIG, "tokens_per_s: {}", "tokens_per_s: {n0: 1000000000}")

    _run(copy, code=0)

    told = {each["kind"]: each["text"] for each in _heard(copy)}
    assert told.keys() == {"stall"}
    assert "throughput, step" in told["stall"]
    trunk = next((copy / "archive" / "trunks").rglob("record.json"))
    assert "throughput, step" in json.dumps(json.loads(trunk.read_text())["links"])
