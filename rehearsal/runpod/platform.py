"""The platform behind its HTTP: who calls, how often, what goes wrong, and time that goes on."""

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rehearsal.runpod import contract, controls, faults
from rehearsal.runpod.bill import spent_usd
from rehearsal.runpod.containers import Containers
from rehearsal.runpod.operations import MAX_BODY, Caller, Operations, Problem
from rehearsal.runpod.state import State

_TICK_S = 0.05
_PUSH_TICKS = 10
_GENERIC_AGENTS = ("Python-urllib", "python-requests", "curl", "Java", "Go-http-client")
"""Agents that the vendor's content network turns away with "error code: 1010"."""
_POD_KEY_MAY = {"getPod", "deletePod", "podAction", "getPodLogs"}
_HTML = "<html><head><title>{0}</title></head><body><h1>Error {0}</h1>cf-ray</body></html>"
_TITLES = {401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found"}


class Request(NamedTuple):
    """A request, read whole."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What is sent.

    Args:
        status: Of HTTP.
        body: Its bytes.
        kind: Its content type.
        headers: More of them.
        fate: `lost`, `cut`, or empty for a whole answer.
        wait_s: Seconds of a watch before it is sent.
    """

    status: int
    body: bytes
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    fate: str = ""
    wait_s: float = 0.0


class RunPod:
    """Everything but sockets.

    Args:
        folder: Where its state is.
        url: Its own address.
        factor: How much faster than a watch its clock runs.
    """

    def __init__(self, folder: Path, url: str, factor: float) -> None:
        self.state = State(folder, factor)
        self.containers = Containers(self.state, url)
        self.operations = Operations(self.state, self.containers)
        self._windows: dict[tuple[str, str], tuple[float, int]] = {}
        self._is_over = threading.Event()
        self._ticks = 0

    # -- time --------------------------------------------------------------------------------------

    def live(self) -> None:
        """Let pods live until the end."""
        while not self._is_over.wait(_TICK_S):
            with self.state.lock:
                self.tick()

    def close(self) -> None:
        """End everything that still runs."""
        self._is_over.set()
        with self.state.lock:
            for pod in self.state["pods"].values():
                self.containers.end(pod["id"], signal.SIGKILL)

    def tick(self) -> None:
        """What happened since the last time."""
        before = self._lives()
        self._ticks += 1
        for pod in self.state.live:
            self.containers.live(pod)
            if self._ticks % _PUSH_TICKS == 0:
                self.containers.push(pod)
        self.containers.reap()
        self._collect()
        if self._lives() != before:
            self.state.save()

    def _lives(self) -> list[tuple[Any, ...]]:
        """What of the pods changes by itself."""
        names = ("status", "since_s", "pid", "restart_s", "ended_s")
        return [tuple(pod[name] for name in names) for pod in self.state["pods"].values()]

    def _collect(self) -> None:
        """An account without money keeps only what is on network volumes."""
        for name, account in self.state["accounts"].items():
            if spent_usd(self.state, name) < account["balance_usd"]:
                continue
            for pod in [each for each in self.state.live if each["account"] == name]:
                if not pod["mounts"].get("network"):
                    self.operations.terminate(pod)
                elif pod["status"] != "EXITED":
                    self.operations.halt(pod)

    # -- requests ----------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        """What a request is answered with, and its effect."""
        with self.state.lock:
            if request.path.startswith(controls.PREFIX):
                return _json(200, controls.act(self, request.path, request.body))
            operation = contract.find_operation(request.method, request.path)
            name = operation.name if operation else "unknown"
            fault = faults.due(self.state["faults"], name)
            answer = self._faulty(fault, lambda age_s: self._served(request, operation, age_s))
            self._note(request, name, answer, fault)
            self.state.save()
            return answer

    def _faulty(self, fault: Any, serve: Callable[[float], Answer]) -> Answer:
        if fault is None:
            return serve(0.0)
        kind, status = fault["kind"], fault["status"]
        if kind in faults.AFTER:
            answer = serve(fault["seconds"] if kind == "stale" else 0.0)
        else:
            answer = Answer(status, b"")
        if kind.startswith("answer"):
            after = fault.get("retry_after_s")
            headers = (("Retry-After", str(after)),) if after is not None else ()
            return _problem(Problem(status, fault["detail"] or "injected"))._replace(
                headers=headers
            )
        if kind.startswith("html"):
            return Answer(status, _HTML.format(status).encode(), "text/html")
        if kind in {"slow", "silent"}:
            fate = "lost" if kind == "silent" else ""
            return answer._replace(wait_s=fault["seconds"], fate=fate)
        return answer._replace(fate={"lost": "lost", "reset": "lost", "cut": "cut"}.get(kind, ""))

    def _served(
        self, request: Request, operation: contract.Operation | None, age_s: float
    ) -> Answer:
        agent = request.headers.get("user-agent", "")
        if not agent or agent.startswith(_GENERIC_AGENTS):
            return Answer(403, b"error code: 1010", "text/plain")
        headers: tuple[tuple[str, str], ...] = ()
        try:
            caller = self._caller(request, operation)._replace(age_s=age_s)
            headers = self._count(caller.account)
            if operation is None:
                raise Problem(404, "no such operation")
            body = _body(request, operation)
            act = self.operations.find(operation.name)
            status, value = act(caller, operation.id, request.query, body)
            return _reply(operation, status, value)._replace(headers=headers)
        except Problem as problem:
            retry: tuple[tuple[str, str], ...] = ()
            if problem.status == 429:
                retry = (("Retry-After", problem.errors.pop()),)
            return _problem(problem)._replace(headers=(*headers, *retry))

    def _caller(self, request: Request, operation: contract.Operation | None) -> Caller:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        known = self.state["keys"].get(key)
        if scheme != "Bearer" or known is None or known["is_revoked"]:
            raise Problem(401, "missing bearer token" if not key else "invalid API key")
        if known["pod"] and (operation is None or operation.name not in _POD_KEY_MAY):
            raise Problem(403, "access denied")
        return Caller(known["account"], known["pod"])

    def _count(self, account: str) -> tuple[tuple[str, str], ...]:
        """Count a request in each window; the headers that say how many are left."""
        now_s, options = self.state.clock.now_s(), self.state.options
        left, policy, wait_s = [], [], 0.0
        for window, length_s in (("minute", 60), ("hour", 3600), ("day", 86_400)):
            quota = options[f"per_{window}"]
            begin_s, count = self._windows.get((account, window), (now_s, 0))
            if now_s - begin_s >= length_s:
                begin_s, count = now_s, 0
            self._windows[account, window] = begin_s, count + 1
            reset_s = begin_s + length_s - now_s
            left.append(f'"{window}";r={max(0, quota - count - 1)};t={int(reset_s) + 1}')
            policy.append(f'"{window}";q={quota};w={length_s}')
            wait_s = max(wait_s, reset_s if count >= quota else 0.0)
        if wait_s:
            raise Problem(429, "rate limit exceeded", [str(int(wait_s) + 1)])
        return ("RateLimit", ", ".join(left)), ("RateLimit-Policy", ", ".join(policy))

    def _note(self, request: Request, name: str, answer: Answer, fault: Any) -> None:
        """What a provider could have kept of a request: all but keys and passwords."""
        known = self.state["keys"].get(request.headers.get("authorization", "")[7:], {})
        body = request.body.decode(errors="replace") if name != "createRegistry" else ""
        headers = {k: v for k, v in request.headers.items() if k != "authorization"}
        note = {
            "at_s": self.state.clock.now_s(), "operation": name, "method": request.method,
            "path": request.path, "query": request.query, "headers": headers, "body": body,
            "account": known.get("account", ""), "status": answer.status,
            "fault": fault["kind"] if fault else "",
        }  # fmt: skip
        self.state.note("requests", note)


def _body(request: Request, operation: contract.Operation) -> Any:
    if len(request.body) > MAX_BODY:
        raise Problem(413, f"the body has more than {MAX_BODY} bytes")
    if not operation.request:
        return None
    try:
        value = json.loads(request.body)
    except ValueError:
        raise Problem(422, "the body is no JSON") from None
    if errors := contract.violations(operation.request, value):
        raise Problem(422, "Request validation failed.", errors)
    return value


def _reply(operation: contract.Operation, status: int, value: Any) -> Answer:
    errors = contract.violations(operation.replies[status], value)
    if errors:  # the double itself is wrong
        raise AssertionError(f"{operation.name} would answer what the model forbids: {errors}")
    if isinstance(value, str):
        return Answer(status, value.encode(), "text/event-stream")
    return Answer(status, b"") if value is None else _json(status, value)


def _json(status: int, value: Any) -> Answer:
    return Answer(status, json.dumps(value).encode())


def _problem(problem: Problem) -> Answer:
    title = _TITLES.get(problem.status, "Error")
    value = {"title": title, "status": problem.status, "detail": problem.detail}
    value |= {"errors": problem.errors} if problem.errors else {}
    return _json(problem.status, value)._replace(kind="application/problem+json")
