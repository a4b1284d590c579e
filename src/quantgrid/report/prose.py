"""The answers of `answers` in sentences; every word and number comes from the records."""

from collections.abc import Mapping, Sequence

from quantgrid.report.answers import (
    TOLERANCE_NATS,
    Choice,
    Inversion,
    Least,
    Onset,
    cells_at,
    find_smallest,
    last_fit,
)
from quantgrid.report.labels import grouped, nats, tokens, width_label, with_error, z
from quantgrid.report.records import Grid, Measured
from quantgrid.report.stats import Z_THRESHOLD, Estimate, damage
from quantgrid.report.table import bytes_of
from quantgrid.wording import agreeing, counted

Names = Mapping[str, str]


def least_sentences(found: Sequence[Least], grid: Grid, names: Names) -> list[str]:
    """One sentence a bit width."""
    forms = grid.forms()
    return [
        f"{_capital(width_label(forms[least.variant]))}: {_least(least, names)}" for least in found
    ]


def _least(least: Least, names: Names) -> str:
    name, at = names[least.variant], f"at {tokens(least.num_tokens)} tokens"
    loses = f"{with_error(least.damage)} nats per token {at}"
    if least.runner_up is None or least.margin is None:
        return f"{name} is the only form of this width; it loses {loses}."
    other = names[least.runner_up]
    proof = f"z {z(least.margin.z)}, {agreement(least.margin)}"
    if least.margin.holds:
        return (
            f"{name} loses least, {loses}: {with_error(least.margin)} less than {other} ({proof})."
        )
    return f"{name} and {other} cannot be told apart {at}; {name} loses {loses} ({proof})."


def onset_sentences(found: Sequence[Onset], names: Names) -> list[str]:
    """Forms of one start and course together, then what the smallest budget hides."""
    alike: dict[str, list[str]] = {}
    for onset in sorted(found, key=lambda each: each.num_tokens or float("inf")):
        alike.setdefault(_course(onset), []).append(names[onset.variant])
    sentences = [f"{course}: {listed(forms)}." for course, forms in alike.items()]
    return sentences + _earlier(found)


def _course(onset: Onset) -> str:
    """Where damage starts to grow and what it does up to the largest budget."""
    last = tokens(onset.largest_tokens)
    start = f"Not at all up to {last} tokens"
    if onset.num_tokens is not None:
        start = f"From {tokens(onset.num_tokens)} tokens"
    if onset.course == "grows":
        return f"{start}, and still growing at {last}" if onset.num_tokens else start
    if onset.course == "falls" and onset.fall is not None:
        return (
            f"{start}; highest at {tokens(onset.highest_tokens)}, {with_error(onset.highest)}, "
            f"then falling to {with_error(onset.largest)} at {last} "
            f"({with_error(onset.fall)} lower, z {z(onset.fall.z)}, {agreement(onset.fall)})"
        )
    return f"{start}; at {last} neither growth nor fall can be told" if onset.num_tokens else start


def _earlier(found: Sequence[Onset]) -> list[str]:
    """Whose start may lie before the second budget, if anybody's."""
    hidden = sorted({(o.smallest_tokens, o.num_tokens or 0) for o in found if o.is_earliest})
    return [
        f"{tokens(second)} is the second budget of the grid and {tokens(first)} the smallest: "
        f"what starts there may start earlier, which the grid cannot show."
        for first, second in hidden
    ]


def course_cell(onset: Onset) -> str:
    """The course of a form in a few words."""
    if onset.course == "grows":
        return f"still growing at {tokens(onset.largest_tokens)}"
    if onset.fall is None:
        return f"highest at {tokens(onset.largest_tokens)}, its last step not told from zero"
    lower = f"{with_error(onset.fall)} lower at {tokens(onset.largest_tokens)}"
    doubt = "" if onset.course == "falls" else ", not told from zero"
    return f"highest at {tokens(onset.highest_tokens)}, {lower} (z {z(onset.fall.z)}){doubt}"


def inversion_sentences(found: Sequence[Inversion], names: Names) -> list[str]:
    """Which form of fewer bits beats which of more, where, and by how much at best."""
    return [_inversion(each, names) for each in found]


def _inversion(each: Inversion, names: Names) -> str:
    where = listed([tokens(num_tokens) for num_tokens in each.budgets])
    most = f"; most at {tokens(each.num_tokens)}, by" if len(each.budgets) > 1 else ", by"
    return (
        f"{names[each.fewer]} loses less than {names[each.more]} at {where} tokens{most} "
        f"{with_error(each.margin)} (z {z(each.margin.z)}, {agreement(each.margin)})."
    )


def smallest_sentences(choice: Choice | None, grid: Grid, names: Names) -> list[str]:
    """The smallest cell within the tolerance, how it was chosen, and how far its form carries."""
    if choice is None:
        return [f"No quantised cell is within {TOLERANCE_NATS:g} nats of its base."]
    cell, many = choice.cell, len(choice.equals)
    one = f"{cell.id}, {with_error(damage([cell]))} nats per token above its base"
    size = f"{grouped(choice.size_bytes)} bytes{_share(choice)}"
    if many == 1:
        return [f"{size}: {one}.", _reach(cell, grid, names)]
    return [
        f"{counted(many, 'cell')} within {TOLERANCE_NATS:g} nats share the smallest size, {size}. "
        f"Of those the one with the lowest loss, {nats(float(cell.losses.mean()))}, is {one}. (The "
        "lowest loss favours more tokens; the table has the choice at each budget.)",
        _reach(cell, grid, names),
    ]


def _reach(cell: Measured, grid: Grid, names: Names) -> str:
    """The largest budget at which the form is within the tolerance, and the choice at the last."""
    fit = last_fit(grid, cell)
    last = grid.budgets(cell.family)[-1]
    at = fit[0].num_tokens
    seeds = len(grid.seeds_of(cell.family, at, cell.variant))
    if at == last:
        kept = f"{len(fit)} of {seeds} seeds" if seeds > 1 else "the one seed"
        return (
            f"At {tokens(last)} tokens, the largest budget, {kept} of {names[cell.variant]} "
            f"{agreeing(len(fit), 'is', 'are')} within {TOLERANCE_NATS:g} nats."
        )
    sentence = (
        f"{tokens(at)} tokens is the largest budget at which {names[cell.variant]} is within "
        f"{TOLERANCE_NATS:g} nats ({len(fit)} of {seeds} seeds)"
    )
    end = find_smallest(cells_at(grid, cell.family, last))
    if end is None:
        return f"{sentence}; at {tokens(last)}, the largest of the grid, no form is."
    return (
        f"{sentence}; at {tokens(last)}, the largest of the grid, the smallest is seed "
        f"{end.cell.seed} of {names[end.cell.variant]}: {grouped(end.size_bytes)} bytes, "
        f"{with_error(damage([end.cell]))} above its base."
    )


def _share(choice: Choice) -> str:
    """What part of its base's bytes a cell has, when both are recorded."""
    whole = bytes_of(choice.cell.base_record)
    part = whole and f", {choice.size_bytes / whole:.0%} of the {grouped(whole)} of its base"
    return part or ""


def agreement(value: Estimate) -> str:
    """How many seeds point the same way."""
    count = len(value.by_seed)
    if count == 1:
        return "one seed"
    if value.num_agreeing == count:
        return f"all {count} seeds agree"
    return f"{value.num_agreeing} of {count} seeds agree"


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def threshold() -> str:
    """How a difference becomes a claim."""
    return f"z\N{NO-BREAK SPACE}>\N{NO-BREAK SPACE}{Z_THRESHOLD:g}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
