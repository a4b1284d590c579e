"""The cells that a reader must not believe: reason, evidence and curve of each."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from quantgrid.archive.record import Record
from quantgrid.report import labels
from quantgrid.report.records import Grid, Measured
from quantgrid.verdicts import Word, word_of
from quantgrid.watch.observation import Point

WIDTH, HEIGHT = 360, 140
LEFT, RIGHT, TOP, BOTTOM = 30, 52, 8, 16
"""Room around the curves for their numbers and names, in the units of the drawing."""

LINE = 9
"""From one name to the next at least."""

Doubt = Mapping[str, Any]


def doubts(grid: Grid) -> list[Doubt]:
    """What the page says of every SUSPECT and INVALID cell, in plan order.

    A form that is doubted for its base alone is named with it, not shown with the same curve again.
    """
    doubted = [cell for cell in grid.cells if cell.verdict != Word.VALID]
    ids, forms = {cell.id for cell in doubted}, defaultdict(list)
    shown = []
    for cell in doubted:
        base = str(cell.base_record["cell"])
        if base != cell.id and base in ids and word_of(cell.record) == Word.VALID:
            forms[base].append(cell.variant)
        else:
            shown.append(cell)
    return [_doubt(cell, forms[cell.id]) for cell in shown]


def _doubt(cell: Measured, forms: Sequence[str]) -> Doubt:
    points = curve_of(cell.record) or curve_of(cell.base_record)
    return {
        "id": cell.id,
        "verdict": cell.verdict,
        "reason": cell.reason or "no reason was recorded",
        "by": _judges(cell),
        "forms": f"So are its forms: {', '.join(forms)}." if forms else "",
        "curve": drawn(points),
        "caption": f"{_passes(cell)}{_caption(points)}",
    }


def curve_of(record: Record) -> list[Point]:
    """The evaluations during the training of the record's own weights; empty when none were."""
    watched = record["weights"]["results"].get("watch") or {}
    return [Point(*each) for each in watched.get("curve", [])]


def drawn(points: Sequence[Point]) -> str:
    """Training and validation loss in nats per token over tokens as SVG; empty without two points.

    The SVG holds numbers and our own words: no text of a record gets into it.
    """
    shown = [point for point in points if point.is_finite]
    if len(shown) < 2:
        return ""
    losses = [loss for point in shown for loss in (point.train, point.validation)]
    low, high = min(losses), max(losses)
    last, span = shown[-1].tokens, max(high - low, 1e-9)
    edge, floor = WIDTH - RIGHT, HEIGHT - BOTTOM

    def height(value: float) -> float:
        return TOP + (floor - TOP) * (high - value) / span

    def line(name: str, values: Sequence[float]) -> str:
        places = " ".join(
            f"{LEFT + (edge - LEFT) * point.tokens / last:.1f},{height(value):.1f}"
            for point, value in zip(shown, values, strict=True)
        )
        return f'<polyline class="{name}" fill="none" points="{places}"/>'

    parts = [
        f'<path class="axis" fill="none" d="M{LEFT},{TOP}V{floor}H{edge}"/>',
        *(_text(LEFT - 3, height(value) + 3, f"{value:.2f}", "end") for value in (high, low)),
        _text(LEFT, HEIGHT - 4, "0", "start"),
        _text(edge, HEIGHT - 4, f"{labels.tokens(last)} tokens", "end"),
        line("train", [p.train for p in shown]),
        line("validation", [p.validation for p in shown]),
        *_names(edge, height(shown[-1].train), height(shown[-1].validation)),
    ]
    drawing = "".join(parts)
    return f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="presentation">{drawing}</svg>'


def _names(edge: float, train: float, validation: float) -> list[str]:
    """The name of each curve at its end, the one that ends higher above the other."""
    middle, apart = (train + validation) / 2, max(abs(train - validation), LINE) / 2
    sign = 1 if train >= validation else -1
    places = {"training": middle + sign * apart, "validation": middle - sign * apart}
    return [_text(edge + 4, place + 3, name, "start") for name, place in places.items()]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _passes(cell: Measured) -> str:
    """How often the same tokens were read, where that was more than once."""
    trunk = cell.record["spec"]["cell"]["trunk"]
    passes, unique = trunk.get("passes", 1), trunk.get("unique_tokens")
    if passes == 1:
        return ""
    bound = f" over {labels.grouped(unique)} unique tokens" if unique else ""
    return f"Trained with up to {passes} passes{bound}. "


def _caption(points: Sequence[Point]) -> str:
    shown = [point for point in points if point.is_finite]
    if not shown:
        return "No curve was recorded."
    best, last = min(shown, key=lambda point: point.validation), shown[-1]
    return (
        f"{len(shown)} evaluations while it trained. "
        f"Validation loss {labels.nats(last.validation)} at the end, "
        f"{labels.nats(best.validation)} at its best after {labels.tokens(best.tokens)} tokens; "
        f"training loss {labels.nats(last.train)} at the end."
    )


def _judges(cell: Measured) -> str:
    told = [r for r in (cell.record, cell.base_record) if word_of(r) != Word.VALID]
    return ", ".join(dict.fromkeys(map(_given_by, told)))


def _given_by(record: Record) -> str:
    verdict = record["verdict"]
    by = verdict.get("by", {}) if isinstance(verdict, Mapping) else {}
    return f"person {by['person']}" if "person" in by else f"judge version {by.get('judge', '?')}"
