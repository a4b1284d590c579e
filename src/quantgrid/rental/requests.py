"""From a job of Snakemake to what is asked of a machine; nothing here knows Snakemake's classes."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import layout
from quantgrid.errors import BudgetRefusal
from quantgrid.own_script import OwnCell
from quantgrid.rental import bundle
from quantgrid.rental.facts import Facts
from quantgrid.rental.packing import Kind
from quantgrid.rental.spend import MICROUSD
from quantgrid.rental.tasks import TaskOrder, job_id
from quantgrid.rental.tenant import Request
from quantgrid.store import Store

_MINUTE_S = 60.0
_OWN = ("cloud", "disk_gb")
"""Resources that only adapters understand; they travel as options of the order."""


class Job(NamedTuple):
    """A job as Snakemake tells of it.

    Args:
        rule: Name of its rule.
        command: Its shell line, complete.
        inputs: Files that it reads.
        outputs: Files that it makes.
        log: Where it says what it does; empty for nowhere.
        spec: The JSON of `quantgrid.job`; empty for rules without.
        resources: Of the job.
    """

    rule: str
    command: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    log: str
    spec: str
    resources: Mapping[str, int | str]


class Requests:
    """Makes requests of jobs.

    Args:
        code: Folder of the Snakefile, which travels.
        root: The working copy.
        store: What machines read.
        facts: Of the platform.
        grid: Whose money it is.
        also: Further files and folders that travel, such as those of somebody's own program.
    """

    def __init__(
        self, code: Path, root: Path, store: Store, facts: Facts, grid: str, also: Iterable[str]
    ) -> None:
        self.code, self.root, self.store, self.facts, self.grid, self.also = (
            code,
            root,
            store,
            facts,
            grid,
            tuple(also),
        )
        self._lock = threading.Lock()
        self._bundle = ""

    def request(self, job: Job) -> Request:
        """What is asked of a machine; files are read when the order is made."""
        spec = json.loads(job.spec) if job.spec else {}
        cell = str(spec.get("cell") or f"{job.rule}{_made(job)}")
        where = (self.facts.name, self.facts.account, self.facts.volume)
        id_ = job_id(where, job.rule, job.outputs)
        order = self._order(job, spec, cell)
        return Request(id_, cell, self.grid, self._kind(job, id_), order)

    def _kind(self, job: Job, id_: str) -> Kind:
        given, facts = job.resources, self.facts
        dollars, minutes = given.get("max_usd"), given.get("runtime")
        return Kind(
            device=str(given.get("gpu_model") or facts.device),
            num_devices=int(given.get("gpu", facts.num_devices)),
            options=tuple((name, str(given[name])) for name in _OWN if name in given),
            max_microusd=None if dollars is None else round(float(dollars) * MICROUSD),
            run_s=None if minutes is None else float(minutes) * _MINUTE_S,
            alone=id_ if given.get("own_machine") else "",
        )

    def _order(self, job: Job, spec: Mapping[str, Any], cell: str) -> Callable[[], TaskOrder]:
        def order() -> TaskOrder:
            inputs = dict.fromkeys([*job.inputs, *self._sentinel(spec)])
            return TaskOrder(
                cell=cell,
                command=job.command,
                bundle=self._sources(),
                inputs=bundle.put_files(self.store, self.root, inputs),
                outputs=job.outputs,
                log=job.log,
                also=(layout.FAILURES,),
                links=tuple(_links(spec)),
            )

        return order

    def _sentinel(self, spec: Mapping[str, Any]) -> list[str]:
        """What vouches for the corpus of a job: every stage reads it, whatever Snakemake names."""
        if not spec.get("corpus"):
            return []
        path = layout.SENTINEL.format(corpus=spec["corpus"], fp=spec["recipe"])
        return [path] if (self.root / path).exists() else []

    def _sources(self) -> str:
        """The digest of the sources, packed once for all jobs of a controller."""
        with self._lock:
            if not self._bundle:
                packed = bundle.pack(self.code, self.also)
                self._bundle = bundle.put(self.store, packed.data)
            return self._bundle


def _made(job: Job) -> str:
    """What a job without a cell is about, for a person: a corpus, or what a probe measures."""
    if not job.outputs:
        return ""
    path = Path(job.outputs[0])
    is_own = path.parent.name == job.rule  # screens: .../probe/n0-rtn.<fingerprint>.json
    return f" of {path.name.split('.')[0] if is_own else path.parent.name}"


def _links(spec: Mapping[str, Any]) -> Iterable[str]:
    """Where the stages of a job tell of their newest checkpoints, relative to the volume."""
    for stage in spec.get("stages", ()):
        state = layout.state_folder(Path(), spec["cell"], stage["name"], stage["fingerprint"])
        yield layout.link_file(state).as_posix()


def programs(cells: Iterable[OwnCell]) -> list[str]:
    """What travels of programs of their own: the folder of each, or its file alone."""
    scripts = [cell.script for cell in cells]
    found = {each.folder or (each.program if each.is_file else "") for each in scripts}
    return sorted(found - {""})


_UNCLEARED = {"probe"}
"""Rules that rent before there is a clearance, under money of their own."""


def refuse_uncleared(job: Job, *, is_paid: bool) -> None:
    """Refuse to rent for a job that no screen has cleared.

    Raises:
        BudgetRefusal: when the platform is paid and no clearance is among the inputs.
    """
    cleared = any(layout.is_clearance(path) for path in job.inputs)
    if is_paid and not cleared and job.rule not in _UNCLEARED:
        raise BudgetRefusal(
            f"no machine is rented for {job.rule} before the screens have passed",
            expected="a clearance among its inputs",
            seen=", ".join(job.inputs) or "no inputs",
            do="Ask Snakemake for the result; it runs the screens first.",
        )
