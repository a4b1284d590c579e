"""Failures that would come again, known to every working copy of an archive.

A failure is a file of the working copy in which it happened (`quantgrid.failures`).  One of class
code, data or refusal is told to the archive's store as well, so that another clone does not pay
for it either; `quantgrid retry` takes it back there.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from quantgrid import atomic, failures, layout
from quantgrid.errors import QuantgridError, Refusal
from quantgrid.failures import Failure
from quantgrid.store import Store
from quantgrid.wording import clause, next_step

Owned = tuple[str, str, str]
"""Owner, name and fingerprint of a stage."""


class Remembered(NamedTuple):
    """What one working copy and its archive's store know.

    Args:
        root: The working copy.
        store: Where other clones read too.
    """

    root: Path
    store: Store

    def keep(self, failure: Failure) -> None:
        """Write a failure down here; tell others of one that would come again.

        A store that does not answer keeps nobody from the failure itself.
        """
        failures.keep(self.root, failure)
        if failure["is_remembered"]:
            key = layout.failure_file(failure["cell"], failure["stage"], failure["fingerprint"])
            with suppress(QuantgridError):
                self.store.put_once(key, atomic.json_bytes(failure))

    def find(self, owner: str, stage: str, fingerprint: str) -> Failure | None:
        """The failure of a stage: that of this working copy first; None when nobody knows one."""
        here = failures.find(self.root, owner, stage, fingerprint)
        return here or self._told(layout.failure_file(owner, stage, fingerprint), fingerprint)

    def forget(self, owner: str, stage: str, fingerprint: str) -> None:
        """Forget the failure of a stage, here and for everybody."""
        failures.forget(self.root, owner, stage, fingerprint)
        self.store.delete(layout.failure_file(owner, stage, fingerprint))

    def all_of(self) -> Iterator[Failure]:
        """Every failure of this working copy, then those that only others had."""
        here = {each["fingerprint"]: each for each in failures.all_of(self.root)}
        yield from here.values()
        for key in sorted(self.store.list(layout.FAILURES)):
            told = self._told(key)
            if told and told["fingerprint"] not in here:
                yield told

    def fingerprints(self, stages: Iterable[Owned]) -> frozenset[str]:
        """Those of some stages that are not tried again; one listing of the store."""
        told = set(self.store.list(layout.FAILURES))
        others = {each[2] for each in stages if layout.failure_file(*each) in told} if told else ()
        return failures.remembered(self.root).union(others)

    def refuse(self, owner: str, stage: str, fingerprint: str) -> None:
        """Stop before the same failure is paid for again.

        Raises:
            Refusal: with the remembered error and how to go on.
        """
        failure = self.find(owner, stage, fingerprint)
        if failure and failure["is_remembered"]:
            what = f"{owner} failed before and would fail again ({failure['class']})"
            raise Refusal(
                f"{what}: {clause(failure['message'])}",
                seen=f"{failure['kind']} in stage {stage}, {failure['when']} on {failure['host']}",
                where=failure["log"],
                do=f"{_mend(failure)}`quantgrid retry {owner}` lets it be tried again; "
                f"`quantgrid why {owner}` tells more.",
            )

    def _told(self, key: str, fingerprint: str | None = None) -> Failure | None:
        """What others told; nothing when it cannot be read: a torn memory must stop no cell."""
        data = self.store.find(key)
        if data is None:
            return None
        with suppress(ValueError):
            return failures.checked(json.loads(data), fingerprint)
        return None


def _mend(failure: Failure) -> str:
    """What the failure asked for, which comes first, where it asked for anything."""
    step = next_step(str(failure["message"]))
    return f"{step} Then " if step else ""
