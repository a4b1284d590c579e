"""Snakemake's scheduler is spared, and a damaged result is in nobody's way."""

import inspect
from types import SimpleNamespace

from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler

from quantgrid.pace import PLAINLY, SERIALIZED, look_only_when_needed
from working_copy import FEW, WorkingCopy, table


def test_scheduler_has_a_limit_to_take_away_when_snakemake_is_new() -> None:
    """Where a later Snakemake calls it otherwise, `look_only_when_needed` must follow."""
    source = inspect.getsource(JobScheduler)

    assert "self.job_rate_limiter = " in source
    assert "if self.job_rate_limiter is None:" in source
    scheduler = SimpleNamespace(job_rate_limiter=object())
    look_only_when_needed(scheduler)
    assert scheduler.job_rate_limiter is None


def test_params_are_made_texts_in_two_ways_when_snakemake_is_new() -> None:
    """Where a later Snakemake calls them otherwise, `compare_params_as_texts` must follow."""
    assert f"self.{SERIALIZED}(value) for value in" in inspect.getsource(PersistenceBase)
    assert "pandas" not in inspect.getsource(getattr(PersistenceBase, PLAINLY))


def test_scheduler_has_no_limit_when_jobs_run_here(few: WorkingCopy) -> None:
    """The hook of the Snakefile reaches the scheduler that runs the jobs; nothing loads pandas."""
    snakefile = few / "Snakefile"
    tell = 'onsuccess:\n    print("limit:", workflow.scheduler.job_rate_limiter)\n'
    tell += '    import sys\n    print("pandas:", "pandas" in sys.modules)\n'
    snakefile.write_text(f"{snakefile.read_text()}\n\n{tell}")
    lost = next((few / "results").glob("*/*/result.json"))
    lost.unlink()

    said = few.snakemake(str(lost.relative_to(few.root)), grid=FEW).text
    assert "limit: None" in said
    assert "pandas: False" in said


def test_result_is_restored_when_it_was_torn(few: WorkingCopy) -> None:
    """An unreadable result is not taken for one that is there: its record comes back."""
    torn = next((few / "results").glob("*/*/result.json"))
    whole = torn.read_bytes()
    torn.write_bytes(whole[:100])

    assert "restore 1, make 0" in few.snakemake(table(FEW), grid=FEW).plan
    assert torn.read_bytes() == whole
    assert few.look(table(FEW), grid=FEW).jobs == {}


def test_result_is_restored_when_it_was_edited(few: WorkingCopy) -> None:
    """A result whose digest does not match it is damaged, whatever fingerprint it claims."""
    edited = next((few / "results").glob("*/*/result.json"))
    whole = edited.read_bytes()
    edited.write_bytes(whole.replace(b'"stage": "evaluate"', b'"stage": "elsewhere"'))

    assert "restore 1, make 0" in few.snakemake(table(FEW), grid=FEW).plan
    assert edited.read_bytes() == whole
