"""The record of what was made: complete from version 1, with a digest over itself.

`docs/formats/record.md` describes every field.
"""

import json
from collections.abc import Mapping
from typing import Any

from quantgrid import RECORD_VERSION, layout
from quantgrid.errors import DataFault
from quantgrid.fingerprint import digest

SCHEMA = "quantgrid/record"

_RESTORE = (
    "Restore the file from a copy; without one, move it away: a result is then brought back by the "
    "next run, and what an archive lost is given up by `quantgrid archive forget`."
)

Record = Mapping[str, Any]


def sealed(body: Mapping[str, Any]) -> dict[str, Any]:
    """A record with schema, version and the digest of all its other fields."""
    record = {"schema": SCHEMA, "version": RECORD_VERSION, **body}
    return {**record, "digest": digest(record)}


def parse_record(data: bytes, *, where: str, key: str | None = None) -> Record:
    """Read and verify a record.

    Args:
        data: Its bytes.
        where: What to name in an error.
        key: The key that it was found under, if it comes from an archive.

    Raises:
        DataFault: when it is not JSON, not a record, of a later version, damaged or another one.
    """
    try:
        record = json.loads(data)
        claimed = record["digest"]
        schema, version = record["schema"], int(record["version"])
        seen = digest({name: value for name, value in record.items() if name != "digest"})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataFault(
            "a record cannot be read",
            expected=SCHEMA,
            seen=repr(data[:60]),
            where=where,
            do=_RESTORE,
        ) from error
    if schema != SCHEMA or version > RECORD_VERSION:
        raise DataFault(
            "a record of another format",
            expected=f"{SCHEMA} up to version {RECORD_VERSION}",
            seen=f"{schema} version {version}",
            where=where,
        )
    if seen != claimed:
        raise DataFault(
            "a record is damaged", expected=claimed, seen=seen, where=where, do=_RESTORE
        )
    if key is not None:
        refuse_misplaced(record, key, where)
    return record  # type: ignore[no-any-return]


def refuse_misplaced(record: Record, key: str, where: str) -> None:
    """Hold that a record lies under the one key that it belongs under.

    Raises:
        DataFault: when it belongs elsewhere.
    """
    kind, owner, fingerprint = (record.get(name) for name in ("kind", "cell", "fingerprint"))
    own = layout.record_key(str(kind), str(owner), str(fingerprint))
    if own != key:
        raise DataFault("a record of another key", expected=key, seen=own, where=where)
