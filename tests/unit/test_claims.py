"""Documents are compared with the ledger and the archive: what is false is named with its line."""

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from core_parts import archive_in, body, key_of, put
from quantgrid import atomic, layout, ledger
from quantgrid.archive.record import sealed
from quantgrid.claims import check, document
from quantgrid.entry import code_of
from quantgrid.errors import DataFault
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid
from quantgrid.main import dispatch

CELL, OTHER = "n0-t20k-s0/none", "n0-t40k-s0/none"
FACTS = {"loss": 2.1349, "delta": 0.0}


@pytest.fixture(scope="module")
def current(root: Path) -> dict[str, str]:
    """The fingerprints that the smoke grid means now."""
    cells = trace(load_grid(root, "smoke"), Science(root)).cells
    return {cell: stage.fingerprint for cell, stage in cells.items()}


class Said(NamedTuple):
    """How a command ended and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Desk:
    """A working copy with the project's configuration, an archive, a ledger and one document."""

    def __init__(
        self,
        folder: Path,
        root: Path,
        current: dict[str, str],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.folder, self.current, self.capsys = folder, current, capsys
        for name in ("config", "scripts", "src"):
            (folder / name).symlink_to(root / name)

    def archive(self, *cells: str, fingerprint: str | None = None) -> None:
        """Archive results of cells, by default those that the grid means."""
        for cell in cells:
            own = {"fingerprint": fingerprint or self.current[cell], "results": FACTS}
            record = {**body("cells", cell), **own}
            put(archive_in(self.folder), self.folder / "out", record)

    def fold(self, *cells: str) -> None:
        """Enter results of cells into the ledger."""
        for cell in cells:
            own = {"fingerprint": self.current[cell], "verdict": "VALID", "cost": {"usd": 0.25}}
            record = sealed({**body("cells", cell), **own})
            ledger.enter(self.folder / layout.LEDGER, self.folder / "work/lock", record)

    def say(self, text: str) -> None:
        """Write the document."""
        (self.folder / "notes.md").write_text(text)

    def claims(self, *options: str) -> Said:
        """Run the command on the document."""
        code = code_of(lambda: dispatch(["claims", "notes.md", *options]))
        out, err = self.capsys.readouterr()
        return Said(code, out, err)

    def findings(self, text: str, *options: str) -> list[tuple[int, bool, str]]:
        """Line, whether it is false, and what the document says, of each finding."""
        self.say(text)
        done = self.claims("--json", *options)
        found = json.loads(done.stdout)
        assert done.returncode == (DataFault.exit_code if any(f["is_false"] for f in found) else 0)
        return [(each["line"], each["is_false"], each["says"]) for each in found]


@pytest.fixture
def desk(
    tmp_path: Path,
    root: Path,
    current: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    """A desk on which nothing was run yet."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, root, current, capsys)


def test_claims_names_line_and_evidence_when_a_document_denies_a_run(desk: Desk) -> None:
    """The sentence, its line, and the line of the ledger that contradicts it."""
    desk.archive(CELL)
    desk.fold(CELL)
    desk.say(f"# Notes\n\nAll is well.\nThis cell was never run. <!-- cell: {CELL} -->\n")

    done = desk.claims()

    assert done.returncode == DataFault.exit_code
    assert done.stdout == (
        f"notes.md:4: false: says that {CELL} was not run; "
        "ledger.csv:2 has it as VALID on local at 2026-11-30T12:00:00Z\n"
    )


def test_claims_asks_the_archive_when_the_ledger_is_silent(desk: Desk) -> None:
    """What was archived and never folded was run all the same; without the archive nobody knows."""
    desk.archive(CELL)
    text = f"It is still missing. <!-- cell: {CELL} -->\n"

    assert desk.findings(text) == [(1, True, f"says that {CELL} was not run")]
    assert desk.findings(text, "--ledger-only") == []


def test_claims_is_false_when_a_result_is_referred_to_that_nobody_has(desk: Desk) -> None:
    """A link into results and a comment both promise a result."""
    text = f"See [it](../results/{OTHER}/result.json).\nAnd this. <!-- cell: {CELL} -->\n"

    assert desk.findings(text) == [
        (1, True, f"refers to {OTHER}"),
        (2, True, f"refers to {CELL}"),
    ]
    desk.archive(CELL, OTHER)
    assert desk.findings(text) == []


@pytest.mark.parametrize(
    ("facts", "is_false"),
    [("loss=2.135", False), ("loss=2.13", False), ("loss=2.136", True), ("verdict=VALID", False),
     ("verdict=SUSPECT", True), ("where=local", False), ("loss=high", True)],
)  # fmt: skip
def test_claims_compares_facts_when_they_are_stated(desk: Desk, facts: str, is_false: bool) -> None:
    """A number is compared to the digits that were written, a word as it is."""
    desk.archive(CELL)
    desk.fold(CELL)

    found = desk.findings(f"A number. <!-- cell: {CELL} {facts} -->\n")

    assert [each[1] for each in found] == [True] * is_false


def test_claims_tells_a_number_with_the_digits_of_the_table(desk: Desk) -> None:
    """Sixteen digits are nobody's; more than the table has are told where they were written."""
    seen = [check.shown(1.8800758520762126, said) for said in ("1.9", "1.88007585")]

    assert seen == ["1.880076", "1.88007585"]


def test_claims_says_look_when_results_are_those_of_another_definition(desk: Desk) -> None:
    """A result that the grid does not mean any more bears a reference out only half."""
    desk.archive(CELL, fingerprint="e" * 64)

    text = f"Of grid smoke this is done. <!-- cell: {CELL} -->\n"

    assert desk.findings(text) == [(1, False, f"refers to {CELL}")]


@pytest.mark.parametrize(
    ("sentence", "is_false"),
    [
        ("The grid was never run.", True),
        ("The grid is complete.", True),
        ("2 of 14 cells are there.", False),
        ("3 of 14 cells are there.", True),
        ("2 of 15 cells are there.", True),
        ("The grid was run in parts.", False),
    ],
)
def test_claims_counts_cells_when_a_grid_is_referred_to(
    desk: Desk, sentence: str, is_false: bool
) -> None:
    """Of fourteen cells one is folded and one more archived."""
    desk.archive(CELL, OTHER)
    desk.fold(CELL)

    found = desk.findings(f"{sentence} <!-- grid: smoke -->\n")

    assert [each[1] for each in found] == [True] * is_false


def test_claims_only_looks_when_prose_names_what_was_run(desk: Desk) -> None:
    """Without a reference nobody knows what a sentence means; --strict wants it mended."""
    desk.archive(CELL)
    text = f"We have not run {CELL} yet.\nThe smoke grid is missing.\nOthers were never run.\n"

    assert desk.findings(text) == [
        (1, False, f"seems to say that {CELL} was not run"),
        (2, False, "seems to say that grid smoke was not run"),
    ]
    assert desk.claims("--strict").returncode == DataFault.exit_code


def test_claims_refuses_when_a_document_or_a_table_means_nothing(desk: Desk) -> None:
    """One sentence with the line and what would be right; nothing is rewritten."""
    desk.say("<!-- table: smoke by=colour -->\n<!-- end -->\n")
    odd = desk.claims("--fix")
    desk.say("<!-- table: somke -->\n<!-- end -->\n")
    unknown = desk.claims("--fix")
    (desk.folder / "notes.md").unlink()

    assert "asks for nothing" in odd.stderr
    assert "notes.md:1" in odd.stderr
    assert "unknown grid" in unknown.stderr
    assert "smoke" in unknown.stderr
    assert "a document cannot be read" in desk.claims().stderr
    assert (odd.returncode, unknown.returncode, desk.claims().returncode) == (78, 78, 78)


def test_fix_rewrites_tables_only_when_they_differ(desk: Desk) -> None:
    """What is around a table stays to the byte, and a second time changes nothing."""
    desk.archive(CELL)
    desk.fold(CELL)
    around = "Before.\n\n{}\nAfter.\n\n```\n<!-- table: smoke -->\n<!-- end -->\n```\n"
    chosen = '<!-- table: smoke by=cell select="method=none and seed=0" -->\n{}<!-- end -->\n'
    desk.say(around.format(chosen.format("old\n")))

    assert desk.claims("--fix").returncode == 0
    first = (desk.folder / "notes.md").read_text()
    stat = (desk.folder / "notes.md").stat()
    assert desk.claims("--fix").returncode == 0
    assert desk.claims().returncode == 0

    rows = [line for line in first.splitlines() if line.startswith("| n0")]
    assert f"| {CELL} | done | VALID | local | 2026-11-30T12:00:00Z |" in rows
    assert f"| {OTHER} | not in the ledger |  |  |  |" in rows
    body_ = first[first.index("| cell") : first.index("<!-- end -->")]
    assert first == around.format(chosen.format(body_))
    assert (desk.folder / "notes.md").stat().st_mtime_ns == stat.st_mtime_ns


def test_table_of_forms_counts_what_the_ledger_knows(desk: Desk) -> None:
    """Cells, done, stale, not in the ledger, verdicts and what was paid, with a sum."""
    desk.archive(CELL)
    desk.fold(CELL)
    desk.say("<!-- table: smoke -->\n<!-- end -->\n")

    desk.claims("--fix")

    lines = (desk.folder / "notes.md").read_text().splitlines()
    assert lines[-2] == "| all | 14 | 1 | 0 | 13 | 1 | 0 | 0 | 0 | 0.25 |"
    assert len(lines) == 2 + 2 + 7 + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two.\n", [(1, "One."), (1, "Two.")]),
        ("One\ntwo.\n\nThree\n", [(1, "One two."), (4, "Three")]),
        ("- one\n- two\n", [(1, "- one"), (2, "- two")]),
        ("See v1.2 now.\n", [(1, "See v1.2 now.")]),
        ("```\nnot run\n```\nYes.\n", [(4, "Yes.")]),
        ("<!-- table: demo -->\nnot run\n<!-- end -->\nYes.\n", [(4, "Yes.")]),
    ],
)
def test_sentences_are_taken_apart_when_read(text: str, expected: list[tuple[int, str]]) -> None:
    """Wrapped lines are joined; list items, code and generated tables are told apart."""
    assert [(each.line, each.text) for each in document.sentences(text)] == expected


def test_references_belong_to_the_sentence_before_when_a_comment_follows(root: Path) -> None:
    """So that the sentence after the comment says nothing of that cell."""
    text = f"Done. <!-- cell: {CELL} loss=2.1 -->\nThe rest was never run.\n"

    first, second = document.sentences(text)
    (example,) = document.sentences(f"Write `<!-- cell: {CELL} -->`.\n")

    assert first.references == (document.Reference(1, "cell", CELL, (("loss", "2.1"),)),)
    assert second.references == example.references == ()


def test_claims_is_refused_when_the_archive_is_not_mounted(desk: Desk) -> None:
    """An empty folder in its place would contradict every document that tells the truth."""
    desk.archive(CELL)
    path = desk.folder / layout.CELL_RECEIPT.format(base="n0", variant="none", fp="f")
    record = key_of({**body("cells", CELL), "fingerprint": desk.current[CELL]})
    atomic.publish_json(path, {"record": record, "archive": "of-yesterday"})
    desk.say(f"It is there. <!-- cell: {CELL} -->\n")

    assert "not the archive that this working copy deposited into" in desk.claims().stderr


def test_fix_leaves_text_alone_when_a_table_has_no_end(desk: Desk) -> None:
    """The end of the next table is not its own: what a person wrote between them stays."""
    desk.fold(CELL)
    torn = "<!-- table: smoke -->\nWritten by hand.\n\n<!-- table: -->\n\n"
    desk.say(f"{torn}<!-- table: smoke -->\n<!-- end -->\n")

    done = desk.claims("--fix")

    text = (desk.folder / "notes.md").read_text()
    assert text.startswith(f"{torn}<!-- table: smoke -->\n| form")
    assert done.returncode == DataFault.exit_code
    told = [line.split(": ")[:3] for line in done.stdout.splitlines()]
    says = "a generated table that nobody can write; expected <!-- table"
    assert told == [["notes.md:1", "false", says], ["notes.md:4", "false", says]]


def test_fix_keeps_what_a_document_is_when_it_writes(desk: Desk) -> None:
    """A link stays a link; ends of lines and rights stay those of the file."""
    own = desk.folder / "real.md"
    own.write_bytes(b"Text.\r\n<!-- table: smoke -->\r\n<!-- end -->\r\n")
    own.chmod(0o640)
    (desk.folder / "notes.md").symlink_to(own)
    left = desk.folder / f"real.md.qgpart-{os.uname().nodename}@1.0@00"  # of one that was killed
    left.touch()

    assert desk.claims("--fix").returncode == 0

    assert (desk.folder / "notes.md").is_symlink()
    assert not left.exists()
    assert own.stat().st_mode & 0o777 == 0o640
    assert own.read_bytes().count(b"\r\n") == own.read_bytes().count(b"\n") > 3
    assert desk.claims().returncode == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"[a](results/{CELL}/result.json#L1)", [CELL]),
        (f"[a](<results/{CELL}/result.json>)", [CELL]),
        (f"[a]: results/{CELL.replace('-', '%2D')}/result.json", [CELL]),
        (f"<!-- Cell:{CELL}-->", [CELL]),
        ("[a](results/smoke.html?x#top) [b](results/report.html)", ["smoke"]),
        ("[a](https://example.org/results/page.html) [b](results/smoke-laws.csv)", []),
    ],
)
def test_references_are_found_when_they_are_written_another_way(
    text: str, expected: list[str]
) -> None:
    """Whatever Markdown follows as a link is one; a page elsewhere is no grid of ours."""
    found = [each.name for one in document.sentences(text) for each in one.references]

    assert found == expected


@pytest.mark.parametrize(
    ("sentence", "is_told"),
    [
        ("The 14-cell grid smoke was never run on Modal.", False),
        ("The grid smoke was never run on local.", True),
        ("The grid smoke was never run on a whim.", True),
        ("Nobody has run smoke.", True),
        ("We still need to run smoke.", True),
        ("smoke did not finish.", True),
        ("smoke will be run next week.", True),
        ("smoke was run on Monday.", False),
    ],
)
def test_claims_looks_at_prose_when_it_may_be_false(
    desk: Desk, sentence: str, *, is_told: bool
) -> None:
    """What was not run on one platform may have been on another; what is to come is not here."""
    desk.fold(CELL)

    assert desk.findings(f"{sentence}\n") == (
        [(1, False, "seems to say that grid smoke was not run")] if is_told else []
    )
    assert desk.findings("It was never run on modal. <!-- grid: smoke -->\n") == []
