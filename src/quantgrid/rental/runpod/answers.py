"""What RunPod's answers mean: pure, from what was answered to what may be done next.

Source: the vendor's REST v2 document of 2026-08-20 (table of the create call), and public reports
of its users where the document is silent; docs/platforms/runpod.md lists both.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from quantgrid.rental.errors import Answer, Call, Trouble, http_trouble
from quantgrid.rental.port import (
    Candidate,
    Ended,
    Machine,
    MachineState,
    Order,
    Price,
    Statement,
)

_CAPACITY = re.compile(
    r"no longer any instances|unable to find a machine|does not have the resources"
    r"|no (?:available )?(?:instances|machines|capacity)|out of (?:stock|capacity)"
    r"|not enough (?:free|gpu)",
    re.IGNORECASE,
)
"""The words of a create that found nothing free: there is no code for it."""
_POOL = re.compile(r"\bpools?\b", re.IGNORECASE)
"""The words of a 403 that speaks of one kind of machine, and not of the key."""

ASKED = "QG_RUNPOD_ASKED"
"""A variable of each pod: the volume that it was asked with, so that a listing shows its lack."""

_DISK_USD_PER_GB_H = 0.10 / 730
"""Container disk of a running pod: USD 0.10 a GB and month (vendor's price page, 2026-11-30)."""
_LEVELS = ("HIGH", "MEDIUM", "LOW", "NONE")
_STATES = {
    "PROVISIONING": MachineState.BOOTING,
    "STARTING": MachineState.BOOTING,
    "RUNNING": MachineState.RUNNING,
}


def trouble(answer: Answer) -> Trouble:
    """The class of an answer that was not what was asked for."""
    if answer.call is Call.LAUNCH:
        if answer.status == HTTPStatus.BAD_REQUEST and _CAPACITY.search(answer.detail):
            return Trouble.CAPACITY
        if answer.status == HTTPStatus.FORBIDDEN and _POOL.search(answer.detail):
            return Trouble.CAPACITY
    return http_trouble(answer)


def detail(body: bytes) -> str:
    """The platform's own words in the body of an error; of a page of a network, its text."""
    text = body.decode(errors="replace")
    try:
        value = json.loads(text)
    except ValueError:
        return " ".join(re.sub(r"<[^>]*>", " ", text).split())[:200]
    if not isinstance(value, dict):
        return text[:200]
    words = [value.get("detail") or value.get("title") or text, *(value.get("errors") or ())]
    return "; ".join(map(str, words))[:500]


def machine(pod: Mapping[str, Any]) -> Machine:
    """A pod as the port shows it.

    One that lacks the volume or the GPU that it was asked with counts as ended: it is paid for and
    of no use, and another host may have both.
    """
    state = _STATES.get(pod["status"], MachineState.ENDED)
    runtime = pod.get("runtime") or {}
    uptime = runtime.get("uptime")
    if lack(pod):
        state = MachineState.ENDED
    return Machine(
        id=pod["id"],
        name=pod["name"],
        state=state,
        is_billing=pod["status"] != "TERMINATED",  # the disk of a stopped pod is paid for too
        uptime_s=None if uptime is None else float(uptime),
    )


def lack(pod: Mapping[str, Any]) -> str:
    """What a pod was asked with and does not have, in words; empty for nothing."""
    asked = (pod.get("env") or {}).get(ASKED, "")
    mounted = [each["volumeId"] for each in (pod.get("mounts") or {}).get("network") or ()]
    if asked and asked not in mounted:
        return f"came without volume {asked}"
    is_up = pod["status"] == "RUNNING"
    return "came back without a GPU" if is_up and (pod.get("gpu") or {}).get("count") == 0 else ""


def statements(
    records: Iterable[Mapping[str, Any]], ended: Iterable[Ended]
) -> dict[str, Statement]:
    """What each pod cost, over all buckets of the bill; nothing of one without a record.

    A bucket says how much and not when, so the seconds are those of our own measure.
    """
    usd: dict[str, float] = {}
    for each in records:
        usd[each["podId"]] = usd.get(each["podId"], 0.0) + each["totalAmount"]
    return {
        str(e.name): Statement(round(usd[e.id] * 1e6), math.floor(e.begin_s), math.ceil(e.end_s))
        for e in ended
        if e.id in usd
    }


class Way(NamedTuple):
    """What the catalogue is asked for.

    Args:
        devices: Kinds of machine, each as the platform names it.
        num_devices: GPUs of a machine, or 0 for none.
        vcpus: Virtual CPUs of a machine without GPUs.
        disk_gb: Container disk, which is paid for as well.
        regions: Data centres that will do; empty for any.
        max_microusd_per_h: What the whole machine may cost an hour; 0 for anything.
        date: Of the look.
    """

    devices: tuple[str, ...]
    num_devices: int
    vcpus: int
    disk_gb: int
    regions: tuple[str, ...]
    max_microusd_per_h: int
    date: str


def candidates(kinds: Iterable[Mapping[str, Any]], way: Way) -> tuple[Candidate, ...]:
    """Kinds of machine by price, and their data centres by how much is free there.

    A kind that the catalogue shows nowhere is kept, last and with the declared regions: only a
    create knows, and waiting for it is no failure.
    """
    found = []
    for kind in kinds:
        price = _microusd_per_h(kind, way)
        is_wanted = not way.devices or kind["id"] in way.devices
        is_dear = way.max_microusd_per_h and price > way.max_microusd_per_h
        if price and is_wanted and not is_dear:
            for order, region in _regions(kind, way):
                paid = Price(price, "GET /v2/catalog of the account", way.date)
                candidate = Candidate(kind["id"], way.num_devices, region, paid)
                found.append(((price, order, kind["id"], region), candidate))
    return tuple(candidate for _, candidate in sorted(found, key=lambda each: each[0]))


def _regions(kind: Mapping[str, Any], way: Way) -> list[tuple[int, str]]:
    shown = {each["id"]: each["availability"] for each in kind.get("dataCenters") or ()}
    known = [(level, region) for region, level in shown.items() if level in _LEVELS]
    there = [
        (_LEVELS.index(level), region)
        for level, region in known
        if not way.regions or region in way.regions
    ]
    unknown = [(len(_LEVELS), each) for each in way.regions if each not in shown]
    return [*there, *unknown] or [(len(_LEVELS), "")]


def _microusd_per_h(kind: Mapping[str, Any], way: Way) -> int:
    """Of the whole machine, rounded up; 0 when the kind is not offered that way."""
    price = kind["price"]
    if way.num_devices:
        most = kind["maxCount"]["secure"]
        usd = price["secure"] * way.num_devices if way.num_devices <= most else 0.0
    else:
        usd = price["securePerVcpu"] * way.vcpus if "securePerVcpu" in price else 0.0
    return math.ceil((usd + way.disk_gb * _DISK_USD_PER_GB_H) * 1_000_000) if usd else 0


class Body(NamedTuple):
    """What the body of a create says beyond its order.

    Args:
        disk_gb: Container disk.
        cloud: SECURE or COMMUNITY.
        registry: Id of the registry's credentials; empty for a public image.
        vcpus: Virtual CPUs of a machine without GPUs.
        environment: Names and values that a pod needs to reach the platform.
    """

    disk_gb: int
    cloud: str
    registry: str
    vcpus: int
    environment: tuple[tuple[str, str], ...] = ()

    def of(self, options: Mapping[str, str]) -> "Body":
        """The same with what one job asked for."""
        disk_gb = int(options.get("disk_gb", self.disk_gb))
        return self._replace(disk_gb=disk_gb, cloud=options.get("cloud", self.cloud))


def body(order: Order, extra: Body) -> dict[str, Any]:
    """The body of the create call.

    The command goes as JSON in `args`, the one field that both the document of 2026-08-20 and its
    successors know.  `gpu.count` is always sent: without it the scheduler has matched nothing.
    """
    kind, words, extra = order.candidate, order.command, extra.of(dict(order.options))
    secret = {name: f"{{{{ RUNPOD_SECRET_{name} }}}}" for name in order.secrets}
    asked = {ASKED: order.volume} if order.volume else {}
    compute: dict[str, Any] = (
        {"gpu": {"id": kind.device, "count": kind.num_devices}}
        if kind.num_devices
        else {"cpu": {"id": kind.device, "vcpuCount": extra.vcpus}}
    )
    mount = {"volumeId": order.volume, "path": order.mount}
    return {
        "name": str(order.name),
        "image": order.image,
        "args": json.dumps({"entrypoint": list(words[:1]), "cmd": list(words[1:])}),
        "disk": extra.disk_gb,
        "cloud": extra.cloud,
        "env": dict(order.environment) | dict(extra.environment) | secret | asked,
        **compute,
        **({"dataCenterIds": [kind.region]} if kind.region else {}),
        **({"mounts": {"network": [mount]}} if order.volume else {}),
        **({"registry": extra.registry} if extra.registry else {}),
    }
