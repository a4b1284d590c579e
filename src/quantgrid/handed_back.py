"""What a script hands back: read, checked and turned into the body of a record."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantgrid import atomic
from quantgrid.errors import DataFault
from quantgrid.fingerprint import canonical, digest_file
from quantgrid.job import Job, Stage

_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "fingerprint": str,
    "files": dict,
    "results": dict,
    "receipt": (dict, type(None)),
    "environment": dict,
    "wall_s": (int, float),
    "cpu_s": (int, float),
}

Result = Mapping[str, Any]


def parse_result(stage: Stage, result: Path, out: Path) -> tuple[Result, dict[str, Path]]:
    """What a script handed back, and its files by name.

    Raises:
        DataFault: when it is not what the contract says, of another cell, or when the files are not
            those that it names.
    """
    finished = _parse(stage, result.read_bytes())
    files = {path.name: path for path in out.iterdir() if not atomic.is_debris(path.name)}
    _refuse_other(stage, finished, files)
    return finished, files


def body(job: Job, stage: Stage, finished: Result, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a record.

    Args:
        job: The job.
        stage: The stage that is finished.
        finished: What its script handed back.
        facts: links, counters, deposited, and `platform` with name and host.
    """
    receipt = finished["receipt"]
    return {
        "kind": stage.kind,
        "cell": job.cell,
        "stage": stage.name,
        "fingerprint": stage.fingerprint,
        "spec": {"cell": stage.spec["cell"]} if stage.kind == "cells" else dict(stage.spec),
        "parents": dict(stage.parents),
        "science": stage.science,
        "corpus": _corpus(job, receipt) if job.corpus else None,
        "results": finished["results"],
        "receipt": receipt,
        "work": {"wall_s": finished["wall_s"], "cpu_s": finished["cpu_s"]},
        "blobs": finished["files"],
        "clearance": None,
        "hold": None,
        "cost": None,
        "verdict": None,
        **({"watch": finished["watch"]} if "watch" in finished else {}),
        **facts,
        "platform": {
            **facts["platform"],
            "python": sys.version.split()[0],
            **finished["environment"],
        },
    }


def _corpus(job: Job, receipt: Mapping[str, Any] | None) -> dict[str, Any]:
    manifest = receipt.get("manifest") if receipt else None
    return {"name": job.corpus, "recipe": job.recipe, "manifest": manifest}


def _parse(stage: Stage, data: bytes) -> Result:
    """What a script handed back; a script in any language may have written it."""
    try:
        finished = json.loads(data)
        canonical(finished)  # NaN and infinities have no JSON form, but json.loads takes them
        wrong = [name for name, kind in _FIELDS.items() if not isinstance(finished[name], kind)]
    except (ValueError, KeyError, TypeError) as error:
        wrong = [f"{type(error).__name__}: {error}"]
    if wrong:
        raise DataFault(
            f"the result of stage {stage.name} cannot be read",
            expected=f"JSON with {', '.join(_FIELDS)}",
            seen=f"{', '.join(wrong)} in {data[:60]!r}",
        )
    return finished  # type: ignore[no-any-return]


def _refuse_other(stage: Stage, finished: Result, files: Mapping[str, Path]) -> None:
    """Refuse a result of another fingerprint, and files that changed after they were named."""
    if finished["fingerprint"] != stage.fingerprint:
        raise DataFault(
            f"the script of stage {stage.name} finished another cell",
            expected=stage.fingerprint,
            seen=finished["fingerprint"],
        )
    seen = {name: _facts(path) for name, path in files.items()}
    named = finished["files"]
    if seen != named:
        names = sorted(name for name in {*seen, *named} if seen.get(name) != named.get(name))
        raise DataFault(
            f"the files of stage {stage.name} are not those that its script named",
            expected={name: named.get(name, "no file") for name in names},
            seen={name: seen.get(name, "no file") for name in names},
        )


def _facts(path: Path) -> object:
    if not path.is_file():
        return "a folder"
    return {"sha256": digest_file(path), "size_bytes": path.stat().st_size}
