"""`quantgrid move`: put the newest checkpoint of a cell where another platform finds it."""

import argparse
import json
from pathlib import Path
from typing import Any

from quantgrid import hold, layout, workspace
from quantgrid.archive import Archive, opened
from quantgrid.clock import SystemClock
from quantgrid.errors import HoldRefusal
from quantgrid.job import Stage
from quantgrid.load import load_platform, load_settings
from quantgrid.mirror import Found, Mirror
from quantgrid.named_cell import lineage_with
from quantgrid.story import stages_of
from quantgrid.wording import counted

HELP = "put the newest checkpoint of a cell where another platform finds it"

Stages = list[tuple[str, Stage]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("cell", help="id of a cell, <base>/<variant>, or <trunk>/<milestone>")
    parser.add_argument("--to", required=True, help="name of the platform that goes on with it")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--grid", help="name of a grid; the first that has the cell by default")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--endpoint-url", help="where its bucket is, when it is not AWS")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Put what is kept here into the store, and say how to go on."""
    code, root = options.root.absolute(), Path.cwd()
    asked = {"archive": options.archive, "endpoint_url": options.endpoint_url}
    settings = load_settings(code, {**asked, "grid": options.grid})
    platform = load_platform(code, options.to)
    archive = opened.of(settings, root)
    lineage = lineage_with(
        options.cell, code, grid=settings.grid, is_named=options.grid is not None
    )
    pending = [
        (owner, stage)
        for owner, stage in stages_of(lineage, options.cell)
        if not archive.find_record(stage.record)
    ]
    _refuse_held(options.cell, pending, archive)
    moved = _moved(pending, archive, root, root / settings.volume)
    config = f"platform={platform.name} grid={lineage.grid.name}"
    is_milestone = options.cell not in lineage.cells
    told = {
        "cell": options.cell,
        "platform": platform.name,
        "moved": moved,
        "archive": archive.store.address,
        "is_done": not pending,
        "do": f"a cell that is made from it, with --config {config}"
        if is_milestone
        else f"snakemake --profile {platform.name} {_target(options.cell)} --config {config}",
    }
    print(json.dumps(told, indent=2) if options.json else "\n".join(_lines(told, archive)))
    return 0


def _refuse_held(cell: str, pending: Stages, archive: Archive) -> None:
    """Whoever computes it now would save a newer checkpoint a moment later.

    Raises:
        HoldRefusal: naming who that is.
    """
    held = hold.live(archive.store, {stage.fingerprint for _, stage in pending})
    for seen in held.values():
        raise HoldRefusal(
            f"{cell} is computed now, so nothing was moved",
            seen=seen.words(),
            do="`quantgrid stop` lets it save; then move it.",
        )


def _moved(pending: Stages, archive: Archive, root: Path, volume: Path) -> list[dict[str, Any]]:
    """What was put into the store, one entry a stage that has a state here."""
    moved = []
    with workspace.attempt(root, SystemClock(), of=layout.HOLDERS) as cache:
        for owner, stage in pending:
            state = layout.state_folder(volume, owner, stage.name, stage.fingerprint)
            found = Mirror(archive.store, owner, stage.name, stage.fingerprint, cache).save(state)
            moved += [_entry(owner, stage, found)] if found else []
    return moved


def _entry(owner: str, stage: Stage, found: Found) -> dict[str, Any]:
    facts = found.facts
    return {
        "owner": owner,
        "stage": stage.name,
        "checkpoint": facts["told"].get("checkpoint", ""),
        "tokens": facts["told"].get("tokens"),
        "links": len(facts["links"]),
        "key": found.key,
    }


def _target(cell: str) -> str:
    base, _, variant = cell.partition("/")
    return layout.RESULT.format(base=base, variant=variant)


def _lines(told: dict[str, Any], archive: Archive) -> list[str]:
    text = [
        f"moved  {each['stage']} of {each['owner']}: checkpoint {each['checkpoint'] or 'untold'} "
        f"after {counted(each['links'], 'link')}, to {each['key']}"
        for each in told["moved"]
    ]
    if told["is_done"]:
        return [f"Nothing to move: {told['cell']} is done, and the archive brings it anywhere."]
    text += [] if text else [f"Nothing of {told['cell']} is kept here: it starts from its parents."]
    if not archive.store.is_remote:
        text.append(f"note   {told['platform']} must see the folder {told['archive']}")
    return [*text, f"next   {told['do']}"]
