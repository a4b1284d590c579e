"""The holds of one job in one working copy: who asks, how long, and who is known to be dead."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout, workspace
from quantgrid.clock import Clock
from quantgrid.hold import Hold, Holder, Terms, new_holder
from quantgrid.holding import Starter
from quantgrid.job import Job, Stage
from quantgrid.store import Store


class Manners(NamedTuple):
    """How a starter treats others.

    Args:
        ttl_s: Its own silence after which others may take over from it.
        patience_s: How long it waits for a living holder that it meets.
    """

    ttl_s: float = 120.0
    patience_s: float = 600.0


@contextmanager
def holding(
    job: Job,
    pending: Iterable[Stage],
    is_made: Callable[[Stage], bool],
    *,
    store: Store,
    root: Path,
    clock: Clock,
    manners: Manners,
) -> Iterator[Mapping[str, Hold]]:
    """Hold what a job must make, by fingerprint.

    Raises:
        HoldRefusal: see `Starter.holding`.
    """
    with workspace.attempt(root, clock, of=layout.HOLDERS) as place:
        holder = new_holder(str(root), workspace.copy_id(root), place.name)
        terms = Terms(job.cell, holder, manners.ttl_s, partial(is_known_dead, root, holder))
        starter = Starter(store, clock, terms, manners.patience_s, stop_computing)
        with starter.holding({each.fingerprint: partial(is_made, each) for each in pending}) as own:
            yield own


def is_known_dead(root: Path, asker: Holder, holder: Holder) -> bool:
    """Whether a holder is dead for sure.

    In the asker's own working copy it has lost the lock that the kernel frees; and a lease has its
    next machine only when the one before it is gone.
    """
    same = all(getattr(asker, name) == getattr(holder, name) for name in ("host", "place", "copy"))
    return holder.is_replaced_by(asker) or (same and workspace.is_dead(root, holder.attempt))


def stop_computing() -> None:
    """What this process supervises gets a signal; where it supervises nothing, a fence will do."""
    if callable(signal.getsignal(signal.SIGTERM)):
        os.kill(os.getpid(), signal.SIGTERM)
