from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from memory_corpus import MODEL, TINY
from quantgrid.load import load_model
from quantgrid.spec import Model, resolved
from quantlm.loop import Recipe
from quantlm.model import Architecture, Transformer, build, linears, rotate, turns

N0 = Architecture.of(MODEL)


def test_model_has_the_parameters_of_its_spec_when_n0() -> None:
    """n0 has 123,200 parameters, 106,496 of them in matrices of its blocks."""
    model = build(N0, seed=0)

    assert sum(weight.numel() for weight in model.parameters()) == 123_200
    assert sum(each.weight.numel() for each in linears(model).values()) == 106_496


@pytest.mark.parametrize("name", ["n0", "n1", "n4", "n10", "n30", "n50", "n100"])
def test_model_has_the_parameters_of_its_spec_when_configured(root: Path, name: str) -> None:
    """For each configured size, all but embedding and head is what the spec counts."""
    spec = load_model(root, name)
    with torch.device("meta"):
        model = Transformer(Architecture.of(resolved(spec)))

    outside = {id(model.embedding.weight), id(model.head_weight)}
    inside = [weight.numel() for weight in model.parameters() if id(weight) not in outside]

    assert sum(inside) == spec.num_parameters


def test_model_spec_is_used_up_when_read() -> None:
    """Architecture and recipe together take every field of a model spec but its name."""
    taken = {each.name for kind in (Architecture, Recipe) for each in fields(kind)} | {"context"}

    assert taken | {"name"} == {each.name for each in fields(Model)}


def test_build_is_a_pure_function_when_torch_has_other_seeds() -> None:
    """Equal seeds give equal weights whatever torch drew before; other seeds give others."""
    torch.manual_seed(1)
    first = build(N0, seed=3).state_dict()
    torch.manual_seed(2)
    again, other = build(N0, seed=3).state_dict(), build(N0, seed=4).state_dict()

    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_build_draws_with_the_deviation_of_the_spec() -> None:
    """Matrices have mean 0 and deviation init_std, gains are 1."""
    model = build(N0, seed=0)

    down = linears(model)["blocks.0.feed_forward.down"].weight

    assert down.std().item() == pytest.approx(0.02, rel=0.05)
    assert torch.equal(model.norm.weight, torch.ones(64))


def test_model_sees_no_future_when_a_token_changes() -> None:
    """Logits before a changed token stay as they are, bit for bit."""
    model = build(Architecture.of(TINY), seed=0)
    tokens = torch.arange(8)[None]
    changed = tokens.clone()
    changed[0, 5] = 99

    before, after = model(tokens), model(changed)

    assert torch.equal(before[0, :5], after[0, :5])
    assert not torch.allclose(before[0, 5:], after[0, 5:])


def test_rotate_keeps_scores_when_positions_shift() -> None:
    """The product of a turned query and key depends on their distance alone; lengths stay."""
    turned = turns(N0)
    source = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 1, 1, 32, generator=source) for _ in range(2))

    def score(at: int, to: int) -> float:
        left, right = rotate(query, turned[at : at + 1]), rotate(key, turned[to : to + 1])
        return (left * right).sum().item()

    assert score(3, 10) == pytest.approx(score(40, 47), abs=1e-4)
    assert score(3, 10) != pytest.approx(score(3, 11), abs=1e-2)
    assert rotate(query, turned[9:10]).norm() == pytest.approx(query.norm())


def test_model_equals_its_formula_when_written_out() -> None:
    """One block by hand, with attention as a softmax of a masked matrix, gives the same logits."""
    architecture = Architecture.of(TINY | {"num_layers": 1, "num_heads": 1, "tied": False})
    model = build(architecture, seed=0)
    block: Any = model.blocks[0]
    tokens = torch.tensor([[1, 5, 9, 2]])

    def norm(x: torch.Tensor) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()

    x = model.embedding.weight[tokens]
    h, turned = norm(x), turns(architecture)[:4]
    query, key = (
        rotate((h @ each.weight.T)[:, None], turned)[:, 0]
        for each in (block.attention.query, block.attention.key)
    )
    scores = query @ key.transpose(1, 2) / 16**0.5
    mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(mask, -torch.inf).softmax(-1) @ (h @ block.attention.value.weight.T)
    x = x + mixed @ block.attention.output.weight.T
    h, forward = norm(x), block.feed_forward
    gated = functional.silu(h @ forward.gate.weight.T) * (h @ forward.up.weight.T)
    expected = norm(x + gated @ forward.down.weight.T) @ model.head_weight.T

    torch.testing.assert_close(model(tokens), expected, atol=1e-6, rtol=1e-4)


def test_linears_leave_out_the_head_when_untied() -> None:
    """Embedding and head are never quantised."""
    model = build(Architecture.of(TINY | {"tied": False}), seed=0)

    assert len(linears(model)) == 7 * 2
    assert all(name.startswith("blocks.") for name in linears(model))
