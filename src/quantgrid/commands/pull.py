"""`quantgrid pull`: the files of a cell, verified, in a folder of this working copy."""

import argparse
import json
import shutil
from pathlib import Path

from quantgrid import atomic, layout
from quantgrid.archive import Archive, opened
from quantgrid.errors import ConfigRefusal
from quantgrid.load import load_settings
from quantgrid.named_cell import lineage_with

HELP = "fetch the weights of a cell from the archive, verified"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cell", help="id of a cell")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--endpoint-url", help="where its bucket is, when it is not AWS")
    parser.add_argument("--grid", help="name of a grid; the first that has the cell by default")
    parser.add_argument("--to", type=Path, help="folder for the files; pulled/<cell> by default")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Fetch the files of the record that the grid means."""
    asked = {"archive": options.archive, "endpoint_url": options.endpoint_url}
    settings = load_settings(options.root.absolute(), {**asked, "grid": options.grid})
    lineage = lineage_with(
        options.cell, settings.root, grid=settings.grid, is_named=options.grid is not None
    )
    if options.cell not in lineage.weights:
        raise ConfigRefusal(
            f"{options.cell} of grid {lineage.grid.name} is no cell with weights to fetch",
            do=f"`quantgrid cells --grid {lineage.grid.name}` lists its cells.",
        )
    root = Path.cwd()
    archive = opened.of(settings, root)
    folder = options.to or root / layout.PULLED / options.cell
    paths = _pull(archive, lineage.weights[options.cell].record, folder, root / layout.BLOB_CACHE)
    names = [str(path) for path in paths]
    print(json.dumps(names, indent=2) if options.json else "\n".join(names))
    return 0


def _pull(archive: Archive, key: str, folder: Path, cache: Path) -> list[Path]:
    """Publish each file of a record in a folder, and the record beside them."""
    record = archive.record(key)
    paths = []
    if folder.is_dir():
        atomic.clear_dead_in(folder)  # where no run of a grid ever looks
    for name in record["blobs"]:
        source = archive.file(record, name, cache)
        with atomic.writing(folder / name) as file, source.open("rb") as reader:
            shutil.copyfileobj(reader, file, 1 << 20)
        paths.append(folder / name)
    atomic.publish_json(folder / layout.RECORD_FILE, record)
    return [*paths, folder / layout.RECORD_FILE]
