"""One HTTP call to RunPod: a deadline on the whole of it, its own agent, and the rate limit.

A plain client is enough, and the vendor's own package is not used: it speaks the older interfaces,
and repeats calls that may have taken effect.
"""

import http.client
import json
import re
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlencode, urlsplit

from quantgrid.errors import ConfigRefusal
from quantgrid.rental.errors import Answer, Call, CallFault, Trouble
from quantgrid.rental.runpod import answers

AGENT = "quantgrid-rental/1 (REST v2)"
"""The vendor's network turns generic agents away with 403, "error code: 1010"."""
WITHIN_S = 30.0
"""After which a call is given up: the vendor's own client waits as long."""
_MOST_BYTES = 32 << 20
_RETRY_S = 30.0
"""What a refusal for the rate is waited for when it does not say how long."""
_RESERVE = 5
"""Requests of a window that are kept for creates and ends: looking can wait, ending cannot."""
_URGENT = {Call.LAUNCH, Call.STOP}
_LEFT = re.compile(r"r=(\d+);\s*t=(\d+)")


class Ask(NamedTuple):
    """A request.

    Args:
        call: For which call of the port.
        method: Of HTTP.
        path: Below the base address.
        query: Its parameters.
        body: Sent as JSON; None for nothing.
    """

    call: Call
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None


class Api:
    """The interface of one account.

    Args:
        url: Its base, with the version.
        key: Of the account, or of one pod.  It is sent, and never shown.
        clock: Seconds that only grow.
        within_s: After which a call is given up; a create is waited for twice as long.
    """

    def __init__(
        self,
        url: str,
        key: str,
        clock: Callable[[], float] = time.monotonic,
        within_s: float = WITHIN_S,
    ) -> None:
        self._base, self._key, self._clock, self._within_s = urlsplit(url), key, clock, within_s
        self._not_before_s = {False: 0.0, True: 0.0}
        """Until when looks (False) and urgent calls (True) are not worth sending."""

    def __repr__(self) -> str:
        return f"Api({self._base.geturl()})"

    def json(self, ask: Ask, *, missing: bool = False) -> Any:
        """The value of a reply.

        Args:
            ask: The request.
            missing: Whether 404 is an answer: None.

        Raises:
            CallFault: for every other answer, and for none.
        """
        status, reply = self._send(ask)
        if missing and status == HTTPStatus.NOT_FOUND:
            return None
        if status == HTTPStatus.NO_CONTENT:
            return None
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise _fault(ask, status, answers.detail(reply))
        try:
            return json.loads(reply)
        except ValueError:
            raise _fault(ask, 0, f"HTTP {status} with a body that is no JSON") from None

    def lines(self, ask: Ask, most: int) -> list[str]:
        """The first lines of a stream that may never end; those that came in time.

        Raises:
            CallFault: when no stream came.
        """
        deadline_s, found = self._clock() + self._within_s / 3, b""
        connection, reply = self._open(ask, self._within_s / 3)
        try:
            if reply.status != HTTPStatus.OK:
                raise _fault(ask, reply.status, answers.detail(reply.read(_MOST_BYTES)))
            with suppress(OSError, http.client.HTTPException):
                while self._clock() < deadline_s and found.count(b"\ndata:") < most:
                    part = reply.read1(65_536)
                    if not part or part.startswith(b":"):  # a comment: nothing more for now
                        break
                    found += part
        finally:
            connection.close()
        return found.decode(errors="replace").splitlines()

    def _send(self, ask: Ask) -> tuple[int, bytes]:
        within_s = self._within_s * (1 + (ask.call is Call.LAUNCH))
        deadline_s = self._clock() + within_s
        connection, reply = self._open(ask, within_s)
        try:
            body = self._read(ask, connection, reply, deadline_s)
        finally:
            connection.close()
        self._note(ask, reply)
        return reply.status, body

    def _open(
        self, ask: Ask, within_s: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send it; a connection that never came up did nothing, whatever the call."""
        wait_s = self._not_before_s[ask.call in _URGENT] - self._clock()
        if wait_s > 0:
            raise CallFault(
                Trouble.RETRY, ask.call, seen="the rate limit is used up", retry_after_s=wait_s
            )
        connection = _connection(self._base, within_s)
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise CallFault(Trouble.RETRY, ask.call, seen=f"no connection: {error}") from error
        path = f"{self._base.path}{ask.path}" + (f"?{urlencode(ask.query)}" if ask.query else "")
        headers = {"Authorization": f"Bearer {self._key}", "User-Agent": AGENT}
        headers |= {"Accept": "application/json", "Connection": "close"}
        body = None if ask.body is None else json.dumps(ask.body).encode()
        headers |= {"Content-Type": "application/json"} if body else {}
        try:
            connection.request(ask.method, path, body, headers)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _fault(ask, 0, f"no reply: {error!r}") from error

    def _read(
        self,
        ask: Ask,
        connection: http.client.HTTPConnection,
        reply: http.client.HTTPResponse,
        deadline_s: float,
    ) -> bytes:
        """The whole body within the deadline; half of one is no reply."""
        body = b""
        try:
            while part := reply.read1(65_536):
                body += part
                left_s = deadline_s - self._clock()
                if left_s <= 0 or len(body) > _MOST_BYTES:
                    raise _fault(ask, 0, f"the reply did not end; {len(body)} bytes came")
                if connection.sock:
                    connection.sock.settimeout(left_s)
        except (OSError, http.client.HTTPException) as error:
            raise _fault(ask, 0, f"half a reply: {error!r}") from error
        return body

    def _note(self, ask: Ask, reply: http.client.HTTPResponse) -> None:
        """Remember what the reply says of the rate, and refuse to send what it would refuse."""
        now_s = self._clock()
        if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
            wait_s = _seconds(reply.headers.get("Retry-After", ""))
            self._not_before_s = dict.fromkeys(self._not_before_s, now_s + wait_s)
            raise CallFault(
                Trouble.RETRY, ask.call, seen="HTTP 429, too many requests", retry_after_s=wait_s
            )
        for left, reset_s in _LEFT.findall(reply.headers.get("RateLimit", "")):
            if int(left) <= _RESERVE:
                self._not_before_s[False] = now_s + float(reset_s)


def _connection(base: SplitResult, within_s: float) -> http.client.HTTPConnection:
    """A connection to the base address, through the proxy of the environment if it names one."""
    host, port = base.hostname or "", base.port
    if base.scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=within_s)
    proxy = urllib.request.getproxies().get("https", "")
    is_direct = not proxy or bool(urllib.request.proxy_bypass(host))
    via = base if is_direct else urlsplit(proxy)
    connection = http.client.HTTPSConnection(
        via.hostname or "", via.port, timeout=within_s, context=ssl.create_default_context()
    )
    if not is_direct:
        connection.set_tunnel(host, port or 443)
    return connection


def _fault(ask: Ask, status: int, words: str) -> CallFault:
    kind = answers.trouble(Answer(ask.call, status, words))
    said = f"HTTP {status}: {words}" if status else words
    return CallFault(kind, ask.call, seen=said)


def _seconds(text: str) -> float:
    return float(text) if text.strip().isdecimal() else _RETRY_S


def refuse_odd(url: str) -> str:
    """An address that a key may be sent to.

    Raises:
        ConfigRefusal: for one that would show the key to the network.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in {"127.0.0.1", "localhost", "::1"}:
        return url.rstrip("/")
    raise ConfigRefusal(
        "the key of RunPod would cross the network unencrypted, so nothing was sent",
        expected="an address with https",
        seen=f"{parts.scheme}://{parts.hostname}",
        do="Unset QG_RUNPOD_URL: the vendor's address is the default.",
    )
