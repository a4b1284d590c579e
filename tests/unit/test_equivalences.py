"""Proved digests count as the oldest of their class, and only what was proved can be written."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from quantgrid import layout
from quantgrid.commands.equivalent import flat, refuse_difference
from quantgrid.equivalences import (
    Equivalence,
    Equivalences,
    Proof,
    load_equivalences,
    publish_equivalences,
)
from quantgrid.errors import ConfigRefusal, Refusal
from quantgrid.lineage import Lineage, Science, trace
from quantgrid.load import load_grid

A, B, C, D = (letter * 64 for letter in "abcd")
RTN4 = "n0-t20k-s0/rtn-w4row-noclip"
GPTQ3 = "n0-t20k-s0/gptq-w3g32-noclip"


def entry(old: str, new: str, stage: str = "quantise", method: str | None = "rtn") -> Equivalence:
    """An entry with a proof."""
    return Equivalence(
        stage=stage,
        method=method,
        old=old,
        new=new,
        reason="clearer names",
        date="2026-11-30T12:00:00Z",
        proof=Proof(grid="smoke", cells=14, digest=D),
    )


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A source tree with configuration and science."""
    for part in ("config", "scripts", "src/quantlm"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / part, tmp_path / part, ignore=ignored)
    return tmp_path


def write(copy: Path, *entries: dict[str, Any]) -> None:
    """Write entries as a person could."""
    (copy / layout.EQUIVALENCES).write_text(yaml.safe_dump(list(entries), sort_keys=False))


# -- classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_digest_counts_as_the_oldest_when_entries_form_a_chain(order: tuple[int, ...]) -> None:
    """Entries map transitively, in whatever order they stand."""
    entries = [entry(A, B), entry(B, C), entry(C, D)]

    known = Equivalences.of(entries[index] for index in order)

    assert [known.oldest("quantise", "rtn", each) for each in (A, B, C, D)] == [A] * 4


def test_digest_counts_as_itself_when_another_part_was_proved() -> None:
    """An entry is about one stage and one method."""
    known = Equivalences.of([entry(A, B)])

    assert known.oldest("quantise", "gptq", B) == B
    assert known.oldest("evaluate", None, B) == B


@pytest.mark.parametrize(
    ("entries", "problem", "line"),
    [
        ([entry(A, C), entry(B, C)], "two older digests", 14),
        ([entry(A, B), entry(A, B)], "two older digests", 14),
        ([entry(A, B), entry(B, C), entry(C, A)], "older than itself", 24),
        ([entry(A, A)], "older than itself", 4),
        ([entry(A, B, "quantise", "qat")], "does not run method qat", 2),
        ([entry(A, B, "quantise", None)], "does not run method None", 2),
        ([entry(A, B, "evaluate", "rtn")], "does not run method rtn", 2),
    ],
)
def test_entries_are_refused_when_they_contradict(
    copy: Path, entries: list[Equivalence], problem: str, line: int
) -> None:
    """A digest has one older digest at most, and the class an oldest; file and line are named."""
    write(copy, *map(asdict, entries))

    with pytest.raises(ConfigRefusal, match=problem) as refusal:
        load_equivalences(copy)

    assert refusal.value.where == f"{layout.EQUIVALENCES}:{line}"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"proof": None}, "proof"),
        ({"proof": {"grid": "smoke", "cells": 0, "digest": D}}, "proof.cells"),
        ({"stage": "prepare"}, "stage"),
        ({"old": "abc"}, "old"),
        ({"reason": " "}, "reason"),
        ({"reson": "why"}, "'reson' is no key here, did you mean 'reason'"),
    ],
)
def test_entry_is_refused_when_the_schema_forbids_it(
    copy: Path, change: dict[str, Any], problem: str
) -> None:
    """What was written by hand is held to the schema, with the file and its second entry's line."""
    write(copy, asdict(entry(A, B)), asdict(entry(B, C)) | change)

    with pytest.raises(ConfigRefusal, match=problem) as refusal:
        load_equivalences(copy)

    place, _, line = str(refusal.value.where).rpartition(":")
    assert place == layout.EQUIVALENCES
    assert int(line) > 10


def test_entry_is_refused_when_it_has_no_proof(copy: Path) -> None:
    """A belief is no proof."""
    believed = asdict(entry(A, B))
    del believed["proof"]
    write(copy, believed)

    with pytest.raises(ConfigRefusal, match="'proof' is a required property"):
        load_equivalences(copy)


def test_file_is_refused_when_it_is_no_list(copy: Path) -> None:
    """A mapping is another format."""
    (copy / layout.EQUIVALENCES).write_text("stage: trunk\n")

    with pytest.raises(ConfigRefusal, match="must hold a list"):
        load_equivalences(copy)


def test_entries_come_back_when_published(copy: Path) -> None:
    """What is written is what is read, digits and colons included."""
    entries = [replace(entry("1" * 64, B), reason="a: b # c"), entry(A, B, "trunk", None)]

    publish_equivalences(copy, entries)

    assert list(load_equivalences(copy).entries) == entries


def test_file_stays_when_what_is_published_contradicts(copy: Path) -> None:
    """A refusal writes nothing."""
    publish_equivalences(copy, [entry(A, B)])
    before = (copy / layout.EQUIVALENCES).read_bytes()

    with pytest.raises(ConfigRefusal):
        publish_equivalences(copy, [entry(A, B), entry(B, A)])

    assert (copy / layout.EQUIVALENCES).read_bytes() == before


# -- fingerprints ---------------------------------------------------------------------------------


def traced(copy: Path) -> Lineage:
    """The smoke grid of a source tree."""
    return trace(load_grid(copy, "smoke"), Science(copy))


def test_fingerprints_stay_and_the_digest_is_the_computed_one_when_proved(
    root: Path, copy: Path
) -> None:
    """A proved refactor keeps every fingerprint; stages, and so records, tell the real digest."""
    before = traced(root)
    module = layout.method_module(copy, "rtn")
    module.write_text(module.read_text().replace("levels", "steps"))
    old = Science(root).method("quantise", "rtn")
    new = Science(copy).method("quantise", "rtn")
    assert old != new
    publish_equivalences(copy, [entry(old, new)])

    after = traced(copy)

    prints = [{name: stage.fingerprint for name, stage in x.cells.items()} for x in (before, after)]
    assert prints[0] == prints[1]
    assert after.weights[RTN4].fingerprint == before.weights[RTN4].fingerprint
    assert after.weights[RTN4].science == new
    assert before.weights[RTN4].science == old
    assert after.weights[GPTQ3] == before.weights[GPTQ3]


def test_fingerprints_stay_when_nothing_was_ever_proved(root: Path, copy: Path) -> None:
    """Without the file, a tree has the fingerprints that it has with an empty one."""
    (copy / layout.EQUIVALENCES).unlink()

    assert traced(copy).cells == traced(root).cells


# -- comparison -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [(0.0, -0.0), (1, 1.0), (0.1 + 0.2, 0.3), (1.0, None)])
def test_numbers_differ_when_a_bit_does(old: float, new: float | None) -> None:
    """Equal means equal bits; the first cell and number that differ are named with both values."""
    before, after = (
        {"b/one": dict(flat({"losses": [1.5]})), "b/two": dict(flat({"losses": [1.5, value]}))}
        for value in (old, new)
    )

    with pytest.raises(Refusal, match=r"losses\.1 differs") as refusal:
        refuse_difference(before, after, "HEAD and the working tree")

    assert refusal.value.where == "b/two"
    assert refusal.value.exit_code == 78
    refuse_difference(after, after, "both")


@pytest.mark.parametrize("swapped", [False, True])
def test_numbers_differ_when_one_is_missing(*, swapped: bool) -> None:
    """A number or file that only one science makes is a difference."""
    less, more = {"b/one": dict(flat({"loss": 1}))}, {"b/one": dict(flat({"loss": 1, "kl": {}}))}
    before, after = (more, less) if swapped else (less, more)

    with pytest.raises(Refusal, match="kl differs"):
        refuse_difference(before, after, "both")
