"""What each block of a grid would cost on a device: pure, from its cells, a price and a speed.

Operations: 6 N a token of training, a third of that forward (Kaplan et al. 2001.08361), with N the
matrices of blocks and head, and 6 layers x width x context more for causal attention (Chowdhery et
al. 2204.02311, appendix B, halved for the mask).  Stages that blocks share are counted once, in the
first block that declares them.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quantgrid.devices import Device
from quantgrid.forms import METHODS
from quantgrid.grid import Grid
from quantgrid.spec import BASE, Cell, Model

FORWARD_PART = 1 / 3
"""Of the operations of a training step."""


@dataclass(frozen=True, slots=True)
class BlockCost:
    """What the cells of one block add: operations, hours of the device, dollars."""

    block: str
    num_cells: int
    flops: float
    hours: float
    usd: float


def block_costs(grid: Grid, device: Device) -> list[BlockCost]:
    """One cost a block, in declared order."""
    done: dict[str, int] = {}
    costs: dict[str, BlockCost] = {}
    for cell in grid.cells:
        model = cell.trunk.model
        flops = math.fsum(_flops(cell, done))
        hours = (flops / (1e12 * device.tflops(model.num_parameters)) + device.cell_s) / 3600
        before = costs.get(cell.block, BlockCost(cell.block, 0, 0.0, 0.0, 0.0))
        costs[cell.block] = BlockCost(
            cell.block,
            before.num_cells + 1,
            before.flops + flops,
            before.hours + hours,
            before.usd + hours * device.usd_per_hour,
        )
    return list(costs.values())


def total(costs: Iterable[BlockCost]) -> BlockCost:
    """All blocks together."""
    each = list(costs)
    return BlockCost(
        "total",
        sum(cost.num_cells for cost in each),
        math.fsum(cost.flops for cost in each),
        math.fsum(cost.hours for cost in each),
        math.fsum(cost.usd for cost in each),
    )


def training_flops(model: Model) -> float:
    """Operations of a training step for each token."""
    attention = model.num_layers * model.d_model * model.context
    return 6.0 * (model.num_parameters + model.vocab_size * model.d_model + attention)


def _flops(cell: Cell, done: dict[str, int]) -> Iterator[float]:
    """Operations that a cell adds to those of the cells before it; `done` remembers them."""
    model, per_token = cell.trunk.model, training_flops(cell.trunk.model)
    trains = METHODS[cell.form.method].trains
    if not trains or cell.form.start == "cooldown":
        trained = done.get(cell.trunk.id, 0)
        done[cell.trunk.id] = max(trained, cell.milestone)
        yield per_token * (done[cell.trunk.id] - trained)
    if cell.base not in done:
        done[cell.base] = 1
        yield per_token * cell.cooldown.cooldown_steps * model.tokens_per_step
    if trains:
        steps = cell.cooldown
        num_steps = steps.num_steps if cell.form.start == "scratch" else steps.cooldown_steps
        yield per_token * num_steps * model.tokens_per_step
    elif "calibration_sequences" in METHODS[cell.form.method].takes:
        calibration = cell.form.calibration_sequences * model.context
        yield FORWARD_PART * per_token * calibration + solver_flops(cell)
    evaluated = cell.evaluation.sequences * model.context
    yield FORWARD_PART * per_token * evaluated * (1 if cell.form == BASE else 2)


def solver_flops(cell: Cell) -> float:
    """GPTQ's own: Hessian 2 I^2 a token, factor about I^3, correction O I^2 for each matrix."""
    if cell.form.method != "gptq":
        return 0.0
    model = cell.trunk.model
    tokens = cell.form.calibration_sequences * model.context
    narrow, wide = float(model.d_model), float(model.d_ff)
    shapes = [(narrow, narrow)] * 4 + [(wide, narrow)] * 2 + [(narrow, wide)]
    each = (2 * tokens * i**2 + i**3 + outputs * i**2 for outputs, i in shapes)
    return model.num_layers * math.fsum(each)
