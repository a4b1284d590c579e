"""What a run did, for the eye that looks at the end: made, restored, refused, cost, what is next.

One block for a run that is done, one that failed and one that was stopped; told from the plan that
it began with and from what lies here now, so that it is true whoever did the work.
"""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from quantgrid import common_jobs, failures, layout, ledger, terminal, wanted, wording
from quantgrid.common_jobs import CommonJob
from quantgrid.errors import FailureClass, QuantgridError
from quantgrid.failures import Failure
from quantgrid.plan import Plan, State
from quantgrid.rental.register import Register
from quantgrid.rental.spend import dollars
from quantgrid.select import AnyCell
from quantgrid.store import Store
from quantgrid.terminal import Event
from quantgrid.verdicts import Said, base_of, counting
from quantgrid.wanted import local_results

WIDTH = 80
_LABEL = 10
_MOST = 5
_LOG = "log: "

Rows = Mapping[tuple[str, str], Mapping[str, str]]


class Trouble(NamedTuple):
    """A failure that keeps cells of this run from their results.

    Args:
        failure: As it was written down.
        cells: The cells that have no result because of it.
        is_common: Whether what failed is no stage of a cell, but a job of Snakemake with a log: of
            the corpus, the table, the page, or one that brings a record here.
        is_mended: Whether what it asks for was done since.
    """

    failure: Failure
    cells: tuple[str, ...]
    is_common: bool = False
    is_mended: bool = False

    @property
    def word(self) -> str:
        """What it is called."""
        return failures.word(self.failure)


class Step(NamedTuple):
    """What a person does next.

    Args:
        remark: What it is for, or all of it.
        command: What is typed for that, which stands alone on its line to be copied.
    """

    remark: str
    command: str = ""


class Summary(NamedTuple):
    """How a run ended.

    Args:
        grid: Name of the grid.
        is_done: Whether everything that was asked for is there.
        was_stopped: Whether somebody asked it to stop.
        current: Cells whose result was there before.
        restored: Cells that the archive gave back.
        made: Cells that were computed.
        troubles: What keeps cells from their results, that of most cells first.
        left: Cells without result that no failure keeps.
        held: Cells that another controller computes.
        doubted: Cells whose verdict is not VALID, with it, of those that were made, restored or
            shown anew.
        cost: What it did cost, in words.
        has_page: Whether the page of the grid shows these results; a part of a grid makes none.
        has_failed: Whether a job failed, of a cell or of what all cells need.
        was_interrupted: Whether a job was asked to end, by whomever.
    """

    grid: str
    is_done: bool
    was_stopped: bool
    current: int
    restored: tuple[str, ...]
    made: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    left: tuple[str, ...]
    held: int
    doubted: tuple[tuple[str, str], ...]
    cost: str
    has_page: bool
    has_failed: bool = False
    was_interrupted: bool = False

    @property
    def outcome(self) -> str:
        """How it ended, in one word or two."""
        if self.is_done:
            return "done"
        is_failed = bool(self.troubles) or self.has_failed
        is_stopped = self.was_stopped or (self.was_interrupted and not is_failed)
        return "stopped" if is_stopped else "not done"


def of(plan: Plan, root: Path, store: Store, *, is_done: bool, is_rented: bool) -> Summary:
    """Look at what is here after a run.

    Args:
        plan: What the run began with.
        root: The working copy.
        store: That of the archive, which has the books of rented machines.
        is_done: What Snakemake says.
        is_rented: Whether the platform rents machines.
    """
    rows = ledger.read(root / layout.LEDGER)
    here, lacking = _split(plan, root, rows)
    by_state = {state: [c.id for c in here if plan.state(c) is state] for state in State}
    made = (*by_state[State.MAKE], *by_state[State.EVALUATE])
    restored = tuple(by_state[State.RESTORE])
    current = by_state[State.CURRENT]
    shown = (*made, *restored, *(current if terminal.was_noted(Event.SHOWN_ANEW) else ()))
    known = (_placed(each, root) for each in failures.all_of(root))
    is_asked = not (is_done or terminal.was_noted(Event.STOP))
    troubles = tuple(_troubles(plan, lacking, known, root))
    troubles += tuple(_untold(plan, lacking, troubles, root)) if is_asked else ()
    kept = {cell for trouble in troubles for cell in trouble.cells}
    return Summary(
        grid=plan.lineage.grid.name,
        is_done=is_done,
        was_stopped=terminal.was_noted(Event.STOP),
        current=len(current),
        restored=restored,
        made=made,
        troubles=troubles,
        left=tuple(cell.id for cell in lacking if cell.id not in kept),
        held=len(plan.elsewhere),
        doubted=tuple(_doubted(plan, rows, shown)),
        cost=_cost(plan, rows, made, store if is_rented else None),
        has_page=_is_page_current(plan, root),
        has_failed=terminal.was_noted(Event.FAILURE),
        was_interrupted=terminal.was_noted(Event.INTERRUPTION),
    )


def _split(plan: Plan, root: Path, rows: Rows) -> tuple[list[AnyCell], list[AnyCell]]:
    """The wanted cells whose result is here, and the others.

    A result that the ledger knows is here when its file is; where another one was in the way, the
    file itself is read.
    """
    in_the_way = [cell for cell in plan.wanted if plan.is_folded_over(cell)]
    read = local_results(root, in_the_way)
    here: list[AnyCell] = []
    lacking: list[AnyCell] = []
    for cell in plan.wanted:
        fingerprint = plan.lineage.cells[cell.id].fingerprint
        path = root / layout.RESULT.format(base=cell.base, variant=cell.variant)
        is_ours = read.get(cell.id, fingerprint) == fingerprint
        is_known = plan.state(cell) is State.CURRENT or (cell.id, fingerprint) in rows
        (here if is_ours and is_known and path.exists() else lacking).append(cell)
    return here, lacking


def _placed(failure: Failure, root: Path) -> Failure:
    """The failure with the place of its log as it is typed in the working copy."""
    return {**failure, "log": str(failure["log"] or "").removeprefix(f"{root}/")}


def _troubles(
    plan: Plan, lacking: Sequence[AnyCell], known: Iterable[Failure], root: Path
) -> Iterator[Trouble]:
    kept_by: dict[str, list[str]] = {}
    for cell in lacking:
        for fingerprint in plan.made_from(cell.id):
            kept_by.setdefault(fingerprint, []).append(cell.id)
    recipe = plan.lineage.grid.corpus
    found = [
        Trouble(each, cells, is_mended=common_jobs.is_mended(each, recipe, root))
        for each in known
        if (cells := tuple(kept_by.get(each["fingerprint"], ())))
    ]
    yield from sorted(found, key=lambda each: -len(each.cells))


def _common(plan: Plan, lacking: Sequence[AnyCell], root: Path) -> Iterator[Trouble]:
    """What failed before every cell, or after all of them; its log is there where it failed.

    A corpus can be made again for its own sake, while every cell is there.
    """
    grid = plan.lineage.grid
    before, after = common_jobs.before(grid.corpus), common_jobs.after(grid.name)
    found = common_jobs.last_error(root, before, *(() if lacking else (after,)))
    if found is None:
        return
    yield Trouble(_told(*found), tuple(cell.id for cell in lacking), is_common=True)


def _untold(
    plan: Plan, lacking: Sequence[AnyCell], troubles: Iterable[Trouble], root: Path
) -> Iterator[Trouble]:
    """What is no failure of a stage: records that could not be brought here, common jobs."""
    kept = {cell for trouble in troubles for cell in trouble.cells}
    yield from _unfolded((cell for cell in lacking if cell.id not in kept), root)
    yield from _common(plan, lacking, root)


def _unfolded(lacking: Iterable[AnyCell], root: Path) -> Iterator[Trouble]:
    """Cells whose record could not be brought here."""
    for cell in lacking:
        result = layout.RESULT.format(base=cell.base, variant=cell.variant)
        job = CommonJob(cell.id, "fold", result)
        if said := job.find_error(root):
            yield Trouble(_told(job, said), (cell.id,), is_common=True)


def _told(job: CommonJob, said: str) -> Failure:
    """What the log of a job says, as a failure."""
    return {
        "cell": job.owner,
        "stage": job.rule,
        "class": FailureClass.REFUSAL if said.startswith("refused:") else FailureClass.CODE,
        "message": said,
        "log": job.log,
        "is_remembered": False,
    }


def _is_page_current(plan: Plan, root: Path) -> bool:
    """Whether the page is of the table that is here, and that of the results that are here."""
    name = plan.lineage.grid.name
    page, table, laws = (
        root / each.format(grid=name) for each in (layout.PAGE, layout.TABLE, layout.LAWS)
    )
    if not wanted.is_page_of(page, table, laws):
        return False
    made = plan.lineage.cells
    cells = {cell.id: made[cell.id].fingerprint for cell in plan.lineage.grid.every}
    return wanted.is_table_of(table, cells, wanted.local_verdicts(root, cells))


def _doubted(plan: Plan, rows: Rows, cells: Iterable[str]) -> Iterator[tuple[str, str]]:
    def said_of(cell: str) -> Said | None:
        stage = plan.lineage.cells.get(cell)
        row = rows.get((cell, stage.fingerprint)) if stage else None
        return Said(row["verdict"]) if row else None

    for cell in cells:
        own, base = said_of(cell), base_of(cell)
        said = own and counting(own, said_of(base) if base != cell else None)
        if said and said.word in {"SUSPECT", "INVALID"}:
            yield cell, said.word


def _cost(plan: Plan, rows: Rows, made: Iterable[str], store: Store | None) -> str:
    """What machines did cost for the grid so far, or what records say that they did."""
    if store is not None:
        books, grid = Register(store).books(), plan.lineage.grid.name
        spent = sum(span.cost for span in books.spent() if span.grid == grid)
        owed = sum(span.cost for span in books.owed(time.time()) if span.grid == grid)
        more = f", and up to {dollars(owed)} for machines that still run" if owed else ""
        return f"{dollars(spent)} for machines of this grid so far{more}"
    keys = [(cell, plan.lineage.cells[cell].fingerprint) for cell in made]
    told = [float(rows[key]["cost_usd"]) for key in keys if rows[key]["cost_usd"]]
    return f"${sum(told):.2f} for what was made" if told else "nothing was rented"


# -- how it reads ---------------------------------------------------------------------------------


def lines(told: Summary, command: Sequence[str], width: int = WIDTH) -> list[str]:
    """The block, within `width` columns where ids and paths allow.

    Args:
        told: How it ended.
        command: What was typed: the same goes on.
        width: Of the terminal.
    """
    parts = [("summary", f"{told.grid}: {told.outcome}; {_counts(told)}")]
    when = ", before this run" if told.is_done else ""
    parts += [part for trouble in told.troubles[:_MOST] for part in _of_trouble(trouble, when)]
    if more := len(told.troubles) - _MOST:
        parts += [("", f"and {more} more: `quantgrid status`")] if more > 0 else []
    if told.held:
        parts.append(("held", f"{told.held} by another controller; the same command brings them"))
    parts += [(verdict.lower(), cell) for cell, verdict in told.doubted[:_MOST]]
    if (more := len(told.doubted) - _MOST) > 0:
        parts.append(("", f"and {more} more that no average contains: `quantgrid status`"))
    parts.append(("cost", told.cost))
    found = [line for label, text in parts for line in _wrapped(label, text, width)]
    found += _step_lines(list(_next(told, command)), width)
    again = f"{'again':<{_LABEL}}{shlex.join(command)}"  # never broken: it is copied
    return found if told.is_done else [*found, again]


def _counts(told: Summary) -> str:
    kept = {cell for trouble in told.troubles for cell in trouble.cells}
    counts = {
        "made": len(told.made),
        "restored": len(told.restored),
        "there before": told.current,
        "not asked for" if told.is_done else "still to do": len(kept | set(told.left)),
    }
    return (
        ", ".join(f"{number} {word}" for word, number in counts.items() if number)
        or "no cell has a result"
    )


def _of_trouble(trouble: Trouble, when: str) -> Iterator[tuple[str, str]]:
    failure = trouble.failure
    behind = len([cell for cell in trouble.cells if cell != failure["cell"]])
    wait = wording.agreeing(behind, "waits", "wait")
    waits = f" ({wording.counted(behind, 'cell')} {wait} for it)" if behind else ""
    yield trouble.word, f"{failure['cell']}, {failure['stage']}{waits}{when}"
    yield "", wording.clause(terminal.printable(str(failure["message"])))
    if failure["log"]:
        yield "", f"{_LOG}{failure['log']}"


def _next(told: Summary, command: Sequence[str]) -> Iterator[Step]:
    """What comes next, in its order; the same command once more stands below, as `again`."""
    if told.doubted:
        cell, verdict = told.doubted[0]
        yield Step(f"See why it is {verdict}:", f"quantgrid why {cell}")
    if told.is_done and told.has_page:
        yield Step(f"Look at {layout.PAGE.format(grid=told.grid)}")
    for trouble in told.troubles[:1]:
        yield from () if told.is_done else _mend(trouble, command)
        if trouble.failure["is_remembered"]:
            is_mended = trouble.is_mended
            when = "It was mended since:" if is_mended else "Once it is mended,"
            remark = f"{when} let it be tried again:"
            yield Step(remark, f"quantgrid retry {trouble.failure['cell']}")


def _mend(trouble: Trouble, command: Sequence[str]) -> Iterator[Step]:
    """What a failure asks for; a job of all cells has no story, and its log is named above."""
    failure = trouble.failure
    if not trouble.is_common:
        yield Step("See the whole of it:", f"quantgrid why {failure['cell']}")
    if trouble.is_mended:
        return
    if step := wording.next_step(terminal.printable(str(failure["message"]))):
        yield Step(*wording.with_command(wording.as_typed(step, command)))


def _step_lines(steps: Sequence[Step], width: int) -> Iterator[str]:
    """Steps below each other, numbered where there are several; commands are never broken."""
    label = "next"
    for number, step in enumerate(steps, 1):
        mark = f"{number}. " if len(steps) > 1 else ""
        rest = " " * len(mark)
        for line in wording.wrapped(step.remark, width - _LABEL, first=mark, rest=rest):
            yield f"{label:<{_LABEL}}{line}"
            label = ""
        if step.command:
            yield f"{label:<{_LABEL}}{rest}{step.command}"


def _wrapped(label: str, text: str, width: int) -> Iterator[str]:
    """A text beside its label; the place of a log stays whole, to be copied."""
    room = max(width - _LABEL, 20)
    is_place = text.startswith(_LOG)
    found = [text] if is_place else wording.wrapped(text, room)
    for line in found or [""]:
        yield f"{label:<{_LABEL}}{line}".rstrip()
        label = ""


def tell(plan: Plan, root: Path, store: Store, *, is_done: bool, is_rented: bool) -> None:
    """Say it last of all; what cannot be told must not hide how the run ended."""
    try:
        told = of(plan, root, store, is_done=is_done, is_rented=is_rented)
    except QuantgridError as error:
        print(f"no summary: {error}", file=sys.stderr)
        return
    block = lines(told, wording.call(sys.argv))
    if not terminal.conclude(block, [each.failure["cell"] for each in told.troubles]):
        print("\n".join(block), file=sys.stderr, flush=True)
