"""Measures on a fixed validation set."""

import hashlib
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from memory_corpus import TINY, counting
from quantlm import data, evaluation
from quantlm.evaluation import evaluate, validation_id, validation_set
from quantlm.model import Architecture, build

TOKENS = counting().validation()
SEQUENCES = validation_set(TOKENS, context=8, sequences=20)


def test_validation_set_is_the_first_windows() -> None:
    """Windows of context + 1 tokens at stride context from the start of the shard."""
    assert SEQUENCES.shape == (20, 9)
    assert SEQUENCES[3].tolist() == TOKENS[24:33].tolist()


def test_validation_id_is_the_digest_of_the_tokens() -> None:
    """Equal tokens have equal ids; one other token has another."""
    rows = b"".join(TOKENS[i * 8 : i * 8 + 9].astype("<u2").tobytes() for i in range(20))
    changed = SEQUENCES.clone()
    changed[0, 0] += 1

    assert validation_id(SEQUENCES) == hashlib.sha256(rows).hexdigest()
    assert validation_id(changed) != validation_id(SEQUENCES)


def test_validation_set_refuses_when_the_shard_is_short() -> None:
    """One token too few is an error with both numbers; exactly enough is not."""
    validation_set(TOKENS[:161], context=8, sequences=20)
    with pytest.raises(ValueError, match=r"expected 161 tokens .* seen 160"):
        validation_set(TOKENS[:160], context=8, sequences=20)


def test_losses_are_means_over_tokens_of_each_sequence() -> None:
    """Each loss is the mean negative log probability of a sequence's 8 targets, in nats."""
    model = build(Architecture.of(TINY), 0)

    results = evaluate(model, model, SEQUENCES, ["loss", "kl"])

    logits = model(SEQUENCES[5:6, :-1])[0]
    expected = -logits.log_softmax(-1)[torch.arange(8), SEQUENCES[5, 1:]].mean().item()
    losses = results["validation"]["losses"]
    assert losses[5] == pytest.approx(expected, rel=1e-5)
    assert results["loss"] == pytest.approx(sum(losses) / 20)
    assert results["loss"] == pytest.approx(math.log(256), abs=0.05)
    assert results["kl"] == 0.0
    assert {k: results["validation"][k] for k in ("sequences", "context")} == {
        "sequences": 20,
        "context": 8,
    }


def test_divergence_is_kl_from_the_base() -> None:
    """KL(base || model) as torch computes it; it is not symmetric."""
    model, base = (build(Architecture.of(TINY | {"init_std": 0.3}), seed) for seed in (0, 1))
    left, right = (each(SEQUENCES[:, :-1]).log_softmax(-1).flatten(0, 1) for each in (model, base))
    expected = functional.kl_div(left, right, log_target=True, reduction="batchmean").item()

    kl = evaluate(model, base, SEQUENCES, ["kl"])["kl"]

    assert kl == pytest.approx(expected, rel=1e-4)
    assert kl != pytest.approx(evaluate(base, model, SEQUENCES, ["kl"])["kl"], rel=1e-3)


def test_losses_are_the_same_when_more_sequences_follow() -> None:
    """The loss of a sequence does not depend on how many there are, beyond its own batch."""
    model = build(Architecture.of(TINY), 0)
    many = validation_set(np.tile(TOKENS, 8), context=8, sequences=1536)

    whole = evaluation.sequence_losses(model, many)

    assert whole[:1024] == evaluation.sequence_losses(model, many[:1024])
    assert whole[1024:] == evaluation.sequence_losses(model, many[1024:])


def test_evaluate_refuses_when_a_metric_is_unknown() -> None:
    """The error names the metric and those that exist."""
    model = build(Architecture.of(TINY), 0)

    with pytest.raises(
        ValueError, match=r"unknown metrics \['speed'\]; known are \['kl', 'loss'\]"
    ):
        evaluate(model, model, SEQUENCES, ["loss", "speed"])


def test_calibration_is_a_function_of_the_corpus() -> None:
    """The same sequences every time, from training shards, charged and announced."""
    view = counting()

    first, again = data.calibration(view, 8, 50), data.calibration(counting(), 8, 50)

    assert torch.equal(first, again)
    assert first.shape == (50, 9)
    assert first.dtype == torch.int64
    assert sum(view.charged.values()) == 400
    assert list(view.charged) == view.announced
