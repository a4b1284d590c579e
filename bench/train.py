"""What the training loop costs beside a bare one, and the model beside nanoGPT's and the roofline.

    python bench/train.py [--json] [--models n0,n1] [--rounds 7] [--seconds 2]

Everything runs on one thread and in turns, so that all share the machine's moods; figures are
medians of CPU seconds.  `bare` is the same model with the same optimiser and nothing else: no
corpus, no reports, no checkpoints, no watch.  `loop` is what `scripts/trunk.py` runs: batches from
shards, losses fetched, the keeper asked, every rule of the watch, evaluations.  `nanogpt` is a
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from quantlm.loop import Trainer
from quantlm.model import Architecture, build

ROOT = Path(__file__).parents[1]
Step = Callable[[], None]


class Row(NamedTuple):
    """One way at one size; `ratio` is its CPU time a step beside the bare loop's."""

    model: str
    way: str
    ms_per_step: float
    gflop_per_cpu_s: float
    ratio: float


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


@contextmanager
def loop(spec: dict[str, Any], folder: Path, steps: int) -> Iterator[Step]:
    """`steps` steps of the loop, with keeper, watch and evaluations, as a script runs it."""
    whole = shakespeare()
    view = Counted({name: whole.shard(name) for name in whole.shard_tokens}, whole.validation())
    trainer = Trainer.start(trunk(spec) | {"passes": 1000}, view, torch.device("cpu"))
    kept, held_out = TrainingState(trainer, view), HeldOut.of(trainer, view, spec)
    keeper, watch = watched(_cell(folder), kept, held_out, view, passes=1000)
    rate = schedule.trunk_rate(spec["learning_rate"], spec["warmup_steps"])
    (folder / "desk" / "out").mkdir(parents=True)
    with keeper, watch:
        yield lambda: _discard(
            trainer.run(trainer.step + steps, rate, keeper=keeper, watcher=watch)
        )


def _discard(_: object) -> None:
    """Nobody needs the losses."""


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


def measured(name: str, spec: dict[str, Any], rounds: int, seconds: float) -> list[Row]:
    """All ways at one size, in turns."""
    ours, theirs = build(Architecture.of(spec), 0), NanoGPT(spec)
    steps = {"bare": bare(ours, spec), "nanogpt": bare(theirs, spec)}
    product, product_gflop = roofline(spec)
    for step in steps.values():
        step()
    times = max(5, round(seconds / cpu_s(steps["bare"], 2)))
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, loop(spec, Path(folder), times) as run_loop:
        run_loop()
        for _ in range(rounds):
            for way, step in steps.items():
                found.setdefault(way, []).append(cpu_s(step, times))
            found.setdefault("loop", []).append(cpu_s(run_loop, 1) / times)
            found.setdefault("roofline", []).append(cpu_s(product, 4 * times))
    work = {"bare": gflop(ours, spec), "nanogpt": gflop(theirs, spec), "roofline": product_gflop}
    work["loop"] = work["bare"]
    return [_row(name, way, found, work[way]) for way in ("bare", "loop", "nanogpt", "roofline")]


def _row(model: str, way: str, found: dict[str, list[float]], work: float) -> Row:
    """Medians; the ratio is that of turns beside each other."""
    pairs = zip(found[way], found["bare"], strict=True)
    middle, ratio = statistics.median(found[way]), statistics.median(a / b for a, b in pairs)
    return Row(model, way, 1e3 * middle, work / middle, ratio)


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="n0,n1", help="files of config/models")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds of one turn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    environment.prepare("cpu", 1)
    rows = []
    for name in options.models.split(","):
        spec = MODEL if name == "n0" else resolved(load_model(ROOT, name))
        rows += measured(name, dict(spec), options.rounds, options.seconds)
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    print(f"load {os.getloadavg()[0]:.0f}; medians of {options.rounds} turns, one thread")
    print(f"{'model':<6} {'way':<10} {'ms a step':>10} {'GFLOP/CPU-s':>12} {'beside bare':>12}")
    for row in rows:
        told = f"{row.ms_per_step:>10.2f} {row.gflop_per_cpu_s:>12.1f} {row.ratio:>12.3f}"
        print(f"{row.model:<6} {row.way:<10} {told}")


if __name__ == "__main__":
    main()
