"""Adapters that ask a platform to refresh what this machine sees of a volume.

A platform's file names one: `none` for a disk of this machine, `rclone:HOST:PORT` for a bucket
mounted by rclone with its remote control at that address (rclone.org/rc, `vfs/forget`), `modal`
for the volumes of the sandbox that this runs in.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from quantgrid import modal_sdk
from quantgrid.errors import ConfigRefusal, PlatformFault

NONE = "none"
MODAL = "modal"
_RCLONE = "rclone"
_WITHIN_S = 30.0


def reloader(spec: str) -> Callable[[Path], None]:
    """What a platform's `reload` means: a call with the folder that must be seen afresh.

    Raises:
        ConfigRefusal: for a kind that no adapter serves.
    """
    kind, _, address = spec.partition(":")
    if kind == _RCLONE and address:
        return lambda _: forget(address)
    if spec == NONE:
        return lambda _: None
    if spec == MODAL:
        return lambda folder: renew_sandbox(folder, os.environ)
    raise ConfigRefusal(
        f"no adapter reloads a view by {spec!r}",
        expected=f"{NONE}, {MODAL} or {_RCLONE}:HOST:PORT",
    )


def renew_sandbox(folder: Path, environment: Mapping[str, str]) -> None:
    """Let the sandbox that this runs in see what others committed to its volumes.

    Only somebody outside of it can ask for that (SDK 1.6, `Sandbox.reload_volumes`), so it takes a
    token.  Without one nothing is asked: the view is that of the sandbox's start, and whoever
    compares it with what a seal vouches for refuses it if it is too old.

    Raises:
        PlatformFault: when a token is there and the view was not renewed; it may then be old.
    """
    if not environment.get("MODAL_TOKEN_ID"):
        return
    modal = modal_sdk.load()
    try:
        modal.Sandbox.from_id(environment["MODAL_SANDBOX_ID"]).reload_volumes()
    except (modal.exception.Error, LookupError) as error:
        raise PlatformFault(
            "Modal was asked for a fresh view of this sandbox's volumes and gave none",
            seen=f"{type(error).__name__}: {error}",
            where=folder,
            do="Nothing below the mount may be open, no working folder either; a new sandbox has "
            "a fresh view in any case.",
        ) from error


def find_control(spec: str) -> str | None:
    """The address of the remote control of a mount, where a platform's `reload` names one."""
    kind, _, address = spec.partition(":")
    return address if kind == _RCLONE and address else None


def forget(address: str) -> None:
    """Let a mount of rclone forget every folder that it remembers.

    Raises:
        PlatformFault: when it does not answer or refuses; what is seen may then be old.
    """
    ask(address, "vfs/forget", {})


def find_stored(address: str, path: str) -> str | None:
    """The MD5 of a file as the server of a mount holds it; None while it holds none.

    The remote control asks the bucket itself, past all that the mount remembers (rclone.org/rc,
    `operations/stat`).

    Raises:
        PlatformFault: when it does not answer or refuses.
    """
    (remote,) = ask(address, "vfs/list", {})["vfses"]
    asked = {"showHash": True, "hashTypes": ["md5"]}
    item = ask(address, "operations/stat", {"fs": remote, "remote": path, "opt": asked})["item"]
    found: str | None = item["Hashes"]["md5"] if item else None
    return found


def ask(address: str, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Send a command to the remote control of a mount.

    Raises:
        PlatformFault: when it does not answer or refuses.
    """
    import http.client  # costs a job 10 ms that most jobs need not pay

    connection = http.client.HTTPConnection(address, timeout=_WITHIN_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/{command}", json.dumps(arguments), headers)
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace")
        if answer.status == http.client.OK:
            told: dict[str, Any] = json.loads(said)
            return told
        seen = f"status {answer.status}: {said.strip()[:200]}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        seen = str(error)
    finally:
        connection.close()
    raise PlatformFault(
        "the mount was asked for a fresh view and gave none",
        seen=seen,
        where=f"{address}, {command}",
        do="What is seen of the volume may be old; start the mount with its remote control (--rc).",
    )
