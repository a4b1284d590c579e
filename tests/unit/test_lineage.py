"""Fingerprints change exactly when what they stand for changes."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantgrid.forms import METHODS as DECLARED
from quantgrid.grid import Block, Budget, Grid, expand
from quantgrid.lineage import ABSENT, Lineage, Science, trace
from quantgrid.load import load_corpus, load_grid, load_model
from quantgrid.spec import Cell, Evaluation, Form

NONE = Form(method="none")
ROW4 = Form(method="rtn", bits=4, group="row", scale="noclip")
GPTQ = Form(method="gptq", bits=3, group=32, scale="noclip")
QAT = Form(method="qat", bits="ternary", group="row", scale="absmean")
SCRATCH = replace(QAT, start="scratch")
CODE = ("scripts", "src/quantlm")
METHODS = "src/quantlm/methods"


@pytest.fixture(scope="module")
def make(root: Path) -> Callable[..., Grid]:
    """Makes small grids of n0; every argument is one thing that may differ."""

    def grid(
        *,
        forms: tuple[Form, ...] = (NONE, ROW4, GPTQ, QAT),
        tokens: tuple[int, ...] = (20_000, 40_000),
        seeds: tuple[int, ...] = (0, 1),
        name: str = "main",
        sequences: int = 32,
        metrics: tuple[str, ...] = ("loss", "kl"),
        corpus: Mapping[str, Any] = {},
        model: Mapping[str, Any] = {},
    ) -> Grid:
        block = Block(
            name=name,
            models=(replace(load_model(root, "n0"), **model),),
            budgets=tuple(Budget(amount=amount) for amount in tokens),
            seeds=seeds,
            forms=tuple((form, "here") for form in forms),
        )
        return expand(
            "test",
            corpus=replace(load_corpus(root, "shakespeare"), **corpus),
            evaluation=Evaluation(sequences=sequences, metrics=metrics),
            blocks=[block],
        )

    return grid


Make = Callable[..., Grid]


@pytest.fixture
def lay(root: Path, tmp_path: Path) -> Callable[..., Science]:
    """Makes copies of the science, each with one text replaced in one file."""
    copies: list[Path] = []

    def copy(path: str = "", old: str = "", new: str = "") -> Science:
        target = tmp_path / str(len(copies))
        copies.append(target)
        for part in CODE:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / part, target / part, ignore=ignored)
        if path:
            text = (target / path).read_text()
            assert old in text
            (target / path).write_text(text.replace(old, new) if old else new + text)
        return Science(target)

    return copy


Lay = Callable[..., Science]


def _all(lineage: Lineage) -> dict[str, str]:
    """Fingerprint of everything by a name: `trunk ...`, `weights ...`, `cell ...`."""
    milestones = {f"trunk {t}/{at}": s for (t, at), s in lineage.milestones.items()}
    weights = {f"weights {name}": stage for name, stage in lineage.weights.items()}
    cells = {f"cell {name}": stage for name, stage in lineage.cells.items()}
    return {name: s.fingerprint for name, s in {**milestones, **weights, **cells}.items()}


def _changed(before: Lineage, after: Lineage) -> set[str]:
    """Names of what is in both and has another fingerprint."""
    old, new = _all(before), _all(after)
    return {name for name in old.keys() & new.keys() if old[name] != new[name]}


def _kinds(names: set[str]) -> set[str]:
    return {name.split()[0] for name in names}


# -- what changes nothing -------------------------------------------------------------------------


def test_fingerprints_stay_when_only_words_of_the_grid_differ(make: Make, lay: Lay) -> None:
    """Block names, the order of axes, and what else is in the grid are not part of a cell."""
    science = lay()
    whole = trace(make(), science)
    others = [
        make(name="other"),
        make(forms=(QAT, GPTQ, ROW4, NONE)),
        make(tokens=(40_000, 20_000), seeds=(1, 0)),
        make(forms=(GPTQ,)),
        make(seeds=(1,)),
        make(tokens=(40_000,)),
    ]
    for other in others:
        traced = trace(other, science)
        assert _changed(whole, traced) == set()
        assert _all(traced).keys() <= _all(whole).keys()


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("scripts/trunk.py", "", "# a comment\n"),
        ("scripts/evaluate.py", '"""One stage under the cell contract."""', '"""Other words."""'),
        (f"{METHODS}/gptq.py", "", "\n\n\n# moved down\n"),
    ],
)
def test_fingerprints_stay_when_only_words_of_the_science_differ(
    make: Make, lay: Lay, path: str, old: str, new: str
) -> None:
    """Comments, docstrings and layout are no science."""
    assert _changed(trace(make(), lay()), trace(make(), lay(path, old, new))) == set()


def test_fingerprints_stay_when_a_method_is_added(make: Make, lay: Lay) -> None:
    """A new module makes no cell stale."""
    before, science = trace(make(), lay()), lay()
    (science.root / METHODS / "newest.py").write_text("RATE = 1\n")

    assert _changed(before, trace(make(), science)) == set()


def test_fingerprints_stay_when_the_tree_lies_elsewhere(make: Make, lay: Lay, root: Path) -> None:
    """A clone has the same cells."""
    assert _changed(trace(make(), Science(root)), trace(make(), lay())) == set()


# -- what changes exactly its own -----------------------------------------------------------------


def test_a_longer_budget_adds_only_its_tail_when_added(make: Make, lay: Lay) -> None:
    """What was planned stays; the new milestone goes on from the newest one before it."""
    science = lay()
    before, after = trace(make(), science), trace(make(tokens=(20_000, 40_000, 80_000)), science)

    assert _changed(before, after) == set()
    added = _all(after).keys() - _all(before).keys()
    assert len([name for name in added if name.startswith("trunk")]) == 2
    assert {name.split("-")[1] for name in added if not name.startswith("trunk")} == {"t80k"}
    at = sorted(at for trunk, at in after.milestones if trunk == "n0-s0")
    stages = [after.milestones["n0-s0", each] for each in at]
    assert [stage.resume for stage in stages] == [
        (),
        (stages[0].record,),
        (stages[1].record, stages[0].record),
    ]


def test_a_milestone_ignores_earlier_ones_when_they_are_left_out(make: Make, lay: Lay) -> None:
    """A milestone is its trunk and its length, however it was reached."""
    science = lay()
    alone, among = (
        trace(make(tokens=tokens), science) for tokens in ((80_000,), (20_000, 40_000, 80_000))
    )
    (at,) = {at for _, at in alone.milestones}

    one, other = alone.milestones["n0-s0", at], among.milestones["n0-s0", at]
    assert (one.fingerprint, one.parents) == (other.fingerprint, {})
    assert (len(one.resume), len(other.resume)) == (0, 2)


def test_a_constant_of_a_method_changes_its_own_cells_when_edited(make: Make, lay: Lay) -> None:
    """Weights and cells of GPTQ, and nothing else."""
    before, after = trace(make(), lay()), trace(make(), lay(f"{METHODS}/gptq.py", "", "X = 7\n"))

    changed = _changed(before, after)

    assert changed == {name for name in _all(before) if "gptq" in name}
    assert len(changed) == 8


@pytest.mark.parametrize(
    ("script", "kinds", "forms"),
    [
        ("trunk", {"trunk", "weights", "cell"}, {"none", "rtn", "gptq", "qat"}),
        ("cooldown", {"weights", "cell"}, {"none", "rtn", "gptq", "qat"}),
        ("quantise", {"weights", "cell"}, {"rtn", "gptq"}),
        ("qat", {"weights", "cell"}, {"qat"}),
        ("evaluate", {"cell"}, {"none", "rtn", "gptq", "qat"}),
    ],
)
def test_a_script_changes_what_is_made_from_it_when_edited(
    make: Make, lay: Lay, script: str, kinds: set[str], forms: set[str]
) -> None:
    """Each stage has its own science; a new metric trains nothing."""
    changed = _changed(
        trace(make(), lay()), trace(make(), lay(f"scripts/{script}.py", "", "X=7\n"))
    )

    assert _kinds(changed) == kinds
    made = {name.rsplit("/", 1)[1].split("-")[0] for name in changed if "trunk" not in name}
    # a cool-down that changed changes its evaluations: every form is compared with its base
    assert made == forms


@pytest.mark.parametrize("change", [{"sequences": 16}, {"metrics": ("loss",)}])
def test_an_evaluation_changes_cells_only_when_edited(
    make: Make, lay: Lay, change: dict[str, Any]
) -> None:
    """Other sequences or metrics are measured anew on the same weights."""
    science = lay()
    before = trace(make(), science)

    changed = _changed(before, trace(make(**change), science))

    assert changed == {name for name in _all(before) if name.startswith("cell")}


@pytest.mark.parametrize(
    "change",
    [
        {"corpus": {"shuffle_seed": 1}},
        {"corpus": {"document_bytes": 2048}},
        {"model": {"learning_rate": 3e-3}},
        {"model": {"beta2": 0.99}},
    ],
)
def test_everything_changes_when_corpus_or_model_does(
    make: Make, lay: Lay, change: dict[str, Any]
) -> None:
    """Nothing made from other tokens or by another recipe is the same."""
    science = lay()
    before = trace(make(), science)

    assert _changed(before, trace(make(**change), science)) == _all(before).keys()


def test_nothing_changes_when_the_texts_lie_elsewhere(make: Make, lay: Lay, root: Path) -> None:
    """Where texts lie on this machine is no part of what they are."""
    science = lay()
    source = replace(load_corpus(root, "shakespeare").source, glob="*.other")

    assert (
        _changed(trace(make(), science), trace(make(corpus={"source": source}), science)) == set()
    )


def test_forms_differ_when_any_field_does(make: Make, lay: Lay) -> None:
    """Every field of a form that is not its default is a part of its fingerprint."""
    science = lay()
    forms = [
        GPTQ,
        replace(GPTQ, damping=0.1),
        replace(GPTQ, act_order=False),
        replace(GPTQ, calibration_sequences=64),
        replace(GPTQ, scale_dtype="float32"),
        replace(GPTQ, tag="again"),
        QAT,
        SCRATCH,
    ]
    traced = trace(make(forms=tuple(forms), tokens=(20_000,), seeds=(0,)), science)

    weights = [stage.fingerprint for name, stage in traced.weights.items() if "none" not in name]
    assert len(set(weights)) == len(forms)


# -- shape ----------------------------------------------------------------------------------------


def test_parents_are_what_each_stage_needs_when_traced(make: Make, lay: Lay) -> None:
    """A base comes from its milestone, a form from its base, a trained form from the milestone."""
    lineage = trace(make(forms=(NONE, ROW4, QAT, SCRATCH), tokens=(20_000,), seeds=(0,)), lay())
    (milestone,) = lineage.milestones.values()
    base = lineage.bases["n0-t20k-s0"]
    parents = {name.split("/")[1]: stage.parents for name, stage in lineage.weights.items()}

    assert parents == {
        "none": {"milestone": milestone.record},
        ROW4.id: {"base": base.record},
        QAT.id: {"milestone": milestone.record},
        SCRATCH.id: {},
    }
    for name, stage in lineage.cells.items():
        assert stage.parents == {
            "weights": lineage.weights[name].record,
            "base": base.record,
        }


def test_bases_are_traced_when_the_grid_leaves_them_out(make: Make, lay: Lay) -> None:
    """A form needs its base even where nobody asks for the base's result."""
    grid = make(forms=(ROW4,), tokens=(20_000,), seeds=(0,))
    lineage = trace(grid, lay())

    assert set(lineage.asked) == {"n0-t20k-s0/none", f"n0-t20k-s0/{ROW4.id}"}
    assert len(grid.cells) == 1


def test_jobs_hold_the_stages_of_a_cell_when_asked(make: Make, lay: Lay) -> None:
    """A cell is its weights and their evaluation; an evaluation alone trains nothing."""
    grid = make(tokens=(20_000,), seeds=(0,))
    lineage = trace(grid, lay())
    cell: Cell = next(cell for cell in grid.cells if cell.form == ROW4)

    assert [stage.name for stage in lineage.job(cell).stages] == ["quantise", "evaluate"]
    assert [stage.name for stage in lineage.evaluation(cell).stages] == ["evaluate"]
    (trunk, at) = next(iter(lineage.milestones))
    job = lineage.milestone(lineage.trunks[trunk], at)
    assert (job.cell, [stage.name for stage in job.stages]) == (f"{trunk}/{at}", ["trunk"])
    assert (job.corpus, job.recipe) == ("shakespeare", grid.corpus.digest)


def test_records_are_told_apart_when_traced(make: Make, lay: Lay) -> None:
    """No two stages of a grid share a key."""
    lineage = trace(make(), lay())
    stages = [*lineage.milestones.values(), *lineage.weights.values(), *lineage.cells.values()]

    assert len({stage.record for stage in stages}) == len(stages)
    assert len({stage.fingerprint for stage in stages}) == len(stages)


def test_science_is_absent_when_a_method_has_no_module(make: Make, lay: Lay) -> None:
    """A method without a module can be planned; its weights say that nothing makes them."""
    science = lay()
    (science.root / METHODS / "gptq.py").unlink()

    lineage = trace(make(tokens=(20_000,), seeds=(0,)), science)

    assert science.method("quantise", "gptq") == ABSENT
    absent = {name for name, stage in lineage.weights.items() if stage.science == ABSENT}
    assert absent == {f"n0-t20k-s0/{GPTQ.id}"}


def test_spec_of_a_cell_is_resolved_when_traced(make: Make, lay: Lay) -> None:
    """A record's spec names every field with its value, defaults too."""
    grid = make(tokens=(20_000,), seeds=(0,))
    spec = trace(grid, lay()).cells[grid.cells[1].id].spec

    assert spec["cell"]["form"]["damping"] == 0.01
    assert spec["cell"]["trunk"]["model"]["rope_base"] == 10000.0
    assert spec["cell"]["block"] == "main"
    assert spec["evaluation"] == {"sequences": 32, "metrics": ["loss", "kl"]}


RUNNING = Form(method="activation", bits=8, group="row", scale="noclip", activation_bits=8)


def test_a_form_that_runs_is_measured_with_its_method(make: Make, lay: Lay) -> None:
    """Its evaluation is a stage of its own that knows the form; plain cells keep theirs."""
    forms = (NONE, ROW4, RUNNING, replace(RUNNING, activation_bits=4))
    before = trace(make(forms=forms), lay())
    edited = trace(make(forms=forms), lay(f"{METHODS}/activation.py", "", "X = 7\n"))
    script = trace(make(forms=forms), lay("scripts/evaluate_running.py", "", "X = 7\n"))

    ids = [f"n0-t20k-s0/{form.id}" for form in forms]
    assert [before.cells[each].name for each in ids] == [
        "evaluate",
        "evaluate",
        "evaluate_running",
        "evaluate_running",
    ]
    assert before.cells[ids[2]].spec["cell"]["form"]["activation_bits"] == 8
    assert before.weights[ids[2]].fingerprint != before.weights[ids[3]].fingerprint
    for plain in ids[:2]:
        assert edited.cells[plain] == before.cells[plain]
        assert script.cells[plain] == before.cells[plain]
    assert edited.cells[ids[2]].fingerprint != before.cells[ids[2]].fingerprint
    assert script.cells[ids[2]].fingerprint != before.cells[ids[2]].fingerprint
    assert script.weights[ids[2]] == before.weights[ids[2]]


def test_every_method_of_the_paper_grid_is_written(root: Path) -> None:
    """No cell of it is refused for want of a module, and its blocks have the cells of QU 2."""
    grid = load_grid(root, "paper")
    science = Science(root)

    counts = Counter(cell.block for cell in grid.cells)

    assert counts == {"A0": 60, "A1": 720, "B": 144, "C": 72, "D": 12}
    for method in {cell.form.method for cell in grid.cells} - {"none"}:
        stage = "qat" if DECLARED[method].trains else "quantise"
        assert science.method(stage, method) != ABSENT, method
