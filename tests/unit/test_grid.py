"""Grids expand to cells, each with an id of its own."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal
from quantgrid.grid import Block, Budget, Grid, cooldown_of, expand
from quantgrid.load import load_corpus, load_grid, load_model
from quantgrid.select import parse
from quantgrid.spec import Evaluation, Form

NONE = (Form(method="none"), "here:1")
ROW3 = (Form(method="rtn", bits=3, group="row", scale="noclip"), "here:2")


@pytest.fixture(scope="module")
def block(root: Path) -> Block:
    """One short base of n0, as it is and at 3 bits."""
    budgets = (Budget(amount=100_000, where="here:3"),)
    return Block(
        name="one",
        models=(load_model(root, "n0"),),
        budgets=budgets,
        seeds=(0,),
        forms=(NONE, ROW3),
    )


def _expanded(root: Path, *blocks: Block, sequences: int = 32) -> Grid:
    return expand(
        "test",
        corpus=load_corpus(root, "shakespeare"),
        evaluation=Evaluation(sequences=sequences),
        blocks=blocks,
        where="here:0",
    )


# -- the grids of the repository ------------------------------------------------------------------


def test_demo_is_seven_forms_by_five_budgets_by_three_seeds(root: Path) -> None:
    """The main job: 105 cells, 15 bases, in this order of forms."""
    cells = load_grid(root, "demo").cells

    assert len(cells) == 105
    assert list(dict.fromkeys(cell.variant for cell in cells)) == [
        "none",
        "rtn-w4row-noclip",
        "rtn-w3g32-noclip",
        "gptq-w3g32-noclip",
        "rtn-w2g32-asym",
        "gptq-w2g32-asym",
        "qat-ternary-row-absmean",
    ]
    assert list(dict.fromkeys(cell.budget for cell in cells)) == [
        "t100k", "t200k", "t400k", "t800k", "t1600k",
    ]  # fmt: skip
    assert Counter(cell.trunk.seed for cell in cells) == {0: 35, 1: 35, 2: 35}
    assert {cell.evaluation.sequences for cell in cells} == {384}


def test_smoke_is_the_forms_of_demo_on_two_short_bases(root: Path) -> None:
    """14 cells, the shortest with two cool-down steps."""
    cells, demo = load_grid(root, "smoke").cells, load_grid(root, "demo").cells

    assert len(cells) == 14
    assert [cell.form for cell in cells[:7]] == [cell.form for cell in demo[:7]]
    assert [cell.cooldown.cooldown_steps for cell in cells[::7]] == [2, 4]


def test_paper_has_the_blocks_of_the_research(root: Path) -> None:
    """1,008 cells in five blocks, 60 + 12 bases of them (QU 2)."""
    cells = load_grid(root, "paper").cells

    assert Counter(cell.block for cell in cells) == {
        "A0": 60,
        "A1": 720,
        "B": 144,
        "C": 72,
        "D": 12,
    }
    assert len({cell.id for cell in cells}) == 1008
    assert sum(cell.variant == "none" for cell in cells) == 72
    assert len({cell.variant for cell in cells if cell.block == "A1"}) == 12
    assert cells[0].id == "n1-x5-s0/none"


def test_paper_controls_train_as_long_on_fewer_tokens(root: Path) -> None:
    """Block D: the steps of x20, over a whole, a quarter, a 16th and a 32nd of its tokens."""
    cells = [cell for cell in load_grid(root, "paper").cells if cell.block == "D"]
    planned = {cell.cooldown.num_steps * cell.trunk.model.tokens_per_step for cell in cells}

    assert planned == {21_327_872}
    assert [cell.base for cell in cells[::3]] == [
        "n1-x20-s0-u21327872p1",
        "n1-x20-s0-u5331968p4",
        "n1-x20-s0-u1332992p16",
        "n1-x20-s0-u666624p32",
    ]


# -- expansion ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "ratio", "text"),
    [
        (800_000, False, "t800k"), (2_000_000, False, "t2M"), (1_600_000, False, "t1600k"),
        (1234, False, "t1234"), (20, True, "x20"), (0.5, True, "x0p5"), (5.0, True, "x5"),
    ],
)  # fmt: skip
def test_budget_has_one_name_when_written(amount: float, ratio: bool, text: str) -> None:
    """An amount has one canonical text, without a dot."""
    assert Budget(amount=amount, per_parameter=ratio).id == text


def test_budget_counts_parameters_when_it_is_a_ratio(root: Path) -> None:
    """Twenty tokens per parameter of n1."""
    budget = Budget(amount=20, per_parameter=True)

    assert budget.num_tokens(load_model(root, "n1")) == 20 * 1_066_368


def test_cooldown_is_a_fifth_of_the_nearest_whole_steps(root: Path) -> None:
    """100,000 tokens are 48.8 steps of 2,048: 49, of which 10 cool down."""
    cooldown = cooldown_of(100_000, load_model(root, "n0"))

    assert (cooldown.num_steps, cooldown.cooldown_steps, cooldown.milestone_steps) == (49, 10, 39)


def test_cells_of_one_base_follow_each_other(root: Path, block: Block) -> None:
    """A base is made once, so its cells are declared together."""
    grid = _expanded(root, replace(block, seeds=(0, 1)))

    assert [cell.base for cell in grid.cells] == ["n0-t100k-s0"] * 2 + ["n0-t100k-s1"] * 2


def test_cells_are_left_out_when_excluded(root: Path, block: Block) -> None:
    """An exclusion takes the cells that it matches and no other."""
    grid = _expanded(root, replace(block, seeds=(0, 1), exclude=(parse("bits=3 and seed=1"),)))

    assert [cell.id for cell in grid.cells] == [
        "n0-t100k-s0/none", "n0-t100k-s0/rtn-w3row-noclip", "n0-t100k-s1/none",
    ]  # fmt: skip


def test_cells_are_not_checked_when_excluded(root: Path, block: Block) -> None:
    """Groups that do not divide the widths of an excluded cell are nobody's trouble."""
    wide = (Form(method="rtn", bits=4, group=128, scale="noclip"), "here:9")
    grid = _expanded(root, replace(block, forms=(NONE, wide), exclude=(parse("group=128"),)))

    assert len(grid.cells) == 1


def test_cell_is_there_once_when_two_blocks_declare_it(root: Path, block: Block) -> None:
    """Equal cells of two blocks are one, and belong to the first."""
    grid = _expanded(root, block, replace(block, name="two", seeds=(0, 1)))

    assert Counter(cell.block for cell in grid.cells) == {"one": 2, "two": 2}


def test_cell_is_refused_when_its_id_means_two_things(root: Path, block: Block) -> None:
    """Two blocks that mean different training by one id are told apart by what differs."""
    other = replace(block.models[0], learning_rate=0.1)

    with pytest.raises(ConfigRefusal, match="blocks one and two mean different cells") as refusal:
        _expanded(root, block, replace(block, name="two", models=(other,)))

    assert "learning_rate=0.002" in str(refusal.value)
    assert "learning_rate=0.1" in str(refusal.value)


def test_cell_is_refused_when_two_ids_mean_its_work(root: Path, block: Block) -> None:
    """Two budgets that round to the same steps would pay twice for one training."""
    budgets = (*block.budgets, Budget(amount=100_001, where="here:5"))

    with pytest.raises(ConfigRefusal, match=r"same work as .* 49 steps \(here:5\)"):
        _expanded(root, replace(block, budgets=budgets))


# -- the corpus -----------------------------------------------------------------------------------


def test_budget_may_pass_the_corpus_when_passes_are_declared(root: Path, block: Block) -> None:
    """A budget of two corpora is refused in one pass and planned in three."""
    long = replace(block, budgets=(Budget(amount=10_000_000, where="here:4"),))

    with pytest.raises(ConfigRefusal, match=r"planned 10000384, unique 49\d+, passes 1 .*here:4"):
        _expanded(root, long)
    assert _expanded(root, replace(long, passes=(3,))).cells[0].base == "n0-t10M-s0-p3"


def test_budget_is_planned_up_to_the_last_window_of_the_corpus(root: Path, block: Block) -> None:
    """The boundary: as many whole steps as the corpus has tokens, and one step more."""
    step = block.models[0].tokens_per_step
    fits = load_corpus(root, "shakespeare").usable_tokens(64) // step * step

    def budget(amount: int) -> Block:
        return replace(block, budgets=(Budget(amount=amount, where="here:4"),))

    assert _expanded(root, budget(fits)).cells
    with pytest.raises(ConfigRefusal, match="goes beyond corpus shakespeare"):
        _expanded(root, budget(fits + step))


def test_bounded_base_sees_a_share_of_its_own_length(root: Path, block: Block) -> None:
    """49 steps in 4 passes: 25,088 tokens, whole windows, no fewer than a quarter."""
    cell = _expanded(root, replace(block, passes=(4,), bounded=True)).cells[0]

    assert (cell.trunk.unique_tokens, cell.trunk.passes) == (25_088, 4)
    assert cell.base == "n0-t100k-s0-u25088p4"


def test_bounded_base_is_refused_when_its_share_is_not_there(root: Path, block: Block) -> None:
    """A share larger than the corpus cannot be seen even once."""
    long = replace(block, budgets=(Budget(amount=10_000_000, where="here:4"),), bounded=True)

    with pytest.raises(ConfigRefusal, match="planned 10000384, unique 10000384, passes 1"):
        _expanded(root, long)


def test_model_is_refused_when_its_vocabulary_is_another(root: Path, block: Block) -> None:
    """Byte tokens need 256 rows of embedding."""
    other = replace(block.models[0], vocab_size=512)

    with pytest.raises(ConfigRefusal, match=r"another vocabulary .* 256 \(bytes\); seen 512"):
        _expanded(root, replace(block, models=(other,)))


def test_evaluation_is_refused_when_validation_is_shorter(root: Path, block: Block) -> None:
    """98,304 validation tokens hold 1,535 windows of 64 with a last target."""
    assert _expanded(root, block, sequences=1535).cells
    with pytest.raises(ConfigRefusal, match="at most 1535 sequences"):
        _expanded(root, block, sequences=1536)


# -- speed ----------------------------------------------------------------------------------------


def test_expansion_names_each_cell_once_when_the_grid_is_large(root: Path, block: Block) -> None:
    """10,080 cells have 10,080 ids."""
    forms = tuple(
        (Form(method="rtn", bits=bits, group=group, scale="noclip"), "")
        for bits in range(2, 8)
        for group in ("row", "tensor", 32, 16)
    )
    budgets = tuple(Budget(amount=50_000 * amount) for amount in range(1, 22))
    large = replace(block, budgets=budgets, seeds=tuple(range(20)), forms=forms)

    grid = _expanded(root, large)

    assert len({cell.id for cell in grid.cells}) == 10_080
