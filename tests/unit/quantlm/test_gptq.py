"""GPTQ against its published algorithm, against the optimum, and in its limits."""

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from memory_corpus import TINY, counting, form
from quantlm import data
from quantlm.layer import put
from quantlm.methods import gptq, rtn
from quantlm.methods.gptq import solve
from quantlm.model import Architecture, build, linears
from quantlm.quantiser import Levels, quantise

NO_DATA = partial(data.calibration, counting(), TINY["context"])


def _levels(bits: int, group: int | str, rule: str = "noclip", dtype: str = "float32") -> Levels:
    return Levels(bits=bits, group=group, rule=rule, scale_dtype=dtype)


def _case(outputs: int, inputs: int, seed: int) -> tuple[Tensor, Tensor]:
    """A matrix and the Hessian of correlated inputs."""
    source = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=source)
    mix = torch.randn(inputs, inputs, generator=source) * 0.5 + torch.eye(inputs)
    x = torch.randn(4 * inputs, inputs, generator=source).double() @ mix.double()
    return weight, x.T @ x / len(x)


def _error(weight: Tensor, values: Tensor, hessian: Tensor) -> float:
    missed = (weight - values).double()
    return torch.trace(missed @ hessian @ missed.T).item()


def _published(
    weight: Tensor, hessian: Tensor, levels: Levels, *, act_order: bool, damping: float
) -> Tensor:
    """The algorithm of 2210.17323 column by column in float64: no blocks, no shared code.

    After each column the inverse Hessian of those that remain is found by elimination, as in
    the derivation (eq. 2 and 3), and not through a Cholesky factor.
    """
    scales, zeros = quantise(weight, levels).scales, quantise(weight, levels).zeros
    per_weight = weight.numel() // scales.numel() // (weight.shape[0] // scales.shape[0])
    h = hessian.clone()
    h += torch.eye(len(h)) * damping * h.diagonal().mean()
    inverse = torch.linalg.inv(h)
    work, codes = weight.double(), torch.zeros_like(weight)
    order = h.diagonal().argsort(descending=True) if act_order else torch.arange(len(h))
    for column in order.tolist():
        group = column // per_weight if scales.shape[1] > 1 else 0
        scale = scales[:, group].expand(len(weight))
        zero = zeros[:, group].expand(len(weight)) if zeros is not None else 0
        code = ((work[:, column].float() * (1 / scale)).round() + zero).clamp(
            levels.qmin, levels.qmax
        )
        codes[:, column] = code
        error = (work[:, column] - ((code - zero) * scale).double()) / inverse[column, column]
        work -= torch.outer(error, inverse[column])
        inverse -= torch.outer(inverse[:, column], inverse[column]) / inverse[column, column]
    return codes.to(torch.int8)


@pytest.mark.parametrize("act_order", [False, True])
@pytest.mark.parametrize("group", ["tensor", "row", 32])
@pytest.mark.parametrize(("bits", "rule"), [(4, "noclip"), (3, "noclip"), (2, "asymmetric")])
def test_solve_equals_the_published_algorithm(
    bits: int, rule: str, group: int | str, act_order: bool
) -> None:
    """Every code is that of an independent implementation, across the edges of lazy blocks."""
    levels = _levels(bits, group, rule)
    for seed in range(2):
        weight, hessian = _case(8, 192, seed)

        ours = solve(weight, hessian, levels, act_order=act_order, damping=0.01)

        reference = _published(weight, hessian, levels, act_order=act_order, damping=0.01)
        assert torch.equal(ours.codes, reference)


def test_solve_lies_between_the_optimum_and_rtn() -> None:
    """1 x 5 at 2 bits, 200 cases: never below the optimum; mean optimum < GPTQ < RTN."""
    levels, means = _levels(2, "row"), torch.zeros(3, dtype=torch.float64)
    codes = torch.tensor(list(product(range(-2, 2), repeat=5)))
    for seed in range(200):
        weight, hessian = _case(1, 5, seed)
        nearest = quantise(weight, levels)
        all_values = codes * nearest.scales
        missed = (weight - all_values).double()
        optimum = ((missed @ hessian) * missed).sum(1).min().item()

        ours = solve(weight, hessian, levels, act_order=True, damping=0.01)

        errors = [optimum, *(_error(weight, q.values(), hessian) for q in (ours, nearest))]
        assert errors[0] <= errors[1] + 1e-9
        means += torch.tensor(errors)

    assert means[0] < means[1] * 0.95
    assert means[1] < means[2] * 0.8


def test_solve_gains_on_rtn_when_inputs_are_correlated() -> None:
    """On 96 x 256 the output error is well below that of rounding to nearest (QU 4: .77)."""
    weight, hessian = _case(96, 256, 0)
    levels = _levels(3, 32)

    ours = solve(weight, hessian, levels, act_order=True, damping=0.01)

    nearest = _error(weight, quantise(weight, levels).values(), hessian)
    assert _error(weight, ours.values(), hessian) < 0.85 * nearest


@pytest.mark.parametrize("group", ["tensor", "row", 32])
@pytest.mark.parametrize("rule", ["noclip", "symmetric", "asymmetric"])
@pytest.mark.parametrize("scale", [1.0, 37.5])
def test_solve_equals_rtn_when_inputs_are_uncorrelated(
    group: int | str, rule: str, scale: float
) -> None:
    """A multiple of the identity leaves nothing to make up for: codes are those of RTN."""
    weight, _ = _case(16, 160, 1)
    levels = _levels(3, group, rule, "float16")
    hessian = torch.eye(160, dtype=torch.float64) * scale

    for act_order in (False, True):
        ours = solve(weight, hessian, levels, act_order=act_order, damping=0.01)
        assert torch.equal(ours.codes, quantise(weight, levels).codes)


def test_solve_tends_to_rtn_when_damping_grows() -> None:
    """More damping, fewer codes that differ from RTN; none in the limit."""
    weight, hessian = _case(16, 160, 1)
    levels = _levels(3, 32)
    nearest = quantise(weight, levels).codes

    differing = [
        (solve(weight, hessian, levels, act_order=True, damping=damping).codes != nearest)
        .sum()
        .item()
        for damping in (0.01, 10.0, 1e9)
    ]

    assert differing[0] > differing[1] > differing[2] == 0


@pytest.mark.parametrize("group", ["row", "tensor"])
def test_solve_commutes_when_inputs_are_permuted(group: str) -> None:
    """With act-order, permuted inputs give permuted codes."""
    weight, hessian = _case(8, 150, 2)
    levels = _levels(3, group)
    permuted = torch.randperm(150, generator=torch.Generator().manual_seed(0))

    plain = solve(weight, hessian, levels, act_order=True, damping=0.01)
    moved = solve(
        weight[:, permuted], hessian[permuted][:, permuted], levels, act_order=True, damping=0.01
    )

    assert torch.equal(moved.codes, plain.codes[:, permuted])


def test_solve_uses_the_levels_of_rtn() -> None:
    """Scales and zero points are those of RTN: the two methods differ in codes alone."""
    weight, hessian = _case(8, 128, 3)
    levels = _levels(2, 32, "asymmetric", "float16")

    ours = solve(weight, hessian, levels, act_order=True, damping=0.01)
    nearest = quantise(weight, levels)

    assert torch.equal(ours.scales, nearest.scales)
    assert ours.zeros is not None
    assert nearest.zeros is not None
    assert torch.equal(ours.zeros, nearest.zeros)
    assert not torch.equal(ours.codes, nearest.codes)


def test_quantise_takes_inputs_from_quantised_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hessian of a matrix is that of its inputs with all earlier blocks quantised."""
    model, settings = build(Architecture.of(TINY), 0), form("gptq", 2, "row", None)
    calls: list[Tensor] = []

    def watched(weight: Tensor, hessian: Tensor, *rest: Any, **named: Any) -> Any:
        calls.append(hessian)
        return solve(weight, hessian, *rest, **named)

    monkeypatch.setattr(gptq, "solve", watched)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    layers = gptq.quantise(model, settings, NO_DATA)

    assert list(layers) == list(linears(model))
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    put(model, {name: layer for name, layer in layers.items() if name.startswith("blocks.0.")})
    seen: list[Tensor] = []
    query = linears(model)["blocks.1.attention.query"]
    query.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    model(NO_DATA(128)[:, :-1])
    x = seen[0].flatten(0, 1).double()
    torch.testing.assert_close(calls[7], x.T @ x / len(x), rtol=1e-5, atol=1e-12)


def test_quantise_is_the_same_when_repeated() -> None:
    """A pure function of weights, form and corpus."""
    model, settings = build(Architecture.of(TINY), 0), form("gptq", 3, 16, "noclip")

    first, again = (gptq.quantise(model, settings, NO_DATA) for _ in range(2))

    assert all(torch.equal(first[name].codes, again[name].codes) for name in first)


def test_quantise_differs_from_rtn_when_calibrated() -> None:
    """Calibration is really used; so are its number of sequences and the order of inputs."""
    model = build(Architecture.of(TINY), 0)
    settings = form("gptq", 3, 16, "noclip")
    variants = [
        settings,
        settings | {"calibration_sequences": 4},
        settings | {"act_order": False},
        settings | {"damping": 1.0},
    ]

    made = [gptq.quantise(model, each, NO_DATA) for each in variants]
    made.append(rtn.quantise(model, settings, NO_DATA))

    flat = [torch.cat([layer.codes.flatten() for layer in each.values()]) for each in made]
    for index, left in enumerate(flat):
        assert not any(torch.equal(left, right) for right in flat[index + 1 :])
