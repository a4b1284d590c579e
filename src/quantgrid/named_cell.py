"""The grid that has a cell which a person named, and what the cell is made from."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from quantgrid import standing
from quantgrid.errors import ConfigRefusal
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid, names
from quantgrid.story import stages_of
from quantgrid.wording import meant


def lineage_with(cell: str, code: Path, *, grid: str, is_named: bool) -> Lineage:
    """The lineage of the first grid that has a cell or milestone.

    Args:
        cell: Its id.
        code: Folder of the Snakefile.
        grid: The grid of the settings.
        is_named: Whether a person named it, so that no other one is meant.

    Raises:
        ConfigRefusal: when none has it, or when the only one cannot be read.
    """
    return _first_with(cell, code, [grid] if is_named else _likely_grids(code, grid))


def _likely_grids(code: Path, configured: str) -> list[str]:
    """All grids: the configured one, that of the last controller here, then by name.

    A failure is told with `quantgrid why CELL`, and whoever types that has named no grid.
    """
    last = standing.look(Path.cwd()).now.get("grid", "")
    there = names(code, "grid")
    first = [name for name in (configured, last) if name in there]
    return list(dict.fromkeys([*first, *there]))


def _first_with(cell: str, code: Path, grids: Sequence[str]) -> Lineage:
    there: list[str] = []
    for name in grids:
        # a grid that cannot be read hides no other
        with suppress(ConfigRefusal) if len(grids) > 1 else nullcontext():
            lineage = trace(load_grid(code, name), Science(code))
            if stages_of(lineage, cell):
                return lineage
            there += lineage.cells
    raise ConfigRefusal(
        f"no grid has a cell or milestone {cell}{meant(cell, there)}",
        expected=f"a cell of {', '.join(grids)}",
        do=f"`quantgrid cells --grid {grids[0]}` lists the cells of a grid.",
    )
