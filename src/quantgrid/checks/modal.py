"""Checks of Modal: everything that a grid needs of a workspace, without creating anything there."""

from pathlib import Path

from quantgrid import modal_sdk
from quantgrid.archive import Archive
from quantgrid.checks import Finding, Level, _clock, attempt
from quantgrid.load import Platform, Settings
from quantgrid.rental.facts import Facts, facts_of
from quantgrid.rental.modal import DIGEST, Modal
from quantgrid.rental.modal.declared import declared
from quantgrid.rental.reach import refuse_unreachable
from quantgrid.rental.spend import dollars
from quantgrid.store import open_store


def check(root: Path, settings: Settings, platform: Platform, second: Path | None) -> list[Finding]:  # noqa: ARG001
    """Every finding, in the order in which one needs the one before."""
    facts = facts_of(platform)
    found = [attempt("sdk", _sdk)]
    if found[0].level is Level.OK:
        found += [
            attempt("account", lambda: _account(declared(facts), facts)),
            attempt("volume", lambda: _volume(declared(facts), facts)),
            attempt("secrets", lambda: _secrets(declared(facts), facts)),
            attempt("prices", lambda: _prices(declared(facts), facts)),
        ]
    return [
        *found,
        _image(facts),
        attempt("archive", lambda: _archive(settings, root, facts)),
        _clock.check(),
    ]


def _sdk() -> Finding:
    modal_sdk.load()
    return Finding(Level.OK, "sdk", f"modal {modal_sdk.find_version()}")


def _account(modal: Modal, facts: Facts) -> Finding:
    seen = modal.whoami().id
    if seen == facts.account:
        return Finding(Level.OK, "account", seen)
    return Finding(
        Level.REFUSE,
        "account",
        f"{seen}, and the file of the platform pins {facts.account}",
        "Write it there as `rented.account`, or choose the other one: `modal profile activate`; "
        "MODAL_TOKEN_ID beats every profile.",
    )


def _volume(modal: Modal, facts: Facts) -> Finding:
    name = modal.place.volume_name
    named, pinned = modal.find_volume(name), modal.volume(facts.volume)
    if pinned is not None:
        return Finding(Level.OK, "volume", f"{facts.volume}, named {pinned.name!r}")
    if named is None:
        return Finding(
            Level.REFUSE,
            "volume",
            f"none has the id {facts.volume} or the name {name!r} here",
            f"`modal volume create {name}`, then ask again for its id.",
        )
    return Finding(
        Level.REFUSE,
        "volume",
        f"{name!r} has the id {named}, and the file of the platform pins {facts.volume}",
        "Write the id there as `rented.volume` if it is the one that is meant.",
    )


def _secrets(modal: Modal, facts: Facts) -> Finding:
    lacking = [name for name in facts.secrets if not modal.has_secret(name)]
    if lacking:
        return Finding(
            Level.REFUSE,
            "secrets",
            f"no secret {', '.join(lacking)} in environment {modal.place.environment}",
            f"`modal secret create {lacking[0]} NAME=VALUE ...`; values stay with Modal.",
        )
    return Finding(Level.OK, "secrets", ", ".join(facts.secrets) or "none is asked for")


def _prices(modal: Modal, facts: Facts) -> Finding:
    ways = modal.candidates(facts.device, facts.num_devices)
    if not ways:
        kind = f"{facts.num_devices} x {facts.device}" if facts.device else "no device"
        do = "Add it to `rented.options.candidates`, with a source and a date."
        return Finding(Level.REFUSE, "prices", f"no price of a machine with {kind}", do)
    said = [
        f"{dollars(each.price.microusd_per_h)} an hour ({each.price.source}, {each.price.date})"
        for each in ways
    ]
    return Finding(Level.OK, "prices", "; ".join(said))


def _image(facts: Facts) -> Finding:
    if DIGEST.fullmatch(facts.image) and "example.invalid" not in facts.image:
        return Finding(Level.OK, "image", facts.image)
    return Finding(
        Level.REFUSE,
        "image",
        f"{facts.image} names no image that is known to the byte",
        "Build it (envs/), push it, and write it as name@sha256:digest.",
    )


def _archive(settings: Settings, root: Path, facts: Facts) -> Finding:
    refuse_unreachable(facts, settings.archive)
    archive = Archive(open_store(settings.archive, root))
    identity, address = archive.find_identity(), archive.store.address
    return Finding(Level.OK, "archive", f"archive {identity or 'to be made'} at {address}")
