"""`quantgrid supervise`: the first process of a rented machine; started by an executor."""

import argparse
import os

from quantgrid.clock import SystemClock
from quantgrid.inside.life import Life, identify
from quantgrid.rental.briefing import Briefing

HELP = "be the first process of a rented machine: work off its queue, then end the machine"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare no option: a machine is told everything by its environment."""
    parser.description = f"{HELP}; told by the variables QG_LEASE_... (docs/formats/rental.md)"


def main(_: argparse.Namespace) -> int:
    """Live; never returns where a first process that returned would be started again."""
    told = Briefing.parse(os.environ)
    return Life(told, identify(told), SystemClock()).live()
