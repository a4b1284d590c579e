"""Two tables of results side by side: which cells are the same, and what the others differ by.

Pure; tables are those of docs/formats/table.md, whoever wrote them.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quantgrid.errors import DataFault
from quantgrid.wording import counted

Row = Mapping[str, str]
NEEDED = ("cell", "variant", "loss", "fingerprint")
PLACES = ("platform", "device", "verdict")
_LEFT_OUT = {"SUSPECT", "INVALID"}


class Pair(NamedTuple):
    """A cell of both tables.

    Args:
        cell: Its id in the first one.
        variant: Its form.
        loss: Loss of the second minus that of the first, nats per token.
        is_same: Whether both have the same fingerprint.
        differs: What else differs: fingerprint, platform, device, verdict.
        is_averaged: Whether neither is SUSPECT or INVALID.
    """

    cell: str
    variant: str
    loss: float
    is_same: bool
    differs: tuple[str, ...]
    is_averaged: bool


class Mean(NamedTuple):
    """The mean difference of some pairs, with its standard error (None for one pair)."""

    name: str
    num_cells: int
    loss: float
    loss_se: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two tables, cell by cell.

    `unmeasured` are cells of both of which one has no loss.
    """

    pairs: tuple[Pair, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    unmeasured: tuple[str, ...]

    @property
    def torn(self) -> tuple[Pair, ...]:
        """Cells of one fingerprint with two numbers: the same asked, another answer."""
        return tuple(pair for pair in self.pairs if pair.is_same and pair.loss != 0)

    def means(self) -> Iterator[Mean]:
        """The mean difference of each form, and of all; SUSPECT and INVALID cells are left out."""
        averaged = [pair for pair in self.pairs if pair.is_averaged]
        for variant in dict.fromkeys(pair.variant for pair in averaged):
            yield _mean(variant, [pair for pair in averaged if pair.variant == variant])
        if averaged:
            yield _mean("all", averaged)


def _mean(name: str, pairs: list[Pair]) -> Mean:
    """Mean, and standard error: std of the differences / sqrt(pairs)."""
    losses = [pair.loss for pair in pairs]
    mean = math.fsum(losses) / len(losses)
    if len(losses) == 1:
        return Mean(name, 1, mean, None)
    variance = math.fsum((each - mean) ** 2 for each in losses) / (len(losses) - 1)
    return Mean(name, len(losses), mean, math.sqrt(variance / len(losses)))


def parse(text: str, where: str) -> dict[str, Row]:
    """The rows of a table by cell.

    Raises:
        DataFault: for what is no table, or one that has a cell twice.
    """
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise DataFault(
            "this is no table of cells",
            expected=f"columns {', '.join(NEEDED)}",
            seen=f"none named {', '.join(missing)}",
            where=where,
            do="docs/formats/table.md describes it; `quantgrid table` writes it.",
        )
    rows: dict[str, Row] = {}
    for line, row in enumerate(reader, start=2):
        if row["cell"] in rows or None in row or None in row.values():
            problem = "a cell twice" if row["cell"] in rows else "a row of another length"
            raise DataFault(f"a table has {problem}", seen=row["cell"], where=f"{where}:{line}")
        _loss(row, f"{where}:{line}")
        rows[row["cell"]] = row
    return rows


def compare(first: Mapping[str, Row], second: Mapping[str, Row]) -> Comparison:
    """Pair the cells of two tables: by id, and what is left by model, tokens, seed and form."""
    matched = {cell: cell for cell in first if cell in second}
    left = {_axes(row): cell for cell, row in second.items() if cell not in matched}
    for cell, row in first.items():
        if cell not in matched and (other := left.get(_axes(row))):
            matched[cell] = other
    measured = {
        cell: other
        for cell, other in matched.items()
        if _loss(first[cell]) is not None and _loss(second[other]) is not None
    }
    return Comparison(
        pairs=tuple(_pair(first[cell], second[other]) for cell, other in measured.items()),
        only_first=tuple(cell for cell in first if cell not in matched),
        only_second=tuple(cell for cell in second if cell not in set(matched.values())),
        unmeasured=tuple(cell for cell in matched if cell not in measured),
    )


def _axes(row: Row) -> tuple[str | None, ...]:
    """What names a cell whatever its grid calls its budget; by itself where the table has none."""
    axes = tuple(row.get(name) for name in ("model", "tokens_seen", "seed", "variant"))
    return axes if all(axes) else (row["cell"],)


def _pair(first: Row, second: Row) -> Pair:
    differs = [n for n in ("fingerprint", *PLACES) if first.get(n, "") != second.get(n, "")]
    verdicts = {first.get("verdict"), second.get("verdict")}
    return Pair(
        cell=first["cell"],
        variant=first["variant"],
        loss=float(second["loss"]) - float(first["loss"]),
        is_same=first["fingerprint"] == second["fingerprint"],
        differs=tuple(differs),
        is_averaged=not verdicts & _LEFT_OUT,
    )


def _loss(row: Row, where: str = "") -> float | None:
    try:
        return float(row["loss"]) if row["loss"] else None
    except ValueError as error:
        raise DataFault("a loss is no number", seen=row["loss"], where=where) from error


def lines(found: Comparison, names: tuple[str, str], most: int) -> Iterator[str]:
    """The comparison for a person; long lists are cut."""
    first, second = names
    equal = sum(pair.loss == 0 for pair in found.pairs)
    others = len(found.pairs) - equal
    both = counted(len(found.pairs), "cell")
    yield f"{both} in both: {equal} with equal loss, {others} with another one"
    for words, cells in (
        (f"only in {first}", found.only_first),
        (f"only in {second}", found.only_second),
        ("without a loss in one of them", found.unmeasured),
    ):
        if cells:
            yield f"{words}: {len(cells)}, such as {cells[0]}"
    yield from _torn(found)
    yield from _means(found)
    yield from _largest(found.pairs, most)


def _torn(found: Comparison) -> Iterator[str]:
    if torn := found.torn:
        yield (
            f"ONE FINGERPRINT, TWO NUMBERS: {counted(len(torn), 'cell')}; {torn[0].cell} differs "
            f"by {torn[0].loss:+.6f} ({', '.join(torn[0].differs) or 'nothing else differs'})"
        )


def _means(found: Comparison) -> Iterator[str]:
    means = list(found.means())
    if means:
        yield "\nloss of the second minus loss of the first, nats per token"
        yield f"{'form':<28} {'cells':>5} {'mean':>10} {'se':>9} {'z':>6}"
    for each in means:
        se = "" if each.loss_se is None else f"{each.loss_se:.6f}"
        z = f"{each.loss / each.loss_se:.1f}" if each.loss_se else ""
        yield f"{each.name:<28} {each.num_cells:>5} {each.loss:>+10.6f} {se:>9} {z:>6}"


def _largest(pairs: Iterable[Pair], most: int) -> Iterator[str]:
    by_size = sorted((p for p in pairs if p.loss), key=lambda p: (-abs(p.loss), p.cell))
    if by_size[:most]:
        yield "\nlargest differences"
    for pair in by_size[:most]:
        yield f"{pair.loss:>+10.6f}  {pair.cell}  {', '.join(pair.differs)}".rstrip()
