"""Packed bytes are exact, and stand for the measured weights bit for bit."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_corpus import MODEL, TINY, form
from quantgrid.load import load_model
from quantgrid.spec import resolved
from quantlm import packing, tensorfile
from quantlm.layer import num_bytes
from quantlm.methods import rtn
from quantlm.model import Architecture, Transformer, build
from quantlm.quantiser import Levels, Quantised, quantise
from quantlm.unpacking import load_packed
from quantlm.weights import load_weights, save_weights, size

WIDTHS = [2, 3, 4, 5, 8, "ternary"]


def _levels(bits: int | str, rule: str) -> Levels:
    return Levels(bits=bits, group="row", rule="absmean" if bits == "ternary" else rule)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(WIDTHS),
    st.sampled_from(["noclip", "asymmetric"]),
    st.integers(1, 7),
    st.integers(1, 33),
    st.randoms(use_true_random=False),
)
def test_unpack_undoes_pack_when_any_codes_of_any_shape(
    bits: int | str, rule: str, rows: int, columns: int, random: object
) -> None:
    """All codes, zero points and scales come back, and their number of bytes is the formula's."""
    levels, source = _levels(bits, rule), torch.Generator()
    source.manual_seed(random.getrandbits(32))  # type: ignore[attr-defined]

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randint(
            levels.qmin, levels.qmax + 1, shape, generator=source, dtype=torch.int8
        )

    zeros = drawn(rows, 1) if levels.rule == "asymmetric" else None
    layer = Quantised(levels, drawn(rows, columns), torch.rand(rows, 1).half(), zeros)

    again = Quantised.unpack(layer.pack(), layer.describe())

    assert torch.equal(again.codes, layer.codes)
    assert torch.equal(again.values(), layer.values())
    stream = -(-rows * columns // 5) if bits == "ternary" else -(-rows * columns * int(bits) // 8)
    zero_bytes = 0 if zeros is None else -(-rows * int(bits) // 8)
    assert num_bytes(layer) == stream + zero_bytes + 2 * rows


def test_bits_lie_lowest_first_when_packed() -> None:
    """The stream is pinned by hand: 3-bit codes 1, 2, 3 above qmin are 0b011_010_001."""
    layer = Quantised(
        Levels(bits=3, group="row", rule="noclip"),
        torch.tensor([[1, 2, 3]], dtype=torch.int8) - 4,
        torch.ones(1, 1).half(),
        None,
    )

    assert layer.pack()["codes"].tolist() == [0b11010001, 0]


def test_trits_lie_lowest_first_when_packed() -> None:
    """Five trits 2, 1, 0, 0, 1 above qmin are 2 + 3 + 81."""
    layer = Quantised(
        Levels(bits="ternary", group="row", rule="absmean"),
        torch.tensor([[1, 0, -1, -1, 0, 1]], dtype=torch.int8),
        torch.ones(1, 1).half(),
        None,
    )

    assert layer.pack()["codes"].tolist() == [86, 2]


@pytest.mark.parametrize(
    ("bits", "group", "scale", "expected"),
    [
        (4, 32, "noclip", 599_040),
        (2, 32, None, 341_120),
        (3, 32, "noclip", 1_064_960 * 35 // 80),
        (8, 32, "absmax", 1_064_960 * 34 // 32),
        ("ternary", "tensor", "absmean", 1_064_960 // 5 + 13 + 2 * 35),
    ],
)
def test_size_is_exact_to_the_byte_when_n1(
    root: Path, bits: int | str, group: int | str, scale: str | None, expected: int
) -> None:
    """Sizes of QU 4 for the 35 matrices of n1, from packed bytes and not from a formula.

    Ternary: the last byte of 20 matrices is .2 empty and that of 15 is .6 empty: 13 bytes.
    """
    model = build(Architecture.of(resolved(load_model(root, "n1"))), 0)
    layers = rtn.quantise(model, form("rtn", bits, group, scale), lambda _: torch.empty(0))

    summary = packing.summary(model, layers)["size"]

    assert summary["weights"] == summary["quantised_weights"] == 1_064_960
    assert summary["packed_bytes"] == expected
    assert summary["bits_per_weight"] == pytest.approx(8 * expected / 1_064_960)


def test_size_counts_16_bits_when_nothing_is_quantised() -> None:
    """A base has 2 bytes a weight, in the matrices and in all the rest."""
    base = size(Transformer(Architecture.of(MODEL)))

    assert base == {
        "weights": 106_496,
        "quantised_weights": 0,
        "packed_bytes": 212_992,
        "other_bytes": 33_408,
        "total_bytes": 246_400,
        "bits_per_weight": 16.0,
    }


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("rule", ["noclip", "asymmetric"])
def test_packed_file_holds_the_measured_weights(tmp_path: Path, bits: int | str, rule: str) -> None:
    """Packed file -> values equal the weights file, bit for bit; all else is as in the base."""
    architecture = Architecture.of(TINY)
    model, levels = build(architecture, 0), _levels(bits, rule)
    scale = None if levels.rule == "asymmetric" else levels.rule
    layers = rtn.quantise(model, form("rtn", bits, "row", scale), lambda _: torch.empty(0))
    with (tmp_path / "packed").open("wb") as file:
        packing.save_packed(file, layers, fingerprint="f")
    with (tmp_path / "weights").open("wb") as file:
        packing.save_values(file, model, layers, fingerprint="f")

    unpacked = load_packed(tmp_path / "packed")
    measured = load_weights(tmp_path / "weights", architecture, torch.device("cpu"))

    for name, weight in measured.named_parameters():
        matrix = name.removesuffix(".weight")
        expected = unpacked[matrix].values() if matrix in unpacked else model.get_parameter(name)
        assert torch.equal(weight, expected)
    assert len(unpacked) == 14


def test_files_are_equal_bytes_when_written_twice(tmp_path: Path) -> None:
    """Equal weights are equal files, so that an archive holds them once."""
    first, second = io.BytesIO(), io.BytesIO()
    for file in (first, second):
        save_weights(file, build(Architecture.of(TINY), 0), fingerprint="f")

    assert first.getvalue() == second.getvalue()


def test_read_refuses_when_a_file_is_not_ours(tmp_path: Path) -> None:
    """A safetensors file without our header is an error that names the key."""
    from safetensors.torch import save

    (tmp_path / "x").write_bytes(save({"a": torch.zeros(1)}))

    with pytest.raises(ValueError, match="expected the metadata key 'quantlm'"):
        tensorfile.read(tmp_path / "x")


def test_load_weights_refuses_when_the_model_is_another(tmp_path: Path) -> None:
    """Weights of another width are an error, not a broadcast."""
    with (tmp_path / "w").open("wb") as file:
        save_weights(file, build(Architecture.of(TINY), 0), fingerprint="f")
    wider = Architecture.of(TINY | {"d_ff": 64})

    with pytest.raises(ValueError, match="not those of the model"):
        load_weights(tmp_path / "w", wider, torch.device("cpu"))


def test_values_are_half_a_step_away_at_most_when_nothing_is_clipped() -> None:
    """Rounding to nearest: no value is further from its weight than half its scale."""
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    layer = quantise(weight, Levels(bits=4, group=32, rule="noclip", scale_dtype="float32"))

    away = (layer.values() - weight).abs().reshape(8, 2, 32).amax(-1)

    assert np.all((away <= layer.scales * 0.5 + 1e-6).numpy())
