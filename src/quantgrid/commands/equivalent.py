"""`quantgrid equivalent`: prove that a change of science changes no number, so that cells stay.

Both sciences compute the smoke grid in temporary folders, under the fingerprints that they would
share if they were equivalent: then every number and every byte of weights must be the same.
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.archive import Archive
from quantgrid.clock import SystemClock, timestamp
from quantgrid.equivalences import (
    Equivalence,
    Part,
    Proof,
    load_equivalences,
    publish_equivalences,
)
from quantgrid.errors import ConfigRefusal, Fault, Refusal
from quantgrid.fingerprint import canonical, digest
from quantgrid.forms import METHODS
from quantgrid.grid import Grid
from quantgrid.lineage import ABSENT, Lineage, Science, trace
from quantgrid.load import load_grid
from quantgrid.spec import BASE, Cell
from quantgrid.store import open_store
from quantgrid.untar import extract
from quantgrid.wording import counted

HELP = "prove that a change of science changes no number, so that finished cells stay current"

GRID = "smoke"
WORKING_TREE = "."
UNPROVED = Proof(grid=GRID, cells=1, digest="0" * 64)

Numbers = dict[str, dict[str, str]]
"""Cell -> name of a number or file -> its canonical JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("old", help="revision of git whose cells are to stay current")
    parser.add_argument(
        "new", nargs="?", default=WORKING_TREE, help="revision that replaces it; default: . (here)"
    )
    parser.add_argument("--reason", required=True, help="why the science was changed")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")


def main(options: argparse.Namespace) -> int:
    """Compute with both sciences and write down that they are the same, or refuse."""
    if not options.reason.strip():
        raise ConfigRefusal("the reason is empty", do="Say why the science was changed.")
    root = options.root.absolute()
    with tempfile.TemporaryDirectory(prefix="quantgrid-equivalent-") as folder:
        new = Tree.lay(root, options.new, options.new, layout.scratch_tree(Path(folder), "new"))
        old = Tree.lay(root, options.old, options.new, layout.scratch_tree(Path(folder), "old"))
        asked = assume(root, old, new, options.reason)
        if not asked:
            print(f"{old.name} and {new.name} are the same science already; nothing was written.")
            return 0
        proof = prove(old, new, asked)
    proved = [replace(each, proof=proof) for each in asked]
    publish_equivalences(root, [*load_equivalences(root).entries, *proved])
    print(
        f"equal, bit for bit: {counted(proof.cells, 'cell')} of grid {GRID}, "
        f"digest {proof.digest[:16]}"
    )
    print(f"{layout.EQUIVALENCES}: {', '.join(_told(each) for each in proved)}")
    return 0


# -- two trees: the science of each, all else the same --------------------------------------------


@dataclass(frozen=True, slots=True)
class Tree:
    """A temporary source tree; `name` is what the person called it."""

    name: str
    root: Path

    @classmethod
    def lay(cls, root: Path, science: str, config: str, folder: Path) -> "Tree":
        """Lay the science of one revision and the configuration of another beside these rules.

        Raises:
            ConfigRefusal: when a revision is not there or lacks a part.
        """
        _lay(root, WORKING_TREE, layout.WORKFLOW_PARTS, folder)
        _lay(root, config, layout.CONFIG_PARTS, folder)
        shutil.copytree(root / layout.SCHEMAS, folder / layout.SCHEMAS, dirs_exist_ok=True)
        _lay(root, science, layout.CODE_PARTS, folder)
        return cls("the working tree" if science == WORKING_TREE else science, folder)

    def science(self, part: Part) -> str:
        """The digest of a stage, and method.

        Raises:
            ConfigRefusal: when a script is missing or is not Python.
        """
        try:
            return Science(self.root).of(*part)
        except (OSError, SyntaxError) as error:
            raise ConfigRefusal(
                f"{self.name} has no readable science of stage {part[0]}", seen=error
            ) from error


def _lay(root: Path, revision: str, parts: tuple[str, ...], folder: Path) -> None:
    if revision == WORKING_TREE:
        for part in parts:
            _copy(root / part, folder / part)
        return
    commit = _git(root, "rev-parse", "--verify", f"{revision}^{{commit}}")
    archive = _git(root, "archive", "--format=tar", commit.decode().strip(), "--", *parts)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        extract(tar, folder)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def _git(root: Path, *arguments: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        raise ConfigRefusal("there is no program git", do="Install it; it lays the old science.")
    done = subprocess.run([git, "-C", str(root), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise ConfigRefusal(
            f"git {arguments[0]} knows no {arguments[-1]}",
            seen=done.stderr.decode(errors="replace").strip(),
            where=root,
            do="Name a commit, branch or tag that has scripts and src/quantlm, or . for this tree.",
        )
    return done.stdout


# -- what is to be proved -------------------------------------------------------------------------


def assume(root: Path, old: Tree, new: Tree, reason: str) -> list[Equivalence]:
    """What would have to be equivalent, assumed in both trees.

    Raises:
        ConfigRefusal: when one of the new digests counts as another one already.
    """
    known = load_equivalences(root)
    date = timestamp(SystemClock().now())
    digests = {part: (old.science(part), new.science(part)) for part in parts(new)}
    asked = [
        Equivalence(
            stage=part[0],
            method=part[1],
            old=before,
            new=after,
            reason=reason.strip(),
            date=date,
            proof=UNPROVED,
        )
        for part, (before, after) in digests.items()
        if ABSENT not in (before, after)
        and known.oldest(*part, before) != known.oldest(*part, after)
    ]
    for tree in (old, new):
        publish_equivalences(tree.root, [*known.entries, *asked])
    return asked


def parts(tree: Tree) -> list[Part]:
    """Every stage, and method, that the smoke grid of a tree computes."""
    methods = dict.fromkeys(cell.form.method for cell in _grid(tree).cells)
    formed: list[Part] = [
        ("qat" if METHODS[method].trains else "quantise", method)
        for method in methods
        if method != BASE.method
    ]
    running: list[Part] = [("evaluate_running", m) for m in methods if METHODS[m].runs]
    return [("trunk", None), ("cooldown", None), *formed, ("evaluate", None), *running]


def _grid(tree: Tree) -> Grid:
    return load_grid(tree.root, GRID)


# -- the proof ------------------------------------------------------------------------------------


def prove(old: Tree, new: Tree, asked: list[Equivalence]) -> Proof:
    """Compute the smoke grid with both sciences and compare every cell.

    Raises:
        Refusal: naming the first cell and number that differ.
        Fault: when one of them does not finish.
    """
    lineage = trace(_grid(new), Science(new.root))
    methods = {m for stage, m in parts(new) if m and ABSENT not in _both(old, new, (stage, m))}
    cells = [cell for cell in lineage.grid.cells if cell.form.method in {BASE.method, *methods}]
    names = ", ".join(_told(each) for each in asked)
    _say(f"{names}: {counted(len(cells), 'cell')} with each science")
    _compute(new, new, cells)
    # the corpus is the same volume, so the receipts that vouch for it are the same too
    corpus = layout.SENTINEL.partition("/{")[0]
    shutil.copytree(new.root / corpus, old.root / corpus)
    _compute(old, new, cells)
    before, after = (_numbers(tree, lineage, cells) for tree in (old, new))
    refuse_difference(before, after, f"{old.name} and {new.name}")
    return Proof(grid=GRID, cells=len(cells), digest=digest(after))


def _both(old: Tree, new: Tree, part: Part) -> tuple[str, str]:
    return old.science(part), new.science(part)


def _compute(tree: Tree, corpus: Tree, cells: list[Cell]) -> None:
    """Run Snakemake in a tree, into its own archive, with its own science.

    Scripts import the science that Python finds first, which is the installed one unless the path
    of Python says otherwise.
    """
    _say(f"computing with {tree.name}")
    methods = ", ".join(dict.fromkeys(cell.form.method for cell in cells))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "snakemake", "--profile", layout.LOCAL_PROFILE),
            *(layout.RESULT.format(base=cell.base, variant=cell.variant) for cell in cells),
            *("--config", f"grid={GRID}", f"select=method in ({methods})", "platform=local"),
            *(f"archive={_archive(tree)}", f"volume={layout.scratch_volume(corpus.root)}"),
        ],
        cwd=tree.root,
        env=_environment(tree),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        _say("\n".join(done.stdout.splitlines()[-40:]))
        raise Fault(
            f"grid {GRID} did not finish with the science of {tree.name}, so nothing was written",
            seen=f"exit code {done.returncode} of Snakemake, its last lines above",
        )


def _environment(tree: Tree) -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    path = [str(layout.source_root(tree.root)), *([before] if before else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def _archive(tree: Tree) -> Path:
    return layout.scratch_archive(tree.root)


def _numbers(tree: Tree, lineage: Lineage, cells: list[Cell]) -> Numbers:
    archive = Archive(open_store(str(_archive(tree)), tree.root))
    return {cell.id: _numbers_of(cell, lineage, archive) for cell in cells}


def _numbers_of(cell: Cell, lineage: Lineage, archive: Archive) -> dict[str, str]:
    """Results and files of a cell, its weights and its milestone."""
    stages = {
        "evaluation": lineage.cells[cell.id],
        "weights": lineage.weights[cell.id],
        "milestone": lineage.milestones[cell.trunk.id, cell.milestone],
    }
    records = {role: archive.record(stage.record) for role, stage in stages.items()}
    told = {
        role: {"results": record["results"], "files": _sha256s(record["blobs"])}
        for role, record in records.items()
    }
    return dict(flat(told))


def _sha256s(blobs: Mapping[str, Any]) -> dict[str, str]:
    return {name: blob["sha256"] for name, blob in blobs.items()}


def flat(value: Any, *above: str) -> Iterator[tuple[str, str]]:
    """Every number and text in nested JSON with the path to it; texts tell 0 from -0.0 and 0.0."""
    inner: Mapping[str, Any] = {}
    match value:
        case Mapping():
            inner = value
        case list():
            inner = {str(index): each for index, each in enumerate(value)}
    if not inner:
        yield ".".join(above), canonical(value)
    for name, each in inner.items():
        yield from flat(each, *above, name)


def refuse_difference(before: Numbers, after: Numbers, names: str) -> None:
    """Refuse unless all numbers of all cells are the same, bit for bit.

    Raises:
        Refusal: naming the first cell and number that differ.
    """
    for cell in after:
        for name in dict.fromkeys(chain(before[cell], after[cell])):
            old, new = (numbers[cell].get(name, "nothing") for numbers in (before, after))
            if old != new:
                raise Refusal(
                    f"{names} are not equivalent, so nothing was written: {name} differs",
                    expected=old,
                    seen=new,
                    where=cell,
                    do="The change alters numbers: its cells are made anew, or it is undone.",
                )


def _told(entry: Equivalence) -> str:
    return " ".join(filter(None, (entry.stage, entry.method)))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
