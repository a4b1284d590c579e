"""The table of a grid: one row a cell, in plan order, every column described where it is made."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from quantgrid.archive.record import Record
from quantgrid.report.records import Grid, Measured
from quantgrid.report.stats import Estimate, damage
from quantgrid.verdicts import Word

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, what it means (units included), its value, and how a number is written.

    A value of None becomes an empty field, and so does what was measured on an INVALID cell.
    """

    name: str
    meaning: str
    value: Callable[[Measured], Value]
    format: str = ""
    is_measured: bool = False


class Lines(NamedTuple):
    """A table of text, ready to be written; pandas takes half a second to be imported for it.

    Args:
        columns: Their names.
        rows: A field a column each.
    """

    columns: list[str]
    rows: list[list[str]]


def lines(grid: Grid) -> Lines:
    """The table: equal records give equal bytes."""
    rows = [[_written(column, cell) for column in COLUMNS] for cell in grid.cells]
    return Lines([column.name for column in COLUMNS], rows)


def csv_bytes(table: Lines) -> bytes:
    """A table as CSV with one header line and line feeds."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows])
    return file.getvalue().encode()


def documentation() -> str:
    """The text of docs/formats/table.md."""
    rows = "\n".join(f"| `{column.name}` | {column.meaning} |" for column in COLUMNS)
    return _DOCUMENTATION.format(rows=rows)


def size_of(cell: Measured, field: str) -> float | None:
    """A field of what the cell's weights weigh, or None when its record does not say."""
    return _size(cell.record, field)


def mean_bits(cells: Sequence[Measured]) -> float:
    """Mean bits per weight; 0 when a record does not say, or there is none."""
    return sum(size_of(cell, "bits_per_weight") or 0 for cell in cells) / max(len(cells), 1)


def total_bytes(cell: Measured) -> int | None:
    """Bytes of all weights: the packed linears and everything else; None when not recorded."""
    return bytes_of(cell.record)


def bytes_of(record: Record) -> int | None:
    """Like `total_bytes`, of a record."""
    packed, other = _size(record, "packed_bytes"), _size(record, "other_bytes")
    return None if packed is None or other is None else int(packed + other)


def _size(record: Record, field: str) -> float | None:
    size: Mapping[str, Any] = record["weights"]["results"].get("size") or {}
    value = size.get(field)
    return None if value is None else float(value)


def tokens_seen(cell: Measured) -> int:
    """Tokens that the weights were trained on, whole steps only."""
    return int(_trained(cell, "num_tokens") or cell.num_tokens)


def tokens_per_parameter(cell: Measured) -> float:
    """Tokens seen per parameter outside embedding and head."""
    return tokens_seen(cell) / cell.model.num_parameters


def _written(column: Column, cell: Measured) -> str:
    is_left_out = column.is_measured and cell.verdict == Word.INVALID
    value = None if is_left_out else column.value(cell)
    return "" if value is None else format(value, column.format)


def _trained(cell: Measured, field: str) -> float | None:
    """A result of the training: its own when the cell trained, else that of its base."""
    own = cell.record["weights"]["results"].get(field)
    value = cell.base_record["weights"]["results"].get(field) if own is None else own
    return None if value is None else float(value)


def _delta(cell: Measured) -> Estimate:
    return damage([cell])


def _z(cell: Measured) -> float | None:
    return None if cell.is_base else _delta(cell).z


def _spent(cell: Measured, unit: str) -> float | None:
    """Seconds of the two stages that made the weights of this very cell and measured them."""
    works = [part.get("work") for part in (cell.record["weights"], cell.record)]
    return None if None in works else sum(float(work[unit]) for work in works if work)


def _integer(value: float | None) -> int | None:
    return None if value is None else int(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _zero_point(cell: Measured) -> str | None:
    return None if cell.is_base else "yes" if cell.form.asymmetric else "no"


def _block(cell: Measured) -> str | None:
    return _text(cell.record["spec"]["cell"].get("block"))


COLUMNS = (
    Column("cell", "id, `<base>/<variant>`", lambda cell: cell.id),
    Column("base", "id of the trained model", lambda cell: cell.base),
    Column("variant", "id of the quantised form; `none` is the base itself", lambda c: c.variant),
    Column("block", "block of the grid that declares the cell", _block),
    Column("model", "name of the model", lambda cell: cell.model.name),
    Column(
        "parameters",
        "parameters without embedding and head, norms included",
        lambda cell: cell.model.num_parameters,
    ),
    Column("tokens", "budget as declared, in tokens", lambda cell: cell.num_tokens),
    Column("tokens_seen", "tokens that the weights were trained on (whole steps)", tokens_seen),
    Column("tokens_per_parameter", "`tokens_seen / parameters`", tokens_per_parameter, ".4f"),
    Column("seed", "seed of initialisation and data order", lambda cell: cell.seed),
    Column("method", "`none`, `rtn`, `gptq`, `qat`, ...", lambda cell: cell.form.method),
    Column("bits", "bits of one weight, or `ternary`", lambda cell: _text(cell.form.bits)),
    Column("group", "weights that share a scale", lambda cell: _text(cell.form.group)),
    Column("scale", "rule that sets the scale", lambda cell: _text(cell.form.scale)),
    Column("zero_point", "whether the grid is asymmetric: `yes` or `no`", _zero_point),
    Column(
        "loss",
        "validation loss in nats per token",
        lambda cell: float(cell.record["results"]["loss"]),
        ".6f",
        is_measured=True,
    ),
    Column(
        "delta",
        "damage: mean over validation sequences of the loss minus that of the cell's own base, "
        "nats per token",
        lambda cell: _delta(cell).mean,
        ".6f",
        is_measured=True,
    ),
    Column(
        "delta_se",
        "standard error of `delta`, paired: std of the per-sequence differences / sqrt(sequences)",
        lambda cell: _delta(cell).se,
        ".6f",
        is_measured=True,
    ),
    Column("z", "`delta / delta_se`; empty for a base", _z, ".2f", is_measured=True),
    Column(
        "kl",
        "KL divergence from the base's predictions, nats per token",
        lambda cell: cell.record["results"].get("kl"),
        ".6f",
        is_measured=True,
    ),
    Column(
        "packed_bytes",
        "bytes of the linear layers: codes, scales and zero points as stored",
        lambda cell: _integer(size_of(cell, "packed_bytes")),
    ),
    Column(
        "other_bytes",
        "bytes of everything that is not quantised",
        lambda cell: _integer(size_of(cell, "other_bytes")),
    ),
    Column("total_bytes", "`packed_bytes + other_bytes`", total_bytes),
    Column(
        "bits_per_weight",
        "bits of a linear weight with its share of scales and zero points",
        partial(size_of, field="bits_per_weight"),
        ".4f",
    ),
    Column(
        "train_loss",
        "last training loss of the trained weights, nats per token",
        lambda cell: _trained(cell, "train_loss"),
        ".6f",
        is_measured=True,
    ),
    Column(
        "wall_s",
        "wall seconds of the stages that made and measured this cell's weights, without its base",
        partial(_spent, unit="wall_s"),
        ".3f",
    ),
    Column("cpu_s", "CPU seconds of the same stages", partial(_spent, unit="cpu_s"), ".3f"),
    Column("platform", "where it was measured", lambda cell: cell.record["platform"]["name"]),
    Column("device", "device it was measured on", lambda cell: cell.record["platform"]["device"]),
    Column(
        "differs",
        "in what it differs from its base, or its base from the first of the family: `science`, "
        "`corpus`, `environment` (versions, driver), `platform` (platform, device)",
        lambda cell: " ".join(cell.differs),
    ),
    Column(
        "verdict",
        "`VALID`, `SUSPECT` or `INVALID`: the worse of its own and its base's",
        lambda cell: cell.verdict,
    ),
    Column("reason", "why it is not VALID", lambda cell: cell.reason),
    Column("fingerprint", "sha256 that decides sameness", lambda cell: cell.fingerprint),
)

_DOCUMENTATION = """\
# The table of a grid

`results/<grid>.csv`: one row a cell, in the order of the plan, written by `quantgrid table`.
Comma separated, one header line, line feeds, UTF-8; an empty field means "does not apply" or "not recorded".
Numbers have a fixed number of digits, so that equal records give equal bytes.
`quantgrid fit` takes it, and any table of other people with the columns that it needs ([guide](../guides/laws-and-fits.md)).
This file is generated from `quantgrid.report.table.COLUMNS`.

| column | meaning |
| --- | --- |
{rows}

A cell enters only if its record is there, whole, of the fingerprint that the plan wants, and measured on the validation set of its base.
Otherwise `quantgrid table` refuses with exit code 78 and names the cells; nothing is written.

Cells with a [program of their own](../guides/your-own-script.md) come last, with a column for each of their axes and results; a result of a name that every row has is `result_<name>`.
A grid of such programs alone has `cell`, `base`, `variant`, `block`, the axes, `seed`, the results, and the last columns from `wall_s` on.

# The laws of a grid

`results/<grid>-laws.csv`: one row for each law, family and budget that the grid can show.

| column | meaning |
| --- | --- |
| `law` | what is claimed |
| `family` | model, bound on unique tokens, corpus |
| `tokens` | budget; for a law on growth, the largest one |
| `left` | the form (and budget) that should lose more |
| `right` | the form (and budget) that should lose less |
| `difference` | damage of `left` minus damage of `right`: averaged over seeds for each sequence, then over sequences, nats per token |
| `se` | its standard error over sequences |
| `z` | `difference / se` |
| `seeds` | seeds that hold both sides |
| `agreeing` | seeds whose own difference has the same sign |
| `holds` | `yes` when `z > 3` |

Cells whose verdict, or whose base's verdict, is SUSPECT or INVALID enter no average and no law.
What was measured on an INVALID cell is left out of the table: its fields are empty, and `reason` says why.
"""  # noqa: E501 - one sentence a line in Markdown
