"""What is worth telling a person, and what makes it the same event wherever it is noticed.

Told by whoever lives: the runner tells of its own job and of a controller that died, the supervisor
of its controller, the controller of its grid.
"""

import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from quantgrid import atomic, failures, layout, standing
from quantgrid.errors import FailureClass, QuantgridError
from quantgrid.fingerprint import digest
from quantgrid.job import Job
from quantgrid.notify import Event, Kind, tell
from quantgrid.store import Store, open_store
from quantgrid.wording import counted

_TOLD = {
    FailureClass.SCIENCE: Kind.ALARM,
    FailureClass.REFUSAL: Kind.REFUSAL,
    FailureClass.BUDGET: Kind.REFUSAL,
}
"""Faults are not told one by one: a mistake in a script would be told a thousand times."""


_ASKED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def publish_place(root: Path, code: Path, archive: str) -> None:
    """Say in a working copy where its configuration and its marks are, for who outlives us."""
    atomic.publish_json(root / layout.NOTICE_PLACE, {"code": str(code), "archive": archive})


def of_attempt(root: Path, code: Path, store: Store, job: Job, error: BaseException) -> None:
    """Tell how an attempt at a job ended, when it is an alarm or a refusal.

    Args:
        root: The working copy.
        code: The folder of the Snakefile, whose configuration says whom to tell.
        store: That of the archive.
        job: The job.
        error: What ended it: an error of ours, or SystemExit when the script told its own.
    """
    event = _find_event(root, job, error)
    if event:
        _tell(event, code, store)


def of_running(code: Path, store: Store, cell: str, fingerprint: str, notice: Path) -> None:
    """Tell what the watch of a running stage left to be heard: it stands still, or is slow.

    Args:
        code: The folder of the Snakefile, whose configuration says whom to tell.
        store: That of the archive.
        cell: Whose stage it is.
        fingerprint: Of the stage; a rule fires once in all its links.
        notice: The file that the watch left.
    """
    try:
        told = json.loads(notice.read_bytes())
        event = Event(Kind.STALL, cell, told["text"], f"{fingerprint[:16]}.{told['rule']}")
    except (OSError, ValueError, KeyError, TypeError):
        return
    _tell(event, code, store)


def of_dead_controller(root: Path, code: Path, store: Store) -> None:
    """Tell that the controller of a working copy died, when it did; a look costs nearly nothing."""
    seen = standing.look(root)
    if seen.state is standing.State.DIED and seen.holder:
        text = f"the controller died ({seen.holder}); what its jobs saved is kept"
        _tell(Event(Kind.SILENCE, seen.holder.id, text), code, store)


def of_controller(root: Path, name: str, exit_code: int) -> None:
    """Tell by its supervisor that a controller was killed; who asks one to end knows it.

    Args:
        root: The working copy.
        name: The controller.
        exit_code: Its exit code; negative for a signal.
    """
    place = _find_place(root)
    if exit_code < 0 and -exit_code not in _ASKED and place:
        text = f"the controller died of signal {-exit_code}; what its jobs saved is kept"
        store = open_store(place["archive"], root)
        _tell(Event(Kind.SILENCE, name, text), Path(place["code"]), store)
        from quantgrid.rental import renting  # only a supervisor pays for it

        with suppress(QuantgridError):
            renting.forget_controller(store, root)  # or its machines would tell it again


def of_grid(grid: str, wanted: Mapping[str, str], code: Path, store: Store) -> None:
    """Tell that every cell that was asked for is there.

    Args:
        grid: Name of the grid.
        wanted: Fingerprints by cell: the same cells are told of once.
        code: The folder of the Snakefile.
        store: That of the archive.
    """
    text = f"done: {counted(len(wanted), 'cell')}, each with its result"
    _tell(Event(Kind.DONE, grid, text, digest(dict(wanted))), code, store)


def of_failures(grid: str, root: Path, code: Path, store: Store) -> None:
    """Tell that a grid stopped before it was done, with the first failures that it remembers."""
    found = list(failures.all_of(root))
    names = ", ".join(failure["cell"] for failure in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    text = f"not done; failed: {names}{more}" if found else "not done; a job failed"
    attempts = sorted(failure["attempt"] for failure in found)
    _tell(Event(Kind.FAULT, grid, text, digest(attempts)), code, store)


def _find_event(root: Path, job: Job, error: BaseException) -> Event | None:
    """The event of a failure that was written down, or of an error that was not."""
    for stage in job.stages:
        failure = failures.find(root, job.cell, stage.name, stage.fingerprint)
        if failure:
            kind = _TOLD.get(FailureClass(failure["class"]))
            key = f"{stage.fingerprint[:16]}.{failure['attempt']}"
            return Event(kind, job.cell, failure["message"], key) if kind else None
    if not isinstance(error, QuantgridError):
        return None
    kind = _TOLD.get(error.failure_class)
    return Event(kind, job.cell, str(error), digest(error.what)) if kind else None


def _tell(event: Event, code: Path, store: Store) -> None:
    """A configuration that cannot be read hinders no work, and tells nobody."""
    from quantgrid.settings import load_settings  # a job that ends well does not pay for it

    try:
        whom = load_settings(code, {}).notify
    except (QuantgridError, OSError):
        return
    tell(event, whom, store)


def _find_place(root: Path) -> dict[str, Any] | None:
    try:
        place = json.loads((root / layout.NOTICE_PLACE).read_bytes())
    except (OSError, ValueError):
        return None
    return place if isinstance(place, dict) else None
