"""Faults that a test plants: `faults.json` is a list of what goes wrong in which call.

    {"call": "SandboxCreate", "nth": 2, "do": "status", "status": "UNAVAILABLE", "message": "..."}

`nth` counts the requests for a call from the planting on, the SDK's own repetitions included; with
`"per": "key"` it counts a request and its repetitions, which carry one key, as one.  Without `nth`
each request is meant.  `do` is `status` (refused before any effect), `lost` (done, but the reply
never arrives), `late` (done, and the reply comes after `seconds`) or `stale` (sandboxes younger
than `seconds` are not shown).
"""

import asyncio
from pathlib import Path
from typing import Any

from grpclib import GRPCError, Status
from modal_proto import api_pb2

from rehearsal.modal.state import read


class Faults:
    """What is planted now, and how often each call was made since."""

    def __init__(self, root: Path) -> None:
        self._path = root / "faults.json"
        self._seen: tuple[int, int] = (0, 0)
        self._planted: list[dict[str, Any]] = []
        self._keys: dict[str, list[str]] = {}

    def struck(self, call: str, key: str) -> list[dict[str, Any]]:
        """Count a request with its key; the faults that it meets."""
        self._renew()
        keys = self._keys.setdefault(call, [])
        keys.append(key)
        by_key = list(dict.fromkeys(keys)).index(key) + 1
        mine = [each for each in self._planted if each["call"] == call]
        return [
            each
            for each in mine
            if each.get("nth", 0) in {0, by_key if each.get("per") == "key" else len(keys)}
        ]

    def _renew(self) -> None:
        try:
            found = self._path.stat()
            now = (found.st_mtime_ns, found.st_ino)
        except FileNotFoundError:
            now = (0, 0)
        if now != self._seen:
            self._seen, self._planted, self._keys = now, read(self._path, []), {}


def refuse(faults: list[dict[str, Any]]) -> None:
    """Refuse a call before it has any effect; `retry_after_s` asks for a wait, as throttling does.

    Raises:
        GRPCError: as planted.
    """
    for fault in faults:
        if fault["do"] == "status":
            details: list[Any] | None = None
            if "retry_after_s" in fault:
                details = [api_pb2.RPCRetryPolicy(retry_after_secs=fault["retry_after_s"])]
            raise GRPCError(Status[fault["status"]], fault.get("message", "planted"), details)


class Faulty:
    """A stream with the faults that its request met; a reply may get lost or be late."""

    def __init__(self, stream: Any, faults: list[dict[str, Any]]) -> None:
        self._stream, self._faults = stream, faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def hidden_s(self) -> float:
        """Sandboxes younger than this are not shown."""
        ages = [each["seconds"] for each in self._faults if each["do"] == "stale"]
        return float(max(ages, default=0.0))

    async def send_message(self, message: Any, **how: Any) -> None:
        """Answer, unless a fault has it otherwise."""
        for fault in self._faults:
            if fault["do"] == "late":
                await asyncio.sleep(fault["seconds"])
            if fault["do"] == "lost":
                raise GRPCError(Status[fault.get("status", "UNAVAILABLE")], "the reply was lost")
        await self._stream.send_message(message, **how)
