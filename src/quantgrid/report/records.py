"""The records of a grid, read once, verified, and paired with their bases.

Legend of shape suffixes: S sequences of the fixed validation set.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from quantgrid import layout
from quantgrid.archive.record import Record, parse_record
from quantgrid.errors import ConfigRefusal, DataFault, Refusal
from quantgrid.report.differing import differences
from quantgrid.spec import Form, Model, Trunk
from quantgrid.verdicts import (
    UNJUDGED,
    Said,
    Word,
    base_of,
    counting,
    find_local,
    reason_of,
    word_of,
)
from quantgrid.wording import counted

Losses = npt.NDArray[np.float64]
Spec = TypeVar("Spec")

TERNARY = "ternary"
AVERAGED = frozenset({Word.VALID})
NAMED_AT_MOST = 12


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the plan wants: the fingerprint of every cell of a grid, in plan order."""

    grid: str
    cells: Mapping[str, str]
    archive: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A finished cell beside its base.

    `family` names what the bases of one curve share: model, corpus and the bound on unique tokens.
    `losses` (S) are nats per token, one per validation sequence; `delta` (S) is what
    they exceed those of the cell's own base by, sequence by sequence.  `verdict` is the worse of
    its own and its base's, and `reason` says why it is not VALID; `differs` names in what it was
    made otherwise than what it is compared with.
    """

    id: str
    fingerprint: str
    record: Record
    base_record: Record
    family: str
    model: Model
    num_tokens: int
    seed: int
    form: Form
    verdict: str
    reason: str
    differs: tuple[str, ...]
    is_averaged: bool
    losses: Losses
    delta: Losses

    @property
    def base(self) -> str:
        """Id of the trained model."""
        return self.id.partition("/")[0]

    @property
    def variant(self) -> str:
        """Id of the form."""
        return self.id.partition("/")[2]

    @property
    def is_base(self) -> bool:
        """Whether this cell is the unquantised model itself."""
        return self.form.method == "none"


class Grid:
    """The measured cells of a grid in plan order; averages see only cells that may be averaged."""

    def __init__(self, name: str, cells: Sequence[Measured]) -> None:
        self.name = name
        self.cells = tuple(cells)
        self._groups: dict[tuple[str, int, str], list[Measured]] = defaultdict(list)
        for cell in self.cells:
            if cell.is_averaged:
                self._groups[cell.family, cell.num_tokens, cell.variant].append(cell)

    def seeds_of(self, family: str, num_tokens: int, variant: str) -> tuple[Measured, ...]:
        """The cells that differ only in their seed; empty when there are none to average."""
        return tuple(self._groups.get((family, num_tokens, variant), ()))

    def families(self) -> list[str]:
        """Families, smallest model first."""
        sizes = {cell.family: cell.model.num_parameters for cell in self.cells}
        return sorted(sizes, key=lambda family: (sizes[family], family))

    def quantised_families(self) -> list[str]:
        """Those with a form to draw or to speak of; all where no family has one.

        Pass controls are bases alone: a family of theirs has no damage and no bits to compare.
        """
        formed = {cell.family for cell in self.cells if not cell.is_base}
        return [each for each in self.families() if each in formed or not formed]

    def budgets(self, family: str, variant: str | None = None) -> list[int]:
        """Budgets in tokens that a family (and a form in it) was averaged at, ascending."""
        return sorted(
            {
                num_tokens
                for of_family, num_tokens, of_variant in self._groups
                if of_family == family and variant in {None, of_variant}
            }
        )

    def forms(self) -> dict[str, Form]:
        """Forms by variant id: the base first, then by falling bit width, method and id."""
        found = {cell.variant: cell.form for cell in self.cells}
        return dict(sorted(found.items(), key=lambda item: _rank(*item)))


Width = tuple[float, float, float]


def bit_width(form: Form) -> Width:
    """Bits of information of a weight, an activation and a cached value; infinite when untouched.

    Which form loses least is asked within one width; across widths, only whether fewer bits win.
    """
    weight = math.log2(3) if form.bits == TERNARY else form.bits
    widths = (weight, form.activation_bits, form.kv_bits)
    weight_bits, activation_bits, kv_bits = (
        math.inf if bits is None else float(bits) for bits in widths
    )
    return weight_bits, activation_bits, kv_bits


def _rank(variant: str, form: Form) -> tuple[bool, Width, str, str]:
    order = {"rtn": "0", "gptq": "1", "qat": "2"}
    weight, activation, kv = bit_width(form)
    method = order.get(form.method, f"9{form.method}")
    return form.method != "none", (-weight, -activation, -kv), method, variant


def read_wanted(path: Path) -> Wanted:
    """The plan's list of wanted fingerprints.

    Raises:
        ConfigRefusal: when the file is missing or is not such a list.
    """
    try:
        plan = json.loads(path.read_bytes())
        return Wanted(str(plan["grid"]), dict(plan["cells"]), plan.get("archive"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigRefusal(
            "the list of wanted cells cannot be read",
            expected='JSON with "grid" and "cells"',
            seen=f"{type(error).__name__}: {error}",
            where=path,
            do="Snakemake writes it with the plan: run `snakemake -n --profile local` first.",
        ) from error


def read_grid(wanted: Wanted, results: Path) -> Grid:
    """Read and verify the record of every wanted cell.

    Raises:
        Refusal: names every cell that is missing, damaged, stale, without a base, or measured on
            another validation set than its base or the other bases of its family.
    """
    records, problems = _read_all(wanted, results, _require_complete)
    _require_bases(records, wanted, problems)
    _require_one_validation_set(records, problems)
    if problems:
        raise _refusal(problems, wanted, results)
    return Grid(wanted.grid, list(_measured(records)))


def read_records(
    wanted: Wanted, results: Path, require_complete: Callable[[Record], None]
) -> dict[str, Record]:
    """Read and verify records that are compared with no base.

    Raises:
        Refusal: names every cell that is missing, damaged or stale.
    """
    records, problems = _read_all(wanted, results, require_complete)
    if problems:
        raise _refusal(problems, wanted, results)
    return records


Problems = dict[str, list[str]]

MISSING = "missing"
DAMAGED = "damaged (the digest does not match, or it is no complete record)"
UNKNOWN = "without a verdict (`quantgrid judge` gives one)"
STALE = "stale (made under another fingerprint than the plan wants)"
BASELESS = "without their base in the grid"
FOREIGN = "measured on another validation set than their base"
SCATTERED = "measured on another validation set than the family's other bases"


def _read_all(
    wanted: Wanted, results: Path, require_complete: Callable[[Record], None]
) -> tuple[dict[str, Record], Problems]:
    records: dict[str, Record] = {}
    problems: Problems = defaultdict(list)
    for cell, fingerprint in wanted.cells.items():
        path = _result_file(results, cell)
        try:
            record = _read(path)
            require_complete(record)
        except FileNotFoundError:
            problems[MISSING].append(cell)
        except (DataFault, KeyError, TypeError, ValueError):
            problems[DAMAGED].append(cell)
        else:
            if record["fingerprint"] != fingerprint:
                problems[STALE].append(cell)
            elif word_of(record) == UNJUDGED:
                problems[UNKNOWN].append(cell)
            records[cell] = record
    return records, problems


def _read(path: Path) -> Record:
    """A verified record with the verdict that lies beside it."""
    record = parse_record(path.read_bytes(), where=str(path))
    return {**record, "verdict": find_local(path, record) or record["verdict"]}


def _result_file(results: Path, cell: str) -> Path:
    base, _, variant = cell.partition("/")
    relative = Path(layout.RESULT.format(base=base, variant=variant))
    return results / relative.relative_to(layout.RESULTS)


def _require_complete(record: Record) -> None:
    validation = record["results"]["validation"]
    if not len(validation["losses"]) == validation["sequences"] > 1:
        raise ValueError("as many losses as validation sequences, and at least two")
    _family(record), _part(record, "form", Form), word_of(record), record["weights"]["results"]


def _require_bases(records: Mapping[str, Record], wanted: Wanted, problems: Problems) -> None:
    for cell in records:
        base = base_of(cell)
        if base not in wanted.cells:
            problems[BASELESS].append(cell)
        elif base in records and _validation(records[cell]) != _validation(records[base]):
            problems[FOREIGN].append(cell)


def _require_one_validation_set(records: Mapping[str, Record], problems: Problems) -> None:
    first: dict[str, tuple[str, int]] = {}
    for cell, record in records.items():
        is_base = cell == base_of(cell)
        seen = first.setdefault(_family(record), _validation(record)) if is_base else None
        if is_base and seen != _validation(record):
            problems[SCATTERED].append(cell)


def _refusal(problems: Problems, wanted: Wanted, results: Path) -> Refusal:
    unfit = {cell for cells in problems.values() for cell in cells}
    seen = "; ".join(f"{len(cells)} {kind}: {_named(cells)}" for kind, cells in problems.items())
    return Refusal(
        f"{len(unfit)} of {counted(len(wanted.cells), 'cell')} cannot enter the table of "
        f"{wanted.grid}",
        expected="of every cell the whole record that the plan wants, on its base's validation set",
        seen=seen,
        where=results,
        do="Run `snakemake` to make or restore them; a damaged file may be deleted first.",
    )


def _named(cells: Sequence[str]) -> str:
    more = len(cells) - NAMED_AT_MOST
    return ", ".join(cells[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def _measured(records: Mapping[str, Record]) -> Iterator[Measured]:
    first: dict[str, Record] = {}
    for cell, record in records.items():
        base_record = records[base_of(cell)]
        beside = first.setdefault(_family(record), base_record)
        spec, losses_S = record["spec"]["cell"], _losses(record)
        said = counting(_said(record), None if base_record is record else _said(base_record))
        yield Measured(
            id=cell,
            fingerprint=record["fingerprint"],
            record=record,
            base_record=base_record,
            family=_family(record),
            model=_known(Model, spec["trunk"]["model"]),
            num_tokens=int(spec["num_tokens"]),
            seed=int(spec["trunk"]["seed"]),
            form=_part(record, "form", Form),
            verdict=said.word,
            reason=said.reason,
            differs=differences(record, base_record if record is not base_record else beside),
            is_averaged=said.word in AVERAGED,
            losses=losses_S,
            delta=losses_S - _losses(base_record),
        )


def _said(record: Record) -> Said:
    return Said(word_of(record), reason_of(record))


def _validation(record: Record) -> tuple[str, int]:
    validation = record["results"]["validation"]
    return str(validation["id"]), int(validation["sequences"])


def _losses(record: Record) -> Losses:
    return np.array(record["results"]["validation"]["losses"], dtype=np.float64)


def _family(record: Record) -> str:
    trunk = record["spec"]["cell"]["trunk"]
    spec = _known(Trunk, {**trunk, "model": _known(Model, trunk["model"])})
    return f"{spec.id.replace(f'-s{spec.seed}', '', 1)} {spec.corpus}"


def _part(record: Record, name: str, kind: type[Spec]) -> Spec:
    return _known(kind, record["spec"]["cell"][name])


def _known(kind: type[Spec], values: Mapping[str, Any]) -> Spec:
    """A spec from a record; fields that a later version added are left aside."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})
