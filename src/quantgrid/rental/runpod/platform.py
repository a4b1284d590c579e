"""RunPod behind the port of a platform: REST v2, pods that are made once and ended for ever.

A pod is never stopped and started again: it is bound to its host and may come back without a GPU.
Nothing of a pod's own end is visible: its container is started again, so the store tells the end.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from quantgrid.rental.errors import Call, CallFault, Trouble
from quantgrid.rental.port import (
    Account,
    Candidate,
    Ended,
    Limits,
    Machine,
    Order,
    Statement,
    VolumeFacts,
)
from quantgrid.rental.runpod import answers
from quantgrid.rental.runpod.calls import Api, Ask

_GB = 10**9
_LOOK_S = 5.0
"""How old the listing may be that `find` looks into: a hundred leases share one."""
_MONTH = timedelta(days=30)
"""How far back the bill is asked for: the document's own default."""
_LOG = logging.getLogger(__name__)


class Settings(NamedTuple):
    """What the file of the platform says.

    Args:
        account: The word that a person gave to the account that pays.
        volume: Id of the network volume that proves it; empty for none.
        limits: What the platform allows.
        regions: Data centres that will do; empty for any.
        body: What every create says.
        max_microusd_per_h: What a machine may cost an hour; 0 for anything.
        bill_s: How long after the end of a pod its bill is taken for whole.
    """

    account: str
    volume: str
    limits: Limits
    regions: tuple[str, ...] = ()
    body: answers.Body = answers.Body(20, "SECURE", "", 4)
    max_microusd_per_h: int = 0
    bill_s: float = 0.0


class RunPod:
    """The port.

    Args:
        api: The interface of the account.
        settings: What the file of the platform says.
        clock: Seconds that only grow.
    """

    name = "runpod"

    def __init__(
        self, api: Api, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._settings, self._clock = api, settings, clock
        self._lock = threading.Lock()
        self._listed: tuple[float, list[dict[str, Any]]] | None = None
        self._lacking: set[str] = set()

    @property
    def limits(self) -> Limits:
        """What it allows."""
        return self._settings.limits

    def whoami(self) -> Account:
        """The account that would pay, known by the volume that it owns: REST v2 tells no more."""
        wanted = self._settings
        if not wanted.volume:
            self._api.json(Ask(Call.WHOAMI, "GET", "/network-volumes"))
            return Account(wanted.account)
        path = f"/network-volumes/{wanted.volume}"
        found = self._api.json(Ask(Call.WHOAMI, "GET", path), missing=True)
        return Account(wanted.account if found else f"another (without volume {wanted.volume})")

    def volume(self, id: str, /) -> VolumeFacts | None:  # noqa: A002 - the platform's word
        """A network volume by its id: names are not unique."""
        found = self._api.json(Ask(Call.VOLUME, "GET", f"/network-volumes/{id}"), missing=True)
        if found is None:
            return None
        return VolumeFacts(found["id"], found["name"], found["dataCenter"], found["size"] * _GB)

    def candidates(self, device: str, num_devices: int) -> tuple[Candidate, ...]:
        """Kinds of machine by price; `A|B` names two that will do."""
        wanted = self._settings
        regions = wanted.regions
        if wanted.volume and (there := self.volume(wanted.volume)):
            regions = (there.region,)  # a network volume is mounted only where it is
        kind = "gpus" if num_devices else "cpus"
        query = {"include": "AVAILABILITY", "product": "POD"}
        if num_devices:
            query |= {"count": str(num_devices), "cloud": wanted.body.cloud}
        found = self._api.json(Ask(Call.CANDIDATES, "GET", f"/catalog/{kind}", query))
        way = answers.Way(
            devices=tuple(each.strip() for each in device.split("|") if each.strip()),
            num_devices=num_devices,
            vcpus=wanted.body.vcpus,
            disk_gb=wanted.body.disk_gb,
            regions=regions,
            max_microusd_per_h=wanted.max_microusd_per_h,
            date=datetime.now(UTC).date().isoformat(),
        )
        return answers.candidates(found[kind], way)

    def launch(self, order: Order) -> Machine:
        """Create one pod."""
        body = answers.body(order, self._settings.body)
        try:
            made = self._api.json(Ask(Call.LAUNCH, "POST", "/pods", body=body))
        finally:
            self._forget()
        if not isinstance(made, dict) or made.get("name") != str(order.name):
            raise CallFault(Trouble.AMBIGUOUS, Call.LAUNCH, seen="a reply that is no pod of ours")
        return self._shown(made)

    def find(self, name: str) -> Machine | None:
        """The pod with a name, in a listing of the last seconds."""
        pods = self._pods(Call.FIND, _LOOK_S)
        return next((self._shown(each) for each in pods if each["name"] == name), None)

    def machines(self, owner: str) -> tuple[Machine, ...]:
        """All pods of an owner, in one listing."""
        pods = self._pods(Call.MACHINES, 0.0)
        return tuple(self._shown(p) for p in pods if p["name"].startswith(f"qg-{owner}-"))

    def observe(self, id: str, /) -> Machine | None:  # noqa: A002 - the platform's word
        """One pod."""
        found = self._api.json(Ask(Call.OBSERVE, "GET", f"/pods/{id}"), missing=True)
        return self._shown(found) if found else None

    def stop(self, id: str, /) -> None:  # noqa: A002 - the platform's word
        """End a pod for ever; 404 is no proof that it is gone, for a fresh one hides."""
        try:
            self._api.json(Ask(Call.STOP, "DELETE", f"/pods/{id}"), missing=True)
        finally:
            self._forget()

    def logs(self, id: str, tail: int, /) -> str:  # noqa: A002 - the platform's word
        """The last lines that a pod wrote, from a stream that has no end."""
        ask = Ask(Call.LOGS, "GET", f"/pods/{id}/logs", {"tail": str(min(tail, 5000))})
        lines = self._api.lines(ask, tail)
        data = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
        return "\n".join(_line(each) for each in data[-tail:])

    def statements(self, ended: Sequence[Ended]) -> Mapping[str, Statement]:
        """What the bill says of pods that are gone, once it had time to be whole; one question."""
        now = datetime.now(UTC)
        due = [e for e in ended if e.id and e.end_s + self._settings.bill_s <= now.timestamp()]
        if not due:
            return {}
        pods = self._pods(Call.STATEMENTS, _LOOK_S)
        alive = {each["id"] for each in pods if answers.machine(each).is_billing}
        begin = max(datetime.fromtimestamp(min(e.begin_s for e in due), UTC), now - _MONTH)
        query = {"startTime": begin.isoformat(), "bucketSize": "day"}
        told = self._api.json(Ask(Call.STATEMENTS, "GET", "/billing/pods", query))
        return answers.statements(told["records"], (e for e in due if e.id not in alive))

    # -- pods ------------------------------------------------------------------------------------

    def _pods(self, call: Call, age_s: float) -> list[dict[str, Any]]:
        with self._lock:
            if self._listed and self._clock() - self._listed[0] < age_s:
                return self._listed[1]
        begin_s = self._clock()
        pods = self._list(call)
        with self._lock:
            self._listed = begin_s, pods
        return pods

    def _list(self, call: Call) -> list[dict[str, Any]]:
        """Every pod, however many pages; older servers show all of them at once."""
        pods: list[dict[str, Any]] = []
        query: dict[str, str] = {}
        while True:
            page = self._api.json(Ask(call, "GET", "/pods", query))
            pods += page["pods"]
            cursor = (page.get("pagination") or {}).get("nextCursor")
            if not cursor:
                return pods
            query = {"cursor": cursor}

    def _forget(self) -> None:
        with self._lock:
            self._listed = None

    def _shown(self, pod: dict[str, Any]) -> Machine:
        words = answers.lack(pod)
        if words and pod["id"] not in self._lacking:
            self._lacking.add(pod["id"])
            _LOG.warning(
                "pod %s %s; it is ended, and another one takes its place", pod["id"], words
            )
        return answers.machine(pod)


def _line(data: str) -> str:
    try:
        return str(json.loads(data)["line"])
    except (ValueError, KeyError, TypeError):
        return data.strip()
