"""`quantgrid why`: the whole story of a cell: what failed, what is kept, what to do next."""

import argparse
import json
from contextlib import nullcontext, suppress
from pathlib import Path

from quantgrid import standing
from quantgrid.archive import Archive
from quantgrid.errors import ConfigRefusal
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.links_ahead import link_s
from quantgrid.load import load_grid, load_platform, load_settings, names
from quantgrid.store import open_store
from quantgrid.story import Place, lines, stages_of, story

HELP = "tell the whole story of a cell: what failed, what is kept, what to do next"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cell", help="id of a cell, <base>/<variant>, or <trunk>/<milestone>")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--grid", help="name of a grid; the first that has the cell by default")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Print the story."""
    code = options.root.absolute()
    settings = load_settings(code, {"grid": options.grid, "archive": options.archive})
    grids = [settings.grid] if options.grid else _likely_grids(code, settings.grid)
    lineage = _lineage_with(options.cell, code, grids)
    root = Path.cwd()
    place = Place(root, root / settings.volume, Archive(open_store(settings.archive, root)))
    left_s = link_s(load_platform(code, settings.platform))
    told = story(lineage, options.cell, place, link_s=left_s)
    print(json.dumps(told, indent=2) if options.json else "\n".join(lines(told)))
    return 0


def _likely_grids(code: Path, configured: str) -> list[str]:
    """All grids: the configured one, that of the last controller here, then by name.

    A failure is told with `quantgrid why CELL`, and whoever types that has named no grid.
    """
    last = standing.look(Path.cwd()).now.get("grid", "")
    there = names(code, "grid")
    first = [name for name in (configured, last) if name in there]
    return list(dict.fromkeys([*first, *there]))


def _lineage_with(cell: str, code: Path, grids: list[str]) -> Lineage:
    """The lineage of the first grid that has a cell or milestone.

    Raises:
        ConfigRefusal: when none has it, or when the only one cannot be read.
    """
    for name in grids:
        # a grid that cannot be read hides no other
        with suppress(ConfigRefusal) if len(grids) > 1 else nullcontext():
            lineage = trace(load_grid(code, name), Science(code))
            if stages_of(lineage, cell):
                return lineage
    raise ConfigRefusal(
        f"no grid has a cell or milestone {cell}",
        expected=f"one of {', '.join(grids)}",
        do=f"`quantgrid cells --grid {grids[0]}` lists the cells of a grid.",
    )
