"""The parts of Snakemake's logger plugin that know no event: tally, screen, files of a job."""

import os
from pathlib import Path

import pytest

from emulator import SizedScreen, Window
from quantgrid.layout import progress_file
from quantgrid.terminal import Grid, Job, Reading
from snakemake_logger_plugin_quantgrid.job_files import ProgressFile, find_last_words
from snakemake_logger_plugin_quantgrid.tally import Tally

# -- tally ----------------------------------------------------------------------------------------


def _job(job_id: int, rule: str = "base", started_s: float = 0, logs: tuple[str, ...] = ()) -> Job:
    return Job(job_id, rule, f"n0-s{job_id}/none", logs, started_s)


def test_tally_counts_cells_from_the_announced_grid_when_folds_finish() -> None:
    """Cells that were current before count as done; a fold adds one."""
    tally = Tally({"fold": 2, "all": 1, "total": 3}, Grid("demo", 105, 60), 0)
    tally.start(_job(1, "fold"))
    tally.finish(1, 1)
    seen = tally.overview(1)
    assert (seen.grid, seen.cells_done, seen.cells) == ("demo", 61, 105)
    assert (seen.jobs_done, seen.jobs) == (1, 3)


def test_tally_counts_folds_to_come_when_no_grid_was_announced() -> None:
    """Snakemake's own table is enough to count."""
    assert Tally({"base": 3, "fold": 12, "total": 15}, None, 0).cells == (0, 12)


def test_tally_estimates_by_rule_and_by_jobs_at_once() -> None:
    """Mean time of a rule, jobs to come, two at once."""
    tally = Tally({"base": 6, "fold": 6, "total": 12}, None, 0)
    for job_id in (1, 2):
        tally.start(_job(job_id, started_s=0))
    for job_id in (1, 2):
        tally.finish(job_id, 10)
    for job_id in (3, 4):
        tally.start(_job(job_id, started_s=10))
    assert tally.overview(15).left_s == pytest.approx((4 * 10 - 2 * 5) / 2)


def test_tally_estimates_nothing_when_a_rule_was_never_seen() -> None:
    """Nobody knows how long the first training takes."""
    tally = Tally({"base": 1, "qat": 1, "total": 2}, None, 0)
    tally.start(_job(1))
    tally.finish(1, 5)
    tally.start(_job(2, "qat"))
    assert tally.overview(6).left_s is None


def test_tally_estimates_nothing_when_only_instant_jobs_are_left() -> None:
    """`about 0:00 left` before a report of five seconds is no help."""
    tally = Tally({"base": 1, "report": 1, "total": 2}, None, 0)
    tally.start(_job(1))
    tally.finish(1, 5)
    tally.start(_job(2, "report"))
    assert tally.overview(6).left_s is None


def test_tally_forgets_a_failure_when_the_job_is_tried_again() -> None:
    """A retried job has not failed, unless it fails again."""
    tally = Tally({"base": 1, "total": 1}, None, 0)
    tally.start(_job(1))
    tally.fail(1, "killed")
    assert tally.overview(1).failed == 1
    tally.start(_job(1))
    tally.finish(1, 2)
    assert (tally.overview(2).failed, tally.counts) == (0, (1, 1))


# -- screen ---------------------------------------------------------------------------------------


def test_screen_keeps_the_block_below_the_text_when_both_change() -> None:
    """Text scrolls above; of an earlier, higher block nothing is left."""
    window = Window(columns=20, rows=6)
    screen = SizedScreen(window)
    screen.draw(["demo 0/3", "  a", "  bbbbbbb", "  c"])
    screen.write("a long line that wraps twice over\n")
    screen.draw(["demo 1/3", "  bbb"])
    screen.draw(["demo 2/3", "  b"])
    assert window.emulator.lines[-3:] == ["", "demo 2/3", "  b"]
    screen.draw(["demo 2/3"])
    assert window.emulator.lines == ["a long line that wra", "ps twice over", "", "demo 2/3"]
    assert window.emulator.cursor == (2, 0)


def test_screen_stays_whole_when_text_scrolls_out_of_the_window() -> None:
    """More lines than rows leave one block, at the end."""
    window = Window(columns=20, rows=4)
    screen = SizedScreen(window)
    for number in range(30):
        screen.write(f"line {number}\n")
        screen.draw([f"block {number}", "  job"])
    screen.draw([])
    assert window.emulator.lines == [f"line {number}" for number in range(30)]


def test_screen_writes_one_frame_a_change_and_none_without() -> None:
    """Nothing flickers: a frame is one write, an unchanged block is not written."""
    window = Window()
    screen = SizedScreen(window)
    screen.write("text\n")
    screen.draw(["block"])
    screen.draw(["block"])
    assert len(window.frames) == 1


def test_screen_keeps_what_others_print_to_the_terminal() -> None:
    """A job that prints to the terminal loses no word, and the block is whole again below it."""
    window = Window(columns=40, rows=6)
    screen = SizedScreen(window)
    screen.write("first\n")
    screen.draw(["demo 1/3 and more than that", "  a"])
    window.write("sealed 3 shards\n")
    screen.draw(["demo 2/3", "  b"])
    window.write("sealed again\n")
    screen.write("last\n")
    screen.draw(["demo 3/3"])
    lines = ["first", "sealed 3 shards", "sealed again", "last", "", "demo 3/3"]
    assert window.emulator.lines == lines


# -- files of a job -------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory of Snakemake."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / progress_file("x")).parent.mkdir(parents=True)
    return tmp_path


def _say(output: str, step: int, moment: float) -> None:
    path = Path(progress_file(output))
    path.write_text(f'{{"step": {step}, "steps": 9}}')
    os.utime(path, (moment, moment))


def test_progress_of_a_dead_job_is_not_read_when_the_output_is_made_again(here: Path) -> None:
    """Only what this job says counts."""
    _say("out.json", 7, moment=1000)
    file = ProgressFile.of("out.json", started=1001)
    assert file.find_news() is None
    _say("out.json", 1, moment=1002)
    assert file.find_news() == Reading(step=1, steps=9)
    assert file.find_news() is None


def test_progress_counts_when_the_job_spoke_before_anybody_looked(here: Path) -> None:
    """Snakemake's events come late; a file younger than the job is the job's."""
    _say("out.json", 9, moment=1002)
    assert ProgressFile.of("out.json", started=1001).find_news() == Reading(step=9, steps=9)


def test_last_words_come_from_the_end_of_a_long_log(here: Path) -> None:
    """Logs may be long, missing or binary."""
    (here / "log").write_bytes(b"refused: early\n" + b"\xff step\n" * 20000)
    assert find_last_words(["missing", "log"]) == "\N{REPLACEMENT CHARACTER} step"
    assert find_last_words(["missing"]) is None
