"""The controller as a small job on a rented platform: it goes on while every laptop is closed.

It is a task like any other, of a lease of its own, whose shell line calls Snakemake in a copy of
the sources.  The copy carries the id of the working copy that launched it, so that `quantgrid stop`
there ends all that it rents.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import NamedTuple

from quantgrid import atomic, layout, workspace
from quantgrid.archive import opened
from quantgrid.errors import HoldRefusal, PlatformFault
from quantgrid.load import load_grid, load_platform, load_settings
from quantgrid.rental import reach, renting
from quantgrid.rental.collecting import Outcome
from quantgrid.rental.facts import Facts, facts_of
from quantgrid.rental.lease import Lease, Phase
from quantgrid.rental.packing import Kind
from quantgrid.rental.register import Register
from quantgrid.rental.requests import Job, Requests, programs
from quantgrid.rental.rounds import Wanted
from quantgrid.rental.spend import Caps
from quantgrid.rental.succession import Shift, Succession
from quantgrid.rental.tenant import Request, Tenant
from quantgrid.settings import Settings
from quantgrid.store import open_store

RULE = "coordinator"
_CONFIG = {"--config", "-C"}


class Coordinator(NamedTuple):
    """A coordinator of a working copy on a platform.

    Args:
        code: Folder of the Snakefile.
        root: The working copy.
        settings: What is run.
        facts: Of the platform.
    """

    code: Path
    root: Path
    settings: Settings
    facts: Facts

    @classmethod
    def of(
        cls, code: Path, root: Path, platform: str, overrides: Mapping[str, str]
    ) -> "Coordinator":
        """The coordinator that a person means; `overrides` are those of `--config`.

        Raises:
            ConfigRefusal: when the platform is none, rents nothing or cannot reach the archive.
        """
        settings, facts = load_settings(code, overrides), facts_of(load_platform(code, platform))
        reach.refuse_unreachable(facts, settings.archive)
        extra = tuple(facts.coordinator.get("secrets", ()))
        secrets = (*facts.secrets, *extra)
        # what follows on a machine that reached its cap is another lease: see `succession`
        return cls(code, root, settings, facts._replace(secrets=secrets, max_links=1))

    def launch(self, arguments: Sequence[str]) -> Lease:
        """Rent its machine, and wait until it works; the lease.

        Raises:
            HoldRefusal: when there is one already.
            PlatformFault: when it did not come to work.
        """
        if found := find_lease(self.code, self.root):
            raise HoldRefusal(
                "a coordinator of this working copy is rented already",
                seen=f"{found.platform}, {found.phase}",
                do="`quantgrid attach` follows it, `quantgrid stop` ends it with all its machines.",
            )
        tenant, job = self._tenant(), self._job(arguments)
        request = self._requests().request(job)._replace(cell=RULE, kind=self._kind())
        lease = self._begin(tenant, request, is_first=True)
        told = {"platform": self.facts.name, "overrides": overrides_of(arguments)}
        atomic.publish_json(self.root / layout.COORDINATOR, told)
        return lease

    def _begin(self, tenant: Tenant, request: Request, *, is_first: bool) -> Lease:
        """Ask until its machine works; what an earlier coordinator came to is told, and over."""
        tenant.ask(request)
        has_rented = False
        for ended in self._rounds(tenant):
            lease = _own(tenant)
            has_rented = has_rented or (lease is not None and not lease.phase.is_over)
            if lease and lease.phase is Phase.RUNNING:
                return lease
            if ended and (has_rented or not is_first):
                raise PlatformFault("the coordinator did not come to work", seen=ended.sentence)
        _say(f"An earlier coordinator ended: {ended.sentence if ended else ''}")
        return self._begin(tenant, request, is_first=False)

    def succession(self, shift: Shift) -> Succession:
        """What the coordinator of a shift sees of the others, and rents the next one by."""
        tenant = self._tenant()

        def is_coordinator(lease: Lease) -> bool:
            return lease.cell == RULE and renting.is_of_copy(lease.by, self.root)

        def wanted(subject: str) -> Wanted:
            return tenant.house.wanted(subject, RULE, self.settings.grid, self._kind())

        return Succession(tenant, shift, is_coordinator, wanted, _say)

    def attach(self) -> Outcome:
        """Show what it says until it ends, and bring its files home."""
        tenant = self._tenant()
        tenant.ask(self._requests().request(self._job(()))._replace(cell=RULE, kind=self._kind()))
        log, shown = self.root / layout.COORDINATOR_LOG, 0
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        for ended in self._rounds(tenant):
            data = log.read_bytes()
            sys.stdout.write(data[shown:].decode(errors="replace"))
            sys.stdout.flush()
            shown = len(data)
            if ended:
                self._settle(tenant)
                (self.root / layout.COORDINATOR).unlink(missing_ok=True)
                return ended
        raise AssertionError  # rounds end with an outcome at the latest

    def _rounds(self, tenant: Tenant) -> Iterator[Outcome | None]:
        """One round after the other, with the outcome once there is one."""
        while True:
            ended = next(iter(tenant.go()), None)
            yield ended
            if ended:
                return
            time.sleep(max(0.2, min(2.0, self.facts.real_s(10.0))))

    def _settle(self, tenant: Tenant) -> None:
        """Its machine has nothing left to do: it is ended, and paid for."""
        while tenant.release():
            tenant.go()
            time.sleep(max(0.2, min(2.0, self.facts.real_s(10.0))))

    def _tenant(self) -> Tenant:
        archive = opened.of(self.settings, self.root)
        money = self.settings.money.bounds()
        caps = Caps(*money) if load_platform(self.code, self.facts.name).is_paid else Caps()
        platform = reach.connect(self.facts)
        return renting.tenant(self.facts, platform, archive, self.root, caps, _say)

    def _requests(self) -> Requests:
        store, grid = open_store(self.settings.archive, self.root), self.settings.grid
        own = programs(load_grid(self.code, grid).own)
        return Requests(self.code, self.root, store, self.facts, grid, own)

    def _kind(self) -> Kind:
        device = str(self.facts.coordinator.get("device", self.facts.device))
        return Kind(device, 0, alone=RULE)

    def _job(self, arguments: Sequence[str]) -> Job:
        """Snakemake there: with the archive by its full name, and what is known of the corpora."""
        workspace.copy_id(self.root)
        known = (self.root / layout.CORPUS_RECEIPTS).rglob("*.json")
        inputs = [path.relative_to(self.root).as_posix() for path in sorted(known)]
        return Job(
            rule=f"{RULE} {workspace.copy_id(self.root)}",
            command=f"exec python -m quantgrid coordinate --platform {self.facts.name} -- "
            f"{join(self._words(arguments))} > {layout.COORDINATOR_LOG} 2>&1",
            inputs=(layout.COPY_ID, *inputs),
            outputs=(),
            log=layout.COORDINATOR_LOG,
            spec="",
            resources={},
        )

    def _words(self, arguments: Sequence[str]) -> list[str]:
        words = list(arguments)
        if not any(each.split("=")[0] == "--profile" for each in words):
            words = ["--profile", layout.profile(self.facts.name), *words]
        archive = f"archive={open_store(self.settings.archive, self.root).address}"
        place = next((n for n, each in enumerate(words) if each in _CONFIG), None)
        if place is None:
            return [*words, "--config", archive, f"platform={self.facts.name}"]
        return [*words[: place + 1], archive, f"platform={self.facts.name}", *words[place + 1 :]]


def find_lease(code: Path, root: Path) -> Lease | None:
    """The lease of the coordinator of a working copy that is not over.

    Raises:
        PlatformFault: when the store does not answer.
    """
    register = Register(open_store(load_settings(code, {}).archive, root))
    for numbered in register.leases().values():
        lease = numbered.lease
        if lease.cell == RULE and renting.is_of_copy(lease.by, root):
            return lease
    return None


def find_launched(root: Path) -> tuple[str, dict[str, str]] | None:
    """Platform and overrides of a coordinator of a working copy whose end nobody saw yet."""
    try:
        found = json.loads((root / layout.COORDINATOR).read_bytes())
        return str(found["platform"]), dict(found["overrides"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def overrides_of(arguments: Sequence[str]) -> dict[str, str]:
    """What `--config key=value ...` among Snakemake's arguments says."""
    found: dict[str, str] = {}
    is_config = False
    for word in arguments:
        is_config = word in _CONFIG or (is_config and not word.startswith("-"))
        key, separator, value = word.partition("=")
        if is_config and separator:
            found[key] = value
    return found


def _own(tenant: Tenant) -> Lease | None:
    found = [tenant.rounds.last.get(subject) for subject in tenant.kinds]
    return found[0] if found else None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
