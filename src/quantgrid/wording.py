"""Numbers and sentences as a person says them: `1 cell`, `2 cells`; nothing but words."""

import re

_WORD = re.compile(r"(?:refused|failed|alarm|checkpointed|interrupted): ")
_REST = re.compile(r"; (?:expected|seen) | \((?=.*\)\.(?:\s|$))|\.(?:\s|$)")
"""Where the first clause of a sentence of `quantgrid.errors` ends: numbers, place, or full stop."""

_STOP = re.compile(r"\.\s+(?=[A-Z`])")


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 cell`, `1008 cells`; the plural is told where `s` is not it."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def agreeing(number: int, one: str, many: str) -> str:
    """The word that belongs to a number: `waits` for one, `wait` for many."""
    return one if number == 1 else many


def clause(sentence: str) -> str:
    """What was refused or what failed: a sentence of ours without its word and all that follows.

    Any other text comes back whole, without its last full stop.
    """
    word = _WORD.match(sentence)
    if word is None:
        return sentence.strip().rstrip(".")
    told = sentence[word.end() :]
    rest = _REST.search(told)
    return told[: rest.start()] if rest else told


def next_step(sentence: str) -> str:
    """What a sentence of ours tells a person to do; empty when it tells nothing."""
    stop = _STOP.search(sentence) if _WORD.match(sentence) else None
    return sentence[stop.end() :].strip() if stop else ""
