"""A spike is computed again from the checkpoint before it: equal means science, other a device.

A training is bit for bit the same from its checkpoint on.  So the link that saw the spike leaves
its losses here and ends, and the next one, a fresh process, compares.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import atomic, layout
from quantgrid.errors import DataFault


class Replay(NamedTuple):
    """What a link computed up to a spike: `losses` are those of the steps from `first` on."""

    host: str
    first: int
    losses: tuple[float, ...]

    @property
    def last(self) -> int:
        """The step of the spike."""
        return self.first + len(self.losses) - 1

    def differing(self, last: int, losses: Sequence[float]) -> int | None:
        """The first of consecutive steps, the last of which is `last`, that came out otherwise."""
        start = last - len(losses) + 1
        for step, loss in enumerate(losses, start=start):
            if self.first <= step <= self.last and loss != self.losses[step - self.first]:
                return step
        return None

    def save(self, state: Path) -> None:
        """Leave it for the next link."""
        atomic.publish_json(_file(state), {**self._asdict(), "losses": list(self.losses)})

    @classmethod
    def find(cls, state: Path) -> "Replay | None":
        """What an earlier link left, None when it left nothing.

        Raises:
            DataFault: when it cannot be read.
        """
        path = _file(state)
        try:
            told = json.loads(path.read_bytes())
            return cls(str(told["host"]), int(told["first"]), tuple(map(float, told["losses"])))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DataFault(
                "the losses before a spike cannot be read",
                seen=error,
                where=path,
                do="Remove the file: the cell goes on from its checkpoint without comparison.",
            ) from error


def forget(state: Path) -> None:
    """The comparison is over."""
    _file(state).unlink(missing_ok=True)


def quarantine(state: Path, fact: Mapping[str, Any]) -> None:
    """Remember a host whose device computed two results from one state."""
    known = quarantined(state)
    atomic.publish_json(state / layout.STATE_QUARANTINE, [*known, dict(fact)])


def quarantined(state: Path) -> list[Mapping[str, Any]]:
    """The hosts that computed wrong in this cell, with step and both losses."""
    try:
        found = json.loads((state / layout.STATE_QUARANTINE).read_bytes())
    except (OSError, ValueError):
        return []
    return found if isinstance(found, list) else []


def _file(state: Path) -> Path:
    return state / layout.STATE_REPLAY
