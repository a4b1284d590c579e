"""What a clearance lets a job do: that it starts, at which price, and how fast it has to be."""

import json
from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid.errors import BudgetRefusal

SCHEMA = "quantgrid/clearance"
VERSION = 2
_HOUR_S = 3600
_MICROUSD = 1_000_000


class Cleared(NamedTuple):
    """A clearance that says to proceed.

    Args:
        fingerprint: Of all that was looked at.
        grid: Whose money it is.
        forecast_usd: What the plan was expected to cost.
        usd_per_hour: Of a machine; None where nothing is paid.
        price: Where that price is from, for a person.
        at_once: Jobs that share a machine.
        money: The section `money` that the plan was held against.
        tokens_per_s: What probes measured, by model and method.
    """

    fingerprint: str
    grid: str
    forecast_usd: float
    usd_per_hour: float | None = None
    price: str = ""
    at_once: int = 1
    money: Mapping[str, Any] = {}
    tokens_per_s: Mapping[str, Mapping[str, float]] = {}

    @classmethod
    def open(cls, path: Path) -> "Cleared":
        """Read the clearance that a job was given.

        Raises:
            BudgetRefusal: without a clearance that says to proceed.
        """
        try:
            said = json.loads(path.read_bytes())
            if said["proceed"] is True:
                return cls._of(path.suffixes[0][1:], said)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            said = "none that can be read"
        raise BudgetRefusal(
            "this platform is paid, and no screen has cleared this job",
            expected="a clearance that says to proceed",
            seen=said,
            where=path,
            do="Ask Snakemake for the result; it runs the screens first.",
        )

    @classmethod
    def _of(cls, fingerprint: str, said: Mapping[str, Any]) -> "Cleared":
        price = said["price"] or {}
        return cls(
            fingerprint,
            said["grid"],
            float(said["forecast"]["usd"]),
            price.get("usd_per_hour"),
            f"{price.get('name')}, {price.get('source')}, {price.get('date')}",
            int(said["at_once"]),
            dict(said["money"]),
            dict(said["tokens_per_s"]),
        )

    def facts_of(self, links: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """What the record that some links made says of it, and of its cost."""
        named = {"fingerprint": self.fingerprint, "forecast_usd": self.forecast_usd}
        return {"clearance": named, "cost": self.cost(links)}

    @property
    def microusd_per_h(self) -> int:
        """A job's part of the price of a machine, rounded up."""
        return ceil((self.usd_per_hour or 0.0) * _MICROUSD / self.at_once)

    def cost(self, links: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
        """What the links of a record did cost, by the price that was cleared; None without one.

        The bill of a platform counts machines, with their boot and their idle minutes; this counts
        what the cell itself took.
        """
        if self.usd_per_hour is None:
            return None
        seconds = sum(float(link["wall_s"]) for link in links)
        return {
            "usd": round(seconds / _HOUR_S * self.microusd_per_h / _MICROUSD, 6),
            "counted": f"{seconds:.0f} s of its links at ${self.usd_per_hour:g} an hour for "
            f"{self.at_once} at once ({self.price})",
        }

    def watch(self, asked: str) -> str:
        """The policy of the watch with the speeds of the probes; what a person said goes first.

        Args:
            asked: JSON of `quantgrid run --watch`; empty where everything is as usual.
        """
        told = json.loads(asked or "{}")
        own = dict(told.get("tokens_per_s", {}))
        measured = {
            f"{model}-{method}": speed
            for model, methods in self.tokens_per_s.items()
            for method, speed in methods.items()
            if model not in own
        }
        speeds = measured | own
        return json.dumps({**told, "tokens_per_s": speeds}, sort_keys=True) if speeds else asked


def speeds_of(seen: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Tokens a second that probes measured, by model and method; other screens have none."""
    found: dict[str, dict[str, float]] = {}
    for each in seen:
        if each.get("tokens_per_s"):
            found.setdefault(each["model"], {})[each["method"]] = each["tokens_per_s"]
    return found
