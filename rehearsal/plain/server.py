"""The platform itself: one JSON line in, one JSON line out, and everything else on disk."""

import json
import math
import os
import socketserver
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rehearsal.plain.faults import Faults
from rehearsal.plain.living import Life
from rehearsal.plain.oracle import perfect, spent
from rehearsal.plain.state import Machine, State, write

_TICK_S = 0.02
WORLD = "world"
"""The token of a test, which may change the platform."""


class Refused(Exception):
    """What the platform answers instead of doing it: a word, and a sentence."""

    def __init__(self, code: str, text: str = "", retry_after_s: float = 0.0) -> None:
        self.code, self.text, self.retry_after_s = code, text, retry_after_s
        super().__init__(code)


_AT_ONCE = {
    "before": "internal",
    "capacity": "no-capacity",
    "quota": "quota",
    "money": "no-money",
    "key": "no-account",
}


class Server:
    """Answers calls, one at a time, and lets the machines live between them."""

    def __init__(self, folder: Path, port: int) -> None:
        self.state, self.faults = State.read(folder), Faults()
        self.lock, self.stopped = threading.RLock(), threading.Event()
        self.tcp = _Tcp(("127.0.0.1", port), self)
        self.life = Life(self.state, f"127.0.0.1:{self.tcp.server_address[1]}")
        self._newest: list[str] = []
        self._is_stale = self.is_left = False

    def serve(self) -> None:
        """Until it is stopped; machines live on without it."""
        write(self.state.folder / "port", f"{self.tcp.server_address[1]}")
        threading.Thread(target=self.tcp.serve_forever, daemon=True).start()
        while not (self.is_left or self.stopped.wait(_TICK_S)):
            with self.lock:
                self.life.go_on()
        self.tcp.shutdown()

    def leave(self, *_: object) -> None:
        """What a signal asks for; the handler interrupts `serve` and may take no lock of it."""
        self.is_left = True

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any] | None, float]:
        """The reply to a call, None for no reply at all, and how long it takes."""
        operation = str(request.get("operation"))
        if request.get("token") == WORLD:
            with self.lock:
                return {"ok": getattr(self, f"world_{operation}")(**request["with"])}, 0.0
        with self.lock:
            kind, seconds = self.faults.meet(operation, self.state.world["nemesis"])
            reply = self._reply(operation, request, kind, seconds)
        self._note(operation, request, kind, reply)
        return (None if kind in {"after", "silent"} else reply), seconds if kind == "delay" else 0.0

    def _reply(
        self, operation: str, request: dict[str, Any], kind: str, seconds: float
    ) -> dict[str, Any]:
        try:
            if kind in _AT_ONCE:
                raise Refused(_AT_ONCE[kind], f"fault {kind}")
            if kind == "busy":
                raise Refused("busy", "too many calls", seconds)
            if kind == "silent":
                return {}
            account, self._is_stale = self._account(request), kind == "stale"
            call: Callable[..., Any] = getattr(self, f"call_{operation}")
            return {"ok": call(account, **request["with"])}
        except Refused as refused:
            return {"error": refused.code, "text": refused.text, "after_s": refused.retry_after_s}

    def _account(self, request: dict[str, Any]) -> str:
        """Whose token it is; a machine's own may end that machine and nothing else."""
        told = self.state.world["accounts"].get(request.get("token"))
        if told and not told.get("is_revoked"):
            return str(told["id"])
        for machine in self.state.machines.values():
            is_own = request.get("with") == {"machine": machine.id}
            if machine.token == request.get("token") and request["operation"] == "stop" and is_own:
                return machine.account
        raise Refused("no-account", "this key is not known, or may not do that")

    def _note(self, operation: str, request: dict[str, Any], kind: str, reply: Any) -> None:
        told = request["with"] if operation != "launch" else {"name": request["with"]["name"]}
        line = {"at_s": time.time(), "operation": operation, "with": told, "fault": kind}
        line["error"] = reply.get("error", "")
        with (self.state.folder / "calls.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    # -- what an account may ask -------------------------------------------------------------------

    def call_whoami(self, account: str) -> dict[str, Any]:
        """The account, and what is left of its money."""
        told = next(a for a in self.state.world["accounts"].values() if a["id"] == account)
        return {"id": account, "balance_usd": told["balance_usd"] - self._bill(account)}

    def call_volume(self, account: str, volume: str) -> dict[str, Any] | None:
        """The facts of a volume that the account may see now."""
        facts = self.state.world["volumes"].get(volume)
        is_down = facts and facts["region"] in self.state.world["regions_down"]
        if facts is None or facts["account"] != account or is_down:
            return None
        return {"id": volume} | {name: facts[name] for name in ("name", "region", "size_bytes")}

    def call_candidates(self, _account: str, device: str) -> list[dict[str, Any]]:
        """What the catalogue promises, whatever is free."""
        found = self.state.world["devices"].get(device)
        regions = found["regions"] if found else []
        return [
            {"device": device, "region": region, "price_usd": found["price_usd"]}
            for region in regions
            if region not in self.state.world["regions_down"]
        ]

    def call_launch(self, account: str, **order: Any) -> dict[str, Any]:
        """Make a machine; names are unique while a machine lives."""
        world, now_s = self.state.world, time.time()
        device = world["devices"].get(order["device"])
        if device is None or not order["words"]:
            raise Refused("bad-request", f"no device {order['device']!r}, or nothing to start")
        self._refuse_taken(account, order)
        self._refuse_full(account, order, device)
        facts = world["volumes"].get(order["volume"])
        if order["volume"] and (facts is None or facts["account"] != account):
            raise Refused("bad-request", f"no volume {order['volume']!r}")
        if facts and facts["region"] != order["region"]:
            raise Refused("bad-request", f"volume {order['volume']} is in {facts['region']}")
        ready_s = now_s + world["boot_s"] / world["factor"]
        visible_s = now_s + world["hidden_s"] / world["factor"]
        loss_s = self.faults.find_loss(world["nemesis"])
        machine = Machine(
            id=f"m-{os.urandom(5).hex()}",
            account=account,
            token=f"own-{os.urandom(8).hex()}",
            price_usd=device["price_usd"],
            begin_s=now_s,
            ready_s=ready_s,
            visible_s=visible_s,
            lost_s=now_s + loss_s if loss_s else 0.0,
            **order,
        )
        self.state.keep(machine)
        self._newest = [*self._newest[-4:], machine.id]
        return self._shown(machine)

    def _refuse_taken(self, account: str, order: dict[str, Any]) -> None:
        if any(m.name == order["name"] and m.account == account for m in self.state.alive()):
            raise Refused("name-taken", order["name"])

    def _refuse_full(self, account: str, order: dict[str, Any], device: dict[str, Any]) -> None:
        told = next(a for a in self.state.world["accounts"].values() if a["id"] == account)
        ours = [m for m in self.state.alive() if m.account == account]
        if told["balance_usd"] - self._bill(account) <= 0:
            raise Refused("no-money", "the balance is used up")
        if len(ours) >= told["quota"]:
            raise Refused("quota", f"{len(ours)} machines of {told['quota']}")
        is_down = order["region"] in self.state.world["regions_down"]
        taken = [m for m in self.state.alive() if m.device == order["device"]]
        if is_down or len(taken) >= device["free"]:
            raise Refused("no-capacity", f"no {order['device']} in {order['region']}")

    def call_find(self, account: str, name: str) -> dict[str, Any] | None:
        """The machine of a name: a living one, or the last that ended."""
        found = [m for m in self._visible(account) if m["name"] == name]
        return found[-1] if found else None

    def call_machines(self, account: str) -> list[dict[str, Any]]:
        """All machines of the account that cost something."""
        return [m for m in self._visible(account) if m["state"] != "ended"]

    def call_observe(self, account: str, machine: str) -> dict[str, Any] | None:
        """One machine."""
        found = [m for m in self._visible(account) if m["id"] == machine]
        return found[0] if found else None

    def call_stop(self, account: str, machine: str) -> bool:
        """Ask that a machine ends; whether it was there."""
        found = self.state.machines.get(machine)
        if found is None or found.account != account or time.time() < found.visible_s:
            return False
        if not found.ended_s:
            self.life.ask(found)
        return True

    def call_logs(self, _account: str, machine: str, tail: int) -> str:
        """The last lines that a machine's processes wrote."""
        path = self.state.log(machine)
        lines = path.read_text(errors="replace").splitlines()[-tail:] if path.exists() else []
        return "\n".join(lines)

    def call_statements(self, account: str, names: list[str]) -> dict[str, list[int]]:
        """What all machines of a name did cost, nothing if there were none; not while one lives."""
        found: dict[str, list[int]] = {}
        for name in names:
            ours = (m for m in self.state.machines.values() if m.account == account)
            named = [m for m in ours if m.name == name]
            if all(m.ended_s for m in named):
                begin_s = min((m.begin_s for m in named), default=0.0)
                end_s = max((m.ended_s for m in named), default=0.0)
                amount = sum(m.cost_microusd(end_s) for m in named)
                found[name] = [amount, math.floor(begin_s), math.ceil(end_s)]
        return found

    def _visible(self, account: str) -> list[dict[str, Any]]:
        hidden = self._newest[-1:] if self._is_stale else []
        down, now_s = self.state.world["regions_down"], time.time()
        machines = sorted(self.state.machines.values(), key=lambda each: each.begin_s)
        return [
            self._shown(m)
            for m in machines
            if m.account == account and m.visible_s <= now_s
            if m.id not in hidden and m.region not in down
        ]

    def _shown(self, machine: Machine) -> dict[str, Any]:
        state = "ended" if machine.ended_s else "running" if machine.group else "booting"
        uptime_s = time.time() - machine.started_s if machine.group else None
        shown = {"id": machine.id, "name": machine.name, "state": state, "uptime_s": uptime_s}
        return shown | {"is_billing": not machine.ended_s, "exit_code": machine.exit_code}

    def _bill(self, account: str) -> float:
        machines = [m for m in self.state.machines.values() if m.account == account]
        return sum(m.cost_microusd(time.time()) for m in machines) / 1e6

    # -- what a test may do ------------------------------------------------------------------------

    def world_change(self, changes: dict[str, Any]) -> None:
        """The platform is another one from now on."""
        self.state.change_world(changes)

    def world_fault(self, operation: str, nth: int, kind: str, seconds: float = 0.0) -> None:
        """See `Faults.plan`."""
        self.faults.plan(operation, nth, kind, seconds)

    def world_bill(self, account: str) -> float:
        """What an account owes, in dollars."""
        return self._bill(account)

    def world_perfect(self, width: int, *, alike: bool) -> dict[str, float]:
        """What a perfect controller would have been billed for all of this; see `oracle`."""
        machines = list(self.state.machines.values())
        return perfect(machines, self.life.works.all(), width, alike=alike)._asdict()

    def world_spent(self) -> list[dict[str, float]]:
        """Where the seconds of all machines went, the oldest first; see `oracle`."""
        kept = sorted(self.state.machines.values(), key=lambda each: each.begin_s)
        return [each._asdict() for each in spent(kept, self.life.works.all())]

    def world_machines(self) -> list[dict[str, Any]]:
        """Everything about every machine that ever was, hidden ones included."""
        kept = sorted(self.state.machines.values(), key=lambda each: each.begin_s)
        secret = {"token", "environment", "secrets"}
        return [{k: v for k, v in vars(m).items() if k not in secret} for m in kept]

    def world_take(self, machine: str) -> None:
        """The host of a machine is gone: all its processes are, without a signal before."""
        self.state.keep(self.state.machines[machine], killed=True)

    def world_stop(self) -> None:
        """Stop to answer; machines live on."""
        self.stopped.set()


class _Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 256

    def __init__(self, address: tuple[str, int], server: Server) -> None:
        self.platform = server
        super().__init__(address, _Call)


class _Call(socketserver.StreamRequestHandler):
    server: _Tcp

    def handle(self) -> None:
        """One request, one reply, or none."""
        line = self.rfile.readline()
        if not line:
            return
        reply, seconds = self.server.platform.answer(json.loads(line))
        time.sleep(seconds)
        if reply is not None:
            self.wfile.write(json.dumps(reply).encode() + b"\n")
