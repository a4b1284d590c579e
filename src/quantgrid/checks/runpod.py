"""Checks of RunPod: key, account, volume, image, machines, archive.  They rent nothing."""

import os
import re
from pathlib import Path

from quantgrid.archive import Archive
from quantgrid.checks import Finding, Level, attempt
from quantgrid.errors import ConfigRefusal
from quantgrid.load import Platform, Settings
from quantgrid.rental.facts import Facts, facts_of
from quantgrid.rental.reach import connect, refuse_unreachable
from quantgrid.store import open_store

_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_NONE = "0" * 64


def check(
    root: Path, settings: Settings, platform: Platform, _second: Path | None
) -> list[Finding]:
    """Every finding; without a key only what needs none."""
    facts = facts_of(platform)
    asked = [
        attempt("account", lambda: _account(facts)),
        attempt("volume", lambda: _volume(facts)),
        attempt("machines", lambda: _machines(facts)),
    ]
    told = {each.seen: each for each in reversed(asked)}  # that there is no key is told once
    return [
        *(each for each in asked if told[each.seen] is each),
        _image(facts),
        attempt("archive", lambda: _archive(facts, settings, root)),
        _money(settings, platform),
    ]


def _account(facts: Facts) -> Finding:
    seen = connect(facts, os.environ).whoami().id
    if seen != facts.account:
        return Finding(
            Level.REFUSE,
            "account",
            f"expected {facts.account}, seen {seen}",
            "Nothing is lost, you look at another account: set its key, or its volume's id.",
        )
    if not facts.volume:
        return Finding(
            Level.WARN,
            "account",
            f"{seen}, by its key alone",
            "Name a network volume: only the account that owns it can see it.",
        )
    return Finding(Level.OK, "account", f"{seen}, which owns volume {facts.volume}")


def _volume(facts: Facts) -> Finding:
    """The network volume: it must be there, and hold something."""
    if not facts.volume:
        return Finding(
            Level.REFUSE,
            "volume",
            "none is named, so state and corpus would end with each pod",
            "Make a network volume and write its id into the platform's file.",
        )
    seen = connect(facts, os.environ).volume(facts.volume)
    if seen is None or seen.size_bytes <= 0:
        what = "no volume of this account" if seen is None else "a volume of 0 bytes"
        return Finding(Level.REFUSE, "volume", f"{facts.volume} is {what}", "Write another id.")
    said = f"{seen.id} ({seen.name}), {seen.size_bytes / 1e9:.0f} GB in {seen.region}"
    return Finding(Level.OK, "volume", said)


def _machines(facts: Facts) -> Finding:
    found = connect(facts, os.environ).candidates(facts.device, facts.num_devices)
    if not found:
        return Finding(
            Level.REFUSE,
            "machines",
            f"RunPod rents out no {facts.device or 'machine'} on these terms",
            "Name another `device`, or a higher `max_usd_per_h`.",
        )
    best = found[0]
    price = best.price.microusd_per_h / 1e6
    said = f"{len(found)} ways; first {best.num_devices} x {best.device} in {best.region or 'any'}"
    return Finding(Level.OK, "machines", f"{said}, {price:.2f} USD an hour")


def _image(facts: Facts) -> Finding:
    if not _DIGEST.fullmatch(facts.image) or facts.image.endswith(_NONE):
        return Finding(
            Level.REFUSE,
            "image",
            f"{facts.image} is no image by its digest",
            "docs/guides/runpod.md says how to build one; a tag may be another image tomorrow.",
        )
    return Finding(Level.OK, "image", facts.image)


def _archive(facts: Facts, settings: Settings, root: Path) -> Finding:
    refuse_unreachable(facts, settings.archive)
    archive = Archive(open_store(settings.archive, root))
    seen = archive.find_identity()
    if settings.archive_id and seen != settings.archive_id:
        raise ConfigRefusal("another archive", expected=settings.archive_id, seen=seen)
    return Finding(Level.OK, "archive", f"{seen or 'empty'} at {archive.store.address}")


def _money(settings: Settings, platform: Platform) -> Finding:
    """Until a person says an amount, nothing may be spent."""
    allowed = settings.money.max_usd_per_grid
    if platform.is_paid and not allowed:
        return Finding(
            Level.REFUSE,
            "money",
            "a grid may cost nothing, so no machine would be rented",
            "Write `max_usd_per_grid` into the section `money` of config/config.yaml.",
        )
    return Finding(Level.OK, "money", f"a grid may cost {allowed:.2f} USD")
