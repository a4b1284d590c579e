"""What the file of a platform declares of Modal, turned into an adapter."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.rental.modal import BILL_S, LIMITS, Modal, Place
from quantgrid.rental.port import Candidate, Limits, Price

_PLACE = ("environment", "volume_name", "cpu", "memory_mib", "corpus_volume", "corpus_mount")
_LIMITS = ("boot_s", "create_s", "visible_s")
_FACTOR = "factor"
"""How much faster than the vendor's a rehearsal's clock runs, where beats need a slower one."""
_CANDIDATES, _BILL = "candidates", "bill_s"
_PRICE = ("usd_per_h", "source", "date")


class Facts(Protocol):
    """What is read of the facts of a rented platform."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def account(self) -> str:
        """The pin of who pays."""

    @property
    def volume(self) -> str:
        """The pin of the volume."""

    @property
    def clock_factor(self) -> float:
        """How much faster than the vendor's clocks it runs."""

    @property
    def cap_s(self) -> float | None:
        """The longest life of a machine."""

    @property
    def grace_s(self) -> float:
        """From the signal to the kill."""

    @property
    def options(self) -> Mapping[str, Any]:
        """What only this adapter knows."""


def declared(facts: Facts, now: Callable[[], float] = time.time) -> Modal:
    """The adapter that a platform's file describes, for the account of the SDK's configuration.

    Raises:
        ConfigRefusal: for an option that is not known, a missing price, or an untried SDK.
    """
    _refuse_unknown(facts)
    options = facts.options
    place = Place(
        **{name: options[name] for name in _PLACE if name in options},
        factor=options.get(_FACTOR, facts.clock_factor),
    )
    candidates = tuple(_candidate(each, facts) for each in options.get(_CANDIDATES, ()))
    bill_s = options.get(_BILL, BILL_S) / facts.clock_factor
    return Modal(place, candidates, _limits(facts), now, bill_s=bill_s)


def _limits(facts: Facts) -> Limits:
    own = {name: float(facts.options[name]) for name in _LIMITS if name in facts.options}
    cap_s = min(LIMITS.cap_s, facts.cap_s or LIMITS.cap_s)
    return LIMITS._replace(cap_s=cap_s, grace_s=facts.grace_s, **own)


def _candidate(fields: Mapping[str, Any], facts: Facts) -> Candidate:
    missing = [name for name in _PRICE if name not in fields]
    if missing:
        raise ConfigRefusal(
            "a kind of machine has no price, so nothing can be promised for it",
            expected=", ".join(_PRICE),
            seen=f"without {', '.join(missing)}: {dict(fields)}",
            where=_where(facts),
        )
    price = Price(round(fields["usd_per_h"] * 1e6), fields["source"], str(fields["date"]))
    device = fields.get("device", "")
    num_devices = fields.get("num_devices", 1 if device else 0)
    return Candidate(device, num_devices, fields.get("region", ""), price)


def _refuse_unknown(facts: Facts) -> None:
    known = (*_PLACE, *_LIMITS, _FACTOR, _CANDIDATES, _BILL)
    if unknown := sorted(facts.options.keys() - set(known)):
        raise ConfigRefusal(
            f"the adapter of Modal knows no option {unknown[0]!r}",
            expected=", ".join(known),
            where=_where(facts),
        )


def _where(facts: Facts) -> Path:
    return layout.section_file(Path(), "platform", facts.name)
