"""What flows through a running model is rounded as its form says, and nothing else changes."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from memory_corpus import TINY, form
from quantlm import rotation, running
from quantlm.layer import put
from quantlm.methods import activation, cache, hadamard, rtn, smoothquant
from quantlm.model import Architecture, Attention, Transformer, build, linears
from quantlm.quantiser import Levels, quantise

TOKENS = torch.arange(16).reshape(2, 8)
FINE = {"activation_bits": 8}


def _model(width: int = 32) -> Transformer:
    return build(Architecture.of(TINY | {"d_model": width, "d_ff": 96, "init_std": 0.2}), 0)


def _calibration(count: int) -> Tensor:
    source = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 9), generator=source)


def _off(model: Transformer, base: Transformer) -> float:
    """Mean distance of logits in standard deviations of the base's."""
    with torch.inference_mode():
        logits = base(TOKENS)
        return ((model(TOKENS) - logits).std() / logits.std()).item()


@pytest.mark.parametrize("bits", [3, 4, 8])
def test_rounded_equals_torchao_per_token(bits: int) -> None:
    """Dynamic asymmetric levels, one scale and zero point a vector."""
    from torchao.quantization import quant_primitives as torchao  # seconds, for this test alone

    x = torch.randn(4, 6, 32, generator=torch.Generator().manual_seed(0)) * 3 + 1
    limits: dict[str, Any] = {"quant_min": -(2 ** (bits - 1)), "quant_max": 2 ** (bits - 1) - 1}
    block = (1, 1, 32)
    scale, zero = torchao.choose_qparams_affine(
        x, torchao.MappingType.ASYMMETRIC, block, torch.int8, eps=2.0**-23, **limits
    )
    codes = torchao.quantize_affine(x, list(block), scale, zero, torch.int8, **limits)

    ours = running.rounded(x, bits)

    assert torch.equal(
        ours, torchao.dequantize_affine(codes, list(block), scale, zero, torch.int8, **limits)
    )


def test_inputs_are_rounded_of_every_matrix_and_of_no_other() -> None:
    """Each matrix of the blocks sees at most 2^bits values a token; the head sees all."""
    model, seen = _model(), {}
    running.change_inputs(model, lambda x: running.rounded(x, 2))
    for name, matrix in linears(model).items():
        matrix.register_forward_pre_hook(
            lambda _, inputs, name=name: seen.__setitem__(name, inputs[0])
        )
    model.norm.register_forward_hook(lambda *parts: seen.__setitem__("head", parts[2]))

    model(TOKENS)

    head = seen.pop("head")
    assert seen.keys() == linears(model).keys()
    assert all(len(x[0, 3].unique()) <= 4 for x in seen.values())
    assert len(head[0, 3].unique()) > 4


def test_cache_rounds_keys_after_their_rotation_and_values() -> None:
    """An attention on few bits equals attention on vectors that were rounded by hand."""
    attention = _model().blocks[0].attention
    assert isinstance(attention, Attention)
    turns = _model().turns_for(TOKENS)
    x = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))
    caught: list[Tensor] = []

    def caught_product(query: Tensor, key: Tensor, value: Tensor, **_: bool) -> Tensor:
        caught.extend([query, key, value])
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", caught_product)
        attention(x, turns)
        running.CachedAttention(attention, 3)(x, turns)

    query, key, value, same_query, rounded_key, rounded_value = caught
    assert torch.equal(same_query, query)
    assert torch.equal(rounded_key, running.rounded(key, 3))
    assert torch.equal(rounded_value, running.rounded(value, 3))
    assert not torch.equal(rounded_key, key)


def test_run_changes_less_when_bits_are_more() -> None:
    """Eight bits are close to none, and each step down is further away; weights stay at 8."""
    for method, field in ((activation, "activation_bits"), (cache, "kv_bits")):
        distances = []
        for bits in (8, 4, 2):
            settings = form(method.__name__.rpartition(".")[2], 8, "row", "noclip") | {field: bits}
            base = _model()
            model = copy.deepcopy(base)
            put(model, method.quantise(model, settings, _calibration))
            method.run(model, settings)
            distances.append(_off(model, base))
        assert 0 < distances[0] < 0.05
        assert distances[0] < distances[1] < distances[2]


def test_cache_leaves_every_weight_when_it_quantises() -> None:
    """Only what is cached is rounded: no layer, and the same weights."""
    model = _model()
    before = {name: weight.clone() for name, weight in model.named_parameters()}

    assert cache.quantise(model, form("cache", 8, "row", "noclip"), _calibration) == {}
    cache.run(model, {"kv_bits": 2})

    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


# -- rotation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 64, 128])
def test_hadamard_is_orthogonal_and_its_own_inverse(size: int) -> None:
    """H H = 1, and all entries have one magnitude."""
    matrix = rotation.hadamard(size)

    torch.testing.assert_close(matrix @ matrix, torch.eye(size), rtol=0, atol=1e-6)
    assert torch.equal(matrix, matrix.T)
    torch.testing.assert_close(matrix.abs(), torch.full((size, size), size**-0.5))


@pytest.mark.parametrize(("width", "block"), [(64, 64), (192, 64), (384, 128), (2816, 128), (3, 1)])
def test_blocks_are_the_largest_that_fit(width: int, block: int) -> None:
    """A power of two that divides the width, at most 128."""
    assert rotation.block_of(width) == block


def test_hadamard_keeps_the_function_when_nothing_is_rounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rotated matrices on rotated inputs are the model; on plain inputs they are not."""
    base = _model()
    model = copy.deepcopy(base)
    hadamard.quantise(model, form("hadamard", 8, "row", "noclip"), _calibration)
    assert _off(model, base) > 0.5

    monkeypatch.setattr(running, "rounded", lambda x, _: x)
    hadamard.run(model, FINE)

    assert _off(model, base) < 1e-5


def test_hadamard_loses_less_when_one_channel_stands_out() -> None:
    """With one input channel 50 times the rest, four-bit products are closer when rotated."""
    source = torch.Generator().manual_seed(0)
    x, weight = torch.randn(64, 128, generator=source), torch.randn(32, 128, generator=source)
    x[:, 7] *= 50
    levels = Levels(bits=8, group="row", rule="noclip")

    def error(change: Any) -> float:
        product = running.rounded(change(x), 4) @ quantise(change(weight), levels).values().T
        return (product - x @ weight.T).norm().item()

    assert error(rotation.rotate) < 0.5 * error(lambda each: each)


# -- smoothing ------------------------------------------------------------------------------------


def test_smoothing_keeps_the_function_and_moves_outliers() -> None:
    """The smoothed model is the model up to rounding, with flatter inputs and other weights."""
    base = _model()
    with torch.no_grad():
        base.blocks[0].feed_forward_norm.weight[5] = 40.0
    model = copy.deepcopy(base)

    smoothquant.smooth(model, _calibration(32)[:, :-1])

    assert _off(model, base) < 1e-5
    for name, matrix in linears(model).items():
        assert not torch.equal(matrix.weight, linears(base)[name].weight)
    assert _ratio(model) < 0.3 * _ratio(base)


def _ratio(model: Transformer) -> float:
    """Largest over mean magnitude of the inputs of the first feed-forward."""
    seen: list[Tensor] = []
    gate = linears(model)["blocks.0.feed_forward.gate"]
    hook = gate.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(_calibration(8)[:, :-1])
    hook.remove()
    return (seen[0].abs().amax() / seen[0].abs().mean()).item()


def test_smoothing_gives_the_published_scale() -> None:
    """Channel j of the norm is divided by sqrt(absmax X_j / absmax W_j)."""
    base = _model()
    model, tokens = copy.deepcopy(base), _calibration(32)[:, :-1]
    seen: list[Tensor] = []
    readers = [linears(base)[f"blocks.0.attention.{n}"].weight for n in ("query", "key", "value")]
    linears(base)["blocks.0.attention.query"].register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0].flatten(0, 1))
    )
    base(tokens)
    inputs = torch.cat(seen).abs().amax(0)
    weights = torch.cat(readers).abs().amax(0)

    smoothquant.smooth(model, tokens)

    torch.testing.assert_close(
        base.blocks[0].attention_norm.weight / model.blocks[0].attention_norm.weight,
        (inputs / weights).sqrt(),
    )


def test_smoothing_loses_less_when_a_channel_stands_out() -> None:
    """With an outlier channel, 4-bit activations cost less after smoothing."""
    base = _model()
    with torch.no_grad():
        for block in base.blocks:
            block.feed_forward_norm.weight[5] = 40.0
            block.feed_forward.gate.weight[:, 5] /= 40.0
            block.feed_forward.up.weight[:, 5] /= 40.0
    distances = {}
    for method in (activation, smoothquant):
        settings = form("x", 8, "row", "noclip") | {"activation_bits": 4}
        model = copy.deepcopy(base)
        put(model, method.quantise(model, settings, _calibration))
        method.run(model, settings)
        distances[method.__name__] = _off(model, base)

    assert distances["quantlm.methods.smoothquant"] < 0.7 * distances["quantlm.methods.activation"]


def test_activation_rounds_weights_as_rtn_does() -> None:
    """The stored matrices are those of rtn."""
    model, settings = _model(), form("activation", 4, "row", "noclip") | FINE

    ours = activation.quantise(model, settings, _calibration)

    for name, layer in rtn.quantise(model, settings, _calibration).items():
        assert torch.equal(ours[name].codes, layer.codes)
