"""One page that answers for a grid: self-contained, readable offline, on phone and screen."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from quantgrid import layout
from quantgrid.errors import Refusal
from quantgrid.report import answers, labels, plots, prose, provenance
from quantgrid.report.records import Grid, Measured, Wanted
from quantgrid.report.stats import Z_THRESHOLD, Estimate, damage
from quantgrid.report.table import total_bytes

if TYPE_CHECKING:
    import pandas as pd

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the table on the page: its name in the CSV, its heading, and whether a number."""

    name: str
    heading: str
    is_number: bool = True


SHOWN = (
    Shown("cell", "cell", is_number=False),
    Shown("tokens", "tokens"),
    Shown("tokens_per_parameter", "tokens per parameter"),
    Shown("seed", "seed"),
    Shown("bits_per_weight", "bits per weight"),
    Shown("total_bytes", "bytes"),
    Shown("loss", "loss"),
    Shown("delta", "damage"),
    Shown("delta_se", "± error"),
    Shown("z", "z"),
    Shown("kl", "KL"),
    Shown("train_loss", "train loss"),
    Shown("cpu_s", "CPU s"),
    Shown("verdict", "verdict", is_number=False),
    Shown("device", "device", is_number=False),
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
            expected=f"{len(wanted.cells)} cells with their fingerprints",
            seen=f"{len(seen)} rows, {len(differ)} of which differ: {', '.join(differ[:12])}",
            do="Write the table again with `quantgrid table`.",
        )


def html(
    grid: Grid,
    wanted: Wanted,
    table: "pd.DataFrame",
    laws: "pd.DataFrame",
    drawings: Sequence[Drawing],
) -> bytes:
    """The page; equal records give equal bytes.

    Args:
        grid: Verified records.
        wanted: What the plan wants.
        table: The written table, all columns as text.
        laws: The written laws, all columns as text.
        drawings: Plots in the order of the page.
    """
    import jinja2

    template, style, script = (_source(name) for name in layout.PAGE_SOURCES)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.from_string(template).render(
        style=style,
        script=script,
        **_headline(grid),
        **_answers(grid),
        figures=[_figure(drawing) for drawing in drawings],
        laws=_laws(laws, grid),
        summaries=[_summary(grid, family) for family in grid.families()],
        shown=SHOWN,
        rows=_rows(table, grid),
        table_name=layout.TABLE.format(grid=grid.name).rpartition("/")[2],
        facts=provenance.facts(grid, wanted),
        alarms=provenance.alarms(grid),
        not_judged=provenance.not_judged(grid),
        threshold=prose.threshold(),
        tolerance=f"{answers.TOLERANCE_NATS:g}",
    )
    return text.encode()


def _rows(table: "pd.DataFrame", grid: Grid) -> list[list[str]]:
    """The rows of the table, small models and budgets first, then seeds, then forms."""
    families, forms = grid.families(), list(grid.forms())
    order = sorted(
        grid.cells,
        key=lambda c: (families.index(c.family), c.num_tokens, c.seed, forms.index(c.variant)),
    )
    by_cell = table.set_index("cell", drop=False).loc[[cell.id for cell in order]]
    rows: list[list[str]] = by_cell[[column.name for column in SHOWN]].to_numpy().tolist()
    return rows


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


def _answers(grid: Grid) -> dict[str, Any]:
    """The three questions: sentences for the largest model, tables for all."""
    names = labels.form_labels(grid.forms())
    families = labels.family_labels(grid.families())
    family = grid.families()[-1]
    least, onsets = answers.least_by_width(grid), answers.onsets(grid)
    smallest = answers.find_smallest(grid.cells)
    equals = [c for c in grid.cells if smallest and total_bytes(c) == total_bytes(smallest)]
    return {
        "headline_family": families[family] if len(families) > 1 else "",
        "least_sentences": prose.least_sentences(
            [each for each in least if each.family == family], grid, names
        ),
        "least": [_least_row(each, grid, names, families) for each in least],
        "onset_sentences": prose.onset_sentences(
            [each for each in onsets if each.family == family], names
        ),
        "onsets": [_onset_row(each, names, families) for each in onsets],
        "smallest_cell": smallest.id if smallest else "",
        "smallest": prose.smallest_sentence(
            smallest, sum(1 for cell in equals if answers.is_good_enough(cell))
        ),
        "smallest_rows": [
            _smallest_row(families[of], num_tokens, cell)
            for of, num_tokens, cell in answers.smallest_by_budget(grid)
        ],
    }


def _least_row(
    least: answers.Least, grid: Grid, names: Mapping[str, str], families: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "family": families[least.family],
        "width": labels.width_label(grid.forms()[least.variant]),
        "tokens": labels.tokens(least.num_tokens),
        "form": names[least.variant],
        "damage": labels.with_error(least.damage),
        "runner_up": names[least.runner_up] if least.runner_up else "",
        **_estimate(least.margin),
        "best": f"{least.num_best} of {least.num_budgets}",
    }


def _onset_row(
    onset: answers.Onset, names: Mapping[str, str], families: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "family": families[onset.family],
        "form": names[onset.variant],
        "first": labels.tokens(onset.smallest_tokens),
        "smallest": labels.with_error(onset.smallest),
        "start": "does not" if onset.num_tokens is None else labels.tokens(onset.num_tokens),
        **_estimate(onset.growth),
        "last": labels.tokens(onset.largest_tokens),
        "largest": labels.with_error(onset.largest),
    }


def _smallest_row(family: str, num_tokens: int, cell: Measured | None) -> dict[str, Any]:
    row = {"family": family, "tokens": labels.tokens(num_tokens)}
    if cell is None:
        return row | {"cell": "none", "bytes": "", "damage": "", "loss": ""}
    return row | {
        "cell": cell.id,
        "bytes": labels.grouped(total_bytes(cell) or 0),
        "damage": labels.with_error(damage([cell])),
        "loss": labels.nats(float(cell.losses.mean())),
    }


def _estimate(value: Estimate | None) -> dict[str, str]:
    if value is None:
        return {"value": "", "z": "", "seeds": ""}
    return {
        "value": labels.with_error(value),
        "z": labels.z(value.z),
        "seeds": f"{value.num_agreeing} of {len(value.by_seed)}",
    }


def _figure(drawing: Drawing) -> dict[str, str]:
    plot = drawing.plot
    return {
        "name": plot.name,
        "title": plot.title,
        "caption": plot.caption,
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


def _laws(laws: "pd.DataFrame", grid: Grid) -> dict[str, Any]:
    """The rows of the laws, those of one law together."""
    names = labels.form_labels(grid.forms())
    families = labels.family_labels(grid.families())
    read = [{str(name): row[name] for name in row} for row in laws.to_dict("records")]
    rows = [_law_row(row, names) | {"family": families[row["family"]]} for row in read]
    return {
        "groups": [(law, list(same)) for law, same in groupby(rows, itemgetter("law"))],
        "num_rows": len(rows),
        "num_holding": sum(1 for row in rows if row["holds"] == "yes"),
    }


def _law_row(row: dict[str, str], names: Mapping[str, str]) -> dict[str, str]:
    left, _, last = row["left"].partition(" at ")
    right, _, first = row["right"].partition(" at ")
    claim = f"{names.get(left, left)} > {names.get(right, right)}"
    if first:
        claim = f"{names.get(left, left)}: {_at(last)} > {_at(first)}"
    return row | {
        "claim": claim,
        "tokens": labels.tokens(float(row["tokens"])),
        "value": f"{labels.nats(float(row['difference']))} ± {float(row['se']):.4f}",
        "z": labels.z(float(row["z"])),
    }


def _at(num_tokens: str) -> str:
    return f"at {labels.tokens(float(num_tokens))}"


def _summary(grid: Grid, family: str) -> dict[str, Any]:
    """Mean damage of every form at every budget of a family; the base's row holds its loss."""
    names = labels.form_labels(grid.forms())
    budgets = grid.budgets(family)
    rows = [
        {
            "form": names[variant],
            "cells": [_mean(grid, family, b, variant) for b in budgets],
        }
        for variant, form in grid.forms().items()
        if form.method != "none" and grid.budgets(family, variant)
    ]
    bases = [grid.seeds_of(family, num_tokens, "none") for num_tokens in budgets]
    return {
        "family": labels.family_labels(grid.families())[family],
        "budgets": [labels.tokens(num_tokens) for num_tokens in budgets],
        "rows": rows,
        "bases": [labels.nats(plots.mean_loss(cells)) if cells else "" for cells in bases],
    }


def _mean(grid: Grid, family: str, num_tokens: int, variant: str) -> dict[str, Any]:
    cells = grid.seeds_of(family, num_tokens, variant)
    if not cells:
        return {"text": "", "is_clear": False}
    value = damage(cells)
    return {"text": labels.with_error(value), "is_clear": abs(value.z) > Z_THRESHOLD}
