"""A grid: blocks of axes that expand to cells, each with an id of its own and work of its own."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import NamedTuple

from quantgrid.errors import ConfigRefusal
from quantgrid.forms import group_problem
from quantgrid.own_script import OwnCell
from quantgrid.recipe import Recipe, windowed
from quantgrid.select import Selection
from quantgrid.spec import Cell, Cooldown, Evaluation, Form, Model, Trunk

COOLDOWN_FRACTION = 0.2
"""Part of a base's steps that cool down: epfml/schedules-and-scaling, `--wsd-fract-decay 0.2`."""

MIN_COOLDOWN_STEPS = 2
"""One step would be a jump to a rate of zero: no decay at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How long a base is trained: tokens, or tokens per parameter without embeddings.

    Args:
        amount: Tokens, or the ratio.
        per_parameter: Whether it is a ratio.
        where: File and line that a refusal names.
    """

    amount: float
    per_parameter: bool = False
    where: str = ""

    @property
    def id(self) -> str:
        """`t800k`, `t2M`, `t1234`, `x20`, `x0p5`: one text per amount, one amount per text."""
        if self.per_parameter:
            return f"x{_plain(self.amount)}".replace(".", "p")
        for size, letter in ((1_000_000, "M"), (1_000, "k")):
            if self.amount % size == 0:
                return f"t{_plain(self.amount / size)}{letter}"
        return f"t{_plain(self.amount)}"

    def num_tokens(self, model: Model) -> int:
        """Tokens that this budget means for a model."""
        return round(self.amount * (model.num_parameters if self.per_parameter else 1))


def _plain(amount: float) -> str:
    return str(int(amount)) if amount == int(amount) else repr(amount)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Axes whose product is a part of a grid.

    Args:
        name: Name of the block.
        models: Axis of models.
        budgets: Axis of training lengths.
        seeds: Axis of seeds.
        forms: Axis of forms, each with the file and line that a refusal names.
        passes: Axis of passes over the corpus that training may make.
        bounded: Whether a base sees only planned / passes unique tokens, and each so many times.
        exclude: Cells that are left out.
    """

    name: str
    models: tuple[Model, ...]
    budgets: tuple[Budget, ...]
    seeds: tuple[int, ...]
    forms: tuple[tuple[Form, str], ...]
    passes: tuple[int, ...] = (1,)
    bounded: bool = False
    exclude: tuple[Selection, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A declared set of cells, in declared order; the cells of one base follow each other.

    `own` are cells of somebody's own program; `corpus` is None when they alone are there and read
    none.
    """

    name: str
    corpus: Recipe | None
    cells: tuple[Cell, ...]
    own: tuple[OwnCell, ...] = ()

    @property
    def every(self) -> tuple[Cell | OwnCell, ...]:
        """All cells."""
        return (*self.cells, *self.own)


class _Placed(NamedTuple):
    """A cell and the lines that asked for its length and its form."""

    cell: Cell
    budget: str
    form: str


def expand(
    name: str, *, corpus: Recipe, evaluation: Evaluation, blocks: Sequence[Block], where: str = ""
) -> Grid:
    """All cells of a grid, each once.

    Args:
        name: Name of the grid.
        corpus: What its models are trained on.
        evaluation: How every cell is measured.
        blocks: Parts of the grid; a cell that two of them declare belongs to the first.
        where: File and line that a refusal of the whole names.

    Raises:
        ConfigRefusal: when a cell cannot be meant, when two cells share an id or their work, and
            when nothing is left.
    """
    placed = [each for block in blocks for each in _cells(block, evaluation, corpus.name)]
    if not placed:
        raise ConfigRefusal(f"grid {name} has no cells", where=where)
    for each in _firsts(
        placed, lambda cell: (cell.trunk.model.name, cell.budget, cell.trunk.passes)
    ):
        _check_length(each, corpus)
    for each in _firsts(placed, _length):
        _check_length(each, corpus)
    for each in _firsts(placed, lambda cell: (cell.trunk.model.name, cell.form)):
        _check_groups(each)
    for each in _firsts(placed, lambda cell: cell.trunk.model.name):
        _check_model(each.cell, corpus, where)
    return Grid(name=name, corpus=corpus, cells=_unique(placed))


def cooldown_of(num_tokens: int, model: Model) -> Cooldown:
    """Whole steps nearest to a number of tokens, and the part of them that cools down."""
    num_steps = round(num_tokens / model.tokens_per_step)
    return Cooldown(num_steps=num_steps, cooldown_steps=round(COOLDOWN_FRACTION * num_steps))


def _cells(block: Block, evaluation: Evaluation, corpus: str) -> Iterator[_Placed]:
    for model, budget, passes in product(block.models, block.budgets, block.passes):
        cooldown = cooldown_of(budget.num_tokens(model), model)
        unique_tokens = _share(cooldown, model, passes) if block.bounded else None
        for seed in block.seeds:
            trunk = Trunk(
                model=model, seed=seed, corpus=corpus, passes=passes, unique_tokens=unique_tokens
            )
            for form, where in block.forms:
                cell = Cell(
                    trunk=trunk,
                    budget=budget.id,
                    num_tokens=budget.num_tokens(model),
                    cooldown=cooldown,
                    form=form,
                    evaluation=evaluation,
                    block=block.name,
                )
                if not any(choice.matches(cell) for choice in block.exclude):
                    yield _Placed(cell, budget.where, where)


def _share(cooldown: Cooldown, model: Model, passes: int) -> int:
    """The least whole windows of tokens that `passes` traversals train for that long."""
    planned = cooldown.num_steps * model.tokens_per_step
    return -(-planned // (passes * model.context)) * model.context


def _length(cell: Cell) -> Hashable:
    trunk = cell.trunk
    return trunk.model.name, cell.budget, trunk.passes, trunk.unique_tokens


def _firsts(placed: Iterable[_Placed], key: Callable[[Cell], Hashable]) -> list[_Placed]:
    """The first cell of each key: a check of what many cells share runs once."""
    first: dict[Hashable, _Placed] = {}
    for each in placed:
        first.setdefault(key(each.cell), each)
    return list(first.values())


# -- checks ---------------------------------------------------------------------------------------


def _check_length(placed: _Placed, corpus: Recipe) -> None:
    cell = placed.cell
    if cell.cooldown.cooldown_steps < MIN_COOLDOWN_STEPS:
        raise ConfigRefusal(
            f"budget {cell.budget} of model {cell.trunk.model.name} is too short to cool down",
            expected=f"at least {MIN_COOLDOWN_STEPS} cool-down steps",
            seen=f"{cell.cooldown.cooldown_steps} of {cell.cooldown.num_steps} steps"
            f" of {cell.trunk.model.tokens_per_step} tokens",
            where=placed.budget,
        )
    usable = corpus.usable_tokens(cell.trunk.model.context)
    planned = cell.cooldown.num_steps * cell.trunk.model.tokens_per_step
    unique, passes = cell.trunk.unique_tokens or usable, cell.trunk.passes
    if unique > usable or planned > unique * passes:
        raise ConfigRefusal(
            f"budget {cell.budget} of model {cell.trunk.model.name} goes beyond corpus"
            f" {corpus.name}",
            expected=f"at most {usable} unique tokens and planned <= unique x passes",
            seen=f"planned {planned}, unique {unique}, passes {passes}",
            where=placed.budget,
            do="Lower the budget, take a larger corpus, or declare more passes.",
        )


def _check_groups(placed: _Placed) -> None:
    problem = group_problem(placed.cell.form, placed.cell.trunk.model)
    if problem:
        raise ConfigRefusal(problem, where=placed.form)


def _check_model(cell: Cell, corpus: Recipe, where: str) -> None:
    model, sequences = cell.trunk.model, cell.evaluation.sequences
    there = windowed(corpus.validation_tokens, model.context) // model.context
    if sequences > there:
        raise ConfigRefusal(
            f"the validation shard of corpus {corpus.name} is too short for the evaluation",
            expected=f"at most {there} sequences of {model.context} tokens (model {model.name})"
            f" in {corpus.validation_tokens} tokens",
            seen=sequences,
            where=where,
        )
    if model.vocab_size != corpus.vocabulary:
        raise ConfigRefusal(
            f"model {model.name} has another vocabulary than corpus {corpus.name}",
            expected=f"{corpus.vocabulary} ({corpus.tokeniser})",
            seen=model.vocab_size,
            where=where,
        )


def _unique(placed: Iterable[_Placed]) -> tuple[Cell, ...]:
    """Each cell once; an id means one spec, and a spec's work has one id."""
    by_id: dict[str, Cell] = {}
    by_work: dict[Hashable, str] = {}
    for cell, budget, form in placed:
        known = by_id.setdefault(cell.id, cell)
        if known is not cell and known != cell:
            raise ConfigRefusal(
                f"blocks {known.block} and {cell.block} mean different cells by {cell.id}",
                seen=" and ".join(_differences(known, cell)),
                where=form,
                do="Tell them apart, for example by a tag.",
            )
        same = by_work.setdefault((cell.trunk, cell.cooldown, cell.form), cell.id)
        if same != cell.id:
            raise ConfigRefusal(
                f"{cell.id} is the same work as {same}",
                seen=f"both train {cell.cooldown.num_steps} steps",
                where=budget,
            )
    return tuple(by_id.values())


def _differences(one: Cell, other: Cell) -> Iterator[str]:
    for cell in (one, other):
        different = (
            f"{part} {field}={value!r}"
            for part, field, value in _parts(cell)
            if (part, field, value) not in set(_parts(one)) & set(_parts(other))
        )
        yield ", ".join(different)


def _parts(cell: Cell) -> Iterator[tuple[str, str, object]]:
    yield "cell", "num_tokens", cell.num_tokens
    for part in ("trunk", "form"):
        owner = getattr(cell, part)
        for each in fields(owner):
            yield part, each.name, getattr(owner, each.name)
