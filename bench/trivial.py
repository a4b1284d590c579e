"""Cells that do nothing, and their cost: for benchmarks of what a cell costs beside its work."""

import ctypes
import resource
import shlex
import sys
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36

WRITE = """
import json, sys
with open(sys.argv[1], "w") as file:
    json.dump({"loss": 1.5}, file)
"""
SUBMITTED = """
def write(path):
    import json
    with open(path, "w") as file:
        json.dump({"loss": 1.5}, file)
"""
_SNAKEFILE = """
rule all:
    input: expand("out/{{cell}}.json", cell=range({cells}))
rule cell:
    output: "out/{{cell}}.json"
    shell: "exec {python} {script} {{output}}"
"""


def lay(folder: Path) -> Path:
    """Lay a folder for cells; the script that a cell is."""
    (folder / "out").mkdir(parents=True)
    (folder / "write.py").write_text(WRITE)
    return folder / "write.py"


def lay_snakefile(folder: Path, cells: int) -> None:
    """A plain Snakefile with a job for each cell."""
    names = {"python": shlex.quote(sys.executable), "script": folder / "write.py"}
    (folder / "Snakefile").write_text(_SNAKEFILE.format(cells=cells, **names))


def adopt_orphans() -> None:
    """Let what outlives its parent come to this process, which counts its CPU when it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def cpu_s() -> float:
    """CPU seconds of all children that ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
