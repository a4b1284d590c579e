"""A sealed corpus of six small shards, made by the real producer, that tests may damage."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quantgrid import layout
from quantgrid.clock import SystemClock
from quantgrid.corpus import sources
from quantgrid.corpus.manifest import Manifest
from quantgrid.corpus.plan import Plan
from quantgrid.corpus.produce import produce
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.seal import seal
from quantgrid.corpus.sentinel import PREPARED_SCHEMA, Statement
from quantgrid.corpus.shards import Tokens
from quantgrid.corpus.view import View
from quantgrid.load import load_corpus
from quantgrid.recipe import Recipe
from quantlm import text

REPOSITORY = Path(__file__).resolve().parents[1]
CLOCK = SystemClock()
ELSEWHERE = Producer("feedfacefeedface", "elsewhere", "another boot", 4711, "42")
CONTEXT = 16
USABLE = 560  # five shards of 100 tokens give 96 each, the last one of 85 gives 80
FAR_FUTURE = "2099-01-01T00:00:00Z"


@dataclass(frozen=True)
class SmallCorpus:
    """Where everything of one corpus is: five shards of 100 tokens and one of 85."""

    root: Path
    recipe: Recipe
    volume: Path
    prepared: Path
    sentinel: Path

    @property
    def folder(self) -> Path:
        """The folder on the volume."""
        return layout.corpus_folder(self.volume, self.recipe.name, self.recipe.digest)

    def stream(self) -> Iterator[Tokens]:
        """The tokens of the texts, in ten pieces that come one after the other."""
        whole = text.stream(
            sources.verified(self.recipe, self.root),
            document_bytes=self.recipe.document_bytes,
            shuffle_seed=self.recipe.shuffle_seed,
        )
        return iter(np.split(np.concatenate(list(whole)), 10))

    def produce(self, **changes: Any) -> Manifest:
        """Bring it onto the volume and write the receipt."""
        stream = changes.pop("stream", None) or self.stream()
        manifest = produce(self.recipe, self.volume, stream, **{"clock": CLOCK, **changes})
        said = Statement.of(manifest, Producer.here(), "2026-11-30T12:00:00Z")
        said.publish(self.prepared, PREPARED_SCHEMA)
        return manifest

    def seal(self, **changes: Any) -> Statement:
        """Seal it in the name of another process."""
        options = {"clock": CLOCK, "sealer": ELSEWHERE, **changes}
        recipe = options.pop("recipe", self.recipe)
        return seal(recipe, self.volume, self.prepared, self.sentinel, **options)

    def view(self, **changes: Any) -> View:
        """Open it as a consumer of one pass."""
        options = {"planned_tokens": USABLE, "context": CONTEXT, **changes}
        return View.open(self.folder, self.sentinel, **options)

    def shard(self, index: int) -> Path:
        """The file of a training shard."""
        return self.folder / layout.shard_name(index)

    def files(self) -> dict[str, bytes]:
        """The bytes of every file of the folder but the plan, which names a process and a time."""
        return {
            path.name: path.read_bytes()
            for path in sorted(self.folder.iterdir())
            if path.name != layout.CORPUS_PLAN
        }

    def set_plan(self, **changes: Any) -> None:
        """Publish the plan with other fields."""
        value = Plan.read(self.folder).to_json() | changes
        (self.folder / layout.CORPUS_PLAN).write_text(json.dumps(value))

    def leave_plan_of(self, producer: Producer, heartbeat: str) -> None:
        """Publish the plan of a producer that is at work, or died."""
        plan = Plan.of(self.recipe, producer, CLOCK)
        self.folder.mkdir(parents=True, exist_ok=True)
        plan.publish(self.folder)
        self.set_plan(heartbeat=heartbeat)


def declare(root: Path, name: str = "small", seed: int = 0, lines: int = 10) -> SmallCorpus:
    """Write the texts and the configuration of a corpus below `root`; nothing is produced."""
    folder = root / "texts" / name
    folder.mkdir(parents=True)
    for number in range(2):
        body = "".join(_line(f"{name} {number} {each}") for each in range(lines // 2))
        (folder / f"text{number}.txt").write_text(body)
    _configure(root, name, seed, 65 * lines - 65)
    return SmallCorpus(
        root=root,
        recipe=load_corpus(root, name),
        volume=root / "volume",
        prepared=root / "receipts" / f"{name}-prepared.json",
        sentinel=root / "receipts" / f"{name}-sealed.json",
    )


def _line(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest() + "\n"


def _configure(root: Path, name: str, seed: int, num_tokens: int) -> None:
    config = layout.section_file(root, "corpus", name)
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        f"source: {{folder: texts/{name}, glob: '*.txt'}}\n"
        f"document_bytes: 40\nshuffle_seed: {seed}\nvalidation_tokens: 65\nshard_tokens: 100\n"
        f"num_tokens: {num_tokens}\n"
    )
    texts = sorted((root / "texts" / name).glob("*.txt"))
    pins = "".join(f"{hashlib.sha256(t.read_bytes()).hexdigest()}  {t.name}\n" for t in texts)
    layout.pins_file(root, name).write_text(pins)
    schema = layout.schema_file(root, "corpus")
    schema.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(layout.schema_file(REPOSITORY, "corpus"), schema)


def sealed(root: Path, name: str = "small") -> SmallCorpus:
    """A corpus that is produced and sealed."""
    corpus = declare(root, name)
    corpus.produce()
    corpus.seal()
    return corpus


def flip(path: Path, offset: int = 150) -> None:
    """Change one bit of one byte of a file, in place."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def swap(one: Path, other: Path) -> None:
    """Exchange the bytes of two files."""
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def tokens_of(path: Path) -> Tokens:
    """The tokens of a shard, read by NumPy itself."""
    loaded: Tokens = np.load(path)
    return loaded


def prepare(corpus: SmallCorpus, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the real script in a process of its own."""
    command = [
        sys.executable,
        str(layout.script(REPOSITORY, "prepare")),
        "--root",
        str(corpus.root),
    ]
    command += ["--corpus", corpus.recipe.name, "--volume", str(corpus.volume)]
    command += ["--receipt", str(corpus.prepared)]
    return subprocess.run(
        command,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
