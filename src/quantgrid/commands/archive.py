"""`quantgrid archive`: what the archive holds, whether it is whole, and receipts to give up."""

import argparse
import json
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from quantgrid import layout, receipts
from quantgrid.archive import Archive
from quantgrid.archive.survey import survey
from quantgrid.archive.verify import verify
from quantgrid.errors import ArchiveRefusal, ConfigRefusal, DataFault
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid, load_settings
from quantgrid.store import open_store

HELP = "show, verify or compare the archive; forget receipts that it does not bear out"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the acts and their options."""
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    common.add_argument("--archive", help="address; that of config/config.yaml by default")
    common.add_argument("--json", action="store_true", help="print JSON")
    told = {
        "status": "what it holds and what this working copy has of it",
        "show": "the records of one cell or milestone",
        "verify": "read every byte; exit code 65 when one is damaged",
        "forget": "remove receipts of other archives and of lost records",
    }
    parsers = {act: acts.add_parser(act, parents=[common], help=told[act]) for act in told}
    parsers["show"].add_argument("cell", help="id of a cell, or <trunk>/<milestone>")
    parsers["show"].add_argument("--grid", help="grid that says which record is current")
    parsers["forget"].add_argument("--yes", action="store_true", help="remove them, not only list")


def main(options: argparse.Namespace) -> int:
    """Do what was asked in the current working copy."""
    settings = load_settings(options.root.absolute(), {"archive": options.archive})
    archive = Archive(open_store(settings.archive, Path.cwd()))
    if options.act == "verify" and archive.find_identity() is None:
        raise ArchiveRefusal(
            "there is no archive to verify",
            expected=layout.ARCHIVE_IDENTITY,
            seen="no such file",
            where=archive.store.address,
            do="Name the right place with --archive.",
        )
    acts = {"status": _status, "show": _show, "verify": _verify, "forget": _forget}
    return acts[options.act](archive, options)


# -- status ---------------------------------------------------------------------------------------


def _status(archive: Archive, options: argparse.Namespace) -> int:
    index, root = archive.index(), Path.cwd()
    found = survey(
        index,
        address=archive.store.address,
        identity=archive.find_identity(),
        astray=[str(receipt.path) for receipt in _astray(archive, root)],
        folded=_folded(root),
    )
    print(json.dumps(found.to_json(), indent=2) if options.json else found.text())
    return 0


def _astray(archive: Archive, root: Path) -> list[receipts.Receipt]:
    index, identity = archive.index(), archive.find_identity()
    return [each for each in receipts.receipts(root) if each.is_astray(index, {identity})]


def _folded(root: Path) -> dict[str, str]:
    """Fingerprints of the results of a working copy by cell; unreadable ones count as missing."""
    found = {}
    for path in root.glob(layout.RESULT_FILES):
        try:
            record = json.loads(path.read_bytes())
            found[str(record["cell"])] = str(record["fingerprint"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


# -- show -----------------------------------------------------------------------------------------


def _show(archive: Archive, options: argparse.Namespace) -> int:
    keys = {key for key in archive.index() if layout.owner_of(key) == options.cell}
    if not keys:
        owners = {layout.owner_of(key) for key in archive.index()}
        near = get_close_matches(options.cell, owners, n=1)
        raise ConfigRefusal(
            f"the archive holds no record of {options.cell}"
            + (f", did you mean {near[0]}?" if near else ""),
            where=archive.store.address,
        )
    current = _current(options)
    rows = [_row(archive, key, current) for key in keys]
    rows.sort(key=lambda row: (row["kind"], row["deposited"], row["fingerprint"]))
    newest = {row["kind"]: row["fingerprint"] for row in rows}
    for row in rows:
        row["is_newest"] = newest[row["kind"]] == row["fingerprint"]
    print(json.dumps(rows, indent=2) if options.json else "\n".join(map(_line, rows)))
    return 0


def _current(options: argparse.Namespace) -> frozenset[str]:
    """Keys of the records that the grid means now."""
    root = options.root.absolute()
    settings = load_settings(root, {"grid": options.grid})
    lineage: Lineage = trace(load_grid(root, settings.grid), Science(root))
    stages = (lineage.milestones, lineage.weights, lineage.cells)
    return frozenset(stage.record for each in stages for stage in each.values())


def _row(archive: Archive, key: str, current: frozenset[str]) -> dict[str, Any]:
    kind, fingerprint = key.partition("/")[0], key.rsplit("/", 2)[1]
    row = {"kind": kind, "fingerprint": fingerprint, "is_current": key in current}
    try:
        record = archive.record(key)
    except DataFault as fault:
        return {**row, "deposited": "", "problem": fault.message()}
    told = ("stage", "science", "verdict", "deposited")
    return {**row, **{name: record[name] for name in told}, "loss": record["results"].get("loss")}


def _line(row: Mapping[str, Any]) -> str:
    words = [row["kind"], row["fingerprint"][:16]]
    if "problem" in row:
        return " ".join([*words, row["problem"]])
    words += [row["deposited"], row["stage"], row["verdict"] or "unjudged"]
    words += [f"loss {row['loss']:.4f}"] if row["loss"] is not None else []
    return " ".join(words + [word for word in ("current", "newest") if row[f"is_{word}"]])


# -- verify ---------------------------------------------------------------------------------------


def _verify(archive: Archive, options: argparse.Namespace) -> int:
    found = verify(archive, Path.cwd() / layout.BLOB_CACHE)
    if options.json:
        damages = {damage.key: damage.problem for damage in found.damages}
        counts = {"records": found.records, "blobs": found.blobs}
        print(json.dumps({**counts, "damaged": damages}, indent=2))
    else:
        for damage in found.damages:
            print(f"{damage.key}: {damage.problem}")
        print(f"read {found.records} records and {found.blobs} blobs: {len(found.damages)} damaged")
    return DataFault.exit_code if found.damages else 0


# -- forget ---------------------------------------------------------------------------------------


def _forget(archive: Archive, options: argparse.Namespace) -> int:
    root = Path.cwd()
    given_up = _astray(archive, root)
    if options.json:
        print(json.dumps([str(receipt.path) for receipt in given_up], indent=2))
    else:
        for receipt in given_up:
            print(f"{receipt.path}: {receipt.record} in archive {receipt.archive}")
    if options.yes:
        receipts.forget(root, given_up)
    said = "forgot" if options.yes else "would forget (with --yes)"
    print(f"{said} {len(given_up)} receipts", file=sys.stderr)
    return 0
