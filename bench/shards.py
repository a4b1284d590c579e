"""Shards: write, seal, verify and read, beside mosaicml-streaming and datatrove; who notices what.

    python bench/shards.py [--tokens 33554432] [--json]

Peers take part where they can be imported (`pip install mosaicml-streaming datatrove`; the first
wants torchvision as well).  `raw` is the limit: the same bytes written with fsync, hashed, and read
by NumPy.  Every way hands out sequences of 256 tokens, each summed once.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from quantgrid import atomic, layout
from quantgrid.fingerprint import digest_file
from small_corpus import SmallCorpus, declare

CONTEXT = 256
SHARDS = 16
REPEATS = 5
Tokens = NDArray[np.uint16]


class Way:
    """One way to keep tokens: what is measured of it."""

    name = ""

    def __init__(self, root: Path) -> None:
        self.root = root / self.name

    def write(self, parts: list[Tokens]) -> None:
        """Write every part as a shard of its own."""
        raise NotImplementedError

    def verify(self) -> None:
        """Compare every byte with what was written."""
        raise NotImplementedError

    def read(self, asked: int) -> Iterator[Any]:
        """As many sequences as a job asks for."""
        raise NotImplementedError

    def shards(self) -> list[Path]:
        """Their files."""
        raise NotImplementedError


class Raw(Way):
    """The limits of the machine."""

    name = "raw"

    def write(self, parts: list[Tokens]) -> None:
        """See `Way.write`."""
        self.root.mkdir()
        for number, part in enumerate(parts):
            atomic.publish(self.root / f"{number:05d}", part.tobytes())

    def verify(self) -> None:
        """See `Way.verify`."""
        for path in self.shards():
            digest_file(path)

    def read(self, asked: int) -> Iterator[Any]:
        """See `Way.read`."""
        for path in self.shards():
            yield from np.fromfile(path, np.uint16)[: asked * CONTEXT].reshape(-1, CONTEXT)

    def shards(self) -> list[Path]:
        """See `Way.shards`."""
        return sorted(self.root.iterdir())


class Ours(Way):
    """Shards with a manifest, sealed by another process, verified before their first use."""

    name = "quantgrid"
    corpus: SmallCorpus

    def write(self, parts: list[Tokens]) -> None:
        """See `Way.write`."""
        corpus = declare(self.root)
        sizes = {"num_tokens": sum(map(len, parts)), "shard_tokens": len(parts[0])}
        recipe = replace(corpus.recipe, **sizes, validation_tokens=CONTEXT)
        self.corpus = replace(corpus, recipe=recipe)
        self.corpus.produce(stream=iter([parts[0][:CONTEXT], *parts]))

    def verify(self) -> None:
        """See `Way.verify`."""
        self.corpus.seal()

    def read(self, asked: int) -> Iterator[Any]:
        """See `Way.read`."""
        view = self.corpus.view(planned_tokens=asked * CONTEXT - SHARDS, context=1)
        view.ahead(view.shard_tokens)
        for name in view.shard_tokens:
            yield from view.shard(name).reshape(-1, CONTEXT)

    def shards(self) -> list[Path]:
        """See `Way.shards`."""
        return sorted(self.corpus.folder.glob(f"{layout.shard_name(0)[:5]}*"))


class Mosaic(Way):
    """mosaicml-streaming, with its sha256 hashes on."""

    name = "mosaicml-streaming"

    def write(self, parts: list[Tokens]) -> None:
        """See `Way.write`."""
        from streaming import MDSWriter

        size = parts[0].nbytes + (1 << 16)
        columns = {"t": f"ndarray:uint16:{CONTEXT}"}
        writer = MDSWriter(out=str(self.root), columns=columns, hashes=["sha256"], size_limit=size)
        with writer:
            for part in parts:
                for row in part.reshape(-1, CONTEXT):
                    writer.write({"t": row})

    def verify(self) -> None:
        """See `Way.verify`."""
        facts = json.loads((self.root / "index.json").read_bytes())["shards"]
        for shard in facts:
            data = shard["raw_data"]
            assert digest_file(self.root / data["basename"]) == data["hashes"]["sha256"]

    def read(self, asked: int) -> Iterator[Any]:
        """See `Way.read`."""
        from streaming import StreamingDataset

        dataset = StreamingDataset(
            local=str(self.root),
            batch_size=1,
            shuffle=False,
            validate_hash="sha256",
            epoch_size=asked,
        )
        for sample in dataset:
            yield sample["t"]

    def shards(self) -> list[Path]:
        """See `Way.shards`."""
        return sorted(self.root.glob("*.mds"))


class Trove(Way):
    """datatrove; it keeps no hashes."""

    name = "datatrove"

    def write(self, parts: list[Tokens]) -> None:
        """See `Way.write`."""
        from datatrove.pipeline.tokens.tokenizer import TokenizedFile

        self.root.mkdir()
        for number, part in enumerate(parts):
            file = TokenizedFile(str(self.root), f"{number:05d}.ds", save_index=False)
            for row in part.reshape(-1, CONTEXT):
                file.write_bytes(row.tobytes())
            file.close()

    def verify(self) -> None:
        """See `Way.verify`."""
        raise NotImplementedError

    def read(self, asked: int) -> Iterator[Any]:
        """See `Way.read`."""
        from datatrove.utils.dataset import DatatroveFolderDataset

        dataset = DatatroveFolderDataset(
            str(self.root), CONTEXT - 1, filename_pattern="*.ds", token_size=2
        )
        for number in range(min(asked, len(dataset))):
            yield dataset[number]["input_ids"]

    def shards(self) -> list[Path]:
        """See `Way.shards`."""
        return sorted(self.root.glob("*.ds"))


def timed(
    act: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """Seconds that something takes; None for what a way has not."""
    begin = clock()
    try:
        act()
    except NotImplementedError:
        return None
    return clock() - begin


def consumed(way: Way, asked: int) -> int:
    """Read and sum all sequences: how many there were."""
    return sum(1 for row in way.read(asked) if row.sum() >= 0)


def measured(way: Way, parts: list[Tokens]) -> dict[str, Any]:
    """Megabytes per second of each act; verifying keeps a processor busy: per CPU second."""
    size_mb, asked = sum(part.nbytes for part in parts) / 1e6, sum(map(len, parts)) // CONTEXT
    acts = {
        "write": lambda: way.write(parts),
        "verify": way.verify,
        "read": lambda: consumed(way, asked),
    }
    seconds = {name: timed(act) for name, act in acts.items()}
    again = [timed(way.verify, time.process_time) for _ in range(REPEATS)]
    seconds["verify"] = min((each for each in again if each), default=None)
    return {
        "way": way.name,
        **{name: None if s is None else round(size_mb / s, 1) for name, s in seconds.items()},
    }


# -- faults ---------------------------------------------------------------------------------------


def keep_one(shards: list[Path]) -> None:
    """All but one are not seen."""
    for path in shards[1:]:
        path.unlink()


def flip(shards: list[Path]) -> None:
    """One bit in the middle of the middle one."""
    path = shards[len(shards) // 2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def delete(shards: list[Path]) -> None:
    """The middle one is gone."""
    shards[len(shards) // 2].unlink()


def halve(shards: list[Path]) -> None:
    """The middle one is half written."""
    path = shards[len(shards) // 2]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


FAULTS = {
    "1 of 16 shards is seen": keep_one,
    "a bit is flipped": flip,
    "a shard is gone": delete,
    "a shard is half written": halve,
}


def noticed(way: Way, fault: Callable[[list[Path]], None], asked: int) -> str:
    """When a job that reads everything is told of a fault, and how much it had read by then."""
    fault(way.shards())
    count = 0
    try:
        for _ in way.read(asked):
            count += 1
    except Exception as error:  # noqa: BLE001 - whatever a peer raises
        return f"{type(error).__name__} after {count} of {asked}"
    return f"nothing: {count} of {asked} were read"


def main() -> None:
    """Measure, then break."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1 << 25)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    size = options.tokens // SHARDS // CONTEXT * CONTEXT
    source = np.random.default_rng(0)
    parts = [source.integers(0, 50_000, size, np.uint16) for _ in range(SHARDS)]
    small = [part[: CONTEXT * 64] for part in parts]
    rows, told = [], []
    for kind in (Raw, Ours, Mosaic, Trove):
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows.append(measured(kind(Path(folder)), parts))
            except ImportError as error:
                print(f"{kind.name}: left out, {error}", file=sys.stderr)
                continue
        told += [] if kind is Raw else broken(kind, small)
    print(json.dumps({"speed": rows, "faults": told}) if options.json else text(rows, told))


def broken(kind: type[Way], parts: list[Tokens]) -> list[dict[str, str]]:
    """Every fault of a way, each on shards of its own."""
    found = []
    for name, fault in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            way = kind(Path(folder))
            way.write(parts)
            with suppress(NotImplementedError):
                way.verify()
            seen = noticed(way, fault, sum(map(len, parts)) // CONTEXT)
            found.append({"way": kind.name, "fault": name, "noticed": seen})
            shutil.rmtree(way.root, ignore_errors=True)
    return found


def text(rows: list[dict[str, Any]], told: list[dict[str, str]]) -> str:
    """Both tables in Markdown."""
    lines = ["| way | write MB/s | verify MB/CPU s | read MB/s |", "| --- | --- | --- | --- |"]
    lines += [f"| {r['way']} | {r['write']} | {r['verify']} | {r['read']} |" for r in rows]
    lines += [
        "",
        "| fault | way | what a job that reads everything is told |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {t['fault']} | {t['way']} | {t['noticed']} |" for t in told]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
