"""What every cell of a grid is made from, with fingerprints: pure, from the grid and digests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.equivalences import Equivalences, load_equivalences
from quantgrid.errors import ConfigRefusal
from quantgrid.fingerprint import digest
from quantgrid.forms import METHODS
from quantgrid.grid import Grid
from quantgrid.job import Job, Stage
from quantgrid.own_script import STAGE as OWN_STAGE
from quantgrid.own_script import OwnCell
from quantgrid.recipe import Recipe
from quantgrid.science import science_digest
from quantgrid.spec import (
    BASE,
    Cell,
    Cooldown,
    Evaluation,
    Form,
    Trunk,
    canonical_spec,
    fingerprint,
    resolved,
)

ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Science:
    """The science digests of one source tree; `root` is the folder of the Snakefile."""

    root: Path

    def stage(self, name: str) -> str:
        """Digest of the script of a stage and its import closure."""
        return _digest(layout.script(self.root, name), layout.source_root(self.root))

    def method(self, name: str, method: str) -> str:
        """Digest of a stage that runs a method: the script and the method's module together."""
        module = layout.method_module(self.root, method)
        if not module.is_file():
            return ABSENT
        return digest([self.stage(name), _digest(module, layout.source_root(self.root))])

    def of(self, stage: str, method: str | None) -> str:
        """Digest of a stage, with the method that it runs if it runs one."""
        return self.method(stage, method) if method else self.stage(stage)

    def oldest(self, stage: str, method: str | None, computed: str) -> str:
        """The digest that stands in fingerprints: the oldest one with proved equal numbers."""
        return _equivalences(self.root).oldest(stage, method, computed)


@cache
def _equivalences(root: Path) -> Equivalences:
    return load_equivalences(root)


@cache
def _digest(entry: Path, source_root: Path) -> str:
    try:
        return science_digest(entry, source_root=source_root)
    except SyntaxError as error:
        raise ConfigRefusal(
            "a file of the science is not Python",
            seen=error.msg,
            where=f"{error.filename}:{error.lineno}",
        ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """Stages of all milestones, weights and cells of a grid.

    `milestones` is keyed by trunk id and tokens, `bases` by base id, the others by cell id.
    `asked` holds the cells of the grid and, where the grid leaves it out, the base of each;
    `own` those of somebody's own program, which have no weights.
    """

    grid: Grid
    own: dict[str, OwnCell] = field(default_factory=dict)
    asked: dict[str, Cell] = field(default_factory=dict)
    trunks: dict[str, Trunk] = field(default_factory=dict)
    milestones: dict[tuple[str, int], Stage] = field(default_factory=dict)
    bases: dict[str, Stage] = field(default_factory=dict)
    weights: dict[str, Stage] = field(default_factory=dict)
    cells: dict[str, Stage] = field(default_factory=dict)

    def job(self, cell: Cell | OwnCell) -> Job:
        """All stages of a cell."""
        if isinstance(cell, OwnCell):
            corpus = self.grid.corpus if cell.script.corpus else None
            return _job(cell.id, cell.seed, corpus, self.cells[cell.id])
        return self._job(cell.id, cell.trunk, self.weights[cell.id], self.cells[cell.id])

    def evaluation(self, cell: Cell | OwnCell) -> Job:
        """Only the evaluation of a cell whose weights exist."""
        if isinstance(cell, OwnCell):
            return self.job(cell)
        return self._job(cell.id, cell.trunk, self.cells[cell.id])

    def milestone(self, trunk: Trunk, milestone: int) -> Job:
        """The stage that trains a trunk up to a milestone."""
        return self._job(f"{trunk.id}/{milestone}", trunk, self.milestones[trunk.id, milestone])

    def owned(self) -> Iterator[tuple[str, str, str]]:
        """Owner, name and fingerprint of every stage."""
        for part in (self.milestones, self.bases, self.weights, self.cells):
            for stage in part.values():
                yield layout.owner_of(stage.record), stage.name, stage.fingerprint

    def _job(self, owner: str, trunk: Trunk, *stages: Stage) -> Job:
        return _job(owner, trunk.seed, self.grid.corpus, *stages)


def _job(owner: str, seed: int, corpus: Recipe | None, *stages: Stage) -> Job:
    name, recipe = (corpus.name, corpus.digest) if corpus else ("", "")
    return Job(cell=owner, seed=seed, corpus=name, recipe=recipe, stages=stages)


def trace(grid: Grid, science: Science) -> Lineage:
    """Fingerprint every milestone, weights and cell of a grid."""
    lineage = Lineage(grid=grid)
    maker = _Maker(grid.corpus.digest if grid.corpus else "", science)
    for cell in grid.cells:
        plain = cell if cell.form == BASE else replace(cell, form=BASE)
        if plain.id not in lineage.asked:
            _trace_base(plain, lineage, maker)
    _link_milestones(lineage.milestones)
    for cell in grid.cells:
        if cell.form != BASE:
            base = lineage.bases[cell.base]
            _add(cell, maker.weights(cell, base, lineage), lineage, maker)
    if grid.own:
        _trace_own(lineage, science.root)
    return lineage


def _trace_own(lineage: Lineage, root: Path) -> None:
    from quantgrid.own_files import code_digest  # most grids have no such cells

    codes: dict[str, str] = {}
    for cell in lineage.grid.own:
        script = cell.script
        if script.block not in codes:
            codes[script.block] = code_digest(root / (script.folder or ""), script)
        lineage.own[cell.id] = cell
        lineage.cells[cell.id] = _own_stage(cell, codes[script.block], lineage.grid.corpus)


def _own_stage(cell: OwnCell, code: str, corpus: Recipe | None) -> Stage:
    recipe = corpus.digest if corpus and cell.script.corpus else ""
    own = fingerprint(OWN_STAGE, cell.told, parents={}, corpus=recipe, science=code)
    return Stage(
        name=OWN_STAGE,
        kind="cells",
        record=layout.record_key("cells", cell.id, own),
        fingerprint=own,
        science=code,
        spec={"cell": {**cell.resolved, "code": code}},
        parents={},
    )


def _trace_base(cell: Cell, lineage: Lineage, maker: "_Maker") -> None:
    where = (cell.trunk.id, cell.milestone)
    lineage.trunks[cell.trunk.id] = cell.trunk
    if where not in lineage.milestones:
        lineage.milestones[where] = maker.milestone(cell)
    lineage.bases[cell.base] = maker.base(cell, lineage)
    _add(cell, lineage.bases[cell.base], lineage, maker)


def _add(cell: Cell, weights: Stage, lineage: Lineage, maker: "_Maker") -> None:
    lineage.asked[cell.id] = cell
    lineage.weights[cell.id] = weights
    lineage.cells[cell.id] = maker.evaluation(cell, weights, lineage.bases[cell.base])


def _link_milestones(milestones: dict[tuple[str, int], Stage]) -> None:
    """Tell each milestone which earlier ones it may go on from, newest first."""
    earlier: dict[str, list[str]] = {}
    for (trunk, at), stage in sorted(milestones.items()):
        before = earlier.setdefault(trunk, [])
        milestones[trunk, at] = stage._replace(resume=tuple(reversed(before)))
        before.append(stage.record)


_resolved = cache(resolved)
_canonical = cache(canonical_spec)


def _resolved_cell(cell: Cell) -> dict[str, Any]:
    """Like `resolved`, with parts that thousands of cells share computed once."""
    values = {each.name: getattr(cell, each.name) for each in fields(cell)}
    shared = (Trunk, Cooldown, Form, Evaluation)
    return {
        name: _resolved(value) if isinstance(value, shared) else value
        for name, value in values.items()
    }


@dataclass(frozen=True, slots=True)
class _Maker:
    corpus: str
    science: Science
    digests: dict[tuple[str, str | None], tuple[str, str]] = field(default_factory=dict)

    def milestone(self, cell: Cell) -> Stage:
        size = cell.trunk.model.tokens_per_step
        length = {"num_tokens": cell.milestone, "num_steps": cell.milestone // size}
        return self._stage(
            "trunk",
            "trunks",
            f"{cell.trunk.id}/{cell.milestone}",
            canonical={"trunk": _canonical(cell.trunk), **length},
            spec={"trunk": _resolved(cell.trunk), **length},
        )

    def base(self, cell: Cell, lineage: Lineage) -> Stage:
        return self._stage(
            "cooldown",
            "weights",
            f"{cell.base}/none",
            canonical=self._branch(cell, _canonical),
            spec=self._branch(cell, _resolved),
            milestone=lineage.milestones[cell.trunk.id, cell.milestone],
        )

    def weights(self, cell: Cell, base: Stage, lineage: Lineage) -> Stage:
        if not METHODS[cell.form.method].trains:
            return self._quantised(cell, base)
        milestone = lineage.milestones[cell.trunk.id, cell.milestone]
        parents = {"milestone": milestone} if cell.form.start == "cooldown" else {}
        return self._stage(
            "qat",
            "weights",
            cell.id,
            canonical={"form": _canonical(cell.form), **self._branch(cell, _canonical)},
            spec={"form": _resolved(cell.form), **self._branch(cell, _resolved)},
            method=cell.form.method,
            **parents,
        )

    def _quantised(self, cell: Cell, base: Stage) -> Stage:
        model = cell.trunk.model
        return self._stage(
            "quantise",
            "weights",
            cell.id,
            canonical={"form": _canonical(cell.form), "model": _canonical(model)},
            spec={
                "form": _resolved(cell.form),
                "model": _resolved(model),
                "seed": cell.trunk.seed,
            },
            method=cell.form.method,
            base=base,
        )

    def evaluation(self, cell: Cell, weights: Stage, base: Stage) -> Stage:
        # a form that also rounds what flows through the model takes part in its evaluation
        runs = METHODS[cell.form.method].runs
        form = {"form": _canonical(cell.form)} if runs else {}
        return self._stage(
            "evaluate_running" if runs else "evaluate",
            "cells",
            cell.id,
            canonical={"evaluation": _canonical(cell.evaluation), **form},
            spec={
                "evaluation": _resolved(cell.evaluation),
                "model": _resolved(cell.trunk.model),
                "cell": _resolved_cell(cell),
            },
            method=cell.form.method if runs else None,
            weights=weights,
            base=base,
        )

    def _branch(self, cell: Cell, form: Any) -> dict[str, Any]:
        return {"trunk": form(cell.trunk), "cooldown": form(cell.cooldown)}

    def _stage(
        self,
        name: str,
        kind: str,
        owner: str,
        *,
        canonical: Mapping[str, Any],
        spec: Mapping[str, Any],
        method: str | None = None,
        **parents: Stage,
    ) -> Stage:
        computed, oldest = self._science(name, method)
        own = fingerprint(
            name,
            dict(canonical),
            parents={role: parent.fingerprint for role, parent in parents.items()},
            corpus=self.corpus,
            science=oldest,
        )
        return Stage(
            name=name,
            kind=kind,
            record=layout.record_key(kind, owner, own),
            fingerprint=own,
            science=computed,
            spec=spec,
            parents={role: parent.record for role, parent in parents.items()},
        )

    def _science(self, name: str, method: str | None) -> tuple[str, str]:
        """The digest of a stage and the one that stands in fingerprints, looked up once a grid."""
        if (name, method) not in self.digests:
            computed = self.science.of(name, method)
            oldest = self.science.oldest(name, method, computed)
            self.digests[name, method] = (computed, oldest)
        return self.digests[name, method]
