"""What tests of the acts on an archive share."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import forked
from core_parts import BOUND_S
from quantgrid import layout
from quantgrid.archive.record import sealed
from quantgrid.atomic import json_bytes
from quantgrid.fingerprint import digest_bytes

DATA = b"weights"
BLOB = layout.blob_key(digest_bytes(DATA))
CALL_S = 3 * BOUND_S
Call = Callable[..., "subprocess.CompletedProcess[str]"]


def sealed_bytes(record: Mapping[str, Any]) -> bytes:
    """The bytes of a record, for a store that is filled past the archive."""
    return json_bytes(sealed(record))


def calling(root: Path, address: str, clone: Path) -> Call:
    """How `quantgrid archive`, or another command, is called in a working copy."""

    def run(*words: str, command: str = "archive") -> "subprocess.CompletedProcess[str]":
        options = ["--root", str(root), "--archive", address]
        line = [sys.executable, "-m", "quantgrid", command, *words, *options]
        return forked.run(line, cwd=clone, env=os.environ, timeout=CALL_S, apart=True)

    return run
