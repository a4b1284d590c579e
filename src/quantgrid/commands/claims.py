"""`quantgrid claims`: documents against the ledger and the archive (incident 6)."""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout, ledger
from quantgrid.archive import Archive
from quantgrid.archive.opened import of
from quantgrid.claims import check, document, tables
from quantgrid.claims.known import Known, Run, gather
from quantgrid.errors import ConfigRefusal, DataFault, Refusal
from quantgrid.grid import Grid
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid, load_settings, names
from quantgrid.receipts import vouch_for
from quantgrid.select import choose
from quantgrid.wording import agreeing, counted

HELP = "check what documents say about cells against the ledger and the archive"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("documents", nargs="+", type=Path, help="Markdown files")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--fix", action="store_true", help="rewrite the generated tables")
    parser.add_argument("--strict", action="store_true", help="doubtful sentences fail as well")
    parser.add_argument(
        "--ledger-only", action="store_true", help="do not ask the archive (a clone without it)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def main(options: argparse.Namespace) -> int:
    """Check every document; `DataFault`'s exit code when something is false.

    Raises:
        ConfigRefusal: for a document that is not there, or a table that asks for nothing.
        ArchiveRefusal: when it is not the archive of this working copy.
        PlatformFault: when the archive does not answer.
    """
    texts = {path: _read(path) for path in options.documents}
    found = _Checker(options).findings(texts)
    if options.json:
        print(json.dumps([{"document": str(p), **f._asdict()} for p, f in found], indent=2))
    else:
        for path, finding in found:
            print(finding.text(str(path)))
    false = sum(finding.is_false for _, finding in found)
    print(
        f"{counted(len(texts), 'document')}: {false} false, {len(found) - false} to look at",
        file=sys.stderr,
    )
    return DataFault.exit_code if false or (options.strict and found) else 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigRefusal("a document cannot be read", seen=error, where=path) from error


def _named(texts: Iterable[str]) -> frozenset[str]:
    """The grids that documents refer to or show a table of."""
    found = set()
    for text in texts:
        found |= {block.words.split()[0] for block in document.blocks(text) if block.words.split()}
        for sentence in document.sentences(text):
            found |= {each.name for each in sentence.references if each.kind == document.GRID}
    return frozenset(found)


def _mentions(texts: Iterable[str], grid: str) -> bool:
    return any(re.search(rf"\b{re.escape(grid)}\b", text) for text in texts)


class _Checker(check.Reader):
    """What is known here, and the documents against it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.root = options, options.root.absolute()
        self.settings = load_settings(self.root, {})
        self.archive: Archive | None = None
        if not options.ledger_only:
            self.archive = of(self.settings, self.root)
            vouch_for(self.archive, self.root)  # an empty folder in its place knows of nothing
        self.grids: dict[str, Grid] = {}
        self._results: dict[str, Mapping[str, Any]] = {}

    def findings(self, texts: Mapping[Path, str]) -> list[tuple[Path, check.Finding]]:
        """All findings, in the order of the documents and their lines."""
        known, found = self._known(texts.values()), []
        for path, text in texts.items():
            own = [*self._tables(path, text, known)]
            own += [each for s in document.sentences(text) for each in check.check(s, known, self)]
            found += [(path, each) for each in sorted(own)]
        return found

    def results(self, run: Run) -> Mapping[str, object]:
        """The numbers of a record, read once; none without the archive's copy."""
        if run.key and self.archive and run.key not in self._results:
            self._results[run.key] = self.archive.record(run.key)["results"]
        return self._results.get(run.key, {})

    def _known(self, texts: Iterable[str]) -> Known:
        """What is known of the configured grid and of those that the documents mention.

        One that is only mentioned may be broken: nothing is compared with it then.
        """
        texts = list(texts)
        named = _named(texts)
        science, current = Science(self.root), {}
        for name in names(self.root, "grid"):
            if name in named or name == self.settings.grid or _mentions(texts, name):
                with nullcontext() if name in named else suppress(Refusal):
                    self.grids[name] = load_grid(self.root, name)
                    stages = trace(self.grids[name], science).cells
                    ids = [cell.id for cell in self.grids[name].every]
                    current[name] = {cell: stages[cell].fingerprint for cell in ids}
        rows = ledger.read(self.root / layout.LEDGER)
        known = gather(rows, self.archive.index() if self.archive else None, current)
        return replace(known, platforms=frozenset(names(self.root, "platform")))

    def _tables(self, path: Path, text: str, known: Known) -> Iterator[check.Finding]:
        fixed = {}
        for line in document.torn_blocks(text):
            says = "a generated table that nobody can write"
            evidence = (
                "expected <!-- table: GRID --> on its own line, and its own <!-- end --> below"
            )
            yield check.false(line, says, evidence)
        for block in document.blocks(text):
            where = f"{path}:{block.line}"
            wanted = tables.parse(block.words, where)
            cells = self._chosen(wanted, where)
            fixed[block.words] = tables.text(wanted, cells, known)
            says = f"the table of grid {wanted.grid}"
            if missing := tables.unfolded(wanted, cells, known):
                yield check.false(block.line, says, _unfolded(wanted.grid, missing))
            if fixed[block.words] != block.text and not self.options.fix:
                evidence = "the ledger says otherwise: quantgrid claims --fix rewrites it"
                yield check.false(block.line, says, evidence)
        rewritten = document.rewritten(text, fixed)
        if self.options.fix and rewritten != text:
            _publish(path, rewritten)
            print(f"written: {path}", file=sys.stderr)

    def _chosen(self, wanted: tables.Wanted, where: str) -> tuple[str, ...]:
        if wanted.grid not in self.grids:
            raise ConfigRefusal(
                "a generated table of an unknown grid",
                expected=", ".join(names(self.root, "grid")),
                seen=wanted.grid,
                where=where,
            )
        try:
            cells = choose(self.grids[wanted.grid].every, wanted.select)
        except Refusal as refusal:
            raise ConfigRefusal(
                f"a generated table: {refusal.what}",
                expected=refusal.expected,
                seen=refusal.seen,
                where=where,
            ) from refusal
        return tuple(cell.id for cell in cells)


def _publish(path: Path, text: str) -> None:
    """Write a document in its own place, with its own ends of lines and its own rights."""
    place = path.resolve()  # whoever put a link there meant the file
    if b"\r\n" in place.read_bytes():
        text = text.replace("\n", "\r\n")
    rights = place.stat().st_mode
    atomic.clear_dead_in(place.parent)  # where no run of a grid ever looks
    atomic.publish(place, text.encode())
    place.chmod(rights)


def _unfolded(grid: str, cells: list[str]) -> str:
    return (
        f"the archive has {counted(len(cells), 'cell')} that it calls not in the ledger, "
        f"such as {cells[0]}: snakemake --config grid={grid} folds "
        f"{agreeing(len(cells), 'it', 'them')}"
    )
