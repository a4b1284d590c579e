"""Specs have ids that carry everything and a canonical form without defaults."""

import json
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from quantgrid.fingerprint import canonical, digest
from quantgrid.load import load_grid, load_model
from quantgrid.spec import (
    Cell,
    Cooldown,
    Evaluation,
    Form,
    Model,
    Trunk,
    canonical_spec,
    fingerprint,
    resolved,
    with_floats,
)


@pytest.fixture(scope="module")
def model(root: Path) -> Model:
    """The smallest model."""
    return load_model(root, "n0")


@pytest.fixture(scope="module")
def cell(model: Model) -> Cell:
    """One quantised cell."""
    return Cell(
        trunk=Trunk(model=model, seed=0, corpus="shakespeare"),
        budget="t800k",
        num_tokens=800_000,
        cooldown=Cooldown(num_steps=391, cooldown_steps=78),
        form=Form(method="gptq", bits=3, group=32, scale="noclip"),
        evaluation=Evaluation(sequences=384),
        block="main",
    )


def test_cell_has_the_ids_of_the_research(cell: Cell) -> None:
    """The example of the design, part by part."""
    assert cell.id == "n0-t800k-s0/gptq-w3g32-noclip"
    assert (cell.base, cell.variant) == ("n0-t800k-s0", "gptq-w3g32-noclip")
    assert cell.milestone == 313 * 2048


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Form(method="none"), "none"),
        (Form(method="rtn", bits=4, group="row", scale="noclip"), "rtn-w4row-noclip"),
        (Form(method="gptq", bits=2, group=32, asymmetric=True), "gptq-w2g32-asym"),
        (Form(method="qat", bits="ternary", group="row", scale="absmean"),
         "qat-ternary-row-absmean"),
        (Form(method="qat", bits=2, group=32, asymmetric=True, start="scratch"),
         "qat-w2g32-asym-scratch"),
        (Form(method="gptq", bits=3, group="row", scale="absmax", act_order=False, damping=0.05,
              calibration_sequences=64, tag="b"),
         "gptq-w3row-absmax-noact-damp0p05-cal64-b"),
        (Form(method="rtn", bits=4, group=128, scale="symmetric", scale_dtype="float32"),
         "rtn-w4g128-symmetric-s32"),
        (Form(method="activation", bits=4, group="row", scale="noclip", activation_bits=8),
         "activation-w4row-noclip-a8"),
        (Form(method="cache", kv_bits=4), "cache-kv4"),
        (Form(method="mxfp", bits=4, group=32, scale="floor", scale_dtype="e8m0"),
         "mxfp-w4g32-floor-e8m0"),
    ],
)  # fmt: skip
def test_form_id_tells_everything_when_read(form: Form, text: str) -> None:
    """Each field that differs from its default is in the id."""
    assert form.id == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "n0-s0"),
        ({"passes": 4}, "n0-s0-p4"),
        ({"unique_tokens": 5_000_000}, "n0-s0-u5000000p1"),
        ({"unique_tokens": 5_000_000, "passes": 4}, "n0-s0-u5000000p4"),
    ],
)
def test_trunk_id_tells_passes_when_they_are_not_one(
    model: Model, changes: dict[str, Any], text: str
) -> None:
    """What a base saw, and how often, is part of its name."""
    assert Trunk(model=model, seed=0, corpus="shakespeare", **changes).id == text


def test_cell_is_the_same_when_only_its_block_differs(cell: Cell) -> None:
    """A block is where a cell was declared, not what it is."""
    assert replace(cell, block="other") == cell


def test_canonical_spec_leaves_defaults_out(cell: Cell) -> None:
    """Only what was said is there, at every depth."""
    assert canonical_spec(cell) == {
        "trunk": {
            "model": {
                "name": "n0", "d_model": 64, "num_layers": 2, "num_heads": 2, "d_ff": 192,
                "vocab_size": 256, "context": 64, "batch_sequences": 32, "learning_rate": 0.002,
                "warmup_steps": 20, "init_std": 0.04,
            },
            "seed": 0,
            "corpus": "shakespeare",
        },
        "budget": "t800k",
        "num_tokens": 800_000,
        "cooldown": {"num_steps": 391, "cooldown_steps": 78},
        "form": {"method": "gptq", "bits": 3, "group": 32, "scale": "noclip"},
        "evaluation": {"sequences": 384},
        "block": "main",
    }  # fmt: skip


def test_resolved_spec_has_every_field_as_json(cell: Cell) -> None:
    """A script reads settings, never defaults; what it reads survives JSON."""
    spec = resolved(cell)

    assert json.loads(json.dumps(spec)) == spec
    assert set(spec["form"]) == {field.name for field in fields(Form)}
    assert set(spec["trunk"]["model"]) == {field.name for field in fields(Model)}
    assert spec["evaluation"]["metrics"] == ["loss", "kl"]


@pytest.mark.parametrize("part", [Model, Trunk, Form, Evaluation])
def test_canonical_spec_is_the_same_when_a_field_with_default_is_added(
    cell: Cell, part: type[Any]
) -> None:
    """A year of results survives a new option: its default is left out."""
    old = {Model: cell.trunk.model, Trunk: cell.trunk, Form: cell.form, Evaluation: cell.evaluation}
    values = {field.name: getattr(old[part], field.name) for field in fields(part)}
    grown = make_dataclass(
        part.__name__, [("invented", int, 7)], bases=(part,), frozen=True, kw_only=True, slots=True
    )

    assert canonical(canonical_spec(grown(**values))) == canonical(canonical_spec(old[part]))
    changed = grown(**values, invented=8)
    assert canonical_spec(changed) == {**canonical_spec(old[part]), "invented": 8}


def test_floats_are_floats_when_written_whole() -> None:
    """One is 1.0 where a fraction may stand, and stays 1 where it counts."""

    @dataclass(frozen=True)
    class Rate:
        rate: float
        steps: int

    assert canonical(with_floats(Rate, {"rate": 1, "steps": 1})) == '{"rate":1.0,"steps":1}'


def test_fingerprint_changes_when_anything_it_stands_for_changes() -> None:
    """Stage, spec, parents, corpus and science: each alone makes another fingerprint."""
    facts = {"parents": {"base": "a"}, "corpus": "c", "science": "s"}
    own = fingerprint("quantise", {"bits": 3}, **facts)  # type: ignore[arg-type]
    others = [
        fingerprint("qat", {"bits": 3}, **facts),  # type: ignore[arg-type]
        fingerprint("quantise", {"bits": 2}, **facts),  # type: ignore[arg-type]
        *(
            fingerprint("quantise", {"bits": 3}, **{**facts, **change})  # type: ignore[arg-type]
            for change in ({"parents": {"base": "b"}}, {"corpus": "d"}, {"science": "t"})
        ),
    ]

    assert len({own, *others}) == 6
    assert all(len(each) == 64 for each in (own, *others))


def test_grid_specs_are_those_of_version_one(root: Path) -> None:
    """A year of results depends on it: a changed digest makes every archived cell stale.

    If this fails, a spec, a model file or a grid changed what its cells mean.  Where that was
    meant, put the new digest here and say so in the change log.
    """
    specs = [canonical_spec(cell) for cell in load_grid(root, "demo").cells]

    assert digest(specs) == "df8832d16dffd728019570cb82b5e905d7eb11d8e40b313084e5b6a23059e311"
