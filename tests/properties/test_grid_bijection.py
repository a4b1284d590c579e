"""Grid expansion is a bijection: cell, id and fingerprint name each other."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantgrid.errors import ConfigRefusal
from quantgrid.fingerprint import digest
from quantgrid.forms import METHODS, parse_form
from quantgrid.grid import Block, Budget, Grid, expand
from quantgrid.load import load_corpus, load_model
from quantgrid.recipe import Recipe
from quantgrid.select import parse
from quantgrid.spec import Cell, Evaluation, Form, Model, canonical_spec

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "bits": st.sampled_from([2, 3, 4, 8, "ternary"]),
    "group": st.sampled_from(["tensor", "row", 16, 32, 64]),
    "scale": st.sampled_from(
        ["noclip", "absmax", "symmetric", "absmean", "learned", "gaussian", "floor"]
    ),
    "asymmetric": st.booleans(),
    "scale_dtype": st.sampled_from(["float16", "float32", "bfloat16", "e8m0"]),
    "act_order": st.booleans(),
    "damping": st.sampled_from([0.01, 0.011, 0.010000001, 0.1, 1]),
    "calibration_sequences": st.sampled_from([1, 16, 128, 1281]),
    "start": st.sampled_from(["cooldown", "scratch"]),
    "activation_bits": st.integers(2, 8),
    "kv_bits": st.integers(2, 8),
    "tag": st.text("ab1", min_size=1, max_size=3),
}


@st.composite
def forms(draw: st.DrawFn) -> Form | None:
    """A form that is accepted, or None where its fields contradict each other."""
    method = draw(st.sampled_from(sorted(METHODS)))
    takes = METHODS[method].takes
    # mostly what the method needs, so that most drawn forms are accepted
    needed = {"bits", "group", "scale", "activation_bits", "kv_bits"} & set(takes)
    chosen = needed | draw(st.sets(st.sampled_from(sorted(takes)))) if takes else set()
    try:
        return parse_form(
            {"method": method, **{name: draw(FIELDS[name]) for name in sorted(chosen)}},
            lambda *_: "",
        )
    except ConfigRefusal:
        return None


@pytest.fixture(scope="module")
def corpus(root: Path) -> Recipe:
    """The corpus of the demo."""
    return load_corpus(root, "shakespeare")


@pytest.fixture(scope="module")
def models(root: Path) -> tuple[Model, ...]:
    """Two models that the demo's corpus can train."""
    return load_model(root, "n0"), load_model(root, "n1")


def _fingerprint(cell: Cell) -> str:
    spec = canonical_spec(cell)
    return digest({key: value for key, value in spec.items() if key != "block"})


QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(data=st.data())
def test_expansion_is_a_bijection_when_it_is_accepted(
    corpus: Recipe, models: tuple[Model, ...], data: st.DataObject
) -> None:
    """As many ids and fingerprints as cells; each declared combination is there exactly once."""
    grid, blocks = _drawn(corpus, models, data)
    if grid is None:
        return

    assert len({cell.id for cell in grid.cells}) == len(grid.cells)
    assert len({_fingerprint(cell) for cell in grid.cells}) == len(grid.cells)
    declared = {
        (model.name, budget.id, seed, passes, block.bounded, form.id)
        for block in blocks
        for model in block.models
        for budget in block.budgets
        for seed in block.seeds
        for passes in block.passes
        for form, _ in block.forms
    }
    assert len(grid.cells) == len(declared)


def _drawn(
    corpus: Recipe, models: tuple[Model, ...], data: st.DataObject
) -> tuple[Grid | None, list[Block]]:
    drawn = data.draw(st.lists(forms(), min_size=1, max_size=4, unique=True))
    usable = [(form, "") for form in drawn if form is not None]
    blocks = [
        Block(
            name=f"b{index}",
            models=models[: data.draw(st.integers(1, 2))],
            budgets=tuple(
                Budget(amount=amount)
                for amount in data.draw(
                    st.lists(
                        st.sampled_from([100_000, 123_456, 400_000, 1_000_000, 9_000_000]),
                        min_size=1, max_size=3, unique=True,
                    )
                )
            ),
            seeds=tuple(range(data.draw(st.integers(1, 3)))),
            forms=tuple(usable),
            passes=tuple(data.draw(st.sets(st.integers(1, 4), min_size=1, max_size=2))),
            bounded=data.draw(st.booleans()),
        )
        for index in range(data.draw(st.integers(1, 2)))
    ]  # fmt: skip
    evaluation = Evaluation(sequences=32)
    try:
        return expand("drawn", corpus=corpus, evaluation=evaluation, blocks=blocks), blocks
    except ConfigRefusal as refusal:
        reason = str(refusal)
    foreseen = ("beyond corpus", "do not divide", "has no cells")
    assert any(each in reason for each in foreseen), reason
    return None, blocks


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.lists(forms(), min_size=10, max_size=40))
def test_form_ids_are_equal_only_when_the_forms_are(drawn: list[Form | None]) -> None:
    """An id carries everything that makes a form, and nothing that may not stand in a path."""
    usable = {form for form in drawn if form is not None}
    ids = {form.id for form in usable}

    assert len(ids) == len(usable)
    assert not any(letter in each for each in ids for letter in "/. ")


@QUICK
@given(text=st.text("bits=<>!()and ornt3k,'seedgroupin.", max_size=30))
def test_select_refuses_or_answers_whatever_is_written(
    corpus: Recipe, models: tuple[Model, ...], text: str
) -> None:
    """Any text is a choice or a refusal, never another error."""
    block = Block(
        name="b", models=models[:1], budgets=(Budget(amount=100_000),), seeds=(0,),
        forms=((Form(method="none"), ""), (Form(method="cache", kv_bits=3), "")),
    )  # fmt: skip
    cells = expand("x", corpus=corpus, evaluation=Evaluation(sequences=1), blocks=[block]).cells
    try:
        selection = parse(text)
    except ConfigRefusal:
        return
    negated = parse(f"not ({text})") if text.strip() else None
    for cell in cells:
        assert selection.matches(cell) in (True, False)
        assert negated is None or negated.matches(cell) is not selection.matches(cell)
