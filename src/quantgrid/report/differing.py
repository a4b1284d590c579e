"""In what two records that are compared were made otherwise."""

from typing import Any

from quantgrid.archive.record import Record


def differences(record: Record, other: Record) -> tuple[str, ...]:
    """Names of what differs: `science`, `corpus`, `environment`, `platform`.

    Science is that of the evaluation, where both were evaluated by the same stage.
    """
    own, others = _facts(record), _facts(other)
    if record["stage"] != other["stage"]:
        own["science"] = others["science"]
    return tuple(name for name, value in own.items() if value != others[name])


def _facts(record: Record) -> dict[str, Any]:
    place, corpus = record["platform"], record.get("corpus") or {}
    return {
        "science": record["science"],
        "corpus": (corpus.get("recipe"), corpus.get("manifest")),
        "environment": tuple(place.get(name) for name in ("python", "packages", "driver")),
        "platform": (place.get("name"), place.get("device")),
    }
