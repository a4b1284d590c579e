"""What goes wrong, and when: a fault for the nth next call of an operation, or by a seeded rate."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

KINDS = {
    "before": "an error, and nothing was done",
    "after": "it was done, and no reply comes",
    "delay": "it was done, and the reply comes late",
    "silent": "nothing was done, and no reply comes",
    "stale": "an answer from before the newest machine",
    "capacity": "nothing of the kind is free",
    "quota": "the account has as many machines as it may",
    "busy": "too many calls; later",
    "money": "no balance",
    "key": "the key counts no more",
}


@dataclass
class Faults:
    """The faults that are still to come."""

    pending: list[dict[str, Any]] = field(default_factory=list)
    count: dict[str, int] = field(default_factory=dict)
    _random: Random | None = None
    _losses: Random | None = None

    def plan(self, operation: str, nth: int, kind: str, seconds: float) -> None:
        """Let the nth call from now on of an operation meet a fault; the next one is the first."""
        if kind not in KINDS:
            raise ValueError(kind)
        at = self.count.get(operation, 0) + nth
        self.pending.append({"operation": operation, "at": at, "kind": kind, "seconds": seconds})

    def find_loss(self, nemesis: dict[str, Any]) -> float:
        """After how many seconds the host of a new machine is lost; 0 for never."""
        self._losses = self._losses or Random(f"losses {nemesis.get('seed', 0)}")
        if self._losses.random() < nemesis.get("lost_rate", 0.0):
            return self._losses.uniform(0.1, 1.0) * float(nemesis["lost_s"])
        return 0.0

    def meet(self, operation: str, nemesis: dict[str, Any]) -> tuple[str, float]:
        """What the call that begins now meets: a kind, empty for none, and its seconds."""
        self.count[operation] = number = self.count.get(operation, 0) + 1
        for fault in self.pending:
            if (fault["operation"], fault["at"]) == (operation, number):
                self.pending.remove(fault)
                return fault["kind"], fault["seconds"]
        self._random = self._random or Random(nemesis.get("seed", 0))
        if nemesis.get("rate") and self._random.random() < nemesis["rate"]:
            return self._random.choice(nemesis["kinds"]), nemesis.get("seconds", 0.0)
        return "", 0.0
