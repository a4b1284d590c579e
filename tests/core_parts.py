"""What tests of the core build on: a clock that stands, small records, jobs of tiny scripts."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.archive import Archive, Deposit
from quantgrid.fingerprint import digest, digest_bytes
from quantgrid.job import Job, Stage
from quantgrid.runner import Machine, Runner
from quantgrid.store.folder import FolderStore

CELL = "n0-t1k-s0/rtn"
BOUND_S = 180.0


@dataclass(frozen=True)
class StillClock:
    """A clock that stands at one moment."""

    def now(self) -> datetime:
        return datetime(2026, 11, 30, 12, tzinfo=UTC)

    def monotonic_s(self) -> float:
        return 0.0


CLOCK = StillClock()


def body(
    kind: str = "weights", cell: str = CELL, *, of: str = "a", files: Mapping[str, bytes] = {}
) -> dict[str, Any]:
    """The body of a small record; `of` decides its fingerprint."""
    blobs = {
        name: {"sha256": digest_bytes(data), "size_bytes": len(data)}
        for name, data in files.items()
    }
    return {
        "kind": kind,
        "cell": cell,
        "stage": "evaluate" if kind == "cells" else "quantise",
        "fingerprint": digest(of),
        "science": "s",
        "results": {"loss": 1.5},
        "receipt": None,
        "work": {"wall_s": 0.0, "cpu_s": 0.0},
        "links": [],
        "platform": {"name": "local"},
        "verdict": None,
        "cost": None,
        "deposited": "2026-11-30T12:00:00Z",
        "blobs": blobs,
    }


def key_of(record: Mapping[str, Any]) -> str:
    """The key that a record belongs under."""
    return layout.record_key(record["kind"], record["cell"], record["fingerprint"])


def put(archive: Archive, folder: Path, record: Mapping[str, Any], **files: bytes) -> Deposit:
    """Deposit a record with files (`weights=b"..."` becomes the file `weights`)."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / name for name in files}
    for name, data in files.items():
        paths[name].write_bytes(data)
    return archive.deposit(key_of(record), record, paths, clock=CLOCK)


def archive_in(root: Path) -> Archive:
    """The archive of a working copy, where the default configuration has it."""
    return Archive(FolderStore(root / "archive"))


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder by their relative path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# -- jobs -----------------------------------------------------------------------------------------

MAKE = """
from quantgrid import atomic
from quantgrid.cell import Cell
cell = Cell.from_environment()
atomic.publish(cell.out / "weights.bin", cell.fingerprint.encode())
cell.finish({"made": cell.id}, environment={"device": "cpu"})
"""

MEASURE = """
from quantgrid.cell import Cell
cell = Cell.from_environment()
seen = {r: {n: p.read_text() for n, p in fs.items()} for r, fs in cell.parents.items()}
cell.finish({"loss": 1.5, "seen": seen}, receipt={"manifest": "m"})
"""


def stage(name: str, kind: str, owner: str = CELL, **parents: Stage) -> Stage:
    """A stage whose fingerprint follows from its name, owner and parents."""
    own = digest([name, kind, owner, {role: each.fingerprint for role, each in parents.items()}])
    return Stage(
        name=name,
        kind=kind,
        record=layout.record_key(kind, owner, own),
        fingerprint=own,
        science=digest(name),
        spec={"cell": {"block": "main"}} if kind == "cells" else {"form": {}},
        parents={role: each.record for role, each in parents.items()},
    )


def cell_job() -> Job:
    """Weights that need nothing, and their evaluation against themselves."""
    weights = stage("quantise", "weights")
    return job_of(weights, stage("evaluate", "cells", weights=weights, base=weights))


def job_of(*stages: Stage) -> Job:
    """A job of stages."""
    return Job(cell=CELL, seed=7, corpus="shakespeare", recipe=digest("recipe"), stages=stages)


@dataclass(frozen=True)
class Desk:
    """A working copy with scripts of its own, and the runner in it."""

    root: Path

    @classmethod
    def lay(cls, root: Path, **scripts: str) -> "Desk":
        """Lay `scripts/<stage>.py`; quantise and evaluate have a default."""
        for name, text in {"quantise": MAKE, "evaluate": MEASURE, **scripts}.items():
            path = layout.script(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return cls(root)

    def change(self, name: str, text: str) -> None:
        """Replace a script."""
        layout.script(self.root, name).write_text(text)

    @property
    def archive(self) -> Archive:
        return archive_in(self.root)

    @property
    def progress(self) -> Path:
        return self.root / layout.progress_file("r.json")

    def runner(self) -> Runner:
        """A runner in this process; the scripts run in a child."""
        root = self.root
        machine = Machine(
            code=root, root=root, volume=root / "v", platform="local", device="cpu", threads=1
        )
        return Runner(self.archive, machine, CLOCK)

    def run(self, job: Job) -> Deposit:
        """Run a job with the runner of this process."""
        return self.runner().run(job, progress=self.progress)

    def command(self, job: Job, *, archive: str = "archive", more: Sequence[str] = ()) -> list[str]:
        """`quantgrid run` for a job."""
        options = {"--receipt": "r.json", "--root": str(self.root), "--volume": "v"}
        options |= {"--archive": archive, "--device": "cpu"}
        pairs = [text for option in options.items() for text in option]
        return [sys.executable, "-m", "quantgrid", "run", job.to_json(), *pairs, *more]

    def start(
        self,
        job: Job,
        *,
        archive: str = "archive",
        options: Sequence[str] = (),
        **environment: str,
    ) -> "subprocess.Popen[str]":
        """Start `quantgrid run` as a process of its own."""
        return subprocess.Popen(
            self.command(job, archive=archive, more=options),
            cwd=self.root,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(
        self,
        job: Job,
        *,
        archive: str = "archive",
        options: Sequence[str] = (),
        **environment: str,
    ) -> tuple[int, str]:
        """Run `quantgrid run` to its end: exit code and what a person saw."""
        child = self.start(job, archive=archive, options=options, **environment)
        said, _ = child.communicate(timeout=BOUND_S)
        return child.returncode, said

    def debris(self) -> list[str]:
        """Every path that an undisturbed job does not leave behind."""
        return [
            name
            for name in tree(self.root)
            if ".qgpart-" in name
            or "attempts/" in name
            or "holders/" in name
            or ("progress/" in name and not name.endswith(".end"))
        ]


def strip(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without what differs between two attempts: times, links, counts and holds."""
    differs = {"digest", "deposited", "links", "counters", "work", "hold"}
    kept = {n: v for n, v in record.items() if n not in differs}
    if "weights" in kept:
        kept["weights"] = {n: v for n, v in kept["weights"].items() if n not in {"links", "work"}}
    return kept


# -- faults ---------------------------------------------------------------------------------------

_KILLER = """
import os, signal, sys
role = "stages" if "quantgrid.stages" in sys.orig_argv else "runner"
asked, _, count = os.environ.get("KILL_AT", "").partition(":")
left = [int(count or 0)]
def hook(event, args):
    if event in ("os.rename", "os.link"):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
if asked == role:
    sys.addaudithook(hook)
"""


def killer(folder: Path) -> dict[str, str]:
    """Environment in which KILL_AT="<role>:<n>" kills a process at its n-th publication.

    Roles: `runner` (any program of ours) and `stages` (the process of the scripts).
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_KILLER)
    return python_path(folder)


def python_path(*folders: Path) -> dict[str, str]:
    """Environment in which a process imports from folders, from this one, and as this process."""
    own = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    return {"PYTHONPATH": os.pathsep.join([*map(str, folders), str(Path(__file__).parent), *own])}


def python(text: str, *arguments: str, cwd: Path, **environment: str) -> tuple[int, str]:
    """Run a text in an interpreter of its own: exit code, standard output and error together."""
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    return done.returncode, done.stdout


KILLED = -signal.SIGKILL
