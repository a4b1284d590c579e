"""The small JSON files of the protocol: read whole, of a known schema, or refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quantgrid.errors import CorpusRefusal

MAKE_AGAIN = "Make the corpus again: `snakemake --profile local corpus --forcerun prepare`."
VERSION = 1
SHOWN = 5
"""Names that a message lists before it counts the rest."""


def read(path: Path, schema: str, what: str) -> dict[str, Any]:
    """The fields of a record at `path`.

    Args:
        path: Where it is.
        schema: The schema that it must name.
        what: What a person calls it.

    Raises:
        CorpusRefusal: when nothing is there, or it cannot be read, or it is another record.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CorpusRefusal(
            f"the {what} of this corpus is not here",
            expected=path.name,
            seen="none",
            where=path.parent,
            do=MAKE_AGAIN,
        ) from None
    except ValueError as error:
        raise unreadable(path, what, error) from error
    fields = value if isinstance(value, dict) else {}
    found = fields.get("schema"), fields.get("version")
    if found != (schema, VERSION):
        raise CorpusRefusal(
            f"this is no {what}",
            expected=f"{schema} version {VERSION}",
            seen="{} version {}".format(*found),
            where=path,
            do=MAKE_AGAIN,
        )
    return fields


def unreadable(path: Path, what: str, error: Exception) -> CorpusRefusal:
    """The refusal of a record that has not the fields that it should have."""
    return CorpusRefusal(
        f"the {what} of this corpus cannot be read",
        expected="a whole record",
        seen=repr(error),
        where=path,
        do=MAKE_AGAIN,
    )


def named(what: str, names: Sequence[str]) -> str:
    """`; missing a, b and 3 more`, or nothing when there are no names."""
    rest = len(names) - SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"; {what} {', '.join(names[:SHOWN])}{more}" if names else ""
