"""The record of what was made: complete from version 1, with a digest over itself.

`docs/formats/record.md` describes every field.
"""

import json
from collections.abc import Mapping
from typing import Any

from quantgrid import RECORD_VERSION
from quantgrid.errors import DataFault
from quantgrid.fingerprint import digest

SCHEMA = "quantgrid/record"

Record = Mapping[str, Any]


def sealed(body: Mapping[str, Any]) -> dict[str, Any]:
    """A record with schema, version and the digest of all its other fields."""
    record = {"schema": SCHEMA, "version": RECORD_VERSION, **body}
    return {**record, "digest": digest(record)}


def parse_record(data: bytes, *, where: str, fingerprint: str | None = None) -> Record:
    """Read and verify a record.

    Args:
        data: Its bytes.
        where: What to name in an error.
        fingerprint: The fingerprint it must have, if any.

    Raises:
        DataFault: when it is not JSON, not a record, of a later version, damaged or another one.
    """
    try:
        record = json.loads(data)
        claimed = record["digest"]
        body = {name: value for name, value in record.items() if name != "digest"}
    except (ValueError, KeyError, TypeError) as error:
        raise DataFault(
            "a record cannot be read", expected=SCHEMA, seen=repr(data[:60]), where=where
        ) from error
    if record["schema"] != SCHEMA or record["version"] > RECORD_VERSION:
        raise DataFault(
            "a record of another format",
            expected=f"{SCHEMA} up to version {RECORD_VERSION}",
            seen=f"{record['schema']} version {record['version']}",
            where=where,
        )
    if digest(body) != claimed:
        raise DataFault("a record is damaged", expected=claimed, seen=digest(body), where=where)
    if fingerprint is not None and record["fingerprint"] != fingerprint:
        raise DataFault(
            "a record of another fingerprint",
            expected=fingerprint,
            seen=record["fingerprint"],
            where=where,
        )
    return body | {"digest": claimed}
