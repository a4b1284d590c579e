"""Run a program that knows nothing of this project, privately and resumable."""

import sys
from pathlib import Path

from quantgrid import layout
from quantgrid.cell import Cell
from quantgrid.own_stage import attempt

if __name__ == "__main__":
    sys.exit(attempt.run(Cell.from_environment(), layout.code_of(Path(sys.argv[0]))))
