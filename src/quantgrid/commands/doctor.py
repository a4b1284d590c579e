"""`quantgrid doctor`: what this place lacks to run the grid, line by line, with what to do."""

import argparse
import importlib
import json
from pathlib import Path

from quantgrid import checks
from quantgrid.checks import Finding, Level
from quantgrid.errors import Refusal
from quantgrid.load import load_platform, load_settings

HELP = "check this place before the grid does: disk, volume, archive, packages, devices, clock"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--profile", help="platform to check; by default the configured one")
    parser.add_argument("--archive", help="address; that of config/config.yaml by default")
    parser.add_argument("--volume", help="folder; that of config/config.yaml by default")
    parser.add_argument(
        "--second", type=Path, help="another mount of the volume, to read back from"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Check, print, and end with 78 when something would be refused."""
    root = options.root.absolute()
    given = {"archive": options.archive, "volume": options.volume, "platform": options.profile}
    settings = load_settings(root, given)
    platform = load_platform(root, settings.platform)
    name = platform.name if platform.name in checks.names() else checks.DEFAULT
    module = importlib.import_module(f"{checks.__name__}.{name}")
    found: list[Finding] = module.check(Path.cwd(), settings, platform, options.second)
    if options.json:
        print(json.dumps([each._asdict() for each in found], indent=2))
    else:
        print("\n".join(map(str, found)))
    return Refusal.exit_code if any(each.level is Level.REFUSE for each in found) else 0
