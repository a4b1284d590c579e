"""CPU seconds of a plan: dry run, restore plan and no-op at 100, 1,000 and 10,000 cells.

    python bench/plan.py [--json] [--sizes 105,1008,10080]

Each figure is the minimum of three runs of `snakemake -n` as a whole process (user + system time),
in a working copy whose archive or results hold what the state says.  Targets: DESIGN 11.
"""

import argparse
import json
import tempfile
from pathlib import Path

import copies
from quantgrid import atomic, layout
from quantgrid.archive.record import sealed
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid

GRIDS = {105: "demo", 1008: "paper", 10080: "big"}
TARGETS_S = {
    ("fresh", 1008): 4.0,
    ("archived", 1008): 2.5,
    ("done", 1008): 2.0,
    ("fresh", 10080): 25.0,
}
STATES = ("fresh", "archived", "done")
REPEATS = 2
BIG = """
corpus: {corpus}
evaluation: {{sequences: 384}}
blocks:
  main:
    models: [n0]
    tokens: [100_000, 200_000, 400_000, 800_000, 1_600_000]
    seeds: [{seeds}]
    forms:
      - {{method: none}}
      - {{method: rtn, bits: 4, group: row, scale: noclip}}
      - {{method: rtn, bits: 3, group: 32, scale: noclip}}
      - {{method: gptq, bits: 3, group: 32, scale: noclip}}
      - {{method: rtn, bits: 2, group: 32, asymmetric: true}}
      - {{method: gptq, bits: 2, group: 32, asymmetric: true}}
      - {{method: qat, bits: ternary, group: row, scale: absmean}}
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", default=",".join(map(str, GRIDS)))
    options = parser.parse_args()
    rows = [row for size in options.sizes.split(",") for row in measure(int(size))]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'cells':>6}  {'state':<9} {'CPU s':>7} {'target':>7}")
    for row in rows:
        print(
            f"{row['cells']:>6}  {row['state']:<9} {row['cpu_s']:>7.2f} {row['target_s'] or '':>7}"
        )


def measure(size: int) -> list[dict[str, object]]:
    """One row per state of a grid of `size` cells."""
    with tempfile.TemporaryDirectory() as folder:
        copy = lay(Path(folder) / "copy")
        lineage = trace(load_grid(copy, GRIDS[size]), Science(copy))
        assert len(lineage.grid.cells) == size
        rows = []
        for state in STATES:
            fill(copy, lineage, state)
            cpu_s = min(cpu_of_dry_run(copy, GRIDS[size]) for _ in range(REPEATS))
            target_s = TARGETS_S.get((state, size))
            rows.append({"cells": size, "state": state, "cpu_s": cpu_s, "target_s": target_s})
        return rows


def lay(copy: Path) -> Path:
    """A working copy with one more grid, of 10,080 cells."""
    copies.lay(copy)
    seeds = ", ".join(map(str, range(288)))
    (copy / "config/grids/big.yaml").write_text(BIG.format(corpus="shakespeare", seeds=seeds))
    return copy


def fill(copy: Path, lineage: Lineage, state: str) -> None:
    """Bring archive and results into a state; the plan reads only names of records."""
    if state == "archived":
        stages = [*lineage.milestones.values(), *lineage.weights.values(), *lineage.cells.values()]
        for stage in stages:
            path = copy / "archive" / stage.record
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    if state == "done":
        for cell in lineage.grid.cells:
            result = copy / layout.RESULT.format(base=cell.base, variant=cell.variant)
            result.parent.mkdir(parents=True, exist_ok=True)
            body = {"fingerprint": lineage.cells[cell.id].fingerprint, "losses": [1.234567] * 384}
            result.write_bytes(atomic.json_bytes(sealed(body)))


def cpu_of_dry_run(copy: Path, grid: str) -> float:
    """User and system seconds of one `snakemake -n`."""
    plan = ["-n", "--profile", "profiles/local", "--quiet", "rules", "host"]
    return copies.cpu_of(copy, "snakemake", *plan, "--config", f"grid={grid}")


if __name__ == "__main__":
    main()
