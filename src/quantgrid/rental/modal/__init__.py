"""Modal as a platform that rents machines: sandboxes of an app that lives without any client.

An app is looked up and never run: a sandbox of `app.run()` dies with its client (SDK 1.6,
`modal/runner.py`).  Its name is made from the register's owner and from no setting, so that nobody
looks for old sandboxes in another app.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil, floor
from typing import Any, NamedTuple, TypeVar

from quantgrid import modal_sdk
from quantgrid.errors import VolumeRefusal
from quantgrid.rental.errors import Call, CallFault, Trouble
from quantgrid.rental.modal import reading
from quantgrid.rental.modal.troubles import trouble
from quantgrid.rental.port import (
    Account,
    Candidate,
    Ended,
    Limits,
    Machine,
    MachineState,
    Name,
    Order,
    Statement,
    VolumeFacts,
    find_name,
)

CAP_S = 86_400
"""modal.com/docs/guide/sandbox: no sandbox lives longer than 24 hours; looked at on 2026-11-30."""
LIMITS = Limits(cap_s=CAP_S, grace_s=30.0, boot_s=1920.0, create_s=660.0, visible_s=60.0)
"""The cap by the vendor.  The grace is that of a preemption (SDK 1.6, `simulate_preemption`).  A
create has its effect at once, and only then waits for a GPU, listed meanwhile (SDK 1.6,
`modal/sandbox/_impl_v1.py`); ten minutes before it are for an image.  A boot has that wait in it.
How old lists may be is nowhere said: our choice."""
_CAPACITY_S = 1320.0
"""The SDK waits 21 minutes for a GPU, ends the sandbox and says so (`_impl_v1.py`); then ours."""
BILL_S = 1800.0
"""Statistics "may be delayed by a few minutes" (SDK 1.6.4, `_experimental_stats`): our choice."""
VOLUME_BYTES = 1 << 40
"""modal.com/docs/guide/volumes: a volume has no size, a file of it has at most 1 TiB."""

_OWNER, _NAME = "quantgrid", "name"
"""Tags: whose sandbox it is, for one listing of all; and its name, which a listing leaves out."""
DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
"""An image that is known to the byte."""

_T = TypeVar("_T")


class Place(NamedTuple):
    """Where on Modal, and what every sandbox has.

    Args:
        environment: The workspace's environment; always named, for a default may be another one.
        volume_name: The pinned volume's name, to find a twin by; empty for none.
        cpu: Cores, both requested and the most that may be used: what is used above a request is
            billed as well (modal.com/docs/guide/sandbox-resources), and a price has to be a bound.
        memory_mib: Memory, likewise.
        corpus_volume: Id of a second volume that is mounted read-only; empty for none.
        corpus_mount: Where that is mounted.
        factor: How much faster than the vendor's the life of a sandbox runs, in a rehearsal.
    """

    environment: str = "main"
    volume_name: str = ""
    cpu: float = 1.0
    memory_mib: int = 2048
    corpus_volume: str = ""
    corpus_mount: str = ""
    factor: float = 1.0


class Modal:
    """The port, for the workspace that the SDK's configuration names.

    Args:
        place: Where.
        candidates: Ways to get a machine, the best first.
        limits: What is allowed; cap and grace in the vendor's seconds.
        now: Seconds since 1970 by the clock of the register's store.
        client: A client of the SDK; None for that of its own configuration.
        patience_s: When a call that looks is given up; a lost reply the SDK asks for again, three
            times within a second.
        capacity_s: When a create that waits for a device is given up.
        bill_s: How long after the end of a sandbox its statistics are taken for whole.
    """

    name = "modal"

    def __init__(
        self,
        place: Place,
        candidates: tuple[Candidate, ...],
        limits: Limits = LIMITS,
        now: Callable[[], float] = time.time,
        client: Any = None,
        patience_s: float = 30.0,
        capacity_s: float = _CAPACITY_S,
        bill_s: float = BILL_S,
    ) -> None:
        self.place, self.now = place, now
        self._patience_s, self._capacity_s, self._bill_s = patience_s, capacity_s, bill_s
        cap_s, grace_s = limits.cap_s / place.factor, limits.grace_s / place.factor
        self.limits = limits._replace(cap_s=cap_s, grace_s=grace_s)
        self._candidates, self._client, self._modal = candidates, client, modal_sdk.load()
        # SDK 1.5 finds no sandbox by name that ended; its exit record says so as well
        self._finds_ended = modal_sdk.find_version() >= (1, 6)
        self._names: dict[str, str] = {}
        self._apps: dict[str, Any] = {}

    # -- who, where, what -------------------------------------------------------------------------

    def whoami(self) -> Account:
        """Workspace and environment that would pay, as the service itself says."""
        workspace = self._modal.Workspace.from_context(client=self._client)
        found = self._call(Call.WHOAMI, workspace.hydrate.aio)
        return Account(f"{found.name}/{self.place.environment}")

    def volume(self, id: str, /) -> VolumeFacts | None:  # noqa: A002 - the platform's word
        """The volume with an id, whichever environment of the workspace it is in."""
        found = self._find(Call.VOLUME, self._volume(id).hydrate.aio)
        return VolumeFacts(id, found.name, "", VOLUME_BYTES) if found else None

    def refuse_other(self, account: str, volume: str) -> None:
        """Refuse another place than the pinned one, before anything is created.

        Raises:
            VolumeRefusal: with both identities.
            CallFault: when the service does not answer.
        """
        seen = self.whoami().id
        if seen == account and (not volume or self.volume(volume)):
            return
        twin = self.find_volume(self.place.volume_name)
        named = f"volume {self.place.volume_name!r}"
        raise VolumeRefusal(
            "this is not the place on Modal that the platform's file pins",
            expected=f"{account}, {named} with id {volume or 'none'}",
            seen=f"{seen}, {named} with id {twin}" if twin else f"{seen}, without {named}",
            where="the account of the SDK's configuration",
            do="Nothing was created and nothing is lost: you look at another volume.  Check "
            "`modal profile current` and MODAL_TOKEN_ID, which beats every profile.",
        )

    def _volume(self, volume: str) -> Any:
        return self._modal.Volume.from_id(volume, client=self._client)

    def find_volume(self, name: str) -> str | None:
        """The id that a name of a volume means here; never makes one."""
        if not name:
            return None
        volume = self._modal.Volume.from_name(
            name,
            environment_name=self.place.environment,
            create_if_missing=False,
            client=self._client,
        )
        found = self._find(Call.VOLUME, volume.hydrate.aio)
        return str(found.object_id) if found else None

    def has_secret(self, name: str) -> bool:
        """Whether the environment has a secret; nobody is told its values."""
        return self._find(Call.VOLUME, self._secret(name).hydrate.aio) is not None

    def candidates(self, device: str, num_devices: int) -> tuple[Candidate, ...]:
        """The declared ones of a kind; the service tells nothing of what is free."""
        wanted = (device, num_devices if device else 0)
        return tuple(each for each in self._candidates if (each.device, each.num_devices) == wanted)

    # -- machines ---------------------------------------------------------------------------------

    def launch(self, order: Order) -> Machine:
        """Create one sandbox; for a GPU that takes until one is free, up to 21 minutes."""
        timeout_s = self._timeout_s(order)
        if not DIGEST.fullmatch(order.image):
            raise CallFault(Trouble.FATAL, Call.LAUNCH, seen=f"image {order.image!r} has no digest")
        app = self._app(order.name.owner, is_made=True)
        parts = self._call(
            Call.LAUNCH,
            lambda: self._parts(order, app),
            within_s=self.limits.create_s,
            is_effective=False,
        )
        made = self._call(
            Call.LAUNCH,
            lambda: self._modal.Sandbox.create.aio(
                *order.command, app=app, timeout=timeout_s, client=self._client, **parts
            ),
            within_s=self._capacity_s,
        )
        self._names[made.object_id] = str(order.name)
        return Machine(made.object_id, str(order.name), MachineState.BOOTING, is_billing=True)

    def _timeout_s(self, order: Order) -> int:
        """The life of a sandbox in the vendor's seconds, never above the cap."""
        left_s = (order.deadline_s - self.now()) * self.place.factor
        if left_s < 1:
            raise CallFault(Trouble.RETRY, Call.LAUNCH, seen="its deadline is over")
        return min(int(left_s), CAP_S)

    async def _parts(self, order: Order, app: Any) -> dict[str, Any]:
        """What a create needs, looked up first: a lookup that fails has no effect."""
        modal, candidate = self._modal, order.candidate
        image = await modal.Image.from_registry(order.image).build.aio(app)
        volumes = {order.mount: self._volume(order.volume)} if order.volume else {}
        if self.place.corpus_volume:
            corpus = self._volume(self.place.corpus_volume)
            volumes[self.place.corpus_mount] = corpus.with_mount_options(read_only=True)
        secrets = [self._secret(name) for name in order.secrets]
        for each in (*volumes.values(), *secrets):
            await each.hydrate.aio()
        gpu = f"{candidate.device}:{candidate.num_devices}" if candidate.device else None
        return {
            "name": str(order.name),
            "tags": {_OWNER: order.name.owner, _NAME: str(order.name)},
            "image": image,
            "env": dict(order.environment),
            "secrets": secrets,
            "volumes": volumes,
            "gpu": gpu,
            "region": candidate.region or None,
            "cpu": (self.place.cpu,) * 2,
            "memory": (self.place.memory_mib,) * 2,
        }

    def _secret(self, name: str) -> Any:
        place = self.place.environment
        return self._modal.Secret.from_name(name, environment_name=place, client=self._client)

    def _app(self, owner: str, *, is_made: bool) -> Any:
        """The app of an owner, or None when it is not there and shall not be made."""
        if owner not in self._apps:
            lookup = self._call if is_made else self._find
            app = lookup(
                Call.MACHINES,
                lambda: self._modal.App.lookup.aio(
                    _app_name(owner),
                    environment_name=self.place.environment,
                    create_if_missing=is_made,
                    client=self._client,
                ),
            )
            if app is None:
                return None
            self._apps[owner] = app
        return self._apps[owner]

    def find(self, name: str) -> Machine | None:
        """The sandbox with a name: the running one, else the newest that ended."""
        said = find_name(name)
        found = self._by_name(said, is_over=False) or self._by_name(said, is_over=True)
        return self._shown(found, name) if found else None

    def _by_name(self, name: Name | None, *, is_over: bool) -> Any:
        if name is None or (is_over and not self._finds_ended):
            return None
        return self._find(Call.FIND, lambda: self._polled(name, is_over=is_over))

    async def _polled(self, name: Name, *, is_over: bool) -> Any:
        """The sandbox with a name, with its end: the lookup by name tells nothing of that."""
        box = await self._modal.Sandbox.from_name.aio(
            _app_name(name.owner),
            str(name),
            environment_name=self.place.environment,
            client=self._client,
            **({"include_terminated": True} if is_over else {}),
        )
        await box.poll.aio()
        return box

    def machines(self, owner: str) -> tuple[Machine, ...]:
        """All sandboxes of an owner that did not end: one listing, and one call for a new one."""
        app = self._app(owner, is_made=False)
        if app is None:  # nothing was ever launched
            return ()
        return self._call(Call.MACHINES, lambda: self._listed(app.app_id, owner))

    async def _listed(self, app: str, owner: str) -> tuple[Machine, ...]:
        boxes = self._modal.Sandbox.list.aio(app_id=app, tags={_OWNER: owner}, client=self._client)
        return tuple([self._shown(box, await self._name_of(box)) async for box in boxes])

    async def _name_of(self, box: Any) -> str:
        if box.object_id not in self._names:
            self._names[box.object_id] = (await box.get_tags.aio()).get(_NAME, "")
        return self._names[box.object_id]

    def observe(self, id: str, /) -> Machine | None:  # noqa: A002 - the platform's word
        """A sandbox by its id, also when it ended."""
        box = self._from_id(Call.OBSERVE, id)
        if box is None:
            return None
        return self._shown(box, self._call(Call.OBSERVE, lambda: self._name_of(box)))

    def _from_id(self, call: Call, box: str) -> Any:
        sandbox = self._modal.Sandbox
        return self._find(call, lambda: sandbox.from_id.aio(box, client=self._client))

    def _shown(self, box: Any, name: str) -> Machine:
        """A sandbox as the port has it; its code proves nothing, it is 0 for lost ones as well."""
        code = box.returncode
        state = MachineState.RUNNING if code is None else MachineState.ENDED
        return Machine(box.object_id, name, state, is_billing=code is None, exit_code=code)

    def stop(self, id: str, /) -> None:  # noqa: A002 - the platform's word
        """Ask that a sandbox ends."""
        box = self._from_id(Call.STOP, id)
        if box is not None:
            self._find(Call.STOP, box.terminate.aio)

    def logs(self, id: str, tail: int, /) -> str:  # noqa: A002 - the platform's word
        """The last lines that a sandbox wrote."""
        box = self._from_id(Call.LOGS, id)
        if box is None:
            return ""
        return self._call(Call.LOGS, lambda: reading.tail(box, tail))

    def statements(self, ended: Sequence[Ended]) -> Mapping[str, Statement]:
        """What Modal's statistics say that sandboxes cost, once they had time to be whole."""
        due = [each for each in ended if each.id and each.end_s + self._bill_s <= self.now()]
        if not due or not hasattr(self._modal.Sandbox, "_experimental_stats"):  # SDK 1.5
            return {}
        told = self._call(
            Call.STATEMENTS,
            lambda: reading.costs(self._modal, self._client, [each.id for each in due]),
        )
        return {
            str(each.name): Statement(
                round(cost * 1_000_000), floor(each.begin_s), ceil(each.end_s)
            )
            for each, cost in zip(due, told, strict=True)
            if cost is not None
        }

    # -- calls ------------------------------------------------------------------------------------

    def _find(self, call: Call, act: Callable[[], Awaitable[_T]]) -> _T | None:
        """What a call returns, or None when the service does not have it."""
        try:
            return self._call(call, act)
        except CallFault as fault:
            if isinstance(fault.__cause__, self._modal.exception.NotFoundError):
                return None
            raise

    def _call(
        self,
        call: Call,
        act: Callable[[], Awaitable[_T]],
        *,
        within_s: float | None = None,
        is_effective: bool = True,
    ) -> _T:
        """What a call returns, within a bound: the SDK itself waits for ever when throttled."""

        async def bounded() -> _T:
            return await asyncio.wait_for(act(), within_s or self._patience_s)

        try:
            return asyncio.run(bounded())
        except Exception as error:  # the SDK raises errors of three trees, and builtins
            is_create = call is Call.LAUNCH and is_effective
            kinds = [kind.__name__ for kind in type(error).__mro__]
            raise CallFault(trouble(kinds, is_create=is_create), call, seen=_said(error)) from error


def _app_name(owner: str) -> str:
    return f"quantgrid-{owner}"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
