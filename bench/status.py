"""CPU seconds of `quantgrid status`, whose map shows every cell, at 1,008 and 10,080 cells.

    python bench/status.py [--json] [--sizes 1008,10080]

Each figure is the smaller of two whole processes (user + system time); targets: issue 11, Shows 2.
"""

import argparse
import csv
import json
import tempfile
from pathlib import Path

import copies
import plan
from quantgrid import layout, ledger
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid

TARGETS_S = {1008: 1.0, 10080: 5.0}
REPEATS = 2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", default=",".join(map(str, TARGETS_S)))
    options = parser.parse_args()
    rows = [row for size in options.sizes.split(",") for row in measure(int(size))]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'cells':>6}  {'state':<9} {'CPU s':>7} {'target':>7}")
    for row in rows:
        print(f"{row['cells']:>6}  {row['state']:<9} {row['cpu_s']:>7.2f} {row['target_s']:>7}")


def measure(size: int) -> list[dict[str, object]]:
    """One row a state of a grid of `size` cells."""
    with tempfile.TemporaryDirectory() as folder:
        copy, grid = plan.lay(Path(folder) / "copy"), plan.GRIDS[size]
        lineage = trace(load_grid(copy, grid), Science(copy))
        rows: list[dict[str, object]] = []
        for state in plan.STATES:
            plan.fill(copy, lineage, state)
            if state == "done":
                enter(copy, lineage)
            cpu_s = min(
                copies.cpu_of(copy, "quantgrid", "status", "--grid", grid) for _ in range(REPEATS)
            )
            rows.append(
                {"cells": size, "state": state, "cpu_s": cpu_s, "target_s": TARGETS_S[size]}
            )
        return rows


def enter(copy: Path, lineage: Lineage) -> None:
    """A ledger that knows every cell."""
    with (copy / layout.LEDGER).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(ledger.COLUMNS)
        for cell in sorted(lineage.cells):
            fingerprint = lineage.cells[cell].fingerprint
            writer.writerow([cell, fingerprint, "VALID", "local", "2026-11-30T12:00:00Z", ""])


if __name__ == "__main__":
    main()
