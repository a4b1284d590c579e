"""The operations of the API, on the state alone: what they do, and what they answer."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from rehearsal.runpod import bill
from rehearsal.runpod.clock import moment
from rehearsal.runpod.containers import Containers
from rehearsal.runpod.state import CPUS, GPUS, PLACES, State, fresh_id

MAX_BODY = 102_400
_MAX_VARIABLES = 50
NO_CAPACITY = (
    "There are no longer any instances available with the requested specifications. "
    "Please refresh and try again."
)
_ACTIONS = {
    "RUNNING": ["stop", "restart", "terminate"],
    "EXITED": ["start", "terminate"],
    "ERROR": ["start", "terminate"],
    "PROVISIONING": ["stop", "terminate"],
    "STARTING": ["stop", "terminate"],
    "TERMINATED": [],
}


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, errors: list[str] | None = None) -> None:
        self.status, self.detail, self.errors = status, detail, errors or []
        super().__init__(detail)


class Caller(NamedTuple):
    """Who asks.

    Args:
        account: Whose key it is.
        pod: The only pod that the key may speak of; None for the key of a person.
        age_s: How old the state is that a list shows: a stale reply.
    """

    account: str
    pod: str | None
    age_s: float = 0.0


class Operations:
    """What the API does.

    Args:
        state: What the platform knows.
        containers: The machines below it.
    """

    def __init__(self, state: State, containers: Containers) -> None:
        self.state, self.containers = state, containers

    def find(self, name: str) -> Callable[..., tuple[int, Any]]:
        """The method of an operation: from caller, id, query and body to status and reply."""
        return getattr(self, f"_{name}")  # type: ignore[no-any-return]

    # -- pods --------------------------------------------------------------------------------------

    def _createPod(self, caller: Caller, _: str, __: Any, body: dict[str, Any]) -> tuple[int, Any]:
        self._refuse_unfit(body)
        kind = (body.get("gpu") or body["cpu"])["id"]
        count = int(body["gpu"].get("count", 0)) if "gpu" in body else 1
        place = self._place(kind, count, self._places(body))
        price = bill.usd_per_h(body, count)
        if self._balance(caller.account) < price:
            raise Problem(402, "insufficient balance: one hour of this configuration must be paid")
        self.state["stock"][kind][place] -= count
        now_s, id_ = self.state.clock.now_s(), fresh_id()
        mounts = {} if self.state.options["unmounted"] else body.get("mounts", {})
        pod = {
            "id": id_, "account": caller.account, "body": body, "status": "PROVISIONING",
            "created_s": now_s, "since_s": now_s, "started_s": 0.0, "stopped_s": 0.0,
            "ended_s": 0.0, "restart_s": 0.0, "pid": 0, "birth": 0, "starts": 0, "place": place,
            "kind": kind, "num_gpus": count if "gpu" in body else 0, "usd_per_h": price,
            "mounts": mounts, "key": f"rpa_{fresh_id(40).upper()}",
            "visible_s": now_s + self.state.options["hidden_s"],
        }  # fmt: skip
        self.state["pods"][id_] = pod
        self.state["keys"][pod["key"]] = {
            "account": caller.account, "pod": id_, "is_revoked": False
        }  # fmt: skip
        return 201, self.shown(pod)

    def _listPods(self, caller: Caller, _: str, query: dict[str, str], __: Any) -> tuple[int, Any]:
        at_s = self.state.clock.now_s() - caller.age_s
        pods = [each for each in self.state["pods"].values() if each["account"] == caller.account]
        there = [p for p in pods if p["visible_s"] <= at_s and not 0 < p["ended_s"] <= at_s]
        limit = min(int(query.get("limit", 1000)), self.state.options["page"])
        begin = int(query.get("cursor", 0))
        page, is_more = there[begin : begin + limit], begin + limit < len(there)
        cursor = str(begin + limit) if is_more else None
        pagination = {"hasNextPage": is_more, "nextCursor": cursor}
        return 200, {"pods": [self.shown(each) for each in page], "pagination": pagination}

    def _getPod(self, caller: Caller, id_: str, *_: Any) -> tuple[int, Any]:
        return 200, self.shown(self.pod(caller, id_))

    def _deletePod(self, caller: Caller, id_: str, *_: Any) -> tuple[int, Any]:
        self.terminate(self.pod(caller, id_))
        return 204, None

    def _podAction(self, caller: Caller, id_: str, _: Any, body: Any) -> tuple[int, Any]:
        pod, action = self.pod(caller, id_), body["action"]
        if action not in _ACTIONS[pod["status"]]:
            raise Problem(409, f"{action} is not valid for a pod that is {pod['status']}")
        if action == "terminate":
            self.terminate(pod)
            return 204, None
        if action == "stop":
            self.halt(pod)
        else:
            self._start_again(pod, action)
        return 200, self.shown(pod)

    def _start_again(self, pod: dict[str, Any], action: str) -> None:
        """A stopped pod is bound to its host, whose GPUs others may have by now."""
        if action == "start":
            stock, wanted = self.state["stock"][pod["kind"]], pod["body"].get("gpu", {})
            is_free = stock[pod["place"]] >= wanted.get("count", 0)
            pod["num_gpus"] = wanted.get("count", 0) if is_free else 0
            pod.update(usd_per_h=bill.usd_per_h(pod["body"], pod["num_gpus"]), stopped_s=0.0)
            stock[pod["place"]] -= pod["num_gpus"]
        self.containers.stop(pod, "PROVISIONING")

    def _getPodLogs(
        self, caller: Caller, id_: str, query: dict[str, str], _: Any
    ) -> tuple[int, Any]:
        pod = self.pod(caller, id_)
        events = []
        for source in ("system", "container"):
            path = self.state.pod_folder(pod["id"]) / f"{source}.log"
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            events += [{"source": source, "line": line} for line in lines]
        tail = int(query.get("tail", 100))
        stamp = moment(self.state.clock.now_s())
        shown = [f"id: {stamp}\ndata: {json.dumps(e | {'ts': stamp})}\n\n" for e in events]
        return 200, "".join(shown[-tail:] if tail else [])

    def pod(self, caller: Caller, id_: str) -> dict[str, Any]:
        """A pod that the caller may see; a fresh one hides for a while."""
        pod = self.state["pods"].get(id_)
        if caller.pod not in {None, id_}:
            raise Problem(403, "this key is of another pod")
        now_s = self.state.clock.now_s()
        is_there = pod and pod["account"] == caller.account and pod["visible_s"] <= now_s
        if not is_there or pod["status"] == "TERMINATED":
            raise Problem(404, "pod not found")
        return pod  # type: ignore[no-any-return]

    def terminate(self, pod: dict[str, Any]) -> None:
        """The end of a pod and of its bill; its network volume stays."""
        if not pod["stopped_s"]:
            self._free(pod)
        self.containers.push(pod)
        self.containers.stop(pod, "TERMINATED")
        pod["ended_s"] = self.state.clock.now_s()

    def halt(self, pod: dict[str, Any]) -> None:
        """Its processes end, its disk is still paid for."""
        self._free(pod)
        self.containers.stop(pod, "EXITED")
        pod["stopped_s"] = self.state.clock.now_s()

    def _free(self, pod: dict[str, Any]) -> None:
        self.state["stock"][pod["kind"]][pod["place"]] += pod["num_gpus"] or 1

    def shown(self, pod: dict[str, Any]) -> dict[str, Any]:
        """A pod as the API shows it: environment and all."""
        body, status, now_s = pod["body"], pod["status"], self.state.clock.now_s()
        is_up = status == "RUNNING" and pod["pid"]
        kind = (
            {"gpu": {"id": pod["kind"], "count": pod["num_gpus"]}}
            if "gpu" in body
            else {"cpu": body["cpu"] | {"memory": 2 * body["cpu"]["vcpuCount"]}}
        )
        billed = 0.0 if status in {"EXITED", "TERMINATED"} else pod["usd_per_h"]
        return kind | {
            "id": pod["id"], "name": body["name"], "status": status, "actions": _ACTIONS[status],
            "image": body["image"], "args": body.get("args", ""), "disk": body.get("disk", 20),
            "mounts": pod["mounts"], "ports": body.get("ports", []), "env": body.get("env", {}),
            "registry": body.get("registry"), "cloud": body.get("cloud", "SECURE"),
            "dataCenterId": pod["place"], "cudaVersion": "12.8" if "gpu" in body else None,
            "ssh": {"proxy": None, "direct": None}, "template": None, "cost": billed,
            "locked": False, "createdAt": moment(pod["created_s"]),
            "startedAt": moment(pod["started_s"]) if pod["started_s"] else None,
            "runtime": {"uptime": int(now_s - pod["started_s"])} if is_up else None,
            "globalNetworking": {"enabled": False},
        }  # fmt: skip

    # -- what a create needs -----------------------------------------------------------------------

    def _refuse_unfit(self, body: dict[str, Any]) -> None:
        mounts = body.get("mounts", {})
        rules = {
            "exactly one of gpu and cpu must be set": ("gpu" in body) == ("cpu" in body),
            "mounts.persistent and mounts.network exclude each other": len(mounts) > 1,
            "mounts.persistent is not available on CPU pods": "cpu" in body
            and "persistent" in mounts,
            "network volumes need SECURE cloud": "network" in mounts
            and body.get("cloud", "SECURE") != "SECURE",
            "too many environment variables": len(body.get("env", {})) > _MAX_VARIABLES,
            "unknown registry": body.get("registry") not in {None, *self.state["registries"]},
        }
        for detail in [detail for detail, is_broken in rules.items() if is_broken]:
            raise Problem(400, detail)
        for each in mounts.get("network", []):
            if each["volumeId"] not in self.state["volumes"]:
                raise Problem(404, f"network volume {each['volumeId']} not found")

    def _places(self, body: dict[str, Any]) -> list[str]:
        asked = body.get("dataCenterIds") or list(PLACES)
        bound = [
            self.state["volumes"][each["volumeId"]]["dataCenter"]
            for each in body.get("mounts", {}).get("network", [])
        ]
        return [place for place in asked if not bound or place in bound]

    def _place(self, kind: str, count: int, places: list[str]) -> str:
        stock = self.state["stock"].get(kind, {})
        for place in places:
            if count and stock.get(place, 0) >= count:
                return place
        raise Problem(400, NO_CAPACITY)  # without a count nothing ever matches

    def _balance(self, account: str) -> float:
        start = float(self.state["accounts"][account]["balance_usd"])
        return start - bill.spent_usd(self.state, account)

    # -- the rest ----------------------------------------------------------------------------------

    def _getSshKeys(self, *_: Any) -> tuple[int, Any]:
        return 200, {"keys": []}

    def _listPodBilling(
        self, caller: Caller, _: str, query: dict[str, str], __: Any
    ) -> tuple[int, Any]:
        return 200, bill.report(self.state, caller.account, query)

    def _listNetworkVolumes(self, caller: Caller, *_: Any) -> tuple[int, Any]:
        volumes = self.state["volumes"].values()
        mine = [_volume(each) for each in volumes if each["account"] == caller.account]
        return 200, {"networkVolumes": mine}

    def _getNetworkVolume(self, caller: Caller, id_: str, *_: Any) -> tuple[int, Any]:
        volume = self.state["volumes"].get(id_)
        if volume is None or volume["account"] != caller.account:
            raise Problem(404, "network volume not found")
        return 200, _volume(volume)

    def _createNetworkVolume(
        self, caller: Caller, _: str, __: Any, body: dict[str, Any]
    ) -> tuple[int, Any]:
        id_ = fresh_id(10)
        extra = {"id": id_, "account": caller.account, "is_frozen": False}
        self.state["volumes"][id_] = {"type": "STANDARD"} | body | extra
        return 201, _volume(self.state["volumes"][id_])

    def _deleteNetworkVolume(self, caller: Caller, id_: str, *_: Any) -> tuple[int, Any]:
        self._getNetworkVolume(caller, id_)
        del self.state["volumes"][id_]
        return 204, None

    def _listRegistries(self, *_: Any) -> tuple[int, Any]:
        return 200, {"registries": list(self.state["registries"].values())}

    def _createRegistry(self, _: Caller, __: str, ___: Any, body: Any) -> tuple[int, Any]:
        id_ = fresh_id(10)
        self.state["registries"][id_] = {"id": id_, "name": body["name"]}
        return 201, self.state["registries"][id_]

    def _getRegistry(self, _: Caller, id_: str, *__: Any) -> tuple[int, Any]:
        if id_ not in self.state["registries"]:
            raise Problem(404, "registry not found")
        return 200, self.state["registries"][id_]

    def _deleteRegistry(self, _: Caller, id_: str, *__: Any) -> tuple[int, Any]:
        if self.state["registries"].pop(id_, None) is None:
            raise Problem(400, "Registry auth not found")  # 400, not 404 (seen 2026-09-18)
        return 204, None

    def _listGpuTypes(self, _: Caller, __: str, query: dict[str, str], ___: Any) -> tuple[int, Any]:
        if ("include" in query) != ("product" in query):
            raise Problem(400, "include=AVAILABILITY and product need each other")
        gpus = [
            {
                "id": id_, "name": id_.removeprefix("NVIDIA "), "pool": None,
                "manufacturer": "NVIDIA", "memory": gpu["memory"], "secure": True,
                "community": False, "maxCount": {"secure": 8, "community": 0},
                "price": {"secure": gpu["usd_per_h"], "community": 0.0},
            } | self._stock(id_, query, int(query.get("count", 1)))
            for id_, gpu in GPUS.items()
        ]  # fmt: skip
        return 200, {"gpus": gpus}

    def _listCpuTypes(self, _: Caller, __: str, query: dict[str, str], ___: Any) -> tuple[int, Any]:
        cpus = [
            {
                "id": id_, "name": "Compute-Optimized", "group": "Gen 3",
                "vcpu": {"min": 2, "max": 32}, "ramGbPerVcpu": cpu["ram_gb_per_vcpu"],
                "price": {"securePerVcpu": cpu["usd_per_vcpu_h"], "serverlessPerVcpu": 0.03},
            } | self._stock(id_, query, 1)
            for id_, cpu in CPUS.items()
        ]  # fmt: skip
        return 200, {"cpus": cpus}

    def _stock(self, kind: str, query: dict[str, str], count: int) -> dict[str, Any]:
        """What the catalogue says is free, which promises nothing."""
        if query.get("include") != "AVAILABILITY":
            return {}
        stock, said = self.state["stock"][kind], self.state.options["catalog"]
        levels = {place: said or _level(stock.get(place, 0) // count) for place in PLACES}
        there = [{"id": k, "name": k, "availability": v} for k, v in levels.items() if v != "NONE"]
        best = max(levels.values(), key=["NONE", "LOW", "MEDIUM", "HIGH"].index)
        return {"availability": best} | ({"dataCenters": there} if there else {})


def _level(free: int) -> str:
    return ("NONE", "LOW", "MEDIUM", "MEDIUM", "HIGH")[min(free, 4)]


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    return {name: volume[name] for name in ("id", "name", "size", "dataCenter", "type")}
