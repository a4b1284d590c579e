"""Numbers agree with their nouns, and sentences of ours are taken apart where they were joined."""

import re
from pathlib import Path

import pytest

from quantgrid.errors import Alarm, CorpusRefusal, DataFault, QuantgridError, Refusal
from quantgrid.wording import (
    agreeing,
    as_typed,
    call,
    clause,
    counted,
    first_word,
    next_step,
    profiles,
    with_command,
    wrapped,
)

_BARE = re.compile(
    r"\{[^{}]*\} (?:cells|jobs|leases|records|receipts|machines|links|failures|documents|texts)\b"
)
_SHARES = re.compile(r"\} of \{|\{said\[|_done\}|:,\}|Only |LEASES|seen\.cells")
"""Numbers that are a share of others, limits, or stand in a column of counts."""


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 cells wait"), (1, "1 cell waits"), (1008, "1008 cells wait")]
)
def test_noun_and_verb_agree_with_their_number(number: int, told: str) -> None:
    """Nobody reads that one cell wait."""
    assert f"{counted(number, 'cell')} {agreeing(number, 'waits', 'wait')}" == told


def test_plural_is_told_when_it_is_not_made_with_s() -> None:
    """Of a noun that changes otherwise."""
    assert [counted(number, "loss", "losses") for number in (1, 2)] == ["1 loss", "2 losses"]


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("snakemake -n", []),
        ("snakemake --profile local lab -n a.json", ["local", "lab"]),
        ("snakemake --profile=local -n", ["local"]),
        ("snakemake --profile local -n --profile lab", ["lab"]),
    ],
)
def test_profiles_are_those_that_snakemake_takes(typed: str, named: list[str]) -> None:
    """Of several options the last one counts, as for Snakemake."""
    assert profiles(typed.split()) == named


@pytest.mark.parametrize("kind", [Refusal, CorpusRefusal, DataFault, Alarm])
@pytest.mark.parametrize("where", [None, "volume/corpora/a.b (old)", Path("/x/shard-00000.bin")])
@pytest.mark.parametrize("numbers", [{}, {"expected": "8 files; all", "seen": "7 (of 8)"}])
def test_sentence_gives_its_clause_and_its_next_step(
    kind: type[QuantgridError], where: object, numbers: dict[str, str]
) -> None:
    """Whatever its parts hold, the first clause comes back alone."""
    do = "Make it again: `snakemake corpus`.  Or look elsewhere."
    said = str(kind("the shard v1.2 is short", where=where, do=do, **numbers))

    assert clause(said) == "the shard v1.2 is short"
    assert next_step(said) == do
    assert next_step(str(kind("short", where=where))) == ""


def test_question_ends_a_clause_like_a_full_stop() -> None:
    """`did you mean 'x'?` is followed by its step and by no stop."""
    said = str(Refusal("no cell y, did you mean 'x'?", do="`quantgrid cells` lists them."))

    assert said == "refused: no cell y, did you mean 'x'? `quantgrid cells` lists them."
    assert clause(said) == "no cell y, did you mean 'x'?"
    assert next_step(said) == "`quantgrid cells` lists them."


def test_text_that_is_no_sentence_of_ours_stays_whole() -> None:
    """The words of a traceback are nobody's clause, and ask for nothing."""
    assert clause("KeyError: 'lost (a). B'.") == "KeyError: 'lost (a). B'"
    assert next_step("ValueError: no. Such scale") == ""


@pytest.mark.parametrize(
    ("step", "parts"),
    [
        ("Make it again: `a b`.", ("Make it again:", "a b")),
        ("Make it again: `a b`", ("Make it again:", "a b")),
        ("Set `x` to it: `a b`.", ("Set `x` to it: `a b`.", "")),
        ("Make it again: `a b`, or `c`.", ("Make it again: `a b`, or `c`.", "")),
        ("Run `a b`.", ("Run `a b`.", "")),
    ],
)
def test_step_that_ends_in_its_one_command_gives_it(step: str, parts: tuple[str, str]) -> None:
    """What is typed is told alone only where the step is nothing else."""
    assert with_command(step) == parts


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("", "local corpus -R x"),
        ("--profile lab results/a.json", "lab corpus -R x"),
        ("--profile lab --config=grid=laws", "lab corpus -R x --config=grid=laws"),
        ("--config grid=laws a=1 -c 2", "local corpus -R x --config grid=laws a=1"),
    ],
)
def test_commands_of_messages_get_the_settings_of_a_call(typed: str, given: str) -> None:
    """They know neither grid nor platform; all that is no command of Snakemake stays."""
    said = 'Make it: `snakemake --profile {}`, or `quantgrid stop` "it\'s".'

    told = as_typed(said.format("local corpus -R x"), ["snakemake", *typed.split()])

    assert told == said.format(given)


def test_command_that_has_settings_keeps_them() -> None:
    """Snakemake takes the last `--config` alone."""
    said = "`snakemake --profile local a.json --config grid=mine`"
    assert as_typed(said, ["--config", "grid=laws"]) == said


def test_call_is_told_as_a_person_types_it() -> None:
    """Not with the place of a program."""
    assert call(["/a/bin/snakemake", "-n"]) == ["snakemake", "-n"]
    assert call(["/a/snakemake/__main__.py", "-n"]) == ["snakemake", "-n"]


def test_sentence_gives_the_word_that_it_begins_with() -> None:
    """For a label, which then has it in its place."""
    assert first_word("refused: a shard is short.") == "refused"
    assert first_word("ValueError: refused: x") == ""


def test_command_is_never_broken_when_lines_are() -> None:
    """It is copied; what stands around it wraps between words."""
    command = "`snakemake --profile local corpus --forcerun prepare`"

    lines = wrapped(f"Make the corpus again, please: {command}. Then go on.", 60, rest="  ")

    assert lines == ["Make the corpus again, please:", f"  {command}.", "  Then go on."]


def test_counts_are_told_by_the_one_function_that_knows_one(root: Path) -> None:
    """No sentence of the plumbing puts a plural behind a number itself."""
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted((root / "src/quantgrid").rglob("*.py"))
        for line in path.read_text().splitlines()
        if _BARE.search(line) and not _SHARES.search(line)
    ]
    assert found == []
