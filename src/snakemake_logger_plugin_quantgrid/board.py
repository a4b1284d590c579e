"""From Snakemake's log records to what a person sees."""

import logging
import re
from collections.abc import Callable, Sequence

from snakemake_interface_logger_plugins.common import LogEvent

from quantgrid import terminal
from quantgrid.clock import Clock
from quantgrid.terminal import SENTENCES, Event, Job, find_announced, job_owner
from snakemake_logger_plugin_quantgrid.faces import Face
from snakemake_logger_plugin_quantgrid.job_files import ProgressFile, find_last_words
from snakemake_logger_plugin_quantgrid.tally import Tally
from snakemake_logger_plugin_quantgrid.told import Teller

_REPLACED = frozenset({LogEvent.JOB_STARTED, LogEvent.PROGRESS})
_SELECTING = "Select jobs to execute..."
_STOPPING = (
    "Terminating processes on user request",
    "Will exit after finishing currently running jobs (scheduler)",
)
"""How Snakemake answers Ctrl-C, and SIGTERM."""

_SHOWING = frozenset({"table", "report"})
"""Rules that show a whole grid."""

_AT_LEAST_ONE = "At least one job did not complete successfully."
_ENDED = re.compile(r"(returned non-zero exit status \d+|died with [^\n]*?)\.?\s*$")
"""How a command ended, at the end of the report that repeats all of it (subprocess)."""

_SIGNAL = re.compile(r"with <Signals\.(\w+): \d+>")
"""A signal as Python shows it."""

_ASKED = re.compile(r"died of (SIGTERM|SIGINT|SIGHUP)$|exit status (143|130|129)$")
"""How a command ends that somebody, or the closing of a terminal, asked to end; by a shell, too."""

_OUTPUT_MISSING = re.compile(r"^Job (\d+) +completed successfully, but", re.MULTILINE)


class Board:
    """Keeps the tally of one call and shows it; everything else goes to Snakemake's own handler.

    Before Snakemake announces jobs (`RUN_INFO`) and after the last one, every record is the default
    handler's and nothing is drawn, because others may write to the terminal then.

    Args:
        face: Where a person looks.
        default: Snakemake's own handler.
        clock: That of the call.
        command: What was typed for it: commands in the words of a job get its settings.
    """

    def __init__(
        self, face: Face, default: logging.Handler, clock: Clock, command: Sequence[str] = ()
    ) -> None:
        self._face, self._default, self._clock = face, default, clock
        self._command = command
        self._tally: Tally | None = None
        self._is_over = False
        self._files: dict[int, ProgressFile] = {}
        self._held: dict[int | None, logging.LogRecord] = {}
        self._acts: dict[LogEvent, Callable[[Tally, logging.LogRecord], None]] = {
            LogEvent.JOB_INFO: self._start,
            LogEvent.JOB_FINISHED: self._finish,
            LogEvent.JOB_ERROR: self._fail,
            LogEvent.ERROR: self._hold,
        }

    def take(self, record: logging.LogRecord) -> None:
        """Show one record of Snakemake's log."""
        event = getattr(record, "event", None)
        if event != LogEvent.JOB_ERROR and record.levelno > logging.DEBUG:
            self._release(record.thread)
        if self._tally is None or event not in self._acts:
            self._pass_on(record, event)
        else:
            self._acts[event](self._tally, record)
        self._look_whether_over(record)
        if self._tally is None or self._is_over:
            self.clear()

    def tick(self) -> None:
        """Look what the running jobs say and show it."""
        if self._tally is None or self._is_over:
            return
        for job_id in list(self._tally.running):
            self._hear(self._tally, job_id)
        self._face.refresh(self._tally, self._clock.monotonic_s())

    def close(self) -> None:
        """Say how it ended; what comes later is the default handler's."""
        for thread in list(self._held):
            self._release(thread)
        tally, self._tally = self._tally, None
        if tally is not None:
            words, owners = terminal.last_words()
            self._face.concluded(tally, self._clock.monotonic_s(), owners)
            self._face.say_last(words)
        self.clear()

    def clear(self) -> None:
        """Take back what lives on the terminal."""
        self._face.clear()

    def move(self, face: Face, default: logging.Handler) -> None:
        """Go on elsewhere: the terminal is gone."""
        self._face, self._default = face, default

    def tell(self, teller: Teller, *, is_over: bool = False) -> None:
        """Let those know who are not at this terminal."""
        if self._tally is not None:
            outputs = {job_id: file.path for job_id, file in self._files.items()}
            teller.tell(self._tally, outputs, is_over=is_over)

    def held(self) -> list[logging.LogRecord]:
        """Records that were taken and not shown yet."""
        return list(self._held.values())

    def _pass_on(self, record: logging.LogRecord, event: LogEvent | None) -> None:
        if event == LogEvent.RUN_INFO:
            stats = vars(record)["stats"]
            self._tally = Tally(stats, find_announced(), self._clock.monotonic_s())
            terminal.will_conclude()
        if self._tally is not None and str(record.msg).startswith(_STOPPING):
            self._tally.is_stopping = True
            terminal.note(Event.STOP)
        if self._tally is None or (event not in _REPLACED and record.msg != _SELECTING):
            self._default.handle(record)

    def _look_whether_over(self, record: logging.LogRecord) -> None:
        if self._tally is not None and not self._tally.running:
            all_done = self._tally.done >= self._tally.total
            self._is_over = self._is_over or all_done or record.levelno >= logging.ERROR

    def _start(self, tally: Tally, record: logging.LogRecord) -> None:
        facts = vars(record)
        job = Job(
            id=facts["jobid"],
            rule=facts["rule_name"],
            owner=job_owner(facts["rule_name"], facts["wildcards"]),
            logs=tuple(facts["log"]),
            started_s=self._clock.monotonic_s(),
        )
        if facts["output"]:
            self._files[job.id] = ProgressFile.of(facts["output"][0], record.created)
        self._is_over = False
        tally.start(job)
        self._face.started(tally, job)

    def _finish(self, tally: Tally, record: logging.LogRecord) -> None:
        job_id, now_s = vars(record)["job_id"], self._clock.monotonic_s()
        self._hear(tally, job_id)
        self._files.pop(job_id, None)
        job = tally.finish(job_id, now_s)
        if job is not None:
            if job.rule in _SHOWING:
                terminal.note(Event.SHOWN_ANEW)
            self._face.done(tally, job, now_s - job.started_s)

    def _fail(self, tally: Tally, record: logging.LogRecord) -> None:
        """The job and its own error; Snakemake's report only where it says more than that.

        Of a command that failed it repeats thousands of characters twice; its log file keeps them.
        """
        facts = vars(record)
        words = find_last_words(facts["log"], self._command)
        held = self._held.pop(record.thread, None)
        ended = None if held is None else _ENDED.search(str(held.msg))
        told = words or "nothing in its log says why"
        if ended is not None and not (words and words.startswith(SENTENCES)):
            end = _SIGNAL.sub(r"of \1", ended[1])
            told = _stopped(end, words) if _ASKED.search(end) else f"{told} (its command {end})"
        self._lose(tally, facts["jobid"], told)
        for each in () if ended is not None else (held, record):
            if each is not None:
                self._default.handle(each)

    def _hold(self, tally: Tally, record: logging.LogRecord) -> None:
        """While jobs run, an error is followed by the JOB_ERROR of its thread, which names it."""
        if _AT_LEAST_ONE in str(record.msg) and (tally.failures or tally.is_stopping):
            return  # each of them is named, at once and at the end
        if tally.running:
            self._held[record.thread] = record
        else:
            self._default.handle(record)

    def _release(self, thread: int | None) -> None:
        held = self._held.pop(thread, None)
        if held is None:
            return
        missing = _OUTPUT_MISSING.search(str(held.msg))
        if missing is not None and self._tally is not None:
            self._lose(self._tally, int(missing[1]), "it exited with 0, but its output is missing")
        self._default.handle(held)

    def _lose(self, tally: Tally, job_id: int, words: str) -> None:
        self._hear(tally, job_id)
        self._files.pop(job_id, None)
        job = tally.fail(job_id, words)
        if job is not None:
            is_failure = tally.failures[job_id].word == "fail"
            terminal.note(Event.FAILURE if is_failure else Event.INTERRUPTION)
            seconds = self._clock.monotonic_s() - job.started_s
            self._face.failed(tally, tally.failures[job_id], seconds)

    def _hear(self, tally: Tally, job_id: int) -> None:
        if job_id in self._files and job_id in tally.running:
            reading = self._files[job_id].find_news()
            if reading is not None:
                tally.hear(job_id, reading)


def _stopped(end: str, words: str | None) -> str:
    """The words of a job whose command was asked to end, whatever it was doing: no failure."""
    last = f"; it said last: {words}" if words else ""
    return f"interrupted: its command {end}{last}"
