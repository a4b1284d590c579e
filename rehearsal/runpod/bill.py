"""What pods cost: spans of time at a price, as the platform counts them."""

from collections import Counter
from typing import Any

from rehearsal.runpod.clock import moment, seconds
from rehearsal.runpod.state import CPUS, GPUS, State

_DISK_USD_PER_GB_H = 0.10 / 730
"""Container disk, USD 0.10 a GB and month while it runs; we count it while the pod exists."""
_BUCKETS_S = {"hour": 3600, "day": 86_400}


def usd_per_h(body: dict[str, Any], num_gpus: int) -> float:
    """The price of an hour of computing."""
    if "gpu" in body:
        return float(GPUS[body["gpu"]["id"]]["usd_per_h"]) * num_gpus
    cpu = body["cpu"]
    return float(CPUS[cpu["id"]]["usd_per_vcpu_h"]) * int(cpu["vcpuCount"])


def disk_usd_per_h(body: dict[str, Any]) -> float:
    """The price of an hour of its container disk."""
    return float(body.get("disk", 20)) * _DISK_USD_PER_GB_H


def amounts(pod: dict[str, Any], begin_s: float, end_s: float, factor: float) -> dict[str, float]:
    """What a pod cost in a span of time, by component; money runs as slowly as a watch."""
    stopped_s = min(pod["stopped_s"] or end_s, pod["ended_s"] or end_s)
    compute_h = _overlap_h(begin_s, end_s, pod["created_s"], stopped_s) / factor
    disk_h = _overlap_h(begin_s, end_s, pod["created_s"], pod["ended_s"] or end_s) / factor
    compute = compute_h * pod["usd_per_h"]
    disk = disk_h * disk_usd_per_h(pod["body"])
    kind = "gpuAmount" if "gpu" in pod["body"] else "cpuAmount"
    found = {"totalAmount": compute + disk, "gpuAmount": 0.0, "cpuAmount": 0.0, "diskAmount": disk}
    return found | {kind: compute}


def spent_usd(state: State, account: str) -> float:
    """What an account's pods cost until now."""
    now_s = state.clock.now_s()
    pods = [each for each in state["pods"].values() if each["account"] == account]
    factor = state.clock.factor
    return sum(amounts(each, each["created_s"], now_s, factor)["totalAmount"] for each in pods)


def report(state: State, account: str, query: dict[str, str]) -> dict[str, Any]:
    """The reply to a question for the bill: a record for each pod and bucket that cost."""
    now_s, size = state.clock.now_s(), query.get("bucketSize", "day")
    bucket_s = _BUCKETS_S[size]
    end_s = seconds(query["endTime"]) if "endTime" in query else now_s
    begin_s = seconds(query["startTime"]) if "startTime" in query else _first(state, end_s)
    if last := query.get("lastN"):
        begin_s = (now_s // bucket_s - int(last) + 1) * bucket_s
    begin_s, end_s = begin_s // bucket_s * bucket_s, -(-end_s // bucket_s) * bucket_s
    records = [
        {"podId": pod["id"], "startTime": moment(start_s), "endTime": moment(start_s + bucket_s)}
        | amounts(pod, start_s, min(start_s + bucket_s, now_s), state.clock.factor)
        for pod in state["pods"].values()
        if pod["account"] == account and query.get("podId") in {None, pod["id"]}
        for start_s in _starts(begin_s, end_s, bucket_s)
    ]
    records = [each for each in records if each["totalAmount"] > 0]
    window = {"startTime": moment(begin_s), "endTime": moment(end_s), "bucketSize": size}
    return {"records": records, "metadata": _metadata(records, window)}


def _metadata(records: list[dict[str, Any]], window: dict[str, str]) -> dict[str, Any]:
    names = ("totalAmount", "gpuAmount", "cpuAmount", "diskAmount")
    totals: Counter[str] = Counter(dict.fromkeys(names, 0))
    for record in records:
        totals.update({name: record[name] for name in names})
    pods = len({each["podId"] for each in records})
    sizes = {"recordCount": len(records), "uniquePodCount": pods}
    return {"query": window, **sizes, "totals": dict(totals)}


def _first(state: State, end_s: float) -> float:
    return min((each["created_s"] for each in state["pods"].values()), default=end_s)


def _starts(begin_s: float, end_s: float, bucket_s: int) -> list[int]:
    first = int(begin_s // bucket_s) * bucket_s
    return list(range(first, int(end_s) + 1, bucket_s))


def _overlap_h(begin_s: float, end_s: float, from_s: float, to_s: float) -> float:
    return max(0.0, min(end_s, to_s) - max(begin_s, from_s)) / 3600
