"""One page that answers for a grid: self-contained, readable offline, on phone and screen."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from quantgrid import layout
from quantgrid.archive.record import Record
from quantgrid.errors import Refusal
from quantgrid.report import (
    answers,
    doubted,
    fit_sheet,
    glossary,
    labels,
    own,
    plots,
    prose,
    provenance,
    sections,
    spending,
)
from quantgrid.report.records import Grid, Wanted
from quantgrid.wording import counted

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    "least": "Which form loses least at each bit width",
    "bits": "Bits are not everything",
    "growth": "Where damage starts to grow",
    "smallest": f"Which cell is smallest within {answers.TOLERANCE_NATS:g} nats",
    "plots": "Plots",
    "laws": "Published laws",
    "fits": "The fitted damage law",
    "forms": "Every form at every budget",
    "cells": "All cells",
    "own": "Programs of their own",
    "doubted": "Suspect and invalid cells",
    "costs": "Where it ran, and what it took",
    "provenance": "Provenance",
    "limits": "What these numbers do not say",
    "glossary": "Glossary",
}
"""Sections by id; the list of contents and the headings read the same."""

OF_VALID_CELLS = ("least", "bits", "growth", "smallest", "plots", "laws", "fits", "forms")
"""Sections that speak of averages: a page without a VALID cell says so once, and has none."""

OF_EVERY_GRID = ("own", "doubted", "costs", "provenance", "limits")
"""Sections that do not speak of models and their forms."""

HEADLINE = "damage"
"""The plot that answers first: what rounding costs, and how that grows with training."""

ALWAYS, WIDE_ONLY, ON_DEMAND = "", "screen", "more"


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the table on the page.

    Args:
        name: In the CSV.
        heading: On the page.
        write: How a number reads; None for text.
        where: Shown always, on screens only, or when all columns are asked for.
    """

    name: str
    heading: str
    write: Callable[[float], str] | None = None
    where: str = ALWAYS


SHOWN = (
    Shown("cell", "cell"),
    Shown("tokens", "tokens", labels.tokens, WIDE_ONLY),
    Shown("tokens_per_parameter", "tokens per parameter", "{:.1f}".format, ON_DEMAND),
    Shown("seed", "seed", labels.grouped, ON_DEMAND),
    Shown("bits_per_weight", "bits per weight", labels.real_bits, WIDE_ONLY),
    Shown("total_bytes", "bytes", labels.grouped, WIDE_ONLY),
    Shown("loss", "loss", labels.nats),
    Shown("delta", "damage", labels.nats),
    Shown("delta_se", "± error", "{:.4f}".format),
    Shown("z", "z", labels.z, WIDE_ONLY),
    Shown("kl", "KL", labels.nats, WIDE_ONLY),
    Shown("train_loss", "train loss", labels.nats, ON_DEMAND),
    Shown("cpu_s", "CPU s", "{:.1f}".format, ON_DEMAND),
    Shown("verdict", "verdict", None, ON_DEMAND),
    Shown("differs", "made otherwise in", None, ON_DEMAND),
    Shown("device", "device", None, ON_DEMAND),
)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot in the two widths that the page holds."""

    plot: plots.Plot
    wide: bytes
    narrow: bytes


def require_same_cells(table: "pd.DataFrame", wanted: Wanted) -> None:
    """A page shows the table that was written, so that table must be of the wanted cells.

    Raises:
        Refusal: when the table is of other cells or fingerprints.
    """
    seen = dict(zip(table.get("cell", ()), table.get("fingerprint", ()), strict=False))
    if seen != dict(wanted.cells):
        differ = [
            cell for cell in {**seen, **wanted.cells} if seen.get(cell) != wanted.cells.get(cell)
        ]
        raise Refusal(
            "the table is not of the cells that the plan wants",
            expected=f"{counted(len(wanted.cells), 'cell')} with fingerprints",
            seen=f"{counted(len(seen), 'row')}, {len(differ)} of which differ: "
            f"{', '.join(differ[:12])}",
            do="Write the table again with `quantgrid table`.",
        )


def html(
    grid: Grid,
    wanted: Wanted,
    table: "pd.DataFrame",
    laws: "pd.DataFrame",
    drawings: Sequence[Drawing],
    source: str,
    rows: Sequence[own.OwnRow] = (),
    shared: Sequence[Record] | None = None,
) -> bytes:
    """The page; equal records give equal bytes.

    Args:
        grid: Verified records.
        wanted: What the plan wants.
        table: The written table, all columns as text.
        laws: The written laws, all columns as text.
        drawings: Plots in the order of the page.
        source: What the page is made from; see `quantgrid.wanted.source_of`.
        rows: Cells with a program of their own.
        shared: Milestones behind the cells; None when the archive was not asked.
    """
    import jinja2

    template, style, script = (_source(name) for name in layout.PAGE_SOURCES)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.from_string(template).render(
        style=style,
        script=script,
        source=source,
        **(
            _of_models(grid, table, laws, drawings) if grid.cells else _of_programs(grid.name, rows)
        ),
        **_origin(grid, wanted, rows, shared or ()),
        **_costs(grid, rows, shared),
    )
    return text.encode()


def _of_models(
    grid: Grid, table: "pd.DataFrame", laws: "pd.DataFrame", drawings: Sequence[Drawing]
) -> dict[str, Any]:
    """All that is said of models and their forms."""
    has_valid = any(cell.is_averaged for cell in grid.cells)
    left_out = () if has_valid else OF_VALID_CELLS
    return dict(
        titles={name: title for name, title in TITLES.items() if name not in left_out},
        has_valid=has_valid,
        **_headline(grid),
        **_sections(sections.named(grid), laws),
        figures=[_figure(drawing, grid) for drawing in drawings],
        headline=HEADLINE,
        shown=SHOWN,
        rows=_rows(table, grid),
        glossary=glossary.terms(grid),
        threshold=prose.threshold(),
        tolerance=f"{answers.TOLERANCE_NATS:g}",
        why_empty=sections.why_empty(grid),
    )


def _of_programs(name: str, rows: Sequence[own.OwnRow]) -> dict[str, Any]:
    """A page without models: only the sections that speak of every grid."""
    return {
        "titles": {section: TITLES[section] for section in OF_EVERY_GRID},
        "grid": name,
        "num_cells": 0,
        "families": [],
        "verdicts": own.verdict_counts(rows),
        "laws": {"num_laws": 0},
        "bits": {"sentences": []},
        "headline_family": "",
        "headline": HEADLINE,
        "has_valid": False,
        "why_empty": "",
    }


def _origin(
    grid: Grid, wanted: Wanted, rows: Sequence[own.OwnRow], shared: Sequence[Record]
) -> dict[str, Any]:
    """Where the numbers come from and what they do not say."""
    models = provenance.facts(grid, wanted, shared) if grid.cells else []
    judged = provenance.limitations(grid) if grid.cells else []
    return {
        "table_name": layout.TABLE.format(grid=grid.name).rpartition("/")[2],
        "facts": models + (own.facts(rows) if rows else []),
        "alarms": provenance.alarms(grid),
        "doubts": doubted.doubts(grid),
        "verdict_at": [column.name for column in SHOWN].index("verdict"),
        "limitations": judged + ([OWN_LIMIT] if rows else []),
        "programs": own.sheets(rows),
        "num_programs": len(rows),
    }


def _costs(
    grid: Grid, rows: Sequence[own.OwnRow], shared: Sequence[Record] | None
) -> dict[str, Any]:
    """What cells took, and what they share, where that is known."""
    cells = [*(cell.record for cell in grid.cells), *(row.record for row in rows)]
    return {
        "costs": spending.sheet_of([*cells, *(shared or ())]),
        "knows_trunks": shared is not None,
    }


OWN_LIMIT = (
    "Programs of their own report their own numbers: they are shown as they came, compared with no "
    "base, averaged nowhere and tested by no law."
)


def _sections(of: sections.Named, laws: "pd.DataFrame") -> dict[str, Any]:
    """What the template fills its sections with; the largest model speaks in the sentences."""
    several = len(of.families) > 1
    return {
        "headline_family": of.families[of.grid.quantised_families()[-1]] if several else "",
        "least": sections.least(of),
        "bits": sections.more_than_bits(of),
        "growth": sections.growth(of),
        "smallest": sections.smallest(of),
        "laws": sections.laws(laws, of),
        "fits": fit_sheet.fits_of(of),
        "summaries": sections.forms(of),
    }


def _rows(table: "pd.DataFrame", grid: Grid) -> list[list[tuple[str, str]]]:
    """What each field reads and its raw text: small models and budgets first, seeds, forms."""
    families, forms = grid.families(), list(grid.forms())
    order = sorted(
        grid.cells,
        key=lambda c: (families.index(c.family), c.num_tokens, c.seed, forms.index(c.variant)),
    )
    by_cell = table.set_index("cell", drop=False).loc[[cell.id for cell in order]]
    rows = by_cell[[column.name for column in SHOWN]].to_numpy().tolist()
    return [[_field(*each) for each in zip(SHOWN, row, strict=True)] for row in rows]


def _field(column: Shown, raw: str) -> tuple[str, str]:
    return (column.write(float(raw)) if column.write and raw else raw), raw


def _source(name: str) -> str:
    return files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def _headline(grid: Grid) -> dict[str, Any]:
    """Name, counts and axes of the grid."""
    budgets = sorted({cell.num_tokens for cell in grid.cells})
    return {
        "grid": grid.name,
        "num_cells": len(grid.cells),
        "families": list(labels.family_labels(grid.families()).values()),
        "corpora": prose.listed(sorted({f.partition(" ")[2] for f in grid.families()})),
        "num_forms": len(grid.forms()),
        "budgets": prose.listed([labels.tokens(num_tokens) for num_tokens in budgets]),
        "num_seeds": len({cell.seed for cell in grid.cells}),
        "verdicts": provenance.verdict_counts(grid),
    }


def _figure(drawing: Drawing, grid: Grid) -> dict[str, str]:
    plot = drawing.plot
    return {
        "name": plot.name,
        "title": plot.title,
        "caption": plot.caption(grid),
        "wide": _inline(drawing.wide, f"{plot.name}-wide-"),
        "narrow": _inline(drawing.narrow, f"{plot.name}-narrow-"),
    }


def _inline(svg: bytes, prefix: str) -> str:
    """An SVG as part of a page: no prolog, no size of its own, ids that clash with no other."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r"(url\(#|href=\"#)", rf"\1{prefix}", text)
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
