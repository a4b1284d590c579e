"""Numbers and sentences as a person says them: `1 cell`, `2 cells`; nothing but words."""

import re
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from itertools import takewhile

_WORD = re.compile(r"(?:refused|failed|alarm|checkpointed|interrupted): ")
_REST = re.compile(r"; (?:expected|seen) | \((?=.*\)\.(?:\s|$))|\.(?:\s|$)|(?<=\?)\s")
"""Where the first clause of a sentence of `quantgrid.errors` ends: numbers, place, or its stop."""

_COMMAND = re.compile(r"`[^`]*`")
_KEPT = "\0"
"""Stands for a blank inside a command while lines are broken."""

_STOP = re.compile(r"(?:\.|(?<=\?))\s+(?=[A-Z`])")
_GENERAL = re.compile(r"`snakemake --profile local ([^`]*)`")
_TYPED = re.compile(r"([^`]+:) `([^`]+)`\.?")
"""A step that ends with the one command that it is for."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 cell`, `1008 cells`; the plural is told where `s` is not it."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def agreeing(number: int, one: str, many: str) -> str:
    """The word that belongs to a number: `waits` for one, `wait` for many."""
    return one if number == 1 else many


def meant(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'demo'?` for a misspelt name; empty when none that is known is close."""
    from difflib import get_close_matches  # only who errs pays for it

    near = get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def first_word(sentence: str) -> str:
    """`refused`, `failed` and so on, as which a sentence of ours begins; empty for other texts."""
    word = _WORD.match(sentence)
    return word[0].removesuffix(": ") if word else ""


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


def with_command(step: str) -> tuple[str, str]:
    """A step and the command that it leads to: `Make it again:`, and what is typed for that.

    Any other step comes back whole, with no command.
    """
    found = _TYPED.fullmatch(step)
    return (found[1], found[2]) if found else (step, "")


def as_typed(text: str, command: Sequence[str]) -> str:
    """A text whose commands of Snakemake have the profile and the settings of a call.

    Messages know neither grid nor platform: `snakemake --profile local corpus`, copied from one,
    would make the corpus of the configured grid, here.

    Args:
        text: What is told, with commands in backticks.
        command: What was typed for the call.
    """
    profile = _option("--profile", command)[:2] or ["--profile", "local"]
    settings = _option("--config", command)

    def typed(found: re.Match[str]) -> str:
        more = [] if "--config" in found[1] else settings  # only the last one would count
        words = (shlex.join(["snakemake", *profile]), found[1], shlex.join(more))
        return f"`{' '.join(filter(None, words))}`"

    return _GENERAL.sub(typed, text)


def call(arguments: Sequence[str]) -> list[str]:
    """What a person typed to start a process, from its arguments."""
    program = arguments[0].rpartition("/")[2]
    return ["snakemake" if program.endswith(".py") else program, *arguments[1:]]


def profiles(command: Sequence[str]) -> list[str]:
    """The profiles that a call of Snakemake names, as they are typed; the last option counts."""
    places = [at for at, word in enumerate(command) if word.partition("=")[0] == "--profile"]
    given = _option("--profile", command[places[-1] :]) if places else []
    return [word.removeprefix("--profile=") for word in given if word != "--profile"]


def _option(name: str, command: Sequence[str]) -> list[str]:
    """An option of a command with its values; empty when it was not given."""
    if name not in command:
        return [word for word in command if word.startswith(f"{name}=")]
    given = command[command.index(name) + 1 :]
    return [name, *takewhile(lambda word: not word.startswith("-"), given)]


def wrapped(text: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Lines of a text within a width; ids, paths and commands in backticks are never broken.

    Args:
        text: What is told.
        width: In columns.
        first: What the first line begins with.
        rest: What every other line begins with.
    """
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", _KEPT), text)
    lines = textwrap.wrap(
        whole,
        max(width, 20),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEPT, " ") for line in lines]
