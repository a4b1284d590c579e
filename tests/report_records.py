"""Realistic records of a grid that was never computed; a fixture, never shipped.

The damage follows what the research measured: delta = level(form) * (tokens / 400 k) ** exponent,
with noise per sequence, seed and form; below 400 k tokens the order of the forms is blurred.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quantgrid.archive.record import sealed
from quantgrid.fingerprint import digest
from quantgrid.report.table import Lines
from quantgrid.spec import Cell, Cooldown, Evaluation, Form, Model, Trunk, resolved

if TYPE_CHECKING:
    import pandas as pd


def frame(found: Lines) -> "pd.DataFrame":
    """A table as those who read it with pandas have it."""
    import pandas as pd  # half a second, for the tests that ask alone

    return pd.DataFrame(found.rows, columns=found.columns, dtype=str)


N0 = Model(
    name="n0",
    d_model=64,
    num_layers=2,
    num_heads=2,
    d_ff=192,
    vocab_size=256,
    context=64,
    batch_sequences=32,
    learning_rate=2e-3,
    warmup_steps=20,
)
N1 = replace(N0, name="n1", d_model=128, num_layers=5, num_heads=4, d_ff=384, context=128)

NONE = Form(method="none")
# form, damage at 400 k tokens, exponent in tokens
FORMS: tuple[tuple[Form, float, float], ...] = (
    (NONE, 0.0, 0.0),
    (Form(method="rtn", bits=4, group="row", scale="noclip"), 0.0032, 0.45),
    (Form(method="rtn", bits=3, group=32, scale="noclip"), 0.0082, 0.60),
    (Form(method="gptq", bits=3, group=32, scale="noclip"), 0.0023, 0.95),
    (Form(method="rtn", bits=2, group=32, asymmetric=True), 0.037, 0.64),
    (Form(method="gptq", bits=2, group=32, asymmetric=True), 0.011, 0.81),
    (Form(method="qat", bits="ternary", group="row", scale="absmean"), 0.083, -0.05),
)
BUDGETS = {"t100k": 10**5, "t200k": 2 * 10**5, "t400k": 4 * 10**5, "t800k": 8 * 10**5}
BUDGETS |= {"t1600k": 16 * 10**5}
SEQUENCES = 384
PLATFORM = {
    "name": "local",
    "host": "laptop",
    "device": "cpu",
    "driver": None,
    "python": "3.11.7",
    "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
}


def write_demo(folder: Path, **changes: Any) -> tuple[Path, Path]:
    """Write plan and results of a grid into a folder; returns the paths of both."""
    return write_grid(folder, demo_records(**changes))


def write_grid(
    folder: Path, records: dict[str, dict[str, Any]], *, name: str = "demo"
) -> tuple[Path, Path]:
    """Write plan and results; every record is sealed first."""
    for cell, record in records.items():
        path = folder / "results" / cell / "result.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(sealed(record)))
    wanted = folder / "plan" / f"{name}.json"
    wanted.parent.mkdir(parents=True, exist_ok=True)
    cells = {cell: record["fingerprint"] for cell, record in records.items()}
    wanted.write_text(json.dumps({"grid": name, "cells": cells}))
    return wanted, folder / "results"


def demo_records(
    *,
    models: tuple[Model, ...] = (N0,),
    budgets: dict[str, int] = BUDGETS,
    seeds: int = 3,
    forms: tuple[tuple[Form, float, float], ...] = FORMS,
    sequences: int = SEQUENCES,
) -> dict[str, dict[str, Any]]:
    """Bodies of the records (not sealed) by cell id."""
    random = np.random.default_rng(7)
    offsets_S = random.normal(0, 0.25, sequences)
    records = {}
    for model in models:
        for budget, num_tokens in budgets.items():
            for seed in range(seeds):
                base_S = _base_losses(model, num_tokens, offsets_S, random)
                for form, level, exponent in forms:
                    cell = _cell(model, budget, num_tokens, seed, form, sequences)
                    delta_S = _damage(level, exponent, num_tokens, sequences, random)
                    records[cell.id] = body(cell, base_S, delta_S)
    return records


def crowded_records(cells: Iterable[Cell], *, sequences: int = 24) -> dict[str, dict[str, Any]]:
    """Bodies of the records of declared cells, by id: every form has a damage of its own.

    Groups count in sizes, so that a grid of many forms has many sizes.
    """
    random = np.random.default_rng(7)
    offsets_S = random.normal(0, 0.25, sequences)
    bases: dict[str, Any] = {}
    records = {}
    for cell in cells:
        form, model, num_tokens = cell.form, cell.trunk.model, cell.num_tokens
        if cell.base not in bases:
            bases[cell.base] = _base_losses(model, num_tokens, offsets_S, random)
        level = 0.0 if form.method == "none" else 10 ** -(1 + int(digest(cell.variant), 16) % 7 / 2)
        delta_S = _damage(level, 0.3, num_tokens, sequences, random)
        record = body(
            replace(cell, evaluation=Evaluation(sequences=sequences)), bases[cell.base], delta_S
        )
        size = record["weights"]["results"]["size"]
        if isinstance(form.group, int):
            size["packed_bytes"] += form.group
            size["bits_per_weight"] += 16 / form.group
        records[cell.id] = record
    return records


def _base_losses(model: Model, num_tokens: int, offsets_S: Any, random: Any) -> Any:
    mean = 1.35 + 1.55 * (num_tokens / 1e5) ** -0.42 - 0.02 * (model.num_layers - 2)
    return mean + offsets_S + random.normal(0, 0.02, len(offsets_S)) + random.normal(0, 0.006)


def _damage(level: float, exponent: float, num_tokens: int, sequences: int, random: Any) -> Any:
    if level == 0:
        return np.zeros(sequences)
    scale = num_tokens / 4e5
    mean = level * scale**exponent * (1 if scale >= 1 else 0.55) * random.lognormal(0, 0.05)
    return random.normal(mean, 0.35 * mean + 0.006, sequences)


def _cell(
    model: Model, budget: str, num_tokens: int, seed: int, form: Form, sequences: int
) -> Cell:
    num_steps = round(num_tokens / model.tokens_per_step)
    return Cell(
        trunk=Trunk(model=model, seed=seed, corpus="shakespeare"),
        budget=budget,
        num_tokens=num_tokens,
        cooldown=Cooldown(num_steps=num_steps, cooldown_steps=round(0.2 * num_steps)),
        form=form,
        evaluation=Evaluation(sequences=sequences),
        block="demo",
    )


def body(cell: Cell, base_S: Any, delta_S: Any) -> dict[str, Any]:
    """A record v1 without schema, version and digest."""
    losses = [float(loss) for loss in np.round(base_S + delta_S, 9)]
    spec = resolved(cell)
    return {
        "kind": "cells",
        "cell": cell.id,
        "stage": "evaluate",
        "fingerprint": digest(spec),
        "spec": {"cell": spec},
        "parents": {"weights": "weights/x/record.json", "base": "weights/y/record.json"},
        "science": digest("science"),
        "corpus": {"name": "shakespeare", "recipe": digest("recipe"), "manifest": digest("m")},
        "results": _results(cell, losses, float(np.mean(delta_S))),
        "weights": _weights(cell, float(np.mean(base_S))),
        "receipt": {
            "volume": {"id": "5f0c1e77a6d94c0a", "workspace": "local"},
            "manifest": digest("m"),
            "unique_tokens": 4_960_256,
            "passes": 1,
        },
        "work": {"wall_s": 0.41, "cpu_s": 0.398},
        "links": [_link()],
        "counters": {"links": 1, "interruptions": 0, "failures": 0},
        "platform": dict(PLATFORM),
        "blobs": {"weights.safetensors": {"sha256": digest(cell.id), "size_bytes": 493_000}},
        "clearance": None,
        "hold": None,
        "cost": None,
        "verdict": "VALID",
        "deposited": "2026-11-30T12:00:03Z",
    }


def _results(cell: Cell, losses: list[float], delta: float) -> dict[str, Any]:
    return {
        "loss": float(np.mean(losses)),
        "kl": max(0.0, round(0.9 * delta, 9)),
        "validation": {
            "id": digest(["validation", len(losses)]),
            "sequences": len(losses),
            "context": cell.trunk.model.context,
            "losses": losses,
        },
    }


def _weights(cell: Cell, loss: float) -> dict[str, Any]:
    results: dict[str, Any] = {"size": _size(cell)}
    if cell.form.method in {"none", "qat"}:
        num_steps = cell.cooldown.num_steps
        results |= {
            "num_steps": num_steps,
            "num_tokens": num_steps * cell.trunk.model.tokens_per_step,
            "train_loss": round(loss + 0.01, 6),
        }
    return {
        "stage": "quantise",
        "fingerprint": digest(["weights", cell.id]),
        "science": digest("science"),
        "results": results,
        "receipt": None,
        "work": {"wall_s": 1.27, "cpu_s": 1.232},
        "links": [_link()],
    }


def _size(cell: Cell) -> dict[str, Any]:
    model = cell.trunk.model
    num_weights = model.num_layers * (4 * model.d_model**2 + 3 * model.d_model * model.d_ff)
    known = {4: 4.21, 3: 3.5, 2: 2.5625, "ternary": 1.81, None: 16.0}
    bits = known.get(cell.form.bits, cell.form.bits)
    return {
        "packed_bytes": int(num_weights * bits / 8),
        "bits_per_weight": bits,
        "quantised_weights": 0 if cell.form.bits is None else num_weights,
        "other_bytes": 2 * (256 * model.d_model + (2 * model.num_layers + 1) * model.d_model),
    }


def _link() -> dict[str, Any]:
    return {
        "attempt": "20261130T120000-4711-9f3a",
        "started": "2026-11-30T12:00:00Z",
        "wall_s": 1.9,
        "cpu_s": 1.8,
        "host": "laptop",
        "platform": "local",
        "exit_code": 0,
    }
