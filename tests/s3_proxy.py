"""A proxy between client and store that fails as networks and services do, by the request."""

import http.client
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import NamedTuple

FAULTS = ("reset", "half", "503", "lost")
"""Before the effect; half an answer; an answer of the service; after the effect, without answer."""


class Request(NamedTuple):
    """What a plan of faults may look at."""

    number: int
    method: str
    path: str

    @property
    def is_listing(self) -> bool:
        return "list-type=2" in self.path


Plan = Callable[[Request], str]
"""The fault of a request, empty for none; also `stale` (an earlier listing) and `_ANSWERS`."""


def never(_: Request) -> str:
    """No fault."""
    return ""


def seldom(seed: int, share: float = 0.25) -> Plan:
    """Faults of every kind at random."""
    source = random.Random(seed)
    return lambda _: source.choice(FAULTS) if source.random() < share else ""


class Proxy:
    """Passes HTTP through, but for the faults of its plan, which may be changed at any time."""

    def __init__(self, upstream: int) -> None:
        self.upstream, self.plan = upstream, never
        self.seen: list[Request] = []
        self.faults: list[str] = []
        self.listings: dict[str, bytes] = {}
        self.lock = Lock()
        self.server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self, method: str, path: str) -> tuple[Request, str]:
        with self.lock:
            request = Request(len(self.seen), method, path)
            self.seen.append(request)
            fault = self.plan(request)
            self.faults += [fault] if fault else []
        return request, fault


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request, fault = self.proxy.begin(self.command, self.path)
        if fault == "reset":
            return self._cut()
        if fault in _ANSWERS:
            return self._say(*_ANSWERS[fault])
        if fault == "stale" and request.is_listing and self.path in self.proxy.listings:
            return self._say(200, self.proxy.listings[self.path])
        status, headers, answer = self._ask(body)
        if request.is_listing and status == 200:
            self.proxy.listings.setdefault(self.path, answer)
        if fault == "lost":
            return self._cut()
        return self._give(status, headers, answer, half=fault == "half")

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815 - names of http.server

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":
                    upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def _give(
        self, status: int, headers: list[tuple[str, str]], answer: bytes, *, half: bool
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                self.send_header(name, value)
        length = {n.lower(): v for n, v in headers}.get("content-length", str(len(answer)))
        if self.command == "HEAD":
            self.send_header("Content-Length", length)
            self.end_headers()
            return self._cut() if half else None
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer[: len(answer) // 2] if half else answer)
        return self._cut() if half else None

    def _say(self, status: int, answer: bytes) -> None:
        self._give(status, [("Content-Type", "application/xml")], answer, half=False)

    def _cut(self) -> None:
        """Reset the connection."""
        self.wfile.flush()
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (OSError, ValueError):
            self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except (OSError, ValueError):
            return

    def log_message(self, *_: object) -> None:
        return


def _error(status: int, code: str) -> tuple[int, bytes]:
    return status, f"<Error><Code>{code}</Code><Message>so it is</Message></Error>".encode()


_ANSWERS = {
    "503": _error(503, "SlowDown"),
    "denied": _error(403, "AccessDenied"),
    "expired": _error(400, "ExpiredToken"),
    "skewed": _error(403, "RequestTimeTooSkewed"),
    "region": _error(400, "AuthorizationHeaderMalformed"),
    "nobucket": _error(404, "NoSuchBucket"),
    "deaf": _error(501, "NotImplemented"),
}


@contextmanager
def proxy(upstream: int, plan: Plan = never) -> Iterator[Proxy]:
    """A proxy before a server, until the block ends."""
    made = Proxy(upstream)
    made.plan = plan
    passing = type("Passing", (_Passing,), {"proxy": made})
    made.server = ThreadingHTTPServer(("127.0.0.1", 0), passing)
    made.server.daemon_threads = True
    made.port = made.server.server_port
    thread = Thread(target=made.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()
