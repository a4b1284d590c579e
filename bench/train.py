"""What the training loop costs beside a bare one, and the model beside nanoGPT's and the roofline.

    python bench/train.py [--json] [--models n0,n1] [--rounds 12]

Everything runs on one thread, in turns of ten steps whose order is turned round every time, so that
all share the machine's moods; figures are medians of CPU seconds, and ratios are of turns beside
each other.  `bare` is the same model with the same optimiser and nothing else: no corpus, no
reports, no checkpoints, no watch.  `loop` is what `scripts/trunk.py` runs between two evaluations:
batches from shards, losses fetched, the keeper asked, every rule of the watch.  `evaluations` is
what they take beside that while they are densest (the first fifty, decision 0031).  `nanogpt` is a
model of GPT-2's architecture (LayerNorm, learned positions, GELU, fused projections; Karpathy's
nanoGPT) of the same width, depth, heads and context, in the bare loop.  `roofline` is a matrix
product of the shapes of the MLP, forward and backward, in the same run.

GFLOP are those of matrix products: 6 per weight in a matrix and token, and 12 x layers x width x
context / 2 per token for causal attention (PaLM, appendix B; half is masked).
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from memory_corpus import MODEL, MemoryView, shakespeare, trunk
from quantgrid.cell import Cell
from quantgrid.load import load_model
from quantgrid.spec import resolved
from quantgrid.watch.training import watched
from quantlm import environment, schedule
from quantlm.checkpoint import TrainingState
from quantlm.held_out import HeldOut
from quantlm.loop import REPORT_EVERY, Trainer
from quantlm.model import Architecture, build

ROOT = Path(__file__).parents[1]
Step = Callable[[], None]
TURN = REPORT_EVERY
"""Steps of a turn: the loop fetches its losses once in so many."""


class Row(NamedTuple):
    """One way at one size; `ratio` is its CPU time a step beside the bare loop's."""

    model: str
    way: str
    ms_per_step: float
    gflop_per_cpu_s: float
    ratio: float
    low: float
    high: float


class Counted(MemoryView):
    """A corpus in memory that knows how large it is."""

    manifest = "m" * 64

    @property
    def unique_tokens(self) -> int:
        """Tokens of one pass."""
        return sum(self.shard_tokens.values())


class NanoGPT(nn.Module):
    """GPT-2's architecture with a tied head and no bias or dropout, as nanoGPT trains it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        width, self.context = spec["d_model"], spec["context"]
        self.tokens = nn.Embedding(spec["vocab_size"], width)
        self.places = nn.Embedding(self.context, width)
        heads = spec["num_heads"]
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(spec["num_layers"]))
        self.norm = nn.LayerNorm(width, bias=False)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Logits (B, T, V)."""
        x_BTD = self.tokens(tokens_BT) + self.places.weight[: tokens_BT.shape[1]]
        for block in self.blocks:
            x_BTD = block(x_BTD)
        return functional.linear(self.norm(x_BTD), self.tokens.weight)


class Block(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = (nn.LayerNorm(width, bias=False) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The residual stream after this block."""
        batch, length, width = x_BTD.shape
        parts = self.qkv(self.before(x_BTD)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTD = x_BTD + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x_BTD + self.down(functional.gelu(self.up(self.between(x_BTD))))


# -- ways -----------------------------------------------------------------------------------------


def bare(model: nn.Module, spec: dict[str, Any]) -> Step:
    """One step with random tokens and nothing around it."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    shape = (spec["batch_sequences"], spec["context"] + 1)
    tokens = torch.randint(0, spec["vocab_size"], shape, generator=torch.Generator())

    def step() -> None:
        logits = model(tokens[:, :-1]).flatten(0, 1)
        torch.autograd.backward(functional.cross_entropy(logits, tokens[:, 1:].flatten()))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


class Loop(NamedTuple):
    """A training as a script runs it, which goes on until a step."""

    trainer: Trainer
    held_out: HeldOut
    until: Callable[[int], object]

    def turn_s(self) -> float:
        """CPU seconds of a step, over ten; ten with an evaluation among them are not counted."""
        while self._evaluations(self.trainer.step + TURN) > self._evaluations(self.trainer.step):
            self.until(self.trainer.step + TURN)
        return cpu_s(lambda: self.until(self.trainer.step + TURN), 1) / TURN

    def evaluation_s(self) -> float:
        """CPU seconds of an evaluation for each of the steps that lie before it."""
        return cpu_s(self.held_out.losses, 1) / self.held_out.every

    def _evaluations(self, step: int) -> int:
        return step // self.held_out.every


@contextmanager
def loop(spec: dict[str, Any], folder: Path) -> Iterator[Loop]:
    """The loop with keeper, watch and evaluations."""
    whole = shakespeare()
    view = Counted({name: whole.shard(name) for name in whole.shard_tokens}, whole.validation())
    trainer = Trainer.start(trunk(spec) | {"passes": 1000}, view, torch.device("cpu"))
    kept, held_out = TrainingState(trainer, view), HeldOut.of(trainer, view, spec)
    keeper, watch = watched(_cell(folder), kept, held_out, view, passes=1000)
    rate = schedule.trunk_rate(spec["learning_rate"], spec["warmup_steps"])
    (folder / "desk" / "out").mkdir(parents=True)
    with keeper, watch:
        yield Loop(
            trainer, held_out, lambda stop: trainer.run(stop, rate, keeper=keeper, watcher=watch)
        )


def _cell(folder: Path) -> Cell:
    """A cell in a folder of its own whose findings stop nothing."""
    policy = dict.fromkeys(("gap", "spike", "second-pass"), "record")
    return Cell(
        id="bench/none",
        stage="trunk",
        fingerprint="f" * 64,
        spec={},
        parents={},
        corpus=None,
        sentinel=None,
        out=folder / "desk" / "out",
        result=folder / "result.json",
        state=folder / "state",
        link=None,
        progress=folder / "progress.json",
        metrics=folder / "metrics.jsonl",
        device="cpu",
        threads=1,
        attempt="bench",
        deadline_s=None,
        grace_s=0.0,
        interruption_s=4 * 3600.0,
        started_wall_s=time.monotonic(),
        started_cpu_s=time.process_time(),
        watch={"policy": policy, "stall_s": 3600},
    )


def roofline(spec: dict[str, Any]) -> tuple[Callable[[], None], float]:
    """A product of the MLP's shapes with both of its gradients, and its GFLOP."""
    tokens = spec["batch_sequences"] * spec["context"]
    left = torch.randn(tokens, spec["d_model"])
    right, out = torch.randn(spec["d_model"], spec["d_ff"]), torch.randn(tokens, spec["d_ff"])

    def run() -> None:
        torch.mm(left, right)
        torch.mm(out, right.T)
        torch.mm(left.T, out)

    return run, 6 * tokens * spec["d_model"] * spec["d_ff"] / 1e9


# -- measuring ------------------------------------------------------------------------------------


def gflop(model: nn.Module, spec: dict[str, Any]) -> float:
    """GFLOP of matrix products in one step."""
    tokens = spec["batch_sequences"] * spec["context"]
    shaped = {id(p): p.numel() for p in model.parameters() if p.ndim == 2}
    places = [m.weight for m in model.modules() if isinstance(m, nn.Embedding)]
    lookup = 0 if spec["tied"] else sum(p.numel() for p in places)
    if isinstance(model, NanoGPT):
        lookup = model.places.weight.numel()
    attention = 6 * spec["num_layers"] * spec["d_model"] * spec["context"]
    return tokens * (6 * (sum(shaped.values()) - lookup) + attention) / 1e9


def cpu_s(run: Callable[[], None], times: int) -> float:
    """CPU seconds of one call, over some."""
    begin = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - begin) / times


def measured(name: str, spec: dict[str, Any], rounds: int) -> list[Row]:
    """All ways at one size, in turns."""
    ours, theirs = build(Architecture.of(spec), 0), NanoGPT(spec)
    product, product_gflop = roofline(spec)
    work = dict.fromkeys(("bare", "loop", "evaluations"), gflop(ours, spec))
    work |= {"nanogpt": gflop(theirs, spec), "roofline": product_gflop}
    steps = {"bare": bare(ours, spec), "nanogpt": bare(theirs, spec), "roofline": product}
    with tempfile.TemporaryDirectory() as folder, loop(spec, Path(folder)) as training:
        ways = {way: partial(cpu_s, step, TURN) for way, step in steps.items()}
        ways |= {"loop": training.turn_s, "evaluations": training.evaluation_s}
        found = in_turns(ways, rounds)
    work["evaluations"] *= training.held_out.sequences / spec["batch_sequences"] / 3
    work["evaluations"] /= training.held_out.every
    return [_row(name, way, found, work[way]) for way in work]


def in_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of a step of each way, round after round; the first round only warms up."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            found[way].append(ways[way]())
    return {way: each[1:] for way, each in found.items()}


def _row(model: str, way: str, found: dict[str, list[float]], work: float) -> Row:
    """Medians, and the quartiles of the ratio of turns beside each other."""
    middle = statistics.median(found[way])
    low, ratio, high = statistics.quantiles(
        (a / b for a, b in zip(found[way], found["bare"], strict=True)), n=4
    )
    return Row(model, way, 1e3 * middle, work / middle, ratio, low, high)


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="n0,n1", help="files of config/models")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    environment.prepare("cpu", 1)
    rows = []
    for name in options.models.split(","):
        spec = MODEL if name == "n0" else resolved(load_model(ROOT, name))
        rows += measured(name, dict(spec), options.rounds)
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    print(f"load {os.getloadavg()[0]:.0f}; {options.rounds} turns of {TURN} steps, one thread")
    print(f"{'model':<6} {'way':<12} {'ms a step':>10} {'GFLOP/CPU-s':>12} {'beside bare':>12}")
    for row in rows:
        told = f"{row.ms_per_step:>10.2f} {row.gflop_per_cpu_s:>12.1f} {row.ratio:>12.3f}"
        print(f"{row.model:<6} {row.way:<12} {told} ({row.low:.3f} to {row.high:.3f})")


if __name__ == "__main__":
    main()
