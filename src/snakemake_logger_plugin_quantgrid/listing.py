"""Where a dry run ends: after its table of jobs, unless the jobs are few enough to be read.

`snakemake -n` describes every job in ten lines, which took half of a plan of a thousand cells
(bench/plan.py), and nobody reads two thousand of them.  Snakemake 9 itself ends after the table
where it is told `--quiet rules progress`; this says so for it, at the last moment, when it knows
how many jobs there are.  Where another version takes no notice, the jobs are listed as ever.
"""

from logging import Filter, LogRecord
from typing import TextIO

from snakemake.logging import logger
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import OutputSettingsLoggerInterface

MOST = 100
"""As many jobs as a person reads one by one."""

TABLE_ONLY = frozenset({Quietness.RULES, Quietness.PROGRESS})
"""What Snakemake is told by `-n --quiet` (snakemake.workflow.Workflow.execute)."""


class Listing(Filter):
    """Sees the table of jobs before it is printed, in the thread that plans.

    Args:
        settings: Those of the call, which Snakemake itself asks after the table.
        stream: Where the call writes.
    """

    def __init__(self, settings: OutputSettingsLoggerInterface, stream: TextIO) -> None:
        super().__init__()
        self._settings, self._stream = settings, stream
        self._words = ""
        logger.addFilter(self)

    def filter(self, record: LogRecord) -> bool:
        """Every record goes on as it is; after the table of jobs nothing needs to follow."""
        if getattr(record, "event", None) == LogEvent.RUN_INFO:
            self._look(record, vars(record)["stats"]["total"])
        return True

    def close(self) -> None:
        """Say how a dry run ended that ended here."""
        logger.removeFilter(self)
        words, self._words = self._words, ""
        if words:
            print(words, file=self._stream, flush=True)

    def _look(self, record: LogRecord, num_jobs: int) -> None:
        asked = frozenset(self._settings.quiet or ())
        if Quietness.PROGRESS in asked:  # then Snakemake prints no table, and says that it does
            print(record.msg, file=self._stream, flush=True)
        if Quietness.RULES not in asked:
            if num_jobs <= MOST:
                return
            self._words = (
                f"{num_jobs} jobs are not listed: `-n -p` lists them with their commands.  "
            )
        self._settings.quiet = set(TABLE_ONLY)  # type: ignore[assignment]  # it keeps a set
        self._words += "This was a dry run: nothing was started."
