"""The page: equal bytes, nothing from elsewhere, no text that a record could run."""

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quantgrid.errors import Refusal
from quantgrid.forms import METHODS
from quantgrid.report import answers, glossary, labels, laws, page, provenance, spending, table
from quantgrid.report.canvas import NARROW, WIDE
from quantgrid.report.plots import PLOTS, svg
from quantgrid.report.records import Grid, Wanted, read_grid, read_wanted
from report_records import demo_records, frame, write_grid

if TYPE_CHECKING:
    import pandas as pd


def page_of(grid: Grid, wanted: Wanted, *, with_plots: bool = False) -> str:
    """The page of a grid; without plots it takes no time."""
    drawings = [
        page.Drawing(plot, svg(plot, grid, WIDE), svg(plot, grid, NARROW))
        for plot in (PLOTS if with_plots else ())
    ]
    written = (frame(table.lines(grid)), frame(laws.lines(laws.outcomes(grid))))
    return page.html(grid, wanted, *written, drawings, "0 1").decode()


@pytest.fixture(scope="module")
def demo_page(demo: Grid, wanted: Wanted) -> str:
    """The page of the demo grid."""
    return page_of(demo, wanted, with_plots=True)


def spoken(text: str) -> str:
    """What a person reads, without markup and with plain blanks."""
    bare = re.sub(r"<(script|style).*?</\1>|<[^>]+>", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(bare))


def test_page_is_equal_when_made_twice(demo: Grid, wanted: Wanted, demo_page: str) -> None:
    """Equal records give equal bytes."""
    assert page_of(demo, wanted, with_plots=True) == demo_page


def test_page_asks_for_nothing_when_opened(demo_page: str) -> None:
    """Nothing is loaded from elsewhere: no link, import, source or font but data."""
    loads = re.findall(r"""(?:src|href)=["']([^"']*)|url\(([^)]*)\)|@import""", demo_page)
    targets = {target for pair in loads for target in pair if target}

    assert {t for t in targets if not t.startswith(("#", "data:"))} == {"demo.csv"}


def test_ids_are_unique_when_plots_are_inlined(demo_page: str) -> None:
    """No id of one plot is that of another, and each reference finds its target."""
    ids = re.findall(r'\bid="([^"]+)"', demo_page)
    references = re.findall(r'(?:url\(#|href="#)([^")]+)', demo_page)

    assert len(ids) == len(set(ids))
    assert set(references) <= set(ids)


def test_tags_are_balanced_when_parsed(demo_page: str) -> None:
    """Every element that is opened is closed, in order."""
    parser = _Balance()

    parser.feed(demo_page)

    assert parser.open == []
    assert parser.faults == []


def test_answers_are_on_the_page_when_read(demo: Grid, demo_page: str) -> None:
    """The three questions are answered with the names and numbers of the table."""
    text = spoken(demo_page)
    smallest = answers.find_smallest(demo.cells)

    assert smallest is not None
    assert "3 bits: GPTQ W3 g32 loses least" in text
    assert "From 400 k tokens, and still growing at 1.6 M: RTN W4 row" in text
    assert "cells within 0.05 nats share the smallest size, 57 502 bytes" in text
    assert f"is {smallest.cell.id}, " in text


def test_all_cells_are_on_the_page_when_read(demo: Grid, demo_page: str) -> None:
    """Every cell has a row with its numbers: rounded to read, as the table writes them to sort."""
    rows = re.findall(r'<tr><th scope="row" class="id">(.*?)</tr>', demo_page)
    cells = frame(table.lines(demo))

    assert len(rows) == 105
    for row, (_, cell) in zip(rows, cells.iterrows(), strict=True):
        assert spoken(row).startswith(cell["cell"])
        assert f'data-raw="{cell["delta"]}">{labels.nats(float(cell["delta"]))}</td>' in row


def test_contents_equal_headings_when_read(demo_page: str) -> None:
    """What the list of contents calls a section is its heading, in the same order."""
    contents = re.findall(r'<a href="#(\w+)">(.*?)</a>', demo_page.partition("</nav>")[0])

    assert contents == re.findall(r'<h2 id="(\w+)-title">(.*?)</h2>', demo_page)


def test_forms_are_explained_when_the_grid_holds_them(demo: Grid) -> None:
    """The glossary has the words of this grid's forms and of no others."""
    words = dict(glossary.terms(demo))

    assert {"RTN", "GPTQ", "QAT", "row", "asym", "noclip", "absmean", "damage", "z"} <= set(words)
    assert "tensor" not in words
    assert "RTN W3 g32 3.50" in words["bits per weight"]
    assert "106\N{NARROW NO-BREAK SPACE}816 parameters" in words["n0"]


def test_every_declared_method_and_rule_has_words() -> None:
    """The page explains what `quantgrid.forms` allows: a new method brings a line of its own."""
    rules = {rule for method in METHODS.values() for rule in (*method.scales, *method.ternary)}

    missing = (METHODS.keys() | rules) - {key for key, _, _ in glossary.FORMS} - {"none"}

    assert not missing, f"add to FORMS of quantgrid.report.glossary: {', '.join(sorted(missing))}"


def test_rows_are_in_reading_order_when_the_plan_is_sorted(tmp_path: Path) -> None:
    """Small budgets come first and the base before its forms, whatever the order of the plan."""
    records = demo_records(budgets={"t1600k": 1_600_000, "t400k": 400_000}, seeds=1, sequences=16)
    wanted, results = write_grid(tmp_path, dict(sorted(records.items())))

    text = page_of(read_grid(read_wanted(wanted), results), read_wanted(wanted))

    cells = [spoken(each) for each in re.findall(r'<th scope="row" class="id">(.*?)</th>', text)]
    assert cells[:2] == ["n0-t400k-s0/none", "n0-t400k-s0/rtn-w4row-noclip"]
    assert cells[7] == "n0-t1600k-s0/none"


def test_page_says_so_when_no_law_applies(tmp_path: Path) -> None:
    """An undertrained grid does not boast of 0 of 0."""
    wanted, results = write_grid(
        tmp_path, demo_records(budgets={"t20k": 20_480}, seeds=1, sequences=16)
    )

    text = spoken(page_of(read_grid(read_wanted(wanted), results), read_wanted(wanted)))

    assert "can show none of the laws" in text
    assert "0 of 0" not in text


def test_page_says_what_the_judge_asked_when_all_is_valid(demo_page: str) -> None:
    """VALID means what was asked, and no more; no section of doubted cells is there."""
    assert "The judge asked 105 records for finite losses" in spoken(demo_page)
    assert 'id="doubted"' not in demo_page


def test_page_shows_reason_and_curve_when_a_cell_is_doubted(tmp_path: Path) -> None:
    """A reader sees why, by whom, and the course of both losses; a reason is text, no markup."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    bad = {"verdict": "INVALID", "reason": "<i>one shard</i>", "by": {"person": "ann"}}
    record = records["n0-t400k-s0/none"]
    record["verdict"] = bad
    curve = [[40 * n, 80_000 * n, 2.0 / n, 0.01, 2.0, 0.03] for n in range(1, 6)]
    record["weights"]["results"]["watch"] = {"curve": curve, "findings": []}
    wanted, results = write_grid(tmp_path, records)

    text = page_of(read_grid(read_wanted(wanted), results), read_wanted(wanted))

    assert "Suspect and invalid cells" in text
    assert "<i>one shard</i>" in spoken(text)
    assert "<i>one shard" not in text
    assert "by person ann" in spoken(text)
    assert text.count('<svg class="curve"') == 1
    assert "So are its forms: rtn-w4row-noclip, " in spoken(text)
    assert text.count('<b class="verdict-invalid">INVALID</b></th>') == 7
    assert "5 evaluations while it trained. Validation loss 2.0000 at the end" in spoken(text)
    (drawing,) = re.findall(r'<svg class="curve".*?</svg>', text)
    written = re.findall(r"<text[^>]*>([^<]+)</text>", drawing)
    assert written == [
        "2.00",
        "0.40",
        "0",
        "400\N{NO-BREAK SPACE}k tokens",
        "training",
        "validation",
    ]
    assert "Trained with up to" not in spoken(text)


def test_curve_names_keep_apart_and_passes_are_told(tmp_path: Path) -> None:
    """Two losses that end alike are two names; an id is no sentence."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    record = records["n0-t400k-s0/none"]
    record["verdict"] = {"verdict": "SUSPECT", "reason": "a gap", "by": {"judge": "1"}}
    curve = [[40 * n, 80_000 * n, 2.0 / n, 0.01, 2.0 / n, 0.03] for n in range(1, 6)]
    record["weights"]["results"]["watch"] = {"curve": curve, "findings": []}
    record["spec"]["cell"]["trunk"] |= {"passes": 40, "unique_tokens": 9984}
    wanted, results = write_grid(tmp_path, records)

    text = page_of(read_grid(read_wanted(wanted), results), read_wanted(wanted))

    ends = re.findall(r'y="([\d.]+)" text-anchor="start">(?:training|validation)<', text)
    assert abs(float(ends[0]) - float(ends[1])) == pytest.approx(9)
    assert re.search(r"Trained with up to 40 passes over 9\s984 unique tokens", spoken(text))


def test_page_names_who_doubts_when_only_a_form_is_doubted(tmp_path: Path) -> None:
    """Its base is whole: nobody who was content with it is named; what differs is a column."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    record = records["n0-t400k-s0/rtn-w4row-noclip"]
    record["verdict"] = {"verdict": "SUSPECT", "reason": "it is odd", "by": {"person": "ann"}}
    record["platform"]["device"] = "another card"
    wanted, results = write_grid(tmp_path, records)

    text = page_of(read_grid(read_wanted(wanted), results), read_wanted(wanted))

    assert "rtn-w4row-noclip, by person ann. it is odd." in spoken(text)
    assert text.count('<b class="verdict-suspect">SUSPECT</b></th>') == 1
    assert re.findall(r">(platform)</td>", text) == ["platform"]


def test_page_counts_verdicts_when_some_are_judged(tmp_path: Path) -> None:
    """Verdicts are counted, and doubted cells are said to be left out."""
    records = demo_records(budgets={"t400k": 400_000}, sequences=16)
    for index, record in enumerate(records.values()):
        record["verdict"] = "INVALID" if index == 1 else "VALID"
    wanted, results = write_grid(tmp_path, records)
    grid = read_grid(read_wanted(wanted), results)

    text = spoken(page_of(grid, read_wanted(wanted)))

    assert provenance.verdict_counts(grid) == {"VALID": 20, "INVALID": 1}
    assert "20 VALID" in text
    assert "1 cell is SUSPECT or INVALID" in text


def test_page_says_why_when_no_cell_is_valid(tmp_path: Path) -> None:
    """Once, in place of headings and plots without anything below them."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    for record in records.values():
        record["verdict"] = "SUSPECT"
    wanted, results = write_grid(tmp_path, records)
    grid = read_grid(read_wanted(wanted), results)

    made = page_of(grid, read_wanted(wanted))

    assert spoken(made).count("No cell of this grid is VALID.") == 1
    assert re.findall(r'<section id="(\w+)"', made) == [
        "cells", "doubted", "costs", "provenance", "limits", "glossary"
    ]  # fmt: skip


def test_sheet_says_why_it_is_empty_when_only_bases_are_valid(tmp_path: Path) -> None:
    """No table without a row, and no list without a sentence."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    for cell, record in records.items():
        record["verdict"] = "VALID" if cell.endswith("/none") else "SUSPECT"
    wanted, results = write_grid(tmp_path, records)

    made = page_of(read_grid(read_wanted(wanted), results), read_wanted(wanted))

    assert (
        spoken(made).count("of the VALID cells, which averages take alone, none is of a form") > 1
    )
    bodies = re.findall(r"<tbody[^>]*>(.*?)</tbody>", made, flags=re.DOTALL)
    assert [body for body in bodies if "<tr" not in body] == []
    assert '<ul class="answer">\n</ul>' not in made


def test_interruptions_are_the_same_wherever_they_are_counted(demo: Grid, wanted: Wanted) -> None:
    """Those of a trunk that cells share are in provenance too, as in the table of what it took."""
    ends = [{"attempt": f"t{n}", "end": end} for n, end in enumerate(("interrupted", "failed"))]
    trunk = {"kind": "trunks", "platform": {"name": "local", "device": "cpu"}, "links": ends}

    facts = dict(provenance.facts(demo, wanted, [trunk]))
    (row,) = spending.sheet_of([*(cell.record for cell in demo.cells), trunk]).rows

    assert facts["interruptions"] == ["1 interruption, 1 failed attempt"]
    assert row[3].text == "1"


def test_alarm_is_shown_when_one_recipe_has_two_manifests(tmp_path: Path) -> None:
    """The same recipe with different data is the first thing a reader sees."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    next(iter(records.values()))["corpus"]["manifest"] = "0" * 64
    wanted, results = write_grid(tmp_path, records)

    text = page_of(read_grid(read_wanted(wanted), results), read_wanted(wanted))

    assert 'role="alert"' in text
    assert "2 different manifests" in text


def test_no_alarm_is_shown_when_all_is_well(demo_page: str) -> None:
    """An alarm that is always there is no alarm."""
    assert 'role="alert"' not in demo_page


def test_text_of_records_is_escaped_when_hostile(tmp_path: Path) -> None:
    """A name from a record is text, never markup."""
    records = demo_records(budgets={"t400k": 400_000}, seeds=1, sequences=16)
    for record in records.values():
        record["platform"]["host"] = "<script>alert(1)</script>"
        record["spec"]["cell"]["trunk"]["corpus"] = "<b>plays</b>"
    wanted, results = write_grid(tmp_path, records)

    text = page_of(read_grid(read_wanted(wanted), results), read_wanted(wanted))

    assert "<script>alert" not in text
    assert "<b>plays" not in text
    assert "&lt;script&gt;alert" in text


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.iloc[:-1],
        lambda rows: rows.assign(fingerprint="f" * 64),
        lambda rows: rows.drop(columns="fingerprint"),
        lambda rows: rows.iloc[:0],
    ],
)
def test_page_is_refused_when_the_table_is_another(
    demo: Grid,
    wanted: Wanted,
    change: object,
) -> None:
    """A page never shows a table of other cells than the plan wants."""
    rows: pd.DataFrame = change(frame(table.lines(demo)))  # type: ignore[operator]

    with pytest.raises(Refusal, match="not of the cells"):
        page.require_same_cells(rows, wanted)


def test_table_is_accepted_when_it_is_of_the_plan(demo: Grid, wanted: Wanted) -> None:
    """The table of these records passes."""
    page.require_same_cells(frame(table.lines(demo)), wanted)


class _Balance(HTMLParser):
    """Finds elements that are closed out of order or not at all."""

    VOID = frozenset({"meta", "link", "input", "wbr", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - its port
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")
