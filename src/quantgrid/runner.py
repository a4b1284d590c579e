"""Starts the scripts of one job under the cell contract and deposits what they made.

The order is fixed: resolve parents, run, deposit each finished stage, publish the receipt.  A job
that dies anywhere leaves the archive with whole records only, and the next attempt skips those.
"""

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from quantgrid import (
    CONTRACT_VERSION,
    asides,
    contract,
    handed_back,
    held,
    layout,
    links,
    watching,
    workspace,
)
from quantgrid.archive import Archive, Deposit, waiting
from quantgrid.archive.record import Record
from quantgrid.clock import Clock, timestamp
from quantgrid.diagnosis import Diagnosis
from quantgrid.ending import Ending
from quantgrid.errors import ArchiveRefusal, DataFault, Waiting
from quantgrid.failures import forget
from quantgrid.hold import Hold
from quantgrid.job import Job, Stage
from quantgrid.mirror import Mirror
from quantgrid.mirroring import EVERY_S, Mirrored, kept_up
from quantgrid.remembered import Remembered
from quantgrid.watching import Ended, Limits

if TYPE_CHECKING:
    from quantgrid.cleared import Cleared
    from quantgrid.gpus import Share


class Machine(NamedTuple):
    """Where a job runs: folders, device, name and limits of the platform."""

    code: Path
    root: Path
    volume: Path
    platform: str
    device: str
    threads: int
    limits: Limits = Limits()
    manners: held.Manners = held.Manners()
    gpu: "Share | None" = None
    watch: str = ""
    mirrors: bool = False
    clearance: "Cleared | None" = None


class _Desk(NamedTuple):
    """The private place of one stage of an attempt, and its state, which outlives the attempt."""

    stage: Stage
    folder: Path
    state: Path
    hold: Hold

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
        """Make every record of a job that the archive lacks, link by link.

        Args:
            job: The stages.
            progress: Where the script may tell a person how far it is.

        Returns:
            The deposit of the last stage.

        Raises:
            SystemExit: with the script's exit code, when it did not finish and said why.
            QuantgridError: when a parent is missing or damaged, a script failed or was interrupted,
                or the same failure is remembered.
        """
        for stage in job.stages:
            waiting.deposit(self.machine.root, self.archive, stage.record, self.clock)
        if pending := self._pending(job):
            with self._holding(job, pending) as holds:
                while pending := self._pending(job):
                    with (
                        self._gpu() as visible,
                        workspace.attempt(self.machine.root, self.clock) as folder,
                    ):
                        desks = self._desks(job, pending, folder, holds)
                        self._attempt(job, desks, progress, visible)
        record = self.archive.record(job.last.record)
        return Deposit(job.last.record, record["digest"], self.archive.identity())

    @property
    def _memory(self) -> Remembered:
        return Remembered(self.machine.root, self.archive.store)

    def _pending(self, job: Job) -> list[Stage]:
        """The stages without a record; of the others nothing is left to go on from."""
        pending = [stage for stage in job.stages if not self.archive.find_record(stage.record)]
        for stage in job.stages:
            if stage in pending:
                self._memory.refuse(job.cell, stage.name, stage.fingerprint)
            else:
                self._forget(job, stage)
        return pending

    def _holding(
        self, job: Job, pending: list[Stage]
    ) -> AbstractContextManager[Mapping[str, Hold]]:
        """Nobody else makes these records meanwhile; what somebody else made is not pending."""
        return held.holding(
            job,
            pending,
            lambda stage: self.archive.find_record(stage.record) is not None,
            store=self.archive.store,
            root=self.machine.root,
            clock=self.clock,
            manners=self.machine.manners,
        )

    def _gpu(self) -> AbstractContextManager[Mapping[str, str]]:
        """What tells the scripts their GPU; taken before the clock of a link runs."""
        if self.machine.gpu is None:
            return nullcontext({})
        from quantgrid import gpus  # a job without a GPU does not pay for it

        return gpus.taken(self.machine.gpu, gpus.NvidiaSmi())

    def _desks(
        self, job: Job, pending: list[Stage], folder: Path, holds: Mapping[str, Hold]
    ) -> list[_Desk]:
        return [
            _Desk(
                stage,
                layout.desk(folder, number, stage.name),
                self._state(job, stage),
                holds[stage.fingerprint],
            )
            for number, stage in enumerate(pending)
        ]

    def _attempt(
        self, job: Job, desks: list[_Desk], progress: Path, visible: Mapping[str, str]
    ) -> None:
        """One link: run what is pending; return when it is done, or when another link may start."""
        folder = desks[0].folder.parent
        waiting.spare_room(folder)
        begin_s = self.clock.monotonic_s()
        left_s = self.machine.limits.deadline_s(os.environ, watching.unix_s(self.clock))
        ends_at_s = None if left_s is None else begin_s + left_s
        arguments: list[str] = []
        for desk in desks:
            self._mirrored(job, desk).go_on()
            environment = self._set_up(job, desk, desks, progress, ends_at_s)
            arguments += [str(layout.script(self.machine.code, desk.stage.name)), str(environment)]
        progress.parent.mkdir(parents=True, exist_ok=True)
        link = {"attempt": folder.name, "started": timestamp(self.clock.now()), **self._place()}
        links.Chain.read(desks[0].state).open(link)
        every_s = EVERY_S / self.machine.limits.clock_factor
        notices = {desk.folder / layout.DESK_NOTICE: desk.stage for desk in desks}
        try:
            with (
                asides.heard(list(notices), lambda n: self._tell(job, notices[n], n)),
                kept_up([self._mirrored(job, each) for each in desks], every_s),
            ):
                ended = self._supervise(folder.name, arguments, ends_at_s, visible)
        finally:
            progress.unlink(missing_ok=True)
        self._conclude(job, desks, ended)

    def _tell(self, job: Job, stage: Stage, notice: Path) -> None:
        """A script that goes on all the same has something to say."""
        from quantgrid import noticing  # nearly never

        store = self.archive.store
        noticing.of_running(self.machine.code, store, job.cell, stage.fingerprint, notice)

    def _supervise(
        self,
        attempt: str,
        arguments: list[str],
        ends_at_s: float | None,
        visible: Mapping[str, str],
    ) -> Ended:
        threads = str(self.machine.threads)
        own = {"OMP_NUM_THREADS": threads, contract.ATTEMPT: attempt, **visible}
        return watching.run(
            arguments,
            attempt=attempt,
            environment={**os.environ, **own},
            deadline_s=None if ends_at_s is None else ends_at_s - self.clock.monotonic_s(),
            limits=self.machine.limits,
            clock=self.clock,
        )

    def _mirror(self, job: Job, stage: Stage, cache: Path) -> Mirror:
        return Mirror(self.archive.store, job.cell, stage.name, stage.fingerprint, cache)

    def _mirrored(self, job: Job, desk: _Desk) -> Mirrored:
        mirror = self._mirror(job, desk.stage, desk.folder)
        return Mirrored(mirror, desk.state, desk.hold.refuse_lost, self.machine.mirrors)

    def _place(self) -> dict[str, str]:
        return {"host": os.uname().nodename, "platform": self.machine.platform}

    def _state(self, job: Job, stage: Stage) -> Path:
        return layout.state_folder(self.machine.volume, job.cell, stage.name, stage.fingerprint)

    # -- before -----------------------------------------------------------------------------------

    def _set_up(
        self,
        job: Job,
        desk: _Desk,
        desks: list[_Desk],
        progress: Path,
        ends_at_s: float | None,
    ) -> Path:
        """Write spec, parents and contract of a stage; the path of the contract file."""
        desk.out.mkdir(parents=True)
        spec, parents = desk.folder / layout.DESK_SPEC, desk.folder / layout.DESK_PARENTS
        spec.write_text(json.dumps(desk.stage.spec))
        parents.write_text(json.dumps(self._parents(desk.stage, desks)))
        variables = self._contract(job, desk) | {
            contract.SPEC: str(spec),
            contract.PARENTS: str(parents),
            contract.PROGRESS: str(progress),
            contract.DEADLINE: "",
            contract.ENDS_AT: "" if ends_at_s is None else f"{ends_at_s:.3f}",
        }
        path = desk.folder / layout.DESK_CONTRACT
        path.write_text(json.dumps(variables))
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

    def _contract(self, job: Job, desk: _Desk) -> dict[str, str]:
        root, names = self.machine.root, {"corpus": job.corpus, "fp": job.recipe}
        return {
            contract.CONTRACT: str(CONTRACT_VERSION),
            contract.CELL: job.cell,
            contract.STAGE: desk.stage.name,
            contract.FINGERPRINT: desk.stage.fingerprint,
            contract.CORPUS: job.corpus
            and str(layout.corpus_folder(self.machine.volume, job.corpus, job.recipe)),
            contract.SENTINEL: job.corpus and str(root / layout.SENTINEL.format(**names)),
            contract.WORK: str(desk.folder),
            contract.OUT: str(desk.out),
            contract.RESULT: str(desk.result),
            contract.STATE: str(desk.state),
            contract.LINK: str(layout.link_file(desk.state)),
            contract.METRICS: str(desk.folder / layout.DESK_METRICS),
            contract.DEVICE: self.machine.device,
            contract.THREADS: str(self.machine.threads),
            contract.SEED: str(job.seed),
            contract.GRACE: f"{self.machine.limits.grace_s:g}",
            contract.INTERRUPTION: self._interruption(),
            contract.WATCH: self.machine.watch,
            contract.ATTEMPT: desk.folder.parent.name,
        }

    def _interruption(self) -> str:
        mean_s = self.machine.limits.interruption_s
        return "" if mean_s is None else f"{mean_s:g}"

    # -- after ------------------------------------------------------------------------------------

    def _conclude(self, job: Job, desks: list[_Desk], ended: Ended) -> None:
        """Deposit what is finished; tell why the rest is not, unless another link may start.

        A deposit that has to wait hinders no other, and keeps nobody from its state.
        """
        kept: list[Waiting] = []
        for desk in desks:
            if not desk.result.exists():
                try:
                    self._ending(job, desk, ended).conclude(self.machine.limits.chains)
                finally:
                    self._mirrored(job, desk).save_last()
                break
            try:
                self._deposit(job, desk, ended)
                self._forget(job, desk.stage)
            except Waiting as fault:
                kept.append(fault)
            except DataFault as error:
                self._ending(job, desk, ended).keep(Diagnosis.of(error))
                raise
        if kept:
            raise kept[0]

    def _ending(self, job: Job, desk: _Desk, ended: Ended) -> Ending:
        folders = (self.machine.volume, self.machine.root, desk.folder)
        return Ending(
            memory=self._memory,
            cell=job.cell,
            stage=desk.stage.name,
            fingerprint=desk.stage.fingerprint,
            chain=links.Chain.read_closing(desk.state, ended.attempt),
            link=self._link(ended),
            ended=ended,
            folders=tuple(map(str, folders)),
            now=timestamp(self.clock.now()),
        )

    def _link(self, ended: Ended) -> dict[str, Any]:
        return {
            "attempt": ended.attempt,
            "started": ended.started,
            "wall_s": ended.wall_s,
            "cpu_s": ended.cpu_s,
            "exit_code": ended.exit_code,
            **self._place(),
        }

    def _forget(self, job: Job, stage: Stage) -> None:
        """A record is all that is needed of a finished stage."""
        links.clear(self._state(job, stage))
        if self.machine.mirrors:
            self._mirror(job, stage, self.machine.root).clear()
        forget(self.machine.root, job.cell, stage.name, stage.fingerprint)

    def _deposit(self, job: Job, desk: _Desk, ended: Ended) -> None:
        finished, files = handed_back.parse_result(desk.stage, desk.result, desk.out)
        chain = links.Chain.read_closing(desk.state, ended.attempt)
        chain = chain.closed(self._link(ended), links.DONE, finished.get("chain"))
        cleared = self.machine.clearance
        facts = {
            **(cleared.facts_of(chain.links) if cleared else {}),
            "links": list(chain.links),
            "counters": chain.counters(),
            "platform": {"name": self.machine.platform, "host": self._place()["host"]},
            "hold": desk.hold.facts(),
            "deposited": timestamp(self.clock.now()),
        }
        body = handed_back.body(job, desk.stage, finished, facts) | self._ancestry(desk.stage)
        root, key, attempt = self.machine.root, desk.stage.record, desk.folder.parent
        how = {"clock": self.clock, "fence": desk.hold.refuse_lost}
        waiting.deposit_or_keep(root, self.archive, key, body, files, attempt=attempt, **how)

    def _ancestry(self, stage: Stage) -> dict[str, Any]:
        """A cell's record tells of its weights too, so that a result is complete by itself."""
        if "weights" not in stage.parents:
            return {}
        key = stage.parents["weights"]
        weights = waiting.find(self.machine.root, key) or self.archive.record(key)
        told = ("stage", "fingerprint", "science", "results", "receipt", "work", "links")
        return {"weights": {name: weights[name] for name in (*told, "platform", "blobs")}}
