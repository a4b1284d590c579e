"""Sandboxes without a bound: of their number, of their life, or of the place that pays for them.

Incident: a service spawned sandbox after sandbox until a hundred dollars were gone; a timeout of
seven days was asked for where a day is the limit; timeouts were repeated for ever, each billed past
its end; and a lookup landed in the default environment of a workspace (background-agents 1894 and
629, mhcflurry 392, stardag 245, modal-client 2086; CP 4: 17, 20, 22, 23).

Guards: `quantgrid.rental.chain.final` bounds links and interruptions,
`quantgrid.rental.modal.Modal` asks for no more than the platform's cap, and
`quantgrid.rental.rounds.Rounds` creates nothing in another place than the pinned one.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import modal_parts as parts
from modal_controller import DAY_S, SUBJECT, rounds, terms
from quantgrid.rental.lease import End, Lease, Phase, Terms
from quantgrid.rental.port import Name, Order
from quantgrid.rental.rounds import Rounds, Wanted
from rehearsal.modal.double import Double, until

FACTOR = 60.0
ROOT = Path(__file__).parents[2]
AT_CAP = """
import os, sys
from pathlib import Path
from quantgrid.rental import register as keys
from quantgrid.rental.lease import End, Exit
from quantgrid.store import open_store
store, nonce, me = open_store(sys.argv[1], Path()), sys.argv[2], os.environ["MODAL_SANDBOX_ID"]
store.put_once(keys.sign_key(nonce, keys.START, "000000"), b"")
store.put_once(keys.sign_key(nonce, keys.CLAIM), me.encode())
said = Exit(nonce, me, End.CAP, 75, 0, ())
store.put_once(keys.sign_key(nonce, keys.EXIT), keys.exit_bytes(said))
"""
"""A machine that reached its cap and saved nothing."""


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """One double, in which nothing is left."""
    with parts.doubled(tmp_path_factory.mktemp("modal"), FACTOR) as double:
        yield double
        assert double.living() == []


def _controller(
    double: Double, folder: Path, words: tuple[str, ...], told: list[str], **changes: object
) -> Rounds:
    """A controller that wants one sandbox after the other for one subject."""
    controller = rounds(folder, parts.connected(double), told)

    def order(lease: Lease, name: Name) -> Order:
        seen = (("PYTHONPATH", f"{ROOT / 'src'}"),)
        own = tuple(word.replace("NONCE", name.nonce) for word in words)
        return Order(
            name, lease.candidate, parts.IMAGE, own, seen, (), "", "/grid", lease.deadline_s
        )

    patience: Terms = terms(parts.CPU, FACTOR)._replace(**changes.pop("terms", {}))  # type: ignore[arg-type]
    place = {"account": "lab/main", "volume": "", **changes}
    wanted = Wanted(SUBJECT, "cell", "grid", place["account"], place["volume"], patience, order)  # type: ignore[arg-type]
    controller.want(wanted)
    return controller


def _go_until(controller: Rounds, *phases: Phase) -> Lease:
    def is_there() -> bool:
        controller.go()
        last = controller.last.get(SUBJECT)
        return last is not None and last.phase in phases

    until(is_there, f"{phases}", lambda: str(controller.last))
    return controller.last[SUBJECT]


def test_chain_of_sandboxes_ends_when_two_bring_no_checkpoint(
    double: Double, tmp_path: Path
) -> None:
    """CP 4.17: whatever a chain was planned for, two sandboxes without progress are its end."""
    before, words = len(double.boxes()), (sys.executable, "-c", AT_CAP, str(tmp_path / "store"))
    controller = _controller(double, tmp_path, (*words, "NONCE"), [], terms={"max_links": 50})

    ended = _go_until(controller, Phase.ERROR, Phase.SUCCESS)

    assert ended.end is End.NO_PROGRESS
    assert len(double.boxes()) - before == 2


def test_sandboxes_are_bounded_when_each_ends_without_a_word(
    double: Double, tmp_path: Path
) -> None:
    """CP 4.23: ends that nobody explains have a bound of their own, and eat no failures."""
    before, words = len(double.boxes()), ("sh", "-c", "exit 0")
    controller = _controller(double, tmp_path, words, [], terms={"max_interruptions": 1})

    ended = _go_until(controller, Phase.ERROR, Phase.SUCCESS)

    assert (ended.end, ended.interruptions, ended.failures) == (End.INTERRUPTED, 2, 0)
    assert len(double.boxes()) - before == 2


def test_create_asks_for_a_day_when_a_week_is_wanted(double: Double, tmp_path: Path) -> None:
    """CP 4.22: no create asks for more than the platform allows, nor for the five minutes of it."""
    week = {"run_s": 7 * DAY_S / FACTOR}
    controller = _controller(double, tmp_path, ("sleep", "600"), [], terms=week)

    _go_until(controller, Phase.BOOTING)

    asked_s = double.boxes()[-1]["timeout_s"]
    assert 0.9 * DAY_S < asked_s <= DAY_S
    controller.cancel(SUBJECT)
    assert _go_until(controller, Phase.ERROR).end is End.CANCELLED


@pytest.mark.parametrize("place", [{"account": "lab/other"}, {"volume": "vo-of-somebody-else"}])
def test_nothing_is_created_when_it_is_another_place_of_modal(
    double: Double, tmp_path: Path, place: dict[str, str]
) -> None:
    """CP 4.20: another environment, or one without the pinned volume: both places are told."""
    before, told = len(double.boxes()), list[str]()
    controller = _controller(double, tmp_path, ("sleep", "600"), told, **place)

    for _ in range(3):
        controller.go()

    assert len(double.boxes()) == before
    assert controller.register.leases() == {}
    assert all(each in told[0] for each in ("lab/main", *place.values(), "refused:"))
