"""Tells a person what happens while nobody looks: one command or webhook, once for each event.

Whoever notices tells it: controller, supervisor, runner, or a machine far away.  Marks in the store
keep them from telling it twice.  Nothing here raises, and nothing takes longer than was allowed.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlsplit

from quantgrid import layout, masking
from quantgrid.fingerprint import digest
from quantgrid.store import Store

if TYPE_CHECKING:
    from quantgrid.settings import Notify

T = TypeVar("T")

_STORE_S = 20.0
"""For the marks: after so long without the store it is told without them."""


class Kind(StrEnum):
    """What a person is told of."""

    ALARM = "alarm"
    REFUSAL = "refusal"
    FAULT = "fault"
    STALL = "stall"
    SPEND = "spend"
    SILENCE = "silence"
    DONE = "done"


class Event(NamedTuple):
    """Something that a person should hear of.

    Args:
        kind: What it is.
        subject: The cell, grid or controller that it is about.
        text: One sentence for a person.
        key: What makes it the same event as another of its kind and subject.
    """

    kind: Kind | str
    subject: str
    text: str
    key: str = ""

    @property
    def id(self) -> str:
        """The same wherever the event is noticed."""
        return digest(["notice", str(self.kind), self.subject, self.key])[:32]


def tell(
    event: Event,
    whom: "Notify",
    store: Store,
    environ: Mapping[str, str] = os.environ,
) -> bool:
    """Tell an event unless somebody did, or does so now.

    Args:
        event: What happened.
        whom: Command and webhook of the settings.
        store: Where marks of what was told lie: that of the archive.
        environ: Variables that the command sees, and whose secrets are masked.

    Returns:
        Whether this call told it.
    """
    if not (whom.command or whom.webhook):
        return False
    if not _within(_STORE_S, lambda: _begin(event, whom, store), otherwise=True):
        return False
    is_told = _within(2 * whom.timeout_s + 5, lambda: _send(event, whom, environ), otherwise=False)
    if is_told:
        _within(_STORE_S, lambda: _mark(event, store), otherwise=None)
    return bool(is_told)


def _within(seconds: float, call: Callable[[], T], *, otherwise: T) -> T:
    """The answer of a call, or another one when it fails or takes too long."""
    answers: list[T] = []

    def ask() -> None:
        try:
            answers.append(call())
        except Exception as error:  # noqa: BLE001 - a notice never ends the work it is about
            _say(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=ask, name="notify", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else otherwise


# -- once -----------------------------------------------------------------------------------------


def _begin(event: Event, whom: "Notify", store: Store) -> bool:
    """Take the telling of an event, unless it was told or another one is telling it.

    Who began and died is succeeded: a begun notice counts for as long as telling may take.
    """
    found = {entry.key.rpartition("/")[2]: entry for entry in store.entries(_key(event))}
    if layout.NOTICE_TOLD in found:
        return False
    if found:
        newest = max(entry.modified for entry in found.values())
        if (store.now() - newest).total_seconds() < 2 * whom.timeout_s + 2 * _STORE_S:
            return False
    key = _key(event, layout.NOTICE_BEGUN.format(len(found) + 1))
    return store.put_once(key, event.subject.encode())


def _mark(event: Event, store: Store) -> None:
    store.put_once(_key(event, layout.NOTICE_TOLD), str(event.kind).encode())


def _key(event: Event, part: str = "") -> str:
    return layout.notice_key(event.id, part)


# -- the two ways ---------------------------------------------------------------------------------


def _send(event: Event, whom: "Notify", environ: Mapping[str, str]) -> bool:
    """Whether one of the ways that are configured took it."""
    text = masking.masked(f"quantgrid {event.kind}: {event.subject}: {event.text}", environ)
    facts = {
        "kind": str(event.kind),
        "subject": event.subject,
        "text": text,
        "id": event.id,
        "host": os.uname().nodename,
    }
    body = json.dumps(facts).encode()
    by_command = bool(whom.command) and _run(whom, body, facts, environ)
    by_webhook = bool(whom.webhook) and _post(whom, body, environ)
    return by_command or by_webhook


def _run(whom: "Notify", body: bytes, facts: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Run the command in a group of its own, all of which ends with its time."""
    told = {f"QG_NOTICE_{name.upper()}": value for name, value in facts.items()}
    try:
        with subprocess.Popen(
            whom.command,
            env={**environ, **told},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                process.communicate(body, timeout=whom.timeout_s)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _failed("the command", type(error).__name__)
    return process.returncode == 0 or _failed("the command", f"exit code {process.returncode}")


def _post(whom: "Notify", body: bytes, environ: Mapping[str, str]) -> bool:
    """Post to the webhook; its address may hold a secret, so only the host is ever named."""
    from urllib.error import URLError
    from urllib.request import Request, urlopen  # nearly never needed, and slow to import

    name = whom.webhook.removeprefix("$")
    address = whom.webhook if name == whom.webhook else environ.get(name, "")
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"}:
        return _failed("the webhook", "its address begins with neither http:// nor https://")
    headers = {"Content-Type": "application/json", "User-Agent": "quantgrid"}
    try:
        with urlopen(Request(address, body, headers), timeout=whom.timeout_s) as answer:  # noqa: S310 - checked above
            return bool(200 <= answer.status < 300)
    except (URLError, OSError, ValueError) as error:
        code = getattr(error, "code", "")
        return _failed(f"the webhook at {parts.hostname}", f"{type(error).__name__} {code}".strip())


def _failed(way: str, seen: str) -> bool:
    _say(f"{way} took no notice; seen {seen}")
    return False


def _say(text: str) -> None:
    with suppress(OSError, ValueError):
        print(f"notify: {masking.masked(text, os.environ)}", file=sys.stderr, flush=True)
