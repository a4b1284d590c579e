"""Compares what sentences claim with what is known: false claims, and sentences to look at.

A sentence with a reference and without a word of absence claims that the result exists; with one
it claims that it does not.  `docs/formats/claims.md` has the words.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quantgrid.claims.document import CELL, Reference, Sentence
from quantgrid.claims.known import Known, Run
from quantgrid.wording import counted

_DONE = r"(?:run|ran|done|started|trained|computed|quantised|evaluated|finished|made|complete[d]?)"
ABSENT = re.compile(
    rf"\b(?:never|nothing|not|wasn't|weren't|isn't|aren't|hasn't|haven't)\b[^.;:]{{0,24}}?\b{_DONE}\b"
    r"|\b(?:is|are|still|yet|was|were)\s+missing\b|\bmissing\s+cells?\b|\bnever\s+run\b"
    r"|\b(?:no|without)\s+(?:a\s+)?results?\b|\b(?:pending|unfinished|outstanding|TODO|TBD)\b"
    r"|\bto\s+be\s+run\b|\bremains?\s+to\b",
    re.IGNORECASE,
)
_NOT_YET = re.compile(
    r"\b(?:none|nobody|no\s+one)\b[^.;:]{0,40}?\b(?:run|ran|done|trained|computed|made)\b"
    r"|\b(?:needs?|plans?|waits?|yet|still)\s+to\s+(?:be\s+)?(?:run|train|compute|make)\b"
    r"|\bdid(?:\s+not|n't)\s+(?:finish|run|start|complete)\b"
    r"|\b(?:will|shall)\s+be\s+(?:run|trained|computed|made)\b|\babsent\b|\bawaits?\b",
    re.IGNORECASE,
)
"""Words that say so as well, often enough for a look: of a sentence with a reference they prove
nothing, for it may speak of another time."""

_PLACE = re.compile(r"\s+on\s+(?:the\s+)?([\w-]+)")
"""Where something was not run: it may have been elsewhere."""

_WHOLE = re.compile(r"\b(?:is|are|was|were)\s+(?:now\s+)?(?:complete[d]?|finished|done)\b", re.I)
_DIGITS = 6
"""Of losses in the table of a grid."""
_SHARE = re.compile(r"\b(\d[\d,]*)\s+of\s+(?:all\s+|the\s+|its\s+)?(\d[\d,]*)\s+cells\b")
_WORD = re.compile(r"[\w./-]+")


class Finding(NamedTuple):
    """Something about one line of a document.

    Args:
        line: From 1.
        is_false: Whether the ledger or the archive contradicts it; else somebody should look.
        says: What the document says.
        evidence: What is known, and where it stands.
    """

    line: int
    is_false: bool
    says: str
    evidence: str

    def text(self, document: str) -> str:
        """One line for a person."""
        word = "false" if self.is_false else "look"
        return f"{document}:{self.line}: {word}: {self.says}; {self.evidence}"


def false(line: int, says: str, evidence: str) -> Finding:
    """A claim that what is known contradicts."""
    return Finding(line, is_false=True, says=says, evidence=evidence)


def _look(line: int, says: str, evidence: str) -> Finding:
    return Finding(line, is_false=False, says=says, evidence=evidence)


Results = Mapping[str, object]
"""Numbers of a record by name."""


def check(sentence: Sentence, known: Known, results: "Reader") -> Iterator[Finding]:
    """What is false or doubtful about one sentence."""
    absent = ABSENT.search(sentence.text)
    is_absent, everywhere = absent is not None, known
    if absent and (place := _PLACE.match(sentence.text, absent.end())):
        known = known.on(place[1].lower()) if place[1].lower() in known.platforms else known
    for reference in sentence.references:
        if reference.kind == CELL:
            yield from _cell(reference, is_absent, known)
            yield from _facts(reference, everywhere, results)
        else:
            yield from _grid(reference, sentence, is_absent, known)
    if is_absent or _NOT_YET.search(sentence.text):
        yield from _prose(sentence, known)


class Reader:
    """Reads the numbers of a record; the base reads none."""

    def results(self, run: Run) -> Results:
        """The results of a run, with its loss."""
        raise NotImplementedError


def _cell(reference: Reference, is_absent: bool, known: Known) -> Iterator[Finding]:  # noqa: FBT001
    run = known.newest(reference.name)
    if is_absent and run:
        says = f"says that {reference.name} was not run"
        yield false(reference.line, says, run.evidence())
    elif not is_absent and run is None:
        yield false(reference.line, f"refers to {reference.name}", _nothing(known))
    elif not is_absent and run:
        meant = known.meant(reference.name)
        if meant and all(each.fingerprint != meant for each in known.runs[reference.name]):
            says = f"refers to {reference.name}"
            evidence = f"{run.evidence()}, and the grid means another result by it now"
            yield _look(reference.line, says, evidence)


def _nothing(known: Known) -> str:
    places = "the ledger and the archive have" if known.is_archive_read else "the ledger has"
    return f"{places} no result of it"


def _facts(reference: Reference, known: Known, reader: Reader) -> Iterator[Finding]:
    run = known.newest(reference.name)
    if run is None:
        return
    seen = {"verdict": run.verdict, "where": run.where, "when": run.when}
    for name, said in reference.facts:
        value = seen[name] if name in seen else reader.results(run).get(name)
        says = f"says {name}={said} of {reference.name}"
        if value in {None, ""}:
            yield _look(reference.line, says, f"nothing is known of its {name}")
        elif not _agrees(said, value):
            yield false(reference.line, says, f"it is {shown(value, said)} ({run.evidence()})")


def shown(value: object, said: str) -> str:
    """A number with as many digits as the table has, or as were written where those are more."""
    digits = max(_DIGITS, len(said.partition(".")[2]))
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def _agrees(said: str, value: object) -> bool:
    """Whether a value, rounded to as many digits as were written, is what was written."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return said == str(value)
    try:
        return float(said) == float(f"{value:.{len(said.partition('.')[2])}f}")
    except ValueError:
        return False


def _grid(
    reference: Reference,
    sentence: Sentence,
    is_absent: bool,  # noqa: FBT001
    known: Known,
) -> Iterator[Finding]:
    if reference.name not in known.grids:
        evidence = "config/grids has no grid of that name"
        yield false(reference.line, f"refers to grid {reference.name}", evidence)
        return
    cells = known.grids[reference.name]
    runs = {cell: run for cell in cells if (run := known.current(reference.name, cell))}
    evidence = _share(len(cells), list(runs.values()))
    share = _SHARE.search(sentence.text)
    said = tuple(int(each.replace(",", "")) for each in share.groups()) if share else None
    if said and said != (len(runs), len(cells)):
        says = f"says {said[0]} of {counted(said[1], 'cell')} of grid {reference.name}"
        yield false(reference.line, says, evidence)
    elif not said and is_absent and runs:
        says = f"says that grid {reference.name} was not run"
        yield false(reference.line, says, evidence)
    elif not said and not is_absent and _WHOLE.search(sentence.text) and len(runs) < len(cells):
        says = f"says that grid {reference.name} is complete"
        yield false(reference.line, says, evidence)


def _share(size: int, runs: list[Run]) -> str:
    folded = sum(run.line > 0 for run in runs)
    only = len(runs) - folded
    return (
        f"of its {counted(size, 'cell')} {folded} are in the ledger and {only} in the archive only"
    )


def _prose(sentence: Sentence, known: Known) -> Iterator[Finding]:
    """Words of absence beside the name of a cell or grid that was run, without a reference."""
    explicit = {reference.name for reference in sentence.references}
    for word in dict.fromkeys(_WORD.findall(sentence.text)):
        name = word.strip("./")
        if name in explicit:
            continue
        if run := known.newest(name):
            says = f"seems to say that {name} was not run"
            yield _look(sentence.line, says, run.evidence())
        elif cells := known.grids.get(name):
            runs = [run for cell in cells if (run := known.current(name, cell))]
            if runs:
                says = f"seems to say that grid {name} was not run"
                yield _look(sentence.line, says, _share(len(cells), runs))
