"""What `quantgrid status` and `attach` show of a controller: lines of text, or JSON."""

import shlex
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quantgrid import layout, terminal
from quantgrid.clock import timestamp
from quantgrid.standing import Standing, State
from quantgrid.wording import counted, first_word, wrapped

_MAX_FAILURES = 5
_MAX_JOBS = 10
_WIDTH = 80


def lines(seen: Standing, width: int = _WIDTH, *, are_failures_told: bool = False) -> list[str]:
    """The answer to "how is it going?", within `width` columns where ids and paths allow.

    Args:
        seen: How the controller stands.
        width: Of the terminal.
        are_failures_told: Whether whoever reads this has read them already, as they came.
    """
    if seen.holder is None and seen.state is State.NEVER:
        return ["No controller has run in this working copy.", "start     quantgrid launch"]
    return [
        *_who(seen),
        *_block(seen, width, is_labelled=True),
        *([] if are_failures_told else _failures(seen, width)),
        *_what_next(seen),
    ]


def block(seen: Standing, width: int) -> list[str]:
    """What lives below the log while somebody looks on: the counts, one line a running job."""
    return _block(seen, width, is_labelled=False)


def _who(seen: Standing) -> list[str]:
    """Whether it runs, who and where it is, and since when."""
    who = seen.holder or "another process on another host"
    match seen.state:
        case State.RUNS:
            return [f"running   {who}"]
        case State.HALTED:
            number = seen.holder.pid if seen.holder else ""
            return [
                f"halted    {who}",
                f"          stopped by a signal; go on: kill -CONT {number}",
            ]
        case State.ELSEWHERE:
            return [f"elsewhere {who}", "          attach and stop work there, not here"]
        case State.ENDED:
            return [f"ended     {_end(seen)}", f"          {who}"]
        case _:
            return [f"died      {_death(seen)}", f"          {who}"]


def _death(seen: Standing) -> str:
    """When it was last seen, how far it was, and by which signal it died where that is known."""
    words = f"was running until {_moment(seen.seen)}"
    if seen.now:
        words += f"; {seen.now['cells_done']} of {seen.now['cells']} cells done"
    if seen.ended:
        words += f"; killed by {signal.Signals(-seen.ended['exit_code']).name}"
    return words


def _end(seen: Standing) -> str:
    if seen.ended:
        return f"at {seen.ended['at']} with exit code {seen.ended['exit_code']}"
    return f"at {_moment(seen.seen)}"


def _block(seen: Standing, width: int, *, is_labelled: bool) -> list[str]:
    if not seen.now:
        return []
    label = "grid      " if is_labelled else ""
    whole = overview(seen)
    told = replace(whole, running=0, failed=0) if is_labelled else whole
    found = [label + terminal.overall_line(told, width - len(label))]
    found += _of_jobs(whole) if is_labelled else []
    if not seen.state.is_live:
        return found
    jobs = [_job(seen.root, facts) for facts in seen.now["running"]]
    return found + terminal.job_lines(jobs, time.time(), width=width, rows=_MAX_JOBS)


def _of_jobs(whole: terminal.Overview) -> list[str]:
    """Jobs that run or failed; the map counts cells, and many cells may wait for one job."""
    counts = {"running": whole.running, "failed": whole.failed}
    told = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    return [f"          jobs: {told}"] if told else []


def overview(seen: Standing) -> terminal.Overview:
    """The counts, with the time that passed since they were told."""
    now = seen.now
    age_s = max(time.time() - now["told"], 0.0) if seen.state is State.RUNS else 0.0
    left_s = now["left_s"]
    return terminal.Overview(
        grid=now["grid"],
        cells_done=now["cells_done"],
        cells=now["cells"],
        jobs_done=now["jobs_done"],
        jobs=now["jobs"],
        running=now["running_jobs"] if seen.state.is_live else 0,
        failed=now["failed"],
        elapsed_s=now["elapsed_s"] + age_s,
        left_s=max(left_s - age_s, 0.0) if left_s is not None and seen.state.is_live else None,
    )


def _job(root: Path, facts: Mapping[str, Any]) -> terminal.Job:
    """A running job, with what its progress file says now."""
    reading = None
    with suppress(OSError):
        reading = terminal.find_reading((root / facts["progress"]).read_text(errors="replace"))
    return terminal.Job(
        id=facts["id"],
        rule=facts["rule"],
        owner=facts["owner"],
        logs=tuple(facts["logs"]),
        started_s=facts["started"],
        reading=reading or terminal.Reading(),
    )


def failures(seen: Standing) -> list[Mapping[str, Any]]:
    """The jobs that failed and did not succeed later, oldest first."""
    return list(seen.now.get("failures", ()))


def _failures(seen: Standing, width: int) -> list[str]:
    found = failures(seen)
    shown = found[-_MAX_FAILURES:]
    rest = len(found) - len(shown)
    told = [line for each in shown for line in failure_lines(each, width)]
    return told + ([f"          and {counted(rest, 'more failure')} before these"] if rest else [])


def failure_lines(failure: Mapping[str, Any], width: int) -> list[str]:
    """A job that failed or was stopped: who it worked for, its own words, the place of its log."""
    words = terminal.printable(str(failure["words"]))
    label = "stopped" if words.startswith(terminal.STOPPED) else first_word(words) or "failed"
    head = f"{label:<9} {failure['rule']} {failure['owner']}".rstrip()
    lines = wrapped(words.removeprefix(f"{label}: "), width - 10)
    return [head, *(f"          {line}" for line in lines)] + [
        f"          log: {log}" for log in failure["logs"]
    ]


def _what_next(seen: Standing) -> list[str]:
    log = [f"log       {seen.log.relative_to(seen.root)}"] if seen.log else []
    if seen.state in {State.RUNS, State.HALTED}:
        return [*log, "look on   quantgrid attach", "end it    quantgrid stop"]
    if _is_done(seen):
        return [*log, "next      nothing: all that it was asked for is done"]
    if seen.state in {State.ENDED, State.DIED} and seen.holder:
        return [*log, f"start     {again(seen.holder.arguments)}"]
    return log


def _is_done(seen: Standing) -> bool:
    """Whether it ended with every cell and every job done; the same call would do nothing."""
    if seen.state is not State.ENDED or not seen.now:
        return False
    whole = overview(seen)
    are_made = (whole.cells_done, whole.jobs_done) == (whole.cells, whole.jobs)
    return are_made and not whole.failed


def again(arguments: tuple[str, ...]) -> str:
    """The command that starts the same once more."""
    rest = list(arguments)
    if rest[:2] == ["--profile", layout.LOCAL_PROFILE]:
        del rest[:2]  # what launch adds by itself
    return f"quantgrid launch -- {shlex.join(rest)}" if rest else "quantgrid launch"


def _moment(unix_s: float) -> str:
    return timestamp(datetime.fromtimestamp(unix_s, UTC)) if unix_s else "an unknown time"


def to_json(seen: Standing) -> dict[str, Any]:
    """All that is known, for programs."""
    holder = (
        {**seen.holder._asdict(), "arguments": list(seen.holder.arguments)} if seen.holder else None
    )
    return {
        "state": str(seen.state),
        "controller": holder,
        "seen": _moment(seen.seen) if seen.seen else None,
        "grid": seen.now or None,
        "ended": seen.ended or None,
        "log": str(seen.log) if seen.log else None,
        "root": str(seen.root),
    }
