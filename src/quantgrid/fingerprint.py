"""What makes two things the same: canonical JSON and its sha256; `science` digests code."""

import hashlib
import json
from pathlib import Path


def canonical(value: object) -> str:
    """Canonical JSON: sorted keys, no blanks, no NaN, ASCII.  Equal values give equal bytes.

    Raises:
        ValueError: for NaN and infinities, which have no JSON form.
        TypeError: for a value without a JSON form.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    """Full sha256 (64 hex digits) of the canonical JSON of a value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def digest_bytes(data: bytes) -> str:
    """Full sha256 (64 hex digits) of bytes."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """Full sha256 (64 hex digits) of a file's bytes, read in a stream."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
