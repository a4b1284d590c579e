"""The answers of `answers` in sentences; every word and number comes from the records."""

from collections.abc import Mapping, Sequence

from quantgrid.report.answers import TOLERANCE_NATS, Least, Onset
from quantgrid.report.labels import grouped, nats, tokens, width_label, with_error, z
from quantgrid.report.records import Grid, Measured
from quantgrid.report.stats import Z_THRESHOLD, Estimate, damage
from quantgrid.report.table import bytes_of, total_bytes

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
        return f"{name} is the only form; it loses {loses}."
    other = names[least.runner_up]
    proof = f"z {z(least.margin.z)}, {agreement(least.margin)}"
    if least.margin.holds:
        return (
            f"{name} loses least, {loses}: {with_error(least.margin)} less than {other} ({proof})."
        )
    return f"{name} and {other} cannot be told apart {at}; {name} loses {loses} ({proof})."


def onset_sentences(found: Sequence[Onset], names: Names) -> list[str]:
    """Forms together by the budget from which their damage grows."""
    by_start: dict[tuple[float, int], list[str]] = {}
    for onset in found:
        start = float("inf") if onset.num_tokens is None else onset.num_tokens
        by_start.setdefault((start, onset.largest_tokens), []).append(names[onset.variant])
    return [
        f"Not at all up to {tokens(last)} tokens: {listed(forms)}."
        if start == float("inf")
        else f"From {tokens(start)} tokens: {listed(forms)}."
        for (start, last), forms in sorted(by_start.items())
    ]


def smallest_sentence(cell: Measured | None, equals: int) -> str:
    """Bytes and damage of the smallest cell within the tolerance, without its name."""
    if cell is None:
        return f"No quantised cell is within {TOLERANCE_NATS:g} nats of its base."
    sentence = (
        f"{grouped(total_bytes(cell) or 0)} bytes{_share(cell)}, and {with_error(damage([cell]))} "
        "nats per token above its base."
    )
    if equals > 1:
        sentence += (
            f" {equals} cells within the tolerance have this size; this one has the lowest loss, "
            f"{nats(float(cell.losses.mean()))}."
        )
    return sentence


def _share(cell: Measured) -> str:
    """What part of its base's bytes a cell has, when both are recorded."""
    own, whole = total_bytes(cell), bytes_of(cell.base_record)
    return f", {own / whole:.0%} of the {grouped(whole)} of its base" if own and whole else ""


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
