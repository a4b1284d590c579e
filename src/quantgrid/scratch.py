"""A tiny grid in a folder that nobody keeps: the real scripts, runner, corpus and archive, small.

The screens run it before money is spent: smoke to see that a cell survives a kill, probe to see
what a model and a method take.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from quantgrid import contract, layout
from quantgrid.archive import Archive
from quantgrid.clock import SystemClock, timestamp
from quantgrid.corpus.produce import produce
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.sentinel import PREPARED_SCHEMA, Statement
from quantgrid.errors import Fault
from quantgrid.fingerprint import digest
from quantgrid.grid import Block, Budget, Grid, expand
from quantgrid.job import Job
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_corpus
from quantgrid.recipe import Recipe
from quantgrid.spec import Evaluation, Form, Model
from quantgrid.store import open_store

_NAME = "screen"
_RECEIPTS = (layout.PREPARED, layout.SENTINEL)
_SHARD_TOKENS = 1_000_000
_TAIL = 3000


@dataclass(frozen=True)
class Scratch:
    """A place for tiny cells.

    Args:
        code: The folder of the Snakefile, whose scripts run.
        root: A private folder that stands for working copy, volume and archives.
        device: Device of the scripts.
        threads: Threads of each.
    """

    code: Path
    root: Path
    device: str = "cpu"
    threads: int = 1
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def grid(
        self,
        model: Model,
        steps: Iterable[int],
        forms: Iterable[Form],
        *,
        seeds: Iterable[int] = (0,),
        evaluation: Evaluation,
    ) -> Lineage:
        """A grid of a model with bases of so many steps, over a corpus that is made for it."""
        lengths = [count * model.tokens_per_step for count in steps]
        recipe = self._corpus(model, max(lengths), evaluation.sequences)
        block = Block(
            name=_NAME,
            models=(model,),
            budgets=tuple(Budget(amount=length) for length in lengths),
            seeds=tuple(seeds),
            forms=tuple((form, _NAME) for form in forms),
        )
        grid: Grid = expand(_NAME, corpus=recipe, evaluation=evaluation, blocks=[block])
        return trace(grid, Science(self.code))

    # -- the corpus -------------------------------------------------------------------------------

    def _corpus(self, model: Model, num_tokens: int, sequences: int) -> Recipe:
        """Bring a sealed corpus of random tokens onto the volume."""
        validation = (sequences + 1) * model.context + 1
        recipe = self._declare(num_tokens + model.context + _SHARD_TOKENS // 100, validation)
        prepared, sealed = (self.root / self._receipt(recipe, name) for name in _RECEIPTS)
        clock = SystemClock()
        manifest = produce(recipe, self._volume, _tokens(recipe, validation), clock=clock)
        said = Statement.of(manifest, Producer.here(), timestamp(clock.now()))
        said.publish(prepared, PREPARED_SCHEMA)
        words = ["seal", "--root", self.root, "--corpus", _NAME, "--volume", self._volume]
        words += ["--prepared", prepared, "--sentinel", sealed, "--reload", "none"]
        self._finish(self._start([*words]), "the seal")
        return recipe

    def _declare(self, num_tokens: int, validation_tokens: int) -> Recipe:
        """Write the two files of a recipe, for the seal is another process and reads them."""
        told = {
            "source": {"folder": _NAME, "glob": "*"},
            "shard_tokens": _SHARD_TOKENS,
            "validation_tokens": validation_tokens,
            "num_tokens": num_tokens,
        }
        file = layout.section_file(self.root, "corpus", _NAME)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(told))
        text = json.dumps(told)
        pin = f"{hashlib.sha256(text.encode()).hexdigest()}  {_NAME}\n"
        layout.pins_file(self.root, _NAME).write_text(pin)
        schema = layout.schema_file(self.root, "corpus")
        schema.parent.mkdir(parents=True, exist_ok=True)
        schema.write_bytes(layout.schema_file(self.code, "corpus").read_bytes())
        return load_corpus(self.root, _NAME)

    @staticmethod
    def _receipt(recipe: Recipe, pattern: str) -> str:
        return pattern.format(corpus=recipe.name, fp=recipe.digest)

    @property
    def _volume(self) -> Path:
        return layout.scratch_volume(self.root)

    # -- jobs -------------------------------------------------------------------------------------

    def start(self, job: Job, *options: str, archive: str = "") -> "subprocess.Popen[bytes]":
        """Start the runner for a job, in a process group of its own.

        Args:
            job: What to make.
            options: More options of `quantgrid run`.
            archive: Name of one of the archives of this place.
        """
        name = digest([job.cell, archive])[:16]
        words: list[Any] = ["run", job.to_json(), "--receipt", layout.screen_receipt(name)]
        words += ["--archive", self._archive(archive)]
        words += ["--root", self.code, "--volume", self._volume, "--platform", _NAME]
        words += ["--device", self.device, "--threads", self.threads, *options]
        return self._start(words, log=self.root / layout.screen_log(name))

    def run(self, *jobs: Job, archive: str = "") -> None:
        """Run jobs at the same time, to their ends.

        Raises:
            Fault: with what the first one said that failed.
        """
        started = [(job, self.start(job, archive=archive)) for job in jobs]
        for job, process in started:
            self._finish(process, f"stage {job.last.name}")

    def record(self, key: str, archive: str = "") -> Mapping[str, Any]:
        """A record that a job deposited."""
        return Archive(open_store(str(self._archive(archive)), self.root)).record(key)

    def _archive(self, name: str) -> Path:
        return layout.scratch_archive(self.root).with_suffix(f".{name}" if name else "")

    def _start(self, words: list[Any], log: Path | None = None) -> "subprocess.Popen[bytes]":
        kept = {name: value for name, value in os.environ.items() if name != contract.WARM}
        path = [str(layout.source_root(self.code)), os.environ.get("PYTHONPATH", "")]
        threads = str(self.threads)
        with (log or self.root / layout.SCREEN_LOG).open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "quantgrid", *map(str, words)],
                cwd=self.root,
                env={
                    **kept,
                    "PYTHONPATH": os.pathsep.join(filter(None, path)),
                    "OMP_NUM_THREADS": threads,
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def end(self) -> None:
        """Kill what still runs here."""
        for process in self.started:
            if process.poll() is None:
                kill(process)

    def _finish(self, process: "subprocess.Popen[bytes]", name: str) -> None:
        if process.wait():
            raise Fault(
                f"{name} of a tiny cell failed",
                expected="exit code 0",
                seen=f"exit code {process.returncode}; its last words:\n{self.last_words()}",
                where=self.code,
            )

    def last_words(self) -> str:
        """The end of what the latest process said."""
        logs = sorted(self.root.glob(layout.SCREEN_LOGS), key=lambda path: path.stat().st_mtime)
        return logs[-1].read_text(errors="replace")[-_TAIL:] if logs else ""

    def link_of(self, job: Job) -> Path:
        """Where the script of the last stage of a job tells of its checkpoints."""
        last = job.last
        return layout.link_file(
            layout.state_folder(self._volume, job.cell, last.name, last.fingerprint)
        )


@contextmanager
def scratch(code: Path, where: Path, **facts: Any) -> Iterator[Scratch]:
    """A place for tiny cells that is gone afterwards, with all that runs in it.

    Args:
        code: The folder of the Snakefile.
        where: A folder with room.
        facts: Device and threads.
    """
    where.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{_NAME}-", dir=where) as folder:
        place = Scratch(code, Path(folder), **facts)
        try:
            yield place
        finally:
            place.end()


def kill(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to a runner; its scripts die with it (`stages`), and nothing of it can save."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tokens(recipe: Recipe, validation: int) -> Iterator[NDArray[np.uint16]]:
    """Random tokens, the same each time."""
    source = np.random.default_rng(0)
    size = recipe.vocabulary
    yield source.integers(size, size=validation, dtype=np.uint16)
    left = recipe.num_tokens
    while left:
        count = min(left, _SHARD_TOKENS)
        yield source.integers(size, size=count, dtype=np.uint16)
        left -= count
