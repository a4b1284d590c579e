"""How a failure is told when it happens, and what is left to say of it at the end."""

from pathlib import Path

from emulator import SizedScreen, Window
from quantgrid.terminal import Job
from snakemake_logger_plugin_quantgrid.faces import Live, recall
from snakemake_logger_plugin_quantgrid.job_files import find_last_words
from snakemake_logger_plugin_quantgrid.tally import Failure, Tally

JOB = Job(1, "base", "n0-s1/none", ("logs/a.log",), 0.0)


def failed(words: str) -> Tally:
    """The tally of a call whose one job failed with these words."""
    tally = Tally({"base": 1, "total": 1}, None, 0.0)
    tally.start(JOB)
    tally.fail(JOB.id, words)
    return tally


def test_last_words_leave_the_place_of_their_log_to_the_line_below(tmp_path: Path) -> None:
    """It is told once, and as it is typed; any other place stays."""
    log = tmp_path / "a.log"
    log.write_text(f"failed: n0: KeyError; seen code (/desk{log}). See `why` (b/a.log).\n")

    assert find_last_words([str(log)]) == "failed: n0: KeyError; seen code. See `why` (b/a.log)."


def test_last_words_have_the_settings_of_the_call(tmp_path: Path) -> None:
    """A person copies the command from the line of the job as well."""
    log = tmp_path / "a.log"
    log.write_text("refused: short. Make it: `snakemake --profile local corpus`.\n")
    command = ("snakemake", "--profile", "lab", "--config", "grid=laws")

    told = "refused: short. Make it: `snakemake --profile lab corpus --config grid=laws`."
    assert find_last_words([str(log)], command) == told


def test_terminal_wraps_the_words_of_a_failure_and_breaks_no_command() -> None:
    """It is copied from there."""
    command = "`snakemake --profile local corpus --forcerun prepare`"
    words = f"refused: {'a shard ' * 9}is short. Make it again: {command}."
    window = Window()
    face = Live(SizedScreen(window), is_coloured=False)

    face.failed(failed(words), Failure(JOB, words), 1.0)
    face.clear()

    said = [line for line in window.emulator.lines if line]
    assert f"      {command}." in said
    assert all(line.startswith("      ") for line in said[1:])


def test_job_that_was_stopped_is_recalled_without_a_next_step() -> None:
    """One line below all of them says how it goes on."""
    tally = failed("interrupted: n0-s1/none: ended. Run the same command again.")

    assert recall(tally) == ["stop  n0-s1/none  base  ended"]
    tally = failed("interrupted: n0-s1/none was ended by SIGINT, no checkpoint was saved yet.")
    what = "was ended by SIGINT, no checkpoint was saved yet"
    assert recall(tally) == [f"stop  n0-s1/none  base  {what}"]


def test_jobs_that_were_stopped_are_not_recalled_where_somebody_stopped_all() -> None:
    """Each was told when it ended; one that failed all the same is named."""
    tally = failed("interrupted: n0-s1/none was ended by SIGINT.")
    tally.is_stopping = True
    tally.start(Job(2, "base", "n0-s2/none", (), 0.0))
    tally.fail(2, "failed: KeyError.")

    failure, stopped = recall(tally)
    assert failure == "fail  n0-s2/none  base  KeyError"
    assert stopped.startswith("stopped on request; ")


def test_many_failures_are_recalled_as_ten_and_a_number() -> None:
    """A mistake in a script is not told a thousand times."""
    tally = Tally({"base": 12, "total": 12}, None, 0.0)
    for number in range(12):
        tally.start(Job(number, "base", f"n0-s{number}/none", (), 0.0))
        tally.fail(number, "failed: KeyError.")

    assert recall(tally)[9:] == ["fail  n0-s9/none  base  KeyError", "and 2 more failed"]
    assert recall(tally, {f"n0-s{number}/none" for number in range(12)}) == []
