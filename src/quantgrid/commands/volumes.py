"""`quantgrid volumes`: which volume this is, what it is mounted on and what lies there."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantgrid import durability, layout, volume
from quantgrid.errors import CorpusRefusal
from quantgrid.load import load_platform, load_settings

HELP = "say which volume this is, what it is mounted on, its room and what lies there"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--volume", help="folder; that of config/config.yaml by default")
    parser.add_argument("--platform", help="platform that pins it; by default the configured one")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Look at the volume of the current working copy."""
    root = options.root.absolute()
    given = {"volume": options.volume, "platform": options.platform}
    settings = load_settings(root, given)
    facts = describe(Path.cwd() / settings.volume, load_platform(root, settings.platform).volume_id)
    print(json.dumps(facts, indent=2) if options.json else "\n".join(_lines(facts)))
    return 0


def describe(folder: Path, pin: str | None) -> dict[str, Any]:
    """All that is known of a volume; identity first."""
    facts: dict[str, Any] = {"workspace": None, "volume": None, "created": None, "pinned": pin}
    try:
        facts |= {"problem": None, **_identity(folder)}
    except CorpusRefusal as refusal:
        facts["problem"] = str(refusal)
    mount = durability.look(folder)
    return {
        **facts,
        "folder": str(folder),
        "mount": mount.point,
        "file_system": mount.kind,
        "source": mount.source,
        "size_bytes": mount.size_bytes,
        "free_bytes": mount.free_bytes,
        "holds": {name: _size(folder / name) for name in layout.VOLUME_PARTS},
    }


def _identity(folder: Path) -> dict[str, str]:
    seen = volume.identify(folder)
    return {"workspace": seen.workspace, "volume": seen.id, "created": seen.created}


def _size(folder: Path) -> dict[str, int]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}


def _lines(facts: Mapping[str, Any]) -> list[str]:
    pinned = {None: "not pinned", facts["volume"]: "as pinned"}.get(
        facts["pinned"], f"NOT the pinned {facts['pinned']}"
    )
    lines = [
        f"workspace    {facts['workspace'] or 'unknown'}",
        f"volume       {facts['volume'] or 'without an identity'} ({pinned})",
        f"created      {facts['created'] or 'unknown'}",
        f"folder       {facts['folder']}",
        f"mount        {facts['file_system']} at {facts['mount']} ({facts['source']})",
        f"capacity     {facts['size_bytes']:,} bytes, {facts['free_bytes']:,} free",
    ]
    lines += [
        f"{name:<12} {held['files']:,} files, {held['bytes']:,} bytes"
        for name, held in facts["holds"].items()
    ]
    return lines + ([facts["problem"]] if facts["problem"] else [])
