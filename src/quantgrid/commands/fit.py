"""`quantgrid fit`: effective parameters of each form, from any table of final losses."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from quantgrid.report import scaling

HELP = "fit a scaling law with effective parameters to a table of losses"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "table", type=Path, nargs="?", help="results/<grid>.csv, or scheme,parameters,tokens,loss"
    )
    source.add_argument("--published", action="store_true", help="QuEST's 104 published runs")
    parser.add_argument(
        "--unquantised", default="none", help="scheme that has all its parameters (default: none)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(options: argparse.Namespace) -> int:
    """Print the law and what each scheme keeps of its parameters."""
    law = scaling.fit(_runs(options))
    if options.json:
        print(json.dumps(asdict(law), indent=2, sort_keys=True))
        return 0
    print(
        f"L = {law.a:.4g} / (N eff)^{law.alpha:.4f} + {law.b:.4g} / D^{law.beta:.4f} + {law.e:.4g}"
    )
    print(f"rmse {law.rmse:.4f} nats per token")
    for scheme, share in sorted(law.efficiency.items(), key=lambda item: -item[1]):
        print(f"{share:7.3f}  {scheme}")
    return 0


def _runs(options: argparse.Namespace) -> list[scaling.Run]:
    if options.published:
        return scaling.published_runs()
    path = options.table.absolute()
    lines = path.read_text(encoding="utf-8").splitlines()
    return scaling.parse_runs(lines, where=str(path), unquantised=options.unquantised)
