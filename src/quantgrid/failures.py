"""Failures of a working copy: one file a stage, by fingerprint, until it is done or retried.

Failures of class code, data and refusal would come again: the next run stops at once and says so
(`quantgrid.remembered`).
A changed fingerprint has another name, and so forgets by itself.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout, masking
from quantgrid.diagnosis import Diagnosis
from quantgrid.errors import FailureClass

SCHEMA = "quantgrid/failure"
VERSION = 1

Failure = Mapping[str, Any]

_WORDS = {
    FailureClass.REFUSAL: "refused",
    FailureClass.BUDGET: "refused",
    FailureClass.HELD: "held",
    FailureClass.SCIENCE: "alarm",
    FailureClass.PREEMPTION: "stopped",
}
"""What a failure is called, by its class; every other one failed."""


def word(failure: Failure) -> str:
    """What a failure is called, wherever it is told."""
    return _WORDS.get(FailureClass(failure["class"]), "failed")


def failure_of(diagnosis: Diagnosis, **facts: object) -> dict[str, Any]:
    """A failure as it is told and kept, without secrets.

    Args:
        diagnosis: What ended the script.
        facts: cell, stage, fingerprint, attempt, exit_code, log, host, platform, when, evidence.
    """
    told = {"message": diagnosis.message, "lines": list(diagnosis.lines)}
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "class": diagnosis.failure_class.value,
        "kind": diagnosis.kind,
        "type": diagnosis.error_type,
        "is_remembered": diagnosis.failure_class.is_remembered,
        **{name: _masked(value) for name, value in told.items()},
        **facts,
    }


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [masking.masked(each, os.environ) for each in value]
    return masking.masked(value, os.environ)


def keep(root: Path, failure: Failure) -> Path:
    """Write a failure; the latest of a stage replaces earlier ones."""
    path = _path(root, failure["cell"], failure["stage"], failure["fingerprint"])
    atomic.publish_json(path, failure)
    return path


def find(root: Path, cell: str, stage: str, fingerprint: str) -> Failure | None:
    """The failure of a stage; None when there is none, or when its file cannot be read."""
    return _find(_path(root, cell, stage, fingerprint), fingerprint)


def forget(root: Path, cell: str, stage: str, fingerprint: str) -> bool:
    """Forget the failure of a stage; whether there was one."""
    path = _path(root, cell, stage, fingerprint)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def all_of(root: Path) -> Iterator[Failure]:
    """Every failure of a working copy, in order of cells."""
    for path in sorted((root / layout.FAILURES).rglob("*.json")):
        failure = _find(path)
        if failure:
            yield failure


def remembered(root: Path) -> frozenset[str]:
    """Fingerprints of a working copy that are not tried again."""
    return frozenset(each["fingerprint"] for each in all_of(root) if each["is_remembered"])


def _path(root: Path, cell: str, stage: str, fingerprint: str) -> Path:
    return root / layout.failure_file(cell, stage, fingerprint)


def _find(path: Path, fingerprint: str | None = None) -> Failure | None:
    try:
        return checked(json.loads(path.read_bytes()), fingerprint)
    except (OSError, ValueError):
        return None


def checked(failure: Any, fingerprint: str | None = None) -> Failure | None:
    """A failure that was read; None when it is none, or that of another fingerprint."""
    try:
        is_ours = failure["schema"] == SCHEMA and failure["version"] <= VERSION
        FailureClass(failure["class"])
        is_meant = fingerprint in {None, failure["fingerprint"]}
    except (ValueError, KeyError, TypeError):
        return None
    return failure if is_ours and is_meant else None
