"""The acts of `quantgrid archive` that bring results somewhere: fold, copy, deposit, forget."""

import argparse
import json
import sys
from pathlib import Path

from quantgrid import atomic, judging, layout, receipts, verdicts, workspace
from quantgrid.archive import Archive, bulk, waiting
from quantgrid.archive.record import Record
from quantgrid.clock import SystemClock
from quantgrid.errors import ConfigRefusal, DataFault
from quantgrid.lineage import Science, trace
from quantgrid.load import Settings, load_grid
from quantgrid.select import choose
from quantgrid.store import open_store
from quantgrid.wording import counted

_TELL = 100


def fold(archive: Archive, settings: Settings, options: argparse.Namespace) -> int:
    """Bring every current record of the selected cells back, but those that are here already."""
    root, index = Path.cwd(), archive.index()
    grid = load_grid(settings.root, settings.grid)
    lineage = trace(grid, Science(settings.root))
    cells = choose(grid.cells, settings.select)
    wanted = {lineage.cells[cell.id].record for cell in cells} & index
    missing = sorted(key for key in wanted if not _is_folded(root, key))
    found: list[Record] = []
    damaged: list[str] = []
    for key, record in bulk.records(archive, missing):
        if isinstance(record, DataFault):
            damaged.append(f"{key}: {record.message()}")
        else:
            found.append(record)
        _tell("read", len(found) + len(damaged), len(missing))
    judged = list(bulk.each(lambda each: judging.judged(archive, each, SystemClock()), found))
    judging.bring(root, judged)
    for record in found:  # the results come last: where one is, the ledger knows of it
        atomic.publish_json(_result(root, str(record["cell"])), record)
    said = {"folded": len(found), "here": len(wanted) - len(missing), "damaged": damaged}
    said["not_archived"] = len(cells) - len(wanted)
    if options.json:
        print(json.dumps(said, indent=2))
    else:
        print("\n".join([*damaged, _folded_line(said)]))
    return DataFault.exit_code if damaged else 0


def _folded_line(said: dict[str, object]) -> str:
    return (
        f"folded {said['folded']} results; {said['here']} were here already, "
        f"{said['not_archived']} are not in the archive"
    )


def _is_folded(root: Path, key: str) -> bool:
    try:
        told = json.loads(_result(root, layout.owner_of(key)).read_bytes())
        return bool(told["fingerprint"] == layout.fingerprint_of(key))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _result(root: Path, cell: str) -> Path:
    base, _, variant = cell.partition("/")
    return root / layout.RESULT.format(base=base, variant=variant)


def copy(archive: Archive, settings: Settings, options: argparse.Namespace) -> int:
    """Copy the archive to another place, with its identity."""
    root = Path.cwd()
    target = Archive(open_store(_with_endpoint(options.to, settings), root))
    _refuse_place(archive, target)
    number = 0
    with workspace.attempt(root, SystemClock()) as scratch:  # jobs read from the cache
        for number, _ in enumerate(bulk.copy(archive, target, scratch), start=1):
            _tell("copied", number, None)
    verdicts.copy(archive, target)
    said = {"copied": number, "to": target.store.address, "archive": target.identity()}
    line = f"copied {counted(number, 'record')} to {said['to']}: archive {said['archive']}"
    print(json.dumps(said, indent=2) if options.json else line)
    return 0


def _refuse_place(archive: Archive, target: Archive) -> None:
    """Refuse a folder where a copy would lie within its archive, or among files of other things.

    Raises:
        ConfigRefusal: naming it.
    """
    if target.store.is_remote:
        return
    place = Path(target.store.address).resolve()
    is_within = (
        not archive.store.is_remote and Path(archive.store.address).resolve() in place.parents
    )
    there = place.iterdir() if place.is_dir() and target.find_identity() is None else ()
    others = [each.name for each in there if not each.name.startswith(".")]
    if is_within or others:
        raise ConfigRefusal(
            "a copy of an archive needs a folder of its own",
            expected="an empty folder, a new one, or an archive that is gone on with",
            seen="a folder of this archive" if is_within else f"{min(others)} in it",
            where=place,
        )


def _with_endpoint(address: str, settings: Settings) -> str:
    """An address without endpoint is at the one of the settings."""
    _, has, endpoint = settings.archive.partition("?endpoint_url=")
    is_bare = has and address.startswith("s3://") and "?" not in address
    return f"{address}?endpoint_url={endpoint}" if is_bare else address


def deposit(archive: Archive, _: Settings, options: argparse.Namespace) -> int:
    """Deposit the results that wait here for their archive."""
    done = []
    for key in waiting.deposit_all(Path.cwd(), archive, SystemClock()):
        done.append(key)
        print(f"deposited {key}", file=sys.stderr, flush=True)
    print(
        json.dumps(done, indent=2) if options.json else f"deposited {counted(len(done), 'result')}"
    )
    return 0


def forget(archive: Archive, _: Settings, options: argparse.Namespace) -> int:
    """Remove receipts of other archives and of lost records."""
    root = Path.cwd()
    given_up = astray(archive, root)
    if options.json:
        print(json.dumps([str(receipt.path) for receipt in given_up], indent=2))
    else:
        for receipt in given_up:
            print(receipt.path)
    if options.yes:
        receipts.forget(root, given_up)
    said = "forgot" if options.yes else "would forget (with --yes)"
    print(f"{said} {counted(len(given_up), 'receipt')}", file=sys.stderr)
    return 0


def astray(archive: Archive, root: Path) -> list[receipts.Receipt]:
    """Receipts of a working copy that no archive bears out."""
    index = archive.index()
    known = {archive.find_identity(), *archive.other_identities()}
    return [each for each in receipts.receipts(root) if each.is_astray(index, known)]


def _tell(word: str, number: int, total: int | None) -> None:
    if number % _TELL == 0:
        of = f" of {total}" if total else ""
        print(f"{word} {number}{of}", file=sys.stderr, flush=True)
