"""Starts the scripts of one job under the cell contract and deposits what they made.

The order is fixed: resolve parents, run, deposit each finished stage, publish the receipt.  A job
that dies anywhere leaves the archive with whole records only, and the next attempt skips those.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from quantgrid import CONTRACT_VERSION, atomic, child, contract, layout, workspace
from quantgrid.archive import Archive, Deposit, waiting
from quantgrid.archive.record import Record
from quantgrid.clock import Clock, timestamp
from quantgrid.errors import (
    Alarm,
    ArchiveRefusal,
    Checkpointed,
    DataFault,
    DeviceFault,
    Fault,
    PlatformFault,
    Refusal,
)
from quantgrid.fingerprint import canonical, digest_file
from quantgrid.job import Job, Stage

_GRACE_S = 30
_TOLD = {
    kind.exit_code
    for kind in (Refusal, Checkpointed, Alarm, Fault, DataFault, DeviceFault, PlatformFault)
}
_HANDED_BACK: Mapping[str, type | tuple[type, ...]] = {
    "fingerprint": str,
    "files": dict,
    "results": dict,
    "receipt": (dict, type(None)),
    "environment": dict,
    "wall_s": (int, float),
    "cpu_s": (int, float),
}


class Machine(NamedTuple):
    """Where a job runs: folders, device and the name of the platform."""

    code: Path
    root: Path
    volume: Path
    platform: str
    device: str
    threads: int


class Ended(NamedTuple):
    """How the process of an attempt ended."""

    attempt: str
    started: str
    wall_s: float
    cpu_s: float
    exit_code: int


class _Desk(NamedTuple):
    """The private place of one stage of an attempt."""

    stage: Stage
    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / layout.DESK_OUT

    @property
    def result(self) -> Path:
        return self.folder / layout.DESK_RESULT


class Runner(NamedTuple):
    """Runs jobs on one machine, into one archive."""

    archive: Archive
    machine: Machine
    clock: Clock

    def run(self, job: Job, *, progress: Path) -> Deposit:
        """Make every record of a job that the archive lacks.

        Args:
            job: The stages.
            progress: Where the script may tell a person how far it is.

        Returns:
            The deposit of the last stage.

        Raises:
            SystemExit: with the script's exit code, when it did not finish and said why.
            QuantgridError: when a parent is missing or damaged, or a script ended in silence.
        """
        for stage in job.stages:
            waiting.deposit(self.machine.root, self.archive, stage.record, self.clock)
        pending = [stage for stage in job.stages if not self.archive.find_record(stage.record)]
        if pending:
            with workspace.attempt(self.machine.root, self.clock) as folder:
                self._attempt(job, pending, folder, progress)
        record = self.archive.record(job.last.record)
        return Deposit(job.last.record, record["digest"], self.archive.identity())

    def _attempt(self, job: Job, pending: list[Stage], folder: Path, progress: Path) -> None:
        desks = [
            _Desk(stage, layout.desk(folder, number, stage.name))
            for number, stage in enumerate(pending)
        ]
        arguments: list[str] = []
        for desk in desks:
            environment = self._set_up(job, desk, desks, progress)
            arguments += [str(layout.script(self.machine.code, desk.stage.name)), str(environment)]
        progress.parent.mkdir(parents=True, exist_ok=True)
        try:
            ended = self._start(folder.name, arguments)
        finally:
            progress.unlink(missing_ok=True)
        self._deposit_all(job, desks, ended)
        refuse_unfinished(job, ended)

    # -- before -----------------------------------------------------------------------------------

    def _set_up(self, job: Job, desk: _Desk, desks: list[_Desk], progress: Path) -> Path:
        """Write spec, parents and contract of a stage; the path of the contract file."""
        desk.out.mkdir(parents=True)
        spec, parents = desk.folder / layout.DESK_SPEC, desk.folder / layout.DESK_PARENTS
        spec.write_text(json.dumps(desk.stage.spec))
        parents.write_text(json.dumps(self._parents(desk.stage, desks)))
        path = desk.folder / layout.DESK_CONTRACT
        path.write_text(json.dumps(self._contract(job, desk, spec, parents, progress)))
        return path

    def _parents(self, stage: Stage, desks: list[_Desk]) -> dict[str, dict[str, str]]:
        made_here = {desk.stage.record: desk for desk in desks}
        parents = {}
        for role, key in stage.parents.items():
            desk = made_here.get(key)
            parents[role] = {"": str(desk.out)} if desk else self._verified(self._parent(key, role))
        newest = next(filter(None, map(self.archive.find_record, stage.resume)), None)
        if newest:
            parents["milestone"] = self._verified(newest)
        return parents

    def _parent(self, key: str, role: str) -> Record:
        record = self.archive.find_record(key)
        if record is None:
            raise ArchiveRefusal(
                f"the {role} that this job starts from is not in the archive",
                expected=key,
                where=self.archive.store.address,
                do="Ask Snakemake for the result; it makes what is missing first.",
            )
        return record

    def _verified(self, record: Record) -> dict[str, str]:
        cache = self.machine.root / layout.BLOB_CACHE
        return {name: str(path) for name, path in self.archive.files(record, cache).items()}

    def _contract(
        self, job: Job, desk: _Desk, spec: Path, parents: Path, progress: Path
    ) -> dict[str, str]:
        root, names = self.machine.root, {"corpus": job.corpus, "fp": job.recipe}
        stage = desk.stage
        state = layout.state_folder(self.machine.volume, job.cell, stage.name, stage.fingerprint)
        return {
            contract.CONTRACT: str(CONTRACT_VERSION),
            contract.CELL: job.cell,
            contract.STAGE: desk.stage.name,
            contract.FINGERPRINT: desk.stage.fingerprint,
            contract.SPEC: str(spec),
            contract.PARENTS: str(parents),
            contract.CORPUS: job.corpus
            and str(layout.corpus_folder(self.machine.volume, job.corpus, job.recipe)),
            contract.SENTINEL: job.corpus and str(root / layout.SENTINEL.format(**names)),
            contract.WORK: str(desk.folder),
            contract.OUT: str(desk.out),
            contract.RESULT: str(desk.result),
            contract.STATE: str(state),
            contract.LINK: str(layout.link_file(state)),
            contract.PROGRESS: str(progress),
            contract.METRICS: str(desk.folder / layout.DESK_METRICS),
            contract.DEVICE: self.machine.device,
            contract.THREADS: str(self.machine.threads),
            contract.SEED: str(job.seed),
            contract.DEADLINE: "",
            contract.GRACE: str(_GRACE_S),
            contract.INTERRUPTION: "",
            contract.ATTEMPT: desk.folder.parent.name,
        }

    # -- during -----------------------------------------------------------------------------------

    def _start(self, attempt: str, arguments: list[str]) -> Ended:
        """Run the scripts in a process group of their own and wait."""
        started, begin_s = self.clock.now(), self.clock.monotonic_s()
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.machine.threads)}
        running = child.start(arguments, environment)
        with _forwarding(running.pid):
            exit_code, cpu_s = running.wait()
        return Ended(
            attempt=attempt,
            started=timestamp(started),
            wall_s=round(self.clock.monotonic_s() - begin_s, 3),
            cpu_s=round(cpu_s, 3),
            exit_code=exit_code,
        )

    # -- after ------------------------------------------------------------------------------------

    def _deposit_all(self, job: Job, desks: list[_Desk], ended: Ended) -> None:
        """Deposit every finished stage; one that has to wait hinders no other."""
        kept: list[waiting.Kept] = []
        for desk in desks:
            try:
                if desk.result.exists():
                    self._deposit(job, desk, ended)
            except waiting.Kept as fault:
                kept.append(fault)
        if kept:
            raise kept[0]

    def _deposit(self, job: Job, desk: _Desk, ended: Ended) -> None:
        finished = _parse_result(desk.stage, desk.result.read_bytes())
        files = {path.name: path for path in desk.out.iterdir() if not atomic.is_debris(path.name)}
        _refuse_other(desk.stage, finished, files)
        body = self._body(job, desk.stage, finished, ended)
        root, key = self.machine.root, desk.stage.record
        waiting.deposit_or_keep(root, self.archive, key, body, files, clock=self.clock)

    def _body(
        self, job: Job, stage: Stage, finished: Mapping[str, Any], ended: Ended
    ) -> dict[str, Any]:
        spec = {"cell": stage.spec["cell"]} if stage.kind == "cells" else dict(stage.spec)
        host = os.uname().nodename
        receipt = finished["receipt"]
        body = {
            "kind": stage.kind,
            "cell": job.cell,
            "stage": stage.name,
            "fingerprint": stage.fingerprint,
            "spec": spec,
            "parents": dict(stage.parents),
            "science": stage.science,
            "corpus": {
                "name": job.corpus,
                "recipe": job.recipe,
                "manifest": receipt.get("manifest") if receipt else None,
            }
            if job.corpus
            else None,
            "results": finished["results"],
            "receipt": receipt,
            "work": {"wall_s": finished["wall_s"], "cpu_s": finished["cpu_s"]},
            "links": [_link(ended, host, self.machine.platform)],
            "counters": {"links": 1, "interruptions": 0, "failures": 0},
            "platform": {
                "name": self.machine.platform,
                "host": host,
                "python": sys.version.split()[0],
                **finished["environment"],
            },
            "blobs": finished["files"],
            "clearance": None,
            "hold": None,
            "cost": None,
            "verdict": None,
            "deposited": timestamp(self.clock.now()),
        }
        return body | self._ancestry(stage)

    def _ancestry(self, stage: Stage) -> dict[str, Any]:
        """A cell's record tells of its weights too, so that a result is complete by itself."""
        if "weights" not in stage.parents:
            return {}
        key = stage.parents["weights"]
        weights = waiting.find(self.machine.root, key) or self.archive.record(key)
        told = ("stage", "fingerprint", "science", "results", "receipt", "work", "links")
        return {"weights": {name: weights[name] for name in (*told, "platform", "blobs")}}


def _link(ended: Ended, host: str, platform: str) -> dict[str, Any]:
    return {
        "attempt": ended.attempt,
        "started": ended.started,
        "wall_s": ended.wall_s,
        "cpu_s": ended.cpu_s,
        "exit_code": ended.exit_code,
        "host": host,
        "platform": platform,
    }


def _parse_result(stage: Stage, data: bytes) -> Mapping[str, Any]:
    """What a script handed back; a script in any language may have written it.

    Raises:
        DataFault: when it is not JSON with the fields of the contract.
    """
    try:
        finished = json.loads(data)
        canonical(finished)  # NaN and infinities have no JSON form, but json.loads takes them
        wrong = [
            name for name, kind in _HANDED_BACK.items() if not isinstance(finished[name], kind)
        ]
    except (ValueError, KeyError, TypeError) as error:
        wrong = [f"{type(error).__name__}: {error}"]
    if wrong:
        raise DataFault(
            f"the result of stage {stage.name} cannot be read",
            expected=f"JSON with {', '.join(_HANDED_BACK)}",
            seen=f"{', '.join(wrong)} in {data[:60]!r}",
        )
    return finished  # type: ignore[no-any-return]


def _refuse_other(stage: Stage, finished: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Refuse a result of another fingerprint, and files that changed after they were named."""
    if finished["fingerprint"] != stage.fingerprint:
        raise DataFault(
            f"the script of stage {stage.name} finished another cell",
            expected=stage.fingerprint,
            seen=finished["fingerprint"],
        )
    seen = {name: _facts(path) for name, path in files.items()}
    named = finished["files"]
    if seen != named:
        names = sorted(name for name in {*seen, *named} if seen.get(name) != named.get(name))
        raise DataFault(
            f"the files of stage {stage.name} are not those that its script named",
            expected={name: named.get(name, "no file") for name in names},
            seen={name: seen.get(name, "no file") for name in names},
        )


def _facts(path: Path) -> object:
    if not path.is_file():
        return "a folder"
    return {"sha256": digest_file(path), "size_bytes": path.stat().st_size}


def refuse_unfinished(job: Job, ended: Ended) -> None:
    """Turn the exit code of the scripts into this runner's.

    Raises:
        SystemExit: with a code of the contract, whose sentence the script has told already.
        Fault: for a signal or a code that the contract does not know.
    """
    if ended.exit_code in _TOLD:
        raise SystemExit(ended.exit_code)
    if ended.exit_code < 0:
        raise Fault(f"{job.cell} was ended by {signal.Signals(-ended.exit_code).name}")
    if ended.exit_code:
        raise Fault(f"{job.cell} ended with exit code {ended.exit_code}")


class _forwarding:  # noqa: N801 - used as a context manager, like a function
    """While the child runs, SIGTERM and SIGINT go to its whole group."""

    def __init__(self, child: int) -> None:
        self._child = child
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._forward)

    def __exit__(self, *_: object) -> None:
        for number, old in self._before.items():
            signal.signal(number, old)

    def _forward(self, number: int, _: FrameType | None) -> None:
        try:
            os.killpg(self._child, number)
        except ProcessLookupError:
            return
