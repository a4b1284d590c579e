"""The narrator of the rehearsal: what it reads, hears, says and publishes."""

import ast
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal import meters
from rehearsal.narrator import __main__ as narrator
from rehearsal.narrator import page, playing, scenes
from rehearsal.narrator.told import Act, Play, acts_of, span
from rehearsal.narrator.voice import Voice

SCENE = '''"""A thing was lost

Incident: it was lost
at night.

Guard: `quantgrid.atomic` keeps it.

Remains: the cold.
"""

from rehearsal import meters


class World:
    def __init__(self):
        meters.add(self, lambda: meters.Reading(7200.0, 0.5, 0))


def test_first():
    """CP 4.1 and 4.2: it is kept."""
    World()


def test_second():
    """It is found again."""
    assert 2 * 2 == 5
'''


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A file of incident tests, one of which fails."""
    path = tmp_path / "test_planted_loss.py"
    path.write_text(SCENE)
    return path


def test_scene_is_read_from_its_docstrings(scene: Path) -> None:
    """Title, incident, guard and what remains are those of the file; sources are not spoken."""
    read = scenes.read(scene)

    assert read.title == "A thing was lost"
    assert read.said["Incident"] == "it was lost at night."
    assert read.guards == "`quantgrid.atomic` keeps it."
    assert read.lines == {"test_first": "It is kept.", "test_second": "It is found again."}


def test_every_incident_has_what_the_narrator_tells() -> None:
    """No file of incidents is left out, and each has an incident, a guard and plays."""
    known = scenes.all_of(playing.INCIDENTS)

    assert len(known) == len(list(playing.INCIDENTS.glob("test_*.py")))
    assert all(each.said.get("Incident") and each.guards and each.plays for each in known)


@pytest.mark.parametrize("platform", playing.GRIDS)
def test_grid_scenes_exist(platform: str) -> None:
    """The test of each platform that the narrator names is there."""
    file, _, name = playing.GRIDS[platform].partition("::")

    tree = ast.parse((playing.ROOT / file).read_text())
    assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


def test_narrator_tells_what_was_stopped_and_what_was_not(scene: Path) -> None:
    """Time and money of a test's own doubles are heard; a failed play is NOT STOPPED."""
    plays = [news.play for news in playing.played([str(scene)], 0) if news.play]

    assert [(play.outcome, play.scaled_s, play.usd) for play in plays] == [
        ("passed", 7200.0, 0.5),
        ("failed", 0.0, 0.0),
    ]
    act = acts_of([scenes.read(scene)], plays)[0]
    out = io.StringIO()
    Voice(out, is_coloured=False).act(1, 1, act)
    assert act.outcome == "NOT STOPPED"
    assert "NOT STOPPED after 2.0 h of the platform's time, $0.50" in out.getvalue()
    assert "! It is found again." in out.getvalue()
    html = page.html({}, [act], 3.0)
    assert "1 not stopped" in html
    assert "<code>quantgrid.atomic</code> keeps it." in html


def test_narrator_tells_the_cause_where_a_program_said_more_after_it(tmp_path: Path) -> None:
    """The last words of a run say what to type; why it failed stands above them."""
    path = tmp_path / "test_planted_end.py"
    words = "exit code 1, not 0:\\nfailed    n0/none, base\\nagain     snakemake"
    path.write_text(f'import pytest\ndef test_end():\n    """A."""\n    pytest.fail("{words}")\n')

    (play,) = [news.play for news in playing.played([str(path)], 0) if news.play]

    assert play.words == "Failed: exit code 1, not 0: ... failed    n0/none, base"


def test_tests_that_cannot_be_played_are_no_success(tmp_path: Path) -> None:
    """A file that pytest cannot load is told with pytest's own words."""
    broken = tmp_path / "test_broken_scene.py"
    broken.write_text("import no_such_module\n")

    with pytest.raises(playing.Broken, match="no_such_module"):
        list(playing.played([str(broken)], 0))


def test_half_a_line_is_waited_for(tmp_path: Path) -> None:
    """A list of hundreds of tests is written in parts, and read when it is whole."""
    news, tests = tmp_path / "news.jsonl", [f"test_{number}" for number in range(3)]
    news.touch()
    line = json.dumps({"collected": tests})
    script = f"""
import time
with open({str(news)!r}, "a") as file:
    for part in ({line[:20]!r}, {line[20:]!r} + chr(10)):
        file.write(part)
        file.flush()
        time.sleep(0.3)
"""
    process = subprocess.Popen([sys.executable, "-c", script])

    assert list(playing._followed(process, news)) == [playing.News(collected=tuple(tests))]


def test_lost_grid_is_told_at_the_end() -> None:
    """Whoever reads the last lines alone learns why the exit code is not 0, and where it stands."""
    out = io.StringIO()

    Voice(out, is_coloured=False).lost(["runpod"], "results/rehearsal.grids.log")

    assert out.getvalue() == "   FAILED    the grid on runpod: results/rehearsal.grids.log\n"


def test_unknown_incident_is_refused_and_plays_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pytest without a file would play every test of the project."""
    monkeypatch.setattr(sys, "argv", ["rehearse", "--only", "no_such", "--no-grid"])

    with pytest.raises(SystemExit, match="2"):
        narrator.main()

    assert "no file of tests/incidents has 'no_such'" in capsys.readouterr().err


def test_page_needs_no_network_and_escapes(tmp_path: Path) -> None:
    """Nothing is loaded from elsewhere, and words of a failure are text."""
    said = {"Incident": "a <b> & `c`.", "Guard": "`d`"}
    read = scenes.Scene("test_x", "X <y>", said, {"test_a": "A."})
    act = Act(read, (Play("t/test_x.py::test_a", "failed", 1.0, "<script>"),))

    page.publish(tmp_path / "deep" / "r.html", {"plain": act.plays[0]}, [act], 1.0)

    text = (tmp_path / "deep" / "r.html").read_text()
    assert "<script" not in text
    assert "http" not in text
    assert "A &lt;b&gt; &amp; <code>c</code>." in text
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["r.html"]


def test_doubles_are_read_from_where_they_were() -> None:
    """A double that lives through several tests counts for each alone; one that ended stays."""
    told = {"s": 10.0}
    listener = meters.Listener()
    lasting, short = object(), object()
    listener.add(lasting, lambda: meters.Reading(told["s"], told["s"], 1))
    listener.begin()
    told["s"] = 25.0
    listener.add(short, lambda: meters.Reading(2.0, 1.0, 0))
    listener.remove(short)

    assert listener.read() == meters.Reading(15.0, 16.0, 1)


def test_nothing_is_kept_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand worlds of another test are not remembered."""
    monkeypatch.setattr(meters, "_listened", [])
    meters.add(object(), meters.Reading)

    assert meters._listened == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.42, "0.4 s"), (42, "42 s"), (240, "4.0 min"), (9000, "2.5 h"), (500_000, "5.8 days")],
)
def test_time_is_said_as_people_say_it(seconds: float, words: str) -> None:
    """Two digits and a unit."""
    assert span(seconds) == words
