"""The parts of Snakemake's logger plugin: tally, screen, files of a job, board and handler."""

import io
import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from snakemake.logging import DefaultFormatter, logger
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings, TestLogHandlerBase

from emulator import SizedScreen, Window
from quantgrid import terminal
from quantgrid.layout import progress_file
from quantgrid.terminal import Event
from snakemake_logger_plugin_quantgrid import REDRAW_S, LogHandler
from snakemake_logger_plugin_quantgrid.board import Board
from snakemake_logger_plugin_quantgrid.faces import Lines, Live


class HeldClock:
    """A clock that moves when a test says so."""

    def __init__(self) -> None:
        self.s = 0.0

    def now(self) -> datetime:
        """A fixed day, later by what the test said."""
        return datetime.fromtimestamp(self.s, UTC)

    def monotonic_s(self) -> float:
        """What the test said."""
        return self.s


class TestContract(TestLogHandlerBase):
    """The suite of the interface package: every event is taken without an error."""

    __test__ = True

    def get_log_handler_cls(self) -> type[LogHandler]:
        """This plugin."""
        return LogHandler

    def get_log_handler_settings(self) -> None:
        """It has no settings."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory of Snakemake."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / progress_file("x")).parent.mkdir(parents=True)
    return tmp_path


# -- board ----------------------------------------------------------------------------------------


class Desk:
    """A board on a string, with Snakemake's own formatter for what it passes on."""

    def __init__(self) -> None:
        self.clock, self.out = HeldClock(), io.StringIO()
        default = logging.StreamHandler(self.out)
        default.setFormatter(DefaultFormatter())
        self.board = Board(Lines(self.out), default, self.clock)

    def tell(self, event: LogEvent | None, msg: str = "", thread: int = 1, **facts: object) -> None:
        """One record of Snakemake's log."""
        level = logging.ERROR if event in (LogEvent.ERROR, LogEvent.JOB_ERROR) else logging.INFO
        record = logging.LogRecord("snakemake", level, "", 0, msg, None, None)
        vars(record).update(facts, event=event, thread=thread)
        self.board.take(record)

    def start(self, job_id: int, rule: str = "base", logs: tuple[str, ...] = ()) -> None:
        """A job starts."""
        facts = {"rule_name": rule, "wildcards": {"base": f"n0-s{job_id}"}, "log": logs}
        self.tell(LogEvent.JOB_INFO, jobid=job_id, output=[f"out{job_id}"], **facts)

    def fail(self, job_id: int, thread: int = 1, logs: tuple[str, ...] = ()) -> None:
        """A job fails."""
        rest = {"conda_env": None, "shellcmd": "false", "aux": {}, "rule_msg": None}
        facts = {"rule_name": "base", "input": [], "output": [f"out{job_id}"], "log": logs}
        self.tell(LogEvent.JOB_ERROR, "x", thread, jobid=job_id, indent=False, **facts, **rest)

    @property
    def lines(self) -> list[str]:
        """What was said."""
        return self.out.getvalue().splitlines()


@pytest.fixture
def desk(here: Path) -> Desk:
    """A board that was told of four jobs."""
    desk = Desk()
    desk.tell(LogEvent.RUN_INFO, "Job stats:", stats={"base": 2, "fold": 2, "total": 4})
    return desk


_REPORT = "RuleException:\nCalledProcessError in file x, line 1:\nCommand 'long' {}."


def test_board_names_job_and_cause_and_no_command_when_a_job_fails(desk: Desk, here: Path) -> None:
    """The real error, once; what others say comes where it came, the long command not at all."""
    (here / "log").write_text("refused: two shards differ.\n")
    desk.start(1, logs=("log",))
    desk.clock.s = 3.2
    desk.tell(LogEvent.ERROR, _REPORT.format("returned non-zero exit status 78"), thread=9)
    desk.tell(None, "another thread speaks", thread=1)
    desk.fail(1, thread=9, logs=("log",))
    assert desk.lines[1:] == [
        "[0/4] start base n0-s1/none",
        "another thread speaks",
        "[0/4] fail  base n0-s1/none  3.2 s  refused: two shards differ.",
        "  log: log",
    ]


def test_board_tells_a_refusal_whole_once_and_leaves_the_rest_to_the_summary(
    desk: Desk, here: Path
) -> None:
    """Whose failure the last words tell is not told before them; any other one in few words."""
    said = "refused: a shard is short; expected 9; seen 8 (/x). Make it again: `a`."
    (here / "log").write_text(f"{said}\n")
    for job in (1, 2):
        desk.start(job, logs=("log",))
        desk.tell(LogEvent.ERROR, _REPORT.format("returned non-zero exit status 78"))
        desk.fail(job, logs=("log",))
    before = len(desk.lines)
    assert terminal.conclude(["summary"], ["n0-s1/none"])
    desk.board.close()

    assert desk.out.getvalue().count(said) == 2
    assert [line for line in desk.lines[before:] if "jobs" not in line] == [
        "fail  n0-s2/none  base  a shard is short",
        "      Make it again: `a`.",
        "summary",
    ]
    assert terminal.last_words() == ([], frozenset())


@pytest.mark.parametrize("said", ["", "going on from checkpoint 3\n"])
def test_board_says_how_a_command_ended_when_its_log_does_not(
    desk: Desk, here: Path, said: str
) -> None:
    """A runner that was killed said nothing of it: how it ended is told, in one line."""
    (here / "log").write_text(said)
    desk.start(1, logs=("log",))
    desk.tell(LogEvent.ERROR, _REPORT.format("died with <Signals.SIGKILL: 9>"))
    desk.fail(1, logs=("log",))
    why = said.strip() or "nothing in its log says why"
    assert desk.lines[2].endswith(f"{why} (its command died of SIGKILL)")
    assert "long" not in desk.out.getvalue()


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("died with <Signals.SIGTERM: 15>", "its command died of SIGTERM"),
        ("died with <Signals.SIGINT: 2>", "its command died of SIGINT"),
        ("returned non-zero exit status 143", "its command returned non-zero exit status 143"),
    ],
)
def test_board_calls_any_job_stopped_that_a_signal_ended(
    desk: Desk, here: Path, end: str, words: str
) -> None:
    """A page that was being drawn is no failure either; what it said last is told with it."""
    (here / "log").write_text("drawing\n")
    desk.start(1, rule="report", logs=("log",))
    desk.tell(LogEvent.ERROR, _REPORT.format(end))
    desk.fail(1, logs=("log",))
    desk.board.close()

    told = desk.out.getvalue()
    assert f"stop  report n0-s1  0.0 s  interrupted: {words}; it said last: drawing" in told
    assert "1 stopped  " in told
    assert "failed" not in told


def test_board_passes_on_a_report_that_names_no_command(desk: Desk) -> None:
    """What Snakemake itself could not do is told by Snakemake only."""
    desk.start(1)
    desk.tell(LogEvent.ERROR, "RuleException:\nOSError: the disk is gone")
    desk.fail(1)
    assert "OSError: the disk is gone" in desk.lines
    assert "Error in rule base:" in desk.lines


def test_board_does_not_call_a_stop_on_request_a_failure(desk: Desk) -> None:
    """Ctrl-C: whoever asked for it reads how to go on, and of no job that did not complete."""
    desk.start(1)
    desk.tell(None, "Terminating processes on user request, this might take some time.")
    desk.tell(LogEvent.ERROR, "WorkflowError:\nAt least one job did not complete successfully.")
    desk.board.close()
    assert "did not complete" not in desk.out.getvalue()
    assert desk.lines[-2] == "stopped on request; the same command goes on from what is kept"


def test_board_notes_what_counts_for_the_last_words(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C and SIGTERM are stops, and nothing else is; a table that is made shows its grid."""
    for told, is_noted in (
        ("Terminating processes on user request", 1),
        ("Will exit after", 1),
        ("x", 0),
    ):
        monkeypatch.setattr(terminal, "_noted", set())
        desk.tell(None, f"{told} finishing currently running jobs (scheduler).")
        assert terminal.was_noted(Event.STOP) == bool(is_noted), told
    for job_id, rule in enumerate(("fold", "table"), 1):
        desk.start(job_id, rule=rule)
        desk.tell(LogEvent.JOB_FINISHED, job_id=job_id)
        assert terminal.was_noted(Event.SHOWN_ANEW) == (rule == "table")


def test_board_shows_an_error_at_once_when_its_thread_says_something_else(desk: Desk) -> None:
    """An error that no job failure follows does not wait."""
    desk.start(1)
    desk.tell(LogEvent.ERROR, "WorkflowError: x", thread=1)
    desk.tell(None, "Trying to restart job 1.", thread=1)
    assert desk.lines[2:] == ["WorkflowError: x", "Trying to restart job 1."]


def test_board_shows_a_held_error_when_the_call_ends(desk: Desk) -> None:
    """No error is ever swallowed."""
    desk.start(1)
    desk.tell(LogEvent.ERROR, "WorkflowError: x")
    desk.board.close()
    assert desk.lines[2] == "WorkflowError: x"


def test_board_counts_a_job_as_failed_when_its_output_is_missing(desk: Desk) -> None:
    """Snakemake reports this failure by an exception alone."""
    desk.start(1)
    desk.tell(LogEvent.ERROR, "MissingOutputException:\nJob 1  completed successfully, but some")
    desk.tell(None, "Exiting")
    assert desk.lines[2].startswith("[0/4] fail  base n0-s1/none")
    desk.board.close()
    assert desk.lines[-1].startswith("grid  0/2 cells  0/4 jobs  1 failed")


def test_board_leaves_everything_to_snakemake_when_no_jobs_were_announced() -> None:
    """A call that runs nothing looks as it always did."""
    desk = Desk()
    desk.tell(None, "Building DAG of jobs...")
    desk.tell(None, "Nothing to be done (all requested files are present and up to date).")
    desk.board.close()
    assert len(desk.lines) == 2


def test_board_draws_only_when_it_ticks_and_ticks_at_most_five_times_a_second(here: Path) -> None:
    """However many events come, the terminal is written to at most five times a second."""
    window = Window()
    screen = SizedScreen(window)
    desk = Desk()
    desk.board = Board(Live(screen, is_coloured=False), logging.StreamHandler(screen), HeldClock())
    desk.tell(LogEvent.RUN_INFO, "Job stats:", stats={"base": 90, "total": 90})
    for job_id in range(50):
        desk.start(job_id)
        desk.tell(LogEvent.JOB_FINISHED, "", job_id=job_id)
    assert window.frames == []
    desk.board.tick()
    assert len(window.frames) == 1
    assert REDRAW_S >= 1 / 5


def test_board_draws_nothing_after_the_last_job_is_done(here: Path) -> None:
    """Hooks and reports may write to the terminal then; their words must stay."""
    window = Window()
    screen = SizedScreen(window)
    board = Board(Live(screen, is_coloured=False), logging.StreamHandler(screen), HeldClock())
    desk = Desk()
    desk.board = board
    desk.tell(LogEvent.RUN_INFO, "Job stats:", stats={"base": 1, "total": 1})
    desk.start(1)
    board.tick()
    assert window.emulator.lines[-1] == "  n0-s1/none  base  0:00 so far"
    desk.tell(LogEvent.JOB_FINISHED, "", job_id=1)
    board.tick()
    window.write("from a hook\n")
    board.tick()
    board.close()
    assert window.emulator.lines[-3:] == [
        f"done  {'n0-s1/none':<30}  base      0.0 s",
        "from a hook",
        "grid  1/1 jobs  0:00 elapsed",
    ]


# -- handler --------------------------------------------------------------------------------------


def _handler(**settings: object) -> LogHandler:
    common = MockOutputSettings()
    vars(common).update(settings)
    return LogHandler(common, None)


@pytest.mark.parametrize(
    ("settings", "argv", "writes"),
    [
        ({}, ["snakemake"], True),
        ({"dryrun": True}, ["snakemake", "-n"], False),
        ({}, ["snakemake", "--touch"], False),
    ],
)
def test_handler_leaves_the_stream_to_snakemake_when_nothing_is_computed(
    settings: dict[str, object],
    argv: list[str],
    writes: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dry runs and touching keep the default output, by keeping the default handler."""
    monkeypatch.setattr(sys, "argv", argv)
    assert _handler(**settings).writes_to_stream is writes


def _tabled(num_jobs: int, **settings: object) -> tuple[LogHandler, Any]:
    """A dry run that has just told how many jobs there are, and its settings."""
    handler = _handler(dryrun=True, printshellcmds=False, **settings)
    record = logging.LogRecord("x", logging.INFO, "", 0, "Job stats:", None, None)
    vars(record).update(event=LogEvent.RUN_INFO, stats={"total": num_jobs})
    logger.handle(record)
    return handler, handler.common_settings


@pytest.mark.parametrize("quiet", [None, {Quietness.HOST}])
def test_dry_run_ends_after_its_table_when_the_jobs_are_many(
    quiet: set[Quietness] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Snakemake is told what `-n --quiet` tells it; a person reads how the jobs can be seen."""
    handler, settings = _tabled(101, quiet=quiet)
    handler.close()
    handler.close()

    assert settings.quiet == {Quietness.RULES, Quietness.PROGRESS}
    said = capsys.readouterr().err
    assert said.startswith("101 jobs are not listed: `-n -p` lists them")
    assert said.count("nothing was started") == 1


def test_dry_run_lists_its_jobs_when_they_are_few() -> None:
    """As many as a person reads are listed as ever."""
    handler, settings = _tabled(100, quiet={Quietness.HOST})
    handler.close()

    assert settings.quiet == {Quietness.HOST}


def test_dry_run_shows_its_table_when_it_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """Of `-n --quiet` Snakemake says that it prints a summary, and prints none."""
    handler, _ = _tabled(3, quiet={Quietness.RULES, Quietness.PROGRESS})
    handler.close()

    assert capsys.readouterr().err == "Job stats:\nThis was a dry run: nothing was started.\n"


@pytest.mark.parametrize("sees", ["printshellcmds", "verbose", "debug_dag"])
def test_dry_run_lists_all_jobs_when_somebody_wants_to_see_them(sees: str) -> None:
    """Whoever asks for commands or thoughts of Snakemake gets those of every job."""
    handler = _handler(**{"dryrun": True, "printshellcmds": False, "quiet": set()} | {sees: True})

    assert handler._listing is None


def _breaks(record: logging.LogRecord) -> None:
    raise ZeroDivisionError("no width")


def test_handler_prints_plainly_when_the_display_breaks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A display may break, but costs no line of the log and no run."""
    handler = _handler()
    take: Callable[[logging.LogRecord], None] = _breaks
    monkeypatch.setattr(handler._board, "take", take)
    for text in ("first", "second"):
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, text, None, None))
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("quantgrid's display broke (ZeroDivisionError: no width)")
    assert said[1:] == ["first", "second"]


def test_plugin_imports_nothing_of_the_project_when_snakemake_looks_for_plugins() -> None:
    """Snakemake imports every plugin at every start."""
    code = (
        "import sys, snakemake_interface_logger_plugins.base; before = set(sys.modules)\n"
        "import snakemake_logger_plugin_quantgrid; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['snakemake_logger_plugin_quantgrid']"
