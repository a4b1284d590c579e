"""What a test may do to the double: make faults, let time pass, take pods, money and keys away."""

import json
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rehearsal.runpod import faults
from rehearsal.runpod.bill import spent_usd
from rehearsal.runpod.operations import NO_CAPACITY
from rehearsal.runpod.state import OPTIONS, fresh_id, fresh_stock

if TYPE_CHECKING:
    from rehearsal.runpod.platform import RunPod

PREFIX = "/_double/"


def act(platform: "RunPod", path: str, body: bytes) -> Any:
    """Do what a path names."""
    return _ACTS[path.removeprefix(PREFIX)](platform, **json.loads(body or b"{}"))


def _fault(platform: "RunPod", **fault: Any) -> None:
    detail = {"capacity": NO_CAPACITY}.get(fault.get("detail", ""), fault.get("detail", ""))
    faults.add(platform.state["faults"], fault | {"detail": detail})


def _clear(platform: "RunPod") -> None:
    platform.state["faults"].clear()
    platform.state.save()


def _reset(platform: "RunPod") -> None:
    """Everything as it was at first, but accounts, pods and volumes."""
    platform.state.data.update(stock=fresh_stock(), options=dict(OPTIONS), faults=[])
    platform.state.save()


def _advance(platform: "RunPod", seconds: float, steps: int = 1) -> float:
    """Let time pass, in steps so that pods live through it."""
    for _ in range(steps):
        platform.state.clock.advance(seconds / steps)
        platform.tick()
    platform.state.save()
    return platform.state.clock.now_s()


def _options(platform: "RunPod", **values: Any) -> None:
    unknown = values.keys() - platform.state.options.keys()
    if unknown:
        raise KeyError(", ".join(unknown))
    platform.state.options.update(values)
    platform.state.save()


def _account(platform: "RunPod", name: str, **values: Any) -> str:
    """Change an account, or make one; a key of it."""
    accounts, keys = platform.state["accounts"], platform.state["keys"]
    if name not in accounts:
        keys[f"rpa_{fresh_id(40).upper()}"] = {"account": name, "pod": None, "is_revoked": False}
    accounts[name] = {"balance_usd": 1000.0, "secrets": {}} | accounts.get(name, {}) | values
    platform.state.save()
    return next(str(k) for k, v in keys.items() if v["account"] == name and v["pod"] is None)


def _key(platform: "RunPod", key: str, *, is_revoked: bool) -> None:
    platform.state["keys"][key]["is_revoked"] = is_revoked
    platform.state.save()


def _volume(platform: "RunPod", id: str, **values: Any) -> None:  # noqa: A002 - the platform's word
    """Put a volume there, of any size and name."""
    volume = {
        "id": id, "name": "corpus", "size": 100, "dataCenter": "EU-RO-1", "type": "STANDARD",
        "account": "lab", "is_frozen": False,
    }  # fmt: skip
    platform.state["volumes"][id] = volume | values
    platform.state.save()


def _image(platform: "RunPod", reference: str, **environment: str) -> None:
    """An image that can be pulled, and the environment that it brings."""
    platform.state["images"][reference] = environment
    platform.state.save()


def _stock(platform: "RunPod", kind: str, place: str, count: int) -> None:
    platform.state["stock"].setdefault(kind, {})[place] = count
    platform.state.save()


def _lose(platform: "RunPod", pod: str, status: str = "EXITED") -> None:
    """The host of a pod is lost."""
    found = platform.state["pods"][pod]
    platform.containers.lose(found, status)
    found["stopped_s"] = platform.state.clock.now_s()
    platform.state.save()


def _end(platform: "RunPod", pod: str) -> None:
    """End a pod, as somebody does it in the console."""
    platform.operations.terminate(platform.state["pods"][pod])
    platform.state.save()


def _take_gpu(platform: "RunPod", pod: str) -> None:
    """The container starts again, and its host has no GPU for it any more."""
    found = platform.state["pods"][pod]
    found["num_gpus"] = 0
    platform.containers.end(pod, signal.SIGKILL)
    platform.state.save()


def _show(platform: "RunPod") -> dict[str, Any]:
    """Everything that it knows, the time, and what each account spent."""
    state = platform.state
    spent = {name: spent_usd(state, name) for name in state["accounts"]}
    return state.data | {"now_s": state.clock.now_s(), "spent_usd": spent}


_ACTS: dict[str, Callable[..., Any]] = {
    "fault": _fault,
    "clear": _clear,
    "reset": _reset,
    "advance": _advance,
    "options": _options,
    "account": _account,
    "key": _key,
    "volume": _volume,
    "image": _image,
    "stock": _stock,
    "lose": _lose,
    "end": _end,
    "take-gpu": _take_gpu,
    "show": _show,
}
