"""The guide "add a method" works as it is written."""

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml

from memory_corpus import MODEL, TINY, form
from quantgrid import forms, layout
from quantgrid.forms import parse_form
from quantgrid.grid import Block, Budget, Grid, expand
from quantgrid.lineage import Science, trace
from quantgrid.load import load_corpus, load_model
from quantgrid.spec import BASE, Evaluation, Form
from quantlm.layer import num_bytes
from quantlm.model import Architecture, build, linears


@pytest.fixture(scope="module")
def blocks(root: Path) -> dict[str, str]:
    """The pieces of code of the guide, by language and by what they hold."""
    text = (root / "docs" / "guides" / "add-a-method.md").read_text()
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    module, line = (code for language, code in found if language == "python")
    grid_line = next(code for language, code in found if language == "yaml")
    codebook = next(code for _, code in found if "class Coded" in code)
    return {"module": module, "line": line, "grid": grid_line, "codebook": codebook}


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("floor_of_the_guide", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_module_of_the_guide_rounds_down(blocks: dict[str, str], tmp_path: Path) -> None:
    """It makes every matrix, and no value is above its weight by more than rounding the scale."""
    (tmp_path / "floor.py").write_text(blocks["module"])
    model = build(Architecture.of(TINY), 0)

    layers = _imported(tmp_path / "floor.py").quantise(
        model, form("floor", 4, "row", "noclip"), lambda _: torch.empty(0)
    )

    assert list(layers) == list(linears(model))
    for name, matrix in linears(model).items():
        above = layers[name].values() - matrix.weight.detach()
        assert above.max() <= 0.5 * layers[name].scales.float().max()
        assert above.mean() < 0


def test_codebook_of_the_guide_takes_the_nearest_level_and_packs(
    blocks: dict[str, str], tmp_path: Path
) -> None:
    """Brute force over its levels; 4.25 bits a weight; the packed file gives the values back."""
    (tmp_path / "nf.py").write_text(blocks["codebook"])
    nf, model = _imported(tmp_path / "nf.py"), build(Architecture.of(MODEL), 0)

    layers = nf.quantise(model, form("nf", 4, 64, "absmax"), lambda _: torch.empty(0))

    for name, matrix in linears(model).items():
        made, weight = layers[name], matrix.weight.detach()
        scale = made.scales.float().repeat_interleave(64, 1)
        best = (weight / scale).unsqueeze(-1).sub(nf.NF4).abs().argmin(-1)
        assert torch.equal(made.codes.long(), best)
        assert 8 * num_bytes(made) == 4.25 * weight.numel()
        assert made.describe()["parts"] == list(made.pack())
        again = nf.Coded.unpack(made.pack(), made.describe())
        assert torch.equal(again.values(), made.values())


def test_declared_line_of_the_guide_adds_cells_and_makes_none_stale(
    blocks: dict[str, str], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With module and line in place, the form is accepted and every other fingerprint stays."""
    for part in layout.CODE_PARTS:
        shutil.copytree(root / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    old = [BASE, Form(method="rtn", bits=3, group="row", scale="noclip")]
    before = trace(_grid(root, old), Science(root))

    (tmp_path / "src/quantlm/methods/floor.py").write_text(blocks["module"])
    declared: dict[str, Any] = eval("{" + blocks["line"] + "}", vars(forms))  # noqa: S307
    monkeypatch.setattr(forms, "METHODS", {**forms.METHODS, **declared})
    monkeypatch.setattr("quantgrid.lineage.METHODS", forms.METHODS)
    added = parse_form(yaml.safe_load(blocks["grid"])[0], lambda *_: "here")
    after = trace(_grid(root, [*old, added]), Science(tmp_path))

    assert added.id == "floor-w4row-noclip"
    assert after.cells.keys() - before.cells.keys() == {f"n0-t20k-s0/{added.id}"}
    assert {name: after.cells[name] for name in before.cells} == before.cells


def _grid(root: Path, chosen: list[Form]) -> Grid:
    block = Block(
        name="main",
        models=(load_model(root, "n0"),),
        budgets=(Budget(amount=20_000),),
        seeds=(0,),
        forms=tuple((each, "here") for each in chosen),
    )
    corpus, evaluation = load_corpus(root, "shakespeare"), Evaluation(sequences=32)
    return expand("test", corpus=corpus, evaluation=evaluation, blocks=[block])
