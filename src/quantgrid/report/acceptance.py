"""What `make laws` promises: the laws that hold at a million parameters, and the damage law's fit.

The promises are those marked "yes" in the quantisation research, section 1.3, at the smallest and
the largest budget of a grid; where it names a least number of tokens per parameter, from there on.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from quantgrid import layout
from quantgrid.report import fits
from quantgrid.report.laws import LAWS, Growth, Law
from quantgrid.report.records import Grid
from quantgrid.report.stats import Z_THRESHOLD, damage, find_contrast

ROW_BITS = (3, 4, 5)
"""Widths of RTN row that the damage law is fitted to, as the research did."""
GAMMA_D, GAMMA_POST, LEAST_R2 = (0.3, 0.8), (0.45, 0.8), 0.97
SCRATCH, TERNARY = "qat-ternary-row-absmean-scratch", "rtn-ternary-row-absmean"


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise at one place: what was asked, what was seen, and whether that is enough."""

    name: str
    asked: str
    seen: str
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Less:
    """`left` loses more than `right` by more than so many standard errors.

    `ratio` is the least number of tokens per parameter at which it is promised.
    """

    name: str
    left: str
    right: str
    ratio: float = 0.0


FREE = {
    "rtn-w8row-noclip": 0.001,
    "activation-w8row-noclip-a8": 0.002,
    "cache-kv8": 0.001,
}
"""What costs less than so many nats at any length."""

MORE = (
    Less("fewer bits lose more: RTN row, 2 and 3", "rtn-w2row-noclip", "rtn-w3row-noclip"),
    Less("fewer bits lose more: RTN row, 3 and 4", "rtn-w3row-noclip", "rtn-w4row-noclip"),
    Less("fewer bits lose more: RTN row, 4 and 5", "rtn-w4row-noclip", "rtn-w5row-noclip"),
    Less("finer scales lose less: W4 row and g32", "rtn-w4row-noclip", "rtn-w4g32-noclip", 5.0),
    Less("training pays: ternary", TERNARY, "qat-ternary-row-absmean"),
    Less("training pays: W2 g32 asym", "rtn-w2g32-asym", "qat-w2g32-asym"),
    Less("training pays: W3 g32", "rtn-w3g32-noclip", "qat-w3g32-noclip"),
    Less("training beats GPTQ: W2 g32 asym", "gptq-w2g32-asym", "qat-w2g32-asym", 5.0),
)
GROWTHS = (Growth("damage grows with tokens: RTN W4 row", "rtn-w4row-noclip"),)


def promises(grid: Grid) -> list[Promise]:
    """All promises that the forms of a grid can show, most elementary first."""
    found: list[Promise] = []
    for family in grid.families():
        for check in (_free, _more, _growing, _from_scratch, _fitted):
            found += check(grid, family)
    return found


def _free(grid: Grid, family: str) -> Iterator[Promise]:
    for variant, most in FREE.items():
        for tokens in _ends(grid.budgets(family, variant)):
            seen = damage(grid.seeds_of(family, tokens, variant)).mean
            name = f"costs nothing: {variant} at {tokens:,}"
            yield Promise(name, f"below {most}", f"{seen:+.5f}", abs(seen) < most)


def _more(grid: Grid, family: str) -> Iterator[Promise]:
    named = (Less(law.name, law.left, law.right) for law in LAWS if isinstance(law, Law))
    for less in (*named, *MORE):
        both = set(grid.budgets(family, less.left)) & set(grid.budgets(family, less.right))
        enough = [tokens for tokens in both if tokens / _size(grid, family) >= less.ratio]
        for tokens in _ends(sorted(enough)):
            yield from _z(grid, family, less, tokens)


def _z(grid: Grid, family: str, less: Less, tokens: int) -> Iterator[Promise]:
    left, right = (grid.seeds_of(family, tokens, each) for each in (less.left, less.right))
    if (difference := find_contrast(left, right)) is not None:
        name, asked = f"{less.name} at {tokens:,}", f"z above {Z_THRESHOLD:.0f}"
        yield Promise(name, asked, f"z {difference.z:.1f}", difference.holds)


def _growing(grid: Grid, family: str) -> Iterator[Promise]:
    for growth in (*(law for law in LAWS if isinstance(law, Growth)), *GROWTHS):
        for outcome in growth.outcomes(grid):
            if outcome.family == family:
                z = outcome.difference.z
                asked = f"z above {Z_THRESHOLD:.0f}"
                yield Promise(growth.name, asked, f"z {z:.1f}", outcome.difference.holds)


def _from_scratch(grid: Grid, family: str) -> Iterator[Promise]:
    """Ternary from the first step is far better than ternary afterwards, and near to float."""
    for tokens in grid.budgets(family, SCRATCH):
        trained, after = (grid.seeds_of(family, tokens, each) for each in (SCRATCH, TERNARY))
        seen = damage(trained).mean
        yield Promise(
            f"ternary from scratch is near float at {tokens:,}",
            "below 0.15",
            f"{seen:+.4f}",
            seen < 0.15,
        )
        if (gain := find_contrast(after, trained)) is not None:
            name = f"ternary from scratch beats ternary afterwards at {tokens:,}"
            yield Promise(name, "by more than 0.3", f"{gain.mean:+.4f}", gain.mean > 0.3)


def _fitted(grid: Grid, family: str) -> Iterator[Promise]:
    """The damage law of RTN row, beside the published constants."""
    forms = grid.forms()
    variants = [each for bits in ROW_BITS if (each := f"rtn-w{bits}row-noclip") in forms]
    points = [point for point in fits.points(grid, variants) if point.family == family]
    law = fits.find_law(points)
    if law is None:
        return
    published = fits.PUBLISHED
    for name, seen, (least, most), known in (
        ("tokens", law.gamma_d, GAMMA_D, published["gamma_d"]),
        ("bits", law.gamma_post, GAMMA_POST, published["gamma_post"]),
    ):
        asked = f"{least} to {most} (published {known})"
        kept = least <= seen <= most
        yield Promise(f"damage law of RTN row: gamma of {name}", asked, f"{seen:.3f}", kept)
    r2 = law.r_squared
    yield Promise("damage law of RTN row: R2", f"above {LEAST_R2}", f"{r2:.4f}", r2 > LEAST_R2)


def _size(grid: Grid, family: str) -> int:
    return next(c.model.num_parameters for c in grid.cells if c.family == family)


def _ends(budgets: Sequence[int]) -> list[int]:
    """The smallest and the largest budget."""
    return sorted({budgets[0], budgets[-1]}) if budgets else []


# -- beside what the research measured -------------------------------------------------------------


def measured() -> dict[tuple[str, int], float]:
    """Damage that the research measured, by variant and tokens."""
    text = files(__package__ or "").joinpath(layout.MEASURED_DAMAGE).read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        (str(row["variant"]), int(tokens)): float(value)
        for row in rows
        for tokens, value in row.items()
        if tokens != "variant" and value
    }


def beside(grid: Grid) -> Iterator[tuple[str, int, float, float | None]]:
    """Variant, tokens, damage here, and damage that the research measured there, if it did."""
    known = measured()
    for variant, form in grid.forms().items():
        if form.method == "none":
            continue
        for family in grid.families():
            for tokens in grid.budgets(family, variant):
                seen = damage(grid.seeds_of(family, tokens, variant)).mean
                yield variant, tokens, seen, known.get((variant, tokens))


def markdown(found: Iterable[Promise], rows: Iterable[tuple[str, int, float, float | None]]) -> str:
    """Both as a page of Markdown."""
    return "\n".join([*_promised(found), "", *_compared(rows), ""])


def _promised(found: Iterable[Promise]) -> Iterator[str]:
    yield from ("# Laws", "", "| law | asked | seen | |", "| --- | --- | --- | --- |")
    for each in found:
        yield f"| {each.name} | {each.asked} | {each.seen} | {'yes' if each.is_kept else 'NO'} |"


def _compared(rows: Iterable[tuple[str, int, float, float | None]]) -> Iterator[str]:
    yield from ("# Damage in nats, beside the research's", "")
    yield from ("| form | tokens | here | research |", "| --- | --- | --- | --- |")
    number: Callable[[float], str] = "{:.4f}".format
    for variant, tokens, seen, known in rows:
        beside = "" if known is None else number(known)
        yield f"| {variant} | {tokens:,} | {number(seen)} | {beside} |"
