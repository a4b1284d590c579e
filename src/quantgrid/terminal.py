"""What a person sees while a grid is computed: pure functions from facts to lines of text.

No clock, no file, no terminal in here; `snakemake_logger_plugin_quantgrid` owns those.  Lines are
plain ASCII without colours, so that their length is their width.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

SENTENCES = ("refused:", "failed:", "alarm:", "checkpointed:", "interrupted:")
"""How a sentence of `quantgrid.errors` begins."""

STOPPED = ("checkpointed:", "interrupted:", "KeyboardInterrupt")
"""Words of a job that was stopped and goes on later: no failure."""

_GAP = "  "
_MIN_NAME = 12
_SPEED, _LOSS, _TIME, _STEPS = 4, 3, 5, 2
_FIRST_TO_GO = (_SPEED, _LOSS, _TIME, _STEPS)
"""Columns of a job's line in the order in which a narrow terminal loses them."""

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_REPORTED = re.compile(r"(\w+(?:Error|Exception))(?: in (?:file|rule) .*)?:$")
_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class Grid:
    """What the plan knows before a job starts: `current` of `cells` cells need no work."""

    name: str
    cells: int
    current: int


_announced: list[Grid] = []


def announce(grid: Grid) -> None:
    """Tell the display of this process which grid it shows; the last word counts."""
    _announced[:] = [grid]


def find_announced() -> Grid | None:
    """The grid that was announced, if one was."""
    return _announced[-1] if _announced else None


_noted: set["Event"] = set()
_concluding: list[str] = []
_concluded: set[str] = set()
_listeners: list[str] = []


class Event(Enum):
    """What counts for the last words of this process."""

    STOP = "somebody asked it to stop"
    FAILURE = "a job failed"
    INTERRUPTION = "a job was asked to end, by whomever"
    SHOWN_ANEW = "a job made the table or the page of a grid"


def note(event: Event) -> None:
    """Tell this process what happened in it."""
    _noted.add(event)


def was_noted(event: Event) -> bool:
    """Whether it happened in this process."""
    return event in _noted


def will_conclude() -> None:
    """A display of this process says the last words."""
    _listeners[:] = ["display"]


def conclude(lines: Sequence[str], owners: Iterable[str] = ()) -> bool:
    """Leave the last words of this process to its display; False when nobody would say them.

    Args:
        lines: The words.
        owners: Whose failures they tell, so that the display does not tell them once more.
    """
    _concluding[:] = lines
    _concluded.update(owners)
    return bool(_listeners)


def last_words() -> tuple[list[str], frozenset[str]]:
    """The words that were left to the display, once, and whose failures they tell."""
    told, owners = list(_concluding), frozenset(_concluded)
    _concluding.clear()
    _concluded.clear()
    return told, owners


@dataclass(frozen=True, slots=True)
class Reading:
    """What a progress file says; None where the script did not say."""

    stage: str | None = None
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    left_s: float | None = None
    probed_per_s: float | None = None


def find_reading(text: str) -> Reading | None:
    """Read a progress file as `quantgrid.cell.Progress` writes it; None when it is not one.

    Scripts in any language write these files, so a field of another type counts as not said.
    """
    try:
        facts = json.loads(text)
    except ValueError:
        return None
    if not isinstance(facts, dict):
        return None
    stage, step, steps = facts.get("stage"), _number(facts, "step"), _number(facts, "steps")
    return Reading(
        stage=printable(stage) if isinstance(stage, str) else None,
        step=None if step is None else int(step),
        steps=None if steps is None else int(steps),
        loss=_number(facts, "loss"),
        tokens_per_s=_number(facts, "tokens_per_s"),
        left_s=_number(facts, "left_s"),
        probed_per_s=_number(facts, "probed_per_s"),
    )


def _number(facts: Mapping[str, object], key: str) -> float | None:
    value = facts.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the DAG; `started_s` is on the monotonic clock."""

    id: int
    rule: str
    owner: str
    logs: tuple[str, ...]
    started_s: float
    reading: Reading = Reading()


def job_owner(rule: str, wildcards: Mapping[str, str]) -> str:
    """Whom a job works for, from its wildcards: a cell, a milestone, a corpus or a grid."""
    ids = [printable(value) for name, value in wildcards.items() if name != "fp"]
    is_bare_base = rule == "base" and "variant" not in wildcards
    return "/".join([*ids, "none"] if is_bare_base else ids)


@dataclass(frozen=True, slots=True)
class Overview:
    """How far the whole is; `left_s` is None while nobody can tell."""

    grid: str
    cells_done: int
    cells: int
    jobs_done: int
    jobs: int
    running: int
    failed: int
    elapsed_s: float
    left_s: float | None
    stopped: int = 0


# -- words ----------------------------------------------------------------------------------------


def clock_face(seconds: float) -> str:
    """`0:42`, `1:12`, `26:03:12`."""
    minutes, second = divmod(round(max(seconds, 0)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def short_time(seconds: float) -> str:
    """`2.1 s` below a minute, then `1:12`."""
    return f"{seconds:.1f} s" if seconds < 59.95 else clock_face(seconds)


def rate(per_s: float) -> str:
    """`950`, `38.1k`, `1.2M`."""
    if per_s < 999.5:
        return f"{per_s:.0f}"
    return f"{per_s / 1e3:.1f}k" if per_s < 999_950 else f"{per_s / 1e6:.1f}M"


def printable(text: str) -> str:
    """The text without colours and control characters, which would break the display."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def elide(text: str, width: int) -> str:
    """The text in at most `width` characters: its start and its end tell ids apart."""
    if len(text) <= width:
        return text
    head = (width - 2) // 2
    tail = width - 2 - head
    return f"{text[:head]}..{text[len(text) - tail :]}" if head > 0 else text[:width]


def fit(parts: Sequence[tuple[int, str]], width: int) -> str:
    """Join (rank, text) parts; those of the highest rank go first when the width is too small."""
    kept = [part for part in parts if part[1]]
    while len(kept) > 1 and len(_join(kept)) > width:
        kept.remove(max(kept, key=lambda part: part[0]))
    return _join(kept)[:width]


def _join(parts: Sequence[tuple[int, str]]) -> str:
    return _GAP.join(text for _, text in parts)


# -- lines ----------------------------------------------------------------------------------------


def overall_line(seen: Overview, width: int) -> str:
    """`demo  37/105 cells  61/242 jobs  2 running  1:12 elapsed  about 2:05 left`."""
    return fit(
        [
            (5, seen.grid),
            (0, f"{seen.cells_done}/{seen.cells} cells" if seen.cells else ""),
            (3, f"{seen.jobs_done}/{seen.jobs} jobs"),
            (6, f"{seen.running} running" if seen.running else ""),
            (1, f"{seen.failed} failed" if seen.failed else ""),
            (1, f"{seen.stopped} stopped" if seen.stopped else ""),
            (4, f"{clock_face(seen.elapsed_s)} elapsed"),
            (2, "" if seen.left_s is None else f"about {clock_face(seen.left_s)} left"),
        ],
        width,
    )


def job_lines(jobs: Sequence[Job], now_s: float, *, width: int, rows: int) -> list[str]:
    """One line a running job, in columns, at most `rows` lines of at most `width` characters."""
    shown = jobs if len(jobs) <= rows else jobs[: max(rows - 1, 0)]
    lines = _aligned(_fitting_table(shown, now_s, width))
    if len(shown) < len(jobs) and rows > 0:
        lines.append(f"{_GAP}and {len(jobs) - len(shown)} more")
    return [line[:width] for line in lines]


def _fitting_table(jobs: Sequence[Job], now_s: float, width: int) -> list[list[str]]:
    """Shorter words first, then shorter names, then fewer columns, until the width is enough."""
    table = [_columns(job, now_s, terse=False) for job in jobs]
    if _table_width(table) > width:
        table = [_columns(job, now_s, terse=True) for job in jobs]
    for column in (None, *_FIRST_TO_GO):
        if column is not None:
            table = [[*row[:column], "", *row[column + 1 :]] for row in table]
        longest = max((len(row[0]) for row in table), default=0)
        room = longest - max(_table_width(table) - width, 0)
        if room >= min(longest, _MIN_NAME):
            return [[elide(row[0], room), *row[1:]] for row in table]
    return [[elide(row[0], _MIN_NAME), *row[1:]] for row in table]


def _columns(job: Job, now_s: float, *, terse: bool) -> list[str]:
    said = job.reading
    left = "" if terse else " left"
    time = f"{clock_face(now_s - job.started_s)} so far"
    return [
        job.owner,
        said.stage or job.rule,
        _steps(said),
        _loss(said),
        _short_speed(said) if terse else _long_speed(said),
        time if said.left_s is None else f"{clock_face(said.left_s)}{left}",
    ]


def _table_width(table: Sequence[Sequence[str]]) -> int:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return sum(len(_GAP) + width for width in widths if width)


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["".join(_padded(i, row[i], w) for i, w in enumerate(widths)).rstrip() for row in table]


def _padded(column: int, text: str, width: int) -> str:
    """Words to the left, numbers to the right; an empty column takes no room."""
    if not width:
        return ""
    return _GAP + (text.ljust(width) if column < 2 else text.rjust(width))


def _steps(said: Reading) -> str:
    """`  9/391`: as wide at its start as at its end."""
    if said.step is None or said.steps is None:
        return "" if said.step is None else str(said.step)
    return f"{said.step:>{len(str(said.steps))}}/{said.steps}"


def _loss(said: Reading) -> str:
    return "" if said.loss is None else f"loss {said.loss:.2f}"


def _speed(said: Reading) -> str:
    return "" if said.tokens_per_s is None else f"{rate(said.tokens_per_s)} tok/s"


def _short_speed(said: Reading) -> str:
    return "" if said.tokens_per_s is None else f"{rate(said.tokens_per_s)}/s"


def _long_speed(said: Reading) -> str:
    """`38.1k tok/s, 93% of its probe`, where one was measured."""
    if said.tokens_per_s is None or not said.probed_per_s:
        return _speed(said)
    return f"{_speed(said)}, {said.tokens_per_s / said.probed_per_s:.0%} of its probe"


def scroll_line(job: Job, seconds: float, width: int) -> str:
    """`n0-t800k-s0/rtn-w3g32-noclip  quantise  2.1 s`: a job that is over, in a terminal."""
    said = [(3, _loss(job.reading)), (4, _speed(job.reading))]
    column = 38 if width >= 88 else 30
    wide = [(0, job.owner.ljust(column)), (1, job.rule.ljust(8)), (2, short_time(seconds)), *said]
    line = _join([part for part in wide if part[1]])
    if len(line) <= width:
        return line
    return fit([(0, job.owner), (1, job.rule), (2, short_time(seconds)), *said], width)


def counted_line(counts: tuple[int, int], word: str, job: Job, *facts: str) -> str:
    """`[ 61/242] done  base n0-t100k-s0/none  3.2 s`: a line of a log that is searched."""
    done, total = counts
    head = f"[{done:>{len(str(total))}}/{total}] {word:<5}"
    return _GAP.join([f"{head} {job.rule} {job.owner}".rstrip(), *filter(None, facts)])


def spoken(reading: Reading) -> tuple[str, str]:
    """Loss and speed in words, empty where the script did not say."""
    return _loss(reading), _speed(reading)


# -- errors ---------------------------------------------------------------------------------------


def find_error_sentence(tail: str) -> str | None:
    """What went wrong, from the end of a job's log.

    The last sentence of `quantgrid.errors`, else the `Type: message` of the last traceback, else
    the last words of whatever it was.
    """
    lines = [printable(line).rstrip() for line in tail.splitlines()]
    sentences = [line.strip() for line in lines if line.lstrip().startswith(SENTENCES)]
    if sentences:
        return sentences[-1]
    last = next((line.strip() for line in reversed(lines) if line), None)
    return _find_raised(lines) or _find_reported(lines) or last


def _find_reported(lines: Sequence[str]) -> str | None:
    """`KeyError in file "Snakefile", line 3:` and its message, as Snakemake reports an error."""
    for line, message in pairwise(lines):
        if kind := _REPORTED.match(line):
            return f"{kind[1]}: {message.strip()}"
    return None


def _find_raised(lines: Sequence[str]) -> str | None:
    starts = [index for index, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if not starts:
        return None
    raised = next((x for x in lines[starts[-1] + 1 :] if x and not x.startswith(" ")), None)
    if raised is None:
        return None
    _, _, message = raised.partition(": ")
    return message if message.startswith(SENTENCES) else raised
