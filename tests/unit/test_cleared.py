"""What a clearance lets a job do, and what is written down of its money."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from core_parts import Desk, job_of, stage
from listener import Listener, listening
from quantgrid import paying
from quantgrid.cleared import Cleared
from quantgrid.errors import ConfigRefusal, Fault
from quantgrid.rental.register import Register
from quantgrid.rental.spend import Books, Cost, Promise
from quantgrid.rental.thresholds import Thresholds, spent
from quantgrid.settings import Money, Notify
from quantgrid.store.folder import FolderStore
from working_copy import WorkingCopy, lay

CLEARED = Cleared(
    "f" * 64,
    "smoke",
    1.0,
    usd_per_hour=3.0,
    price="card, a page, 2026-11-30",
    at_once=2,
    money={"max_usd_per_grid": 0.01},
    tokens_per_s={"n0": {"none": 900.0, "qat": 300.0}, "n1": {"none": 500.0}},
)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[tuple[WorkingCopy, Listener]]:
    """A working copy that tells somebody."""
    with listening() as listener:
        made = lay(tmp_path / "copy", light=True)
        made.edit("config/config.yaml", 'webhook: ""', f"webhook: {listener.address}")
        yield made, listener


def test_record_has_a_cost_when_its_platform_is_paid() -> None:
    """Half of the machine for all links, by the price that was cleared."""
    said = CLEARED.facts_of([{"wall_s": 1800.0}, {"wall_s": 1800.0}])

    assert said["cost"]["usd"] == 1.5
    assert "3600 s of its links at $3 an hour for 2 at once" in said["cost"]["counted"]
    assert "card, a page, 2026-11-30" in said["cost"]["counted"]


def test_watch_knows_what_was_probed_when_nobody_said_otherwise() -> None:
    """By model and method; a person who knows a model better goes first, and the policy stays."""
    asked = json.dumps({"policy": {"rise": "stop"}, "tokens_per_s": {"n1": 7.0}})

    assert json.loads(CLEARED.watch(asked)) == {
        "policy": {"rise": "stop"},
        "tokens_per_s": {"n0-none": 900.0, "n0-qat": 300.0, "n1": 7.0},
    }
    assert CLEARED._replace(tokens_per_s={}).watch("") == ""


class _Later(FolderStore):
    """A store whose clock goes on a minute with each look."""

    minutes = 0

    def now(self):  # type: ignore[no-untyped-def]
        type(self).minutes += 1
        return super().now() + timedelta(minutes=self.minutes)


def test_money_is_written_down_and_told_when_a_job_ends_badly(
    copy: tuple[WorkingCopy, Listener],
) -> None:
    """A minute at half of three dollars an hour is more than the whole cent: told, once."""
    made, listener = copy
    store = _Later(made / "archive")

    for _ in range(2):
        with (
            pytest.raises(Fault, match="broke"),
            paying.charged(store, CLEARED, "n0-t1/none", made.root),
        ):
            raise Fault("it broke")

    books = Register(store).books()
    assert books.open() == ()
    assert 2 * 25_000 <= spent(books, "smoke") <= 2 * 26_000
    assert spent(books, "demo") == 0
    (notice,) = listener.heard
    assert (notice["kind"], notice["subject"]) == ("spend", "smoke")
    assert "of $0.01 are spent, more than 100%" in notice["text"]


def test_part_of_the_money_is_told_once_when_no_mark_can_be_left(tmp_path: Path) -> None:
    """Looked at from round to round, with a store that is gone; a larger part is another notice."""
    (tmp_path / "file").touch()
    gone = FolderStore(tmp_path / "file/archive")

    def books(end_s: int) -> Books:
        promise = Promise("a", "n0/none", "smoke", 0, 3600, 1_000_000)
        return Books((promise,), (Cost("a", 0, end_s, 1_000_000),))

    with listening() as listener:
        whom = Notify(webhook=listener.address, spend_at=(0.5, 0.9))
        thresholds = Thresholds("smoke", Money(max_usd_per_grid=1.0), whom, gone)
        for end_s in (1700, 1900, 2000, 3000, 3300, 3400):
            thresholds.look(books(end_s))

    parts = [each["text"].rpartition(" ")[2] for each in listener.heard]
    assert parts == ["50%", "90%"]


def test_job_that_pays_is_refused_when_it_was_not_cleared(tmp_path: Path) -> None:
    """Nobody knows whose money it would be."""
    with (
        pytest.raises(ConfigRefusal, match="a job that pays needs a clearance"),
        paying.charged(FolderStore(tmp_path), None, "n0-t1/none", tmp_path),
    ):
        pytest.fail("it started")


LOOK = """
import json, os
from quantgrid.cell import Cell
Cell.from_environment().finish({"watch": json.loads(os.environ["QG_WATCH"])})
"""


def test_job_is_watched_and_paid_by_its_clearance_when_it_runs(tmp_path: Path) -> None:
    """The script hears what was probed, the record has its cost, and the register the money."""
    desk, asked = Desk.lay(tmp_path, quantise=LOOK), stage("quantise", "weights")
    price = {"name": "card", "usd_per_hour": 3600.0, "source": "a page", "date": "2026-11-30"}
    facts = {"proceed": True, "grid": "smoke", "forecast": {"usd": 1}, "price": price}
    facts |= {"at_once": 1, "money": {}, "tokens_per_s": {"n0": {"none": 900.0}}}
    (tmp_path / "clearance.f.json").write_text(json.dumps(facts))

    code, said = desk.call(job_of(asked), options=["--clearance", "clearance.f.json", "--pays"])

    assert code == 0, said
    record = desk.archive.record(asked.record)
    assert record["results"] == {"watch": {"tokens_per_s": {"n0-none": 900.0}}}
    assert record["cost"]["usd"] == pytest.approx(sum(each["wall_s"] for each in record["links"]))
    paid = spent(Register(FolderStore(tmp_path / "archive")).books(), "smoke") / 1_000_000
    assert paid >= record["cost"]["usd"]
