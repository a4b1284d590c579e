"""What a run's summary finds in a working copy: whose page it is, and which cells are doubted."""

import csv
import json
import os
from pathlib import Path

import pytest

from core_parts import archive_in
from quantgrid import atomic, common_jobs, failures, layout, ledger, summary, terminal
from quantgrid.diagnosis import Diagnosis
from quantgrid.errors import CorpusRefusal
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid
from quantgrid.plan import Plan
from quantgrid.summary import Summary
from quantgrid.terminal import Event
from quantgrid.wanted import source_of

BASE = "n0-t20k-s0/none"


@pytest.fixture(scope="module")
def lineage(root: Path) -> Lineage:
    """What the cells of the smoke grid are made from."""
    return trace(load_grid(root, "smoke"), Science(root))


class Desk:
    """A working copy with every result, its table and its page."""

    def __init__(self, root: Path, lineage: Lineage) -> None:
        self.root, self.lineage = root, lineage
        self.paths = [
            root / each.format(grid="smoke") for each in (layout.PAGE, layout.TABLE, layout.LAWS)
        ]
        rows = {cell.id: lineage.cells[cell.id].fingerprint for cell in lineage.grid.every}
        for cell in rows:
            self.judge(cell, "VALID")
            base, variant = cell.split("/")
            atomic.publish(root / layout.RESULT.format(base=base, variant=variant), b"{}")
        self.enter(rows)
        page, table, laws = self.paths
        atomic.publish(laws, b"law\n")
        with table.open("w", newline="") as file:
            csv.writer(file).writerow(["cell", "fingerprint", "verdict"])
            csv.writer(file).writerows([cell, own, "VALID"] for cell, own in rows.items())
        page.write_text(f"<meta {source_of(table, laws)}>")

    def enter(self, rows: dict[str, str], **verdicts: str) -> None:
        """A ledger that knows every cell."""
        with (self.root / layout.LEDGER).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(ledger.COLUMNS)
            for cell, own in rows.items():
                writer.writerow([cell, own, verdicts.get(cell, "VALID"), "local", "", ""])

    def judge(self, cell: str, word: str) -> None:
        """A verdict beside a result."""
        base, variant = cell.split("/")
        path = self.root / layout.VERDICT.format(base=base, variant=variant)
        told = {"verdict": word, "fingerprint": self.lineage.cells[cell].fingerprint}
        atomic.publish(path, json.dumps(told).encode())

    def forget(self, cell: str) -> None:
        """The result of a cell is gone."""
        base, variant = cell.split("/")
        (self.root / layout.RESULT.format(base=base, variant=variant)).unlink()

    def summary(self, *, is_done: bool = True, is_current: bool = False) -> Summary:
        """At the end of a run that brought everything back from the archive, or found it here."""
        records = frozenset(stage.record for stage in self.lineage.cells.values())
        made = self.lineage.cells
        local = {c.id: made[c.id].fingerprint for c in self.lineage.grid.every if is_current}
        plan = Plan(self.lineage, records, local, tuple(self.lineage.grid.every))
        store = archive_in(self.root).store
        return summary.of(plan, self.root, store, is_done=is_done, is_rented=False)


@pytest.fixture
def desk(tmp_path: Path, lineage: Lineage, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A grid that is done, in a process that noted nothing so far."""
    monkeypatch.setattr(terminal, "_noted", set())
    return Desk(tmp_path, lineage)


def test_page_is_named_only_when_it_shows_what_is_here(desk: Desk) -> None:
    """Not one of an earlier table, of an earlier verdict, or of other cells."""
    page, table, _ = desk.paths
    assert desk.summary().has_page
    desk.judge(BASE, "INVALID")
    assert not desk.summary().has_page
    desk.judge(BASE, "VALID")
    assert desk.summary().has_page
    table.write_text(table.read_text() + "n9/none,f,VALID\n")
    assert not desk.summary().has_page
    page.unlink()
    assert not desk.summary().has_page


def test_forms_of_a_doubted_base_are_doubted_when_a_run_ends(desk: Desk, lineage: Lineage) -> None:
    """As table, page, `why` and `status` say it."""
    rows = {cell.id: lineage.cells[cell.id].fingerprint for cell in lineage.grid.every}
    desk.enter(rows, **{BASE: "SUSPECT"})

    told = dict(desk.summary().doubted)

    assert {cell.partition("/")[0] for cell in told} == {BASE.partition("/")[0]}
    assert set(told.values()) == {"SUSPECT"}
    assert len(told) == 7


def refuse_seal(root: Path, lineage: Lineage) -> None:
    """A corpus that was prepared, and whose seal was refused."""
    prepare, seal = common_jobs.before(lineage.grid.corpus)
    atomic.publish(root / prepare.product, b"{}")
    atomic.publish(root / seal.log, b"refused: a shard is short. Make it: `snakemake corpus`.\n")


def test_refused_seal_is_told_where_every_cell_is_there(desk: Desk, lineage: Lineage) -> None:
    """A corpus is made again for its own sake; its mend comes before the same command."""
    refuse_seal(desk.root, lineage)

    told = desk.summary(is_done=False)

    assert not told.left
    assert [each.failure["stage"] for each in told.troubles] == ["seal"]
    assert "          snakemake corpus" in summary.lines(told, ["snakemake"])


def test_remembered_refusal_asks_for_no_corpus_that_was_sealed_since(
    desk: Desk, lineage: Lineage
) -> None:
    """Of the mend and `quantgrid retry`, the second is left."""
    _, seal = common_jobs.before(lineage.grid.corpus)
    desk.forget(BASE)
    do = "Make it: `snakemake --profile local corpus --forcerun prepare`."
    facts = {"cell": BASE, "stage": "evaluate", "fingerprint": lineage.cells[BASE].fingerprint}
    facts |= {"when": "2026-01-01T00:00:00Z", "log": ""}
    refusal = Diagnosis.of(CorpusRefusal("a shard is short", do=do))
    failures.keep(desk.root, failures.failure_of(refusal, **facts))

    def steps() -> str:
        return "\n".join(summary.lines(desk.summary(is_done=False), ["snakemake"]))

    assert "--forcerun prepare" in steps()
    atomic.publish(desk.root / seal.product, b"{}")
    os.utime(desk.root / seal.product, (1, 1))
    assert "--forcerun prepare" in steps()
    os.utime(desk.root / seal.product)
    assert "--forcerun prepare" not in steps()
    assert "2. It was mended since: let it be tried again:" in steps()


def test_rejected_cell_that_was_there_is_named_where_its_grid_is_shown_anew(
    desk: Desk, lineage: Lineage
) -> None:
    """`quantgrid reject` makes but table and page anew; a run that makes nothing repeats none."""
    rows = {cell.id: lineage.cells[cell.id].fingerprint for cell in lineage.grid.every}
    cell = next(each for each in rows if not each.endswith("/none"))
    desk.enter(rows, **{cell: "INVALID"})

    assert desk.summary(is_current=True).doubted == ()
    terminal.note(Event.SHOWN_ANEW)
    told = desk.summary(is_current=True)
    assert (told.current, told.doubted) == (len(rows), ((cell, "INVALID"),))


def test_failed_fold_is_told_with_its_step(desk: Desk) -> None:
    """A record that is damaged is no failure of a stage; its result is what is missing."""
    desk.forget(BASE)
    base, variant = BASE.split("/")
    log = layout.log_of(layout.RESULT.format(base=base, variant=variant))
    atomic.publish(desk.root / log, b"failed: a record is damaged; seen 3 bytes. Fetch it anew.\n")

    told = summary.lines(desk.summary(is_done=False), ["snakemake"])

    assert f"failed    {BASE}, fold" in told
    assert "          a record is damaged" in told
    assert told[-2] == "next      Fetch it anew."
