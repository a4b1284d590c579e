"""`quantgrid fit`: effective parameters of each form, or laws of damage, from any table."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from quantgrid.errors import ConfigRefusal
from quantgrid.report import scaling, table_fits
from quantgrid.report.fits import PUBLISHED

HELP = "fit laws to a table: effective parameters to losses, or how damage grows"


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
    parser.add_argument(
        "--damage",
        action="store_true",
        help="fit delta = k D^gD / N^gN exp(-bits / gP) for every way to quantise instead",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(options: argparse.Namespace) -> int:
    """Print the law and what each scheme keeps of its parameters."""
    if options.damage and options.table:
        return _damage(options)
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


def _damage(options: argparse.Namespace) -> int:
    """Print the damage law of every way that the table has enough of, and the published one."""
    path = options.table.absolute()
    found = table_fits.damage_laws(_lines(path), where=str(path))
    if options.json:
        print(json.dumps({each.name: asdict(each.law) for each in found}, indent=2))
        return 0
    for each in found:
        law = each.law
        size = "" if law.gamma_n is None else f" gN {law.gamma_n:.3f}"
        print(
            f"gD {law.gamma_d:.3f}{size} gP {law.gamma_post:.3f} R2 {law.r_squared:.3f} "
            f"points {law.num_points:3d}  {each.name}"
        )
    known = PUBLISHED
    print(f"published: gD {known['gamma_d']} gN {known['gamma_n']} gP {known['gamma_post']}")
    return 0


def _runs(options: argparse.Namespace) -> list[scaling.Run]:
    if options.published:
        return scaling.published_runs()
    path = options.table.absolute()
    return scaling.parse_runs(_lines(path), where=str(path), unquantised=options.unquantised)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigRefusal(
            "there is no table to fit",
            expected="results/<grid>.csv, or another CSV file",
            seen=error,
            where=path,
        ) from error
