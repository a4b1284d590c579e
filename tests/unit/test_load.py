"""Configuration is loaded from files; whatever cannot be meant names file and line."""

import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.load import (
    Platform,
    Settings,
    Validate,
    load_corpus,
    load_grid,
    load_model,
    load_platform,
    load_settings,
    names,
)
from quantgrid.spec import Model
from quantgrid.watch.rules import NAMES
from quantgrid.watch.watch import Action

COUNTS = {
    "n1": 1_066_368,
    "n4": 4_525_312,
    "n10": 10_621_824,
    "n30": 30_482_560,
    "n50": 49_556_736,
    "n100": 102_777_856,
}
"""Parameters without embeddings, of the research (QU 2); those of n30 to n100 are QuEST's."""

GRID = """\
corpus: shakespeare
evaluation: {sequences: 384}
blocks:
  main:
    models: [n0]
    tokens: [100_000]
    seeds: [0]
    forms:
      - {method: none}
      - {method: rtn, bits: 3, group: 32, scale: noclip}
"""


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A working copy with nothing but the configuration."""
    shutil.copytree(root / "config", tmp_path / "config")
    return tmp_path


@pytest.fixture
def refusal(copy: Path) -> Callable[[str, str], str]:
    """What is said about the grid above when one text in it is replaced by another."""

    def said(old: str, new: str) -> str:
        assert old in GRID
        layout.section_file(copy, "grid", "mine").write_text(GRID.replace(old, new, 1))
        with pytest.raises(ConfigRefusal) as refused:
            load_grid(copy, "mine")
        return str(refused.value)

    return said


def _snakemake() -> Validate:
    """Snakemake's own validation, as the workflow passes it."""
    from snakemake.utils import validate

    found: Validate = validate
    return found


# -- settings -------------------------------------------------------------------------------------


def test_settings_are_those_of_the_file_when_nothing_is_given(root: Path) -> None:
    """The main job is the demo grid, in this working copy, on this machine."""
    assert load_settings(root, {}) == Settings(
        root=root, grid="demo", select="", archive="archive", volume="volume",
        platform="local",
    )  # fmt: skip


def test_settings_follow_the_command_line_when_given(root: Path) -> None:
    """A given value wins, None means not given, and an absolute volume stays where it is."""
    given = {"grid": "smoke", "select": "bits<=3", "volume": "/big", "platform": None}

    settings = load_settings(root, given)

    assert (settings.grid, settings.select, settings.volume) == ("smoke", "bits<=3", "/big")
    assert settings.platform == "local"


def test_settings_have_defaults_when_the_file_is_short(copy: Path) -> None:
    """A key may be left out, with either validation."""
    (copy / layout.CONFIG).write_text("grid: smoke\n")

    assert load_settings(copy, {}) == load_settings(copy, {}, _snakemake())
    assert load_settings(copy, {}).volume == "volume"


def test_watch_says_to_the_runner_what_is_not_usual(copy: Path) -> None:
    """A policy reaches every job; the usual one says nothing, so that no command changes."""
    file = copy / layout.CONFIG
    file.write_text("watch: {policy: {gap: record}, stall_s: 900}\n")

    assert load_settings(copy, {}).watch.options() == ["--watch", '{"policy": {"gap": "record"}}']
    assert Settings(root=copy).watch.options() == []
    file.write_text("watch: {policy: {gaps: record}}\n")
    with pytest.raises(ConfigRefusal, match="gaps"):
        load_settings(copy, {})


def test_policy_may_name_every_rule_of_the_watch(root: Path) -> None:
    """The schema, which knows no code, lists the rules that there are, and their actions."""
    schema = yaml.safe_load(layout.schema_file(root, "config").read_text())
    policy = schema["properties"]["watch"]["properties"]["policy"]

    assert sorted(policy["propertyNames"]["enum"]) == sorted(NAMES)
    assert policy["additionalProperties"]["enum"] == list(Action)


def test_settings_name_key_and_line_when_unknown(copy: Path) -> None:
    """An unknown key of the file lists the valid ones, the closest first, and its line."""
    (copy / layout.CONFIG).write_text("grid: demo\n\narchiv: here\n")

    with pytest.raises(ConfigRefusal) as refusal:
        load_settings(copy, {})

    assert "'archiv' is no key here, did you mean 'archive'?" in str(refusal.value)
    assert "grid, select, archive, archive_id, archives, endpoint_url, volume, platform" in str(
        refusal.value
    )
    assert "(config/config.yaml:3)" in str(refusal.value)


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_settings_are_refused_when_a_number_is_none(copy: Path, value: str) -> None:
    """No sum of money is above a cap that is no number; a schema lets it pass."""
    (copy / layout.CONFIG).write_text(f"money:\n  max_usd_per_grid: {value}\n")

    with pytest.raises(ConfigRefusal, match=r"money.max_usd_per_grid: .*\(config/config.yaml:2\)"):
        load_settings(copy, {})


def test_settings_name_the_command_line_when_it_is_wrong(root: Path) -> None:
    """What was typed is named as typed, not as a line of a file."""
    with pytest.raises(ConfigRefusal, match=r"\(--config gird=demo\)"):
        load_settings(root, {"gird": "demo"})
    with pytest.raises(ConfigRefusal, match=r"'7' is no grid.*\(--config grid=7\)"):
        load_settings(root, {"grid": 7})
    with pytest.raises(ConfigRefusal, match=r"did you mean 'local'.*\(--config platform=locla\)"):
        load_settings(root, {"platform": "locla"})


# -- models, platforms, corpora -------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTS)
def test_model_has_the_parameters_of_the_research_when_counted(root: Path, name: str) -> None:
    """Cells are comparable with published ones only if the sizes are the same."""
    assert load_model(root, name).num_parameters == COUNTS[name]


def test_model_n0_has_the_linear_weights_of_the_research(root: Path) -> None:
    """n0 has 106,496 weights in linear layers; its norms are five vectors of d_model."""
    n0 = load_model(root, "n0")

    assert n0.num_parameters - 5 * n0.d_model == 106_496
    assert (n0.tokens_per_step, n0.learning_rate, n0.warmup_steps) == (2048, 2e-3, 20)
    assert (n0.d_model, n0.num_layers, n0.num_heads, n0.d_ff, n0.vocab_size) == (64, 2, 2, 192, 256)


def test_models_are_tied_up_to_n10_and_hold_whole_groups(root: Path) -> None:
    """Embedding and head share weights up to n10; only small models lack groups of 128."""
    models = [load_model(root, name) for name in names(root, "model")]

    assert {each.name for each in models if not each.tied} == {"n30", "n50", "n100"}
    assert {each.name for each in models if each.d_model % 128 or each.d_ff % 128} == {"n0", "n08"}


def test_model_is_the_same_spec_when_a_number_is_written_whole(copy: Path) -> None:
    """1 and 1.0 are one rate, and therefore one fingerprint."""
    path = layout.section_file(copy, "model", "n0")
    path.write_text(path.read_text() + "clip_norm: 1\n")

    model = load_model(copy, "n0")

    assert type(model.clip_norm) is float
    assert model == load_model(copy, "n0")


def test_model_lists_the_others_when_missing(root: Path) -> None:
    """Whoever asks for a model that is not there is told those that are."""
    with pytest.raises(ConfigRefusal, match="'n11' is no model, did you mean") as refusal:
        load_model(root, "n11")

    assert "n0, n08, n1, n10, n100, n30, n4, n50" in str(refusal.value)


def test_model_is_refused_when_heads_do_not_divide(copy: Path) -> None:
    """Rotary positions need an even width per head."""
    path = layout.section_file(copy, "model", "n0")
    text = path.read_text().replace("num_heads: 2", "num_heads: 3")
    path.write_text(text)
    line = text[: text.index("num_heads")].count("\n") + 1

    with pytest.raises(ConfigRefusal, match="3 heads do not divide d_model 64") as refusal:
        load_model(copy, "n0")
    assert f"(config/models/n0.yaml:{line})" in str(refusal.value)


def test_schema_knows_exactly_the_fields_of_a_model(root: Path) -> None:
    """The schema of a model and the spec name the same fields; the name is that of the file."""
    schema = yaml.safe_load(layout.schema_file(root, "model").read_text())

    assert {*schema["properties"], "name"} == {field.name for field in fields(Model)}


def test_platform_local_ends_nothing(root: Path) -> None:
    """This machine has no cap, and one thread a cell."""
    assert load_platform(root, "local") == Platform(
        name="local", device="cpu", threads=1, cap_s=None, grace_s=30, warm=True, chains=True
    )


def test_corpus_has_its_pins_when_loaded(root: Path) -> None:
    """The demo corpus is the 42 pinned texts."""
    recipe = load_corpus(root, "shakespeare")

    assert (recipe.name, len(recipe.files)) == ("shakespeare", 42)


def test_corpus_is_refused_when_not_pinned(copy: Path) -> None:
    """A corpus without pins has no identity."""
    layout.pins_file(copy, "shakespeare").unlink()

    with pytest.raises(ConfigRefusal, match="pinned"):
        load_corpus(copy, "shakespeare")


# -- grids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["demo", "smoke", "paper"])
def test_grid_is_the_same_when_snakemake_validates(root: Path, name: str) -> None:
    """The command line and the workflow see the same cells."""
    assert load_grid(root, name, _snakemake()) == load_grid(root, name)


def test_grid_lists_the_others_when_missing(root: Path) -> None:
    """Whoever asks for a grid that is not there is told those that are."""
    with pytest.raises(ConfigRefusal, match="'dmeo' is no grid, did you mean 'demo'") as refusal:
        load_grid(root, "dmeo")

    assert "demo, laws, miniature, own, paper, smoke" in str(refusal.value)


@pytest.mark.parametrize("name", ["my grid", "<b>", "a.b"])
def test_grid_is_refused_when_its_name_can_be_no_file_of_results(copy: Path, name: str) -> None:
    """Snakemake would say that nobody makes its table, or see a path of its own in it."""
    files = layout.section_file(copy, "grid", "smoke"), layout.section_file(copy, "grid", name)
    files[1].write_text(files[0].read_text())

    with pytest.raises(ConfigRefusal, match="can be no name of a grid"):
        load_grid(copy, name)


MISTAKES = [
    ("seeds: [0]", "seedz: [0]\n    seeds: [0]", "'seedz' is no key here, did you mean 'seeds'", 7),
    ("corpus:", "korpus: x\ncorpus:", "'korpus' is no key here, did you mean 'corpus'", 1),
    ("corpus: shakespeare", "corpus: shakespear", "'shakespear' is no corpus, did you mean", 1),
    ("seeds: [0]", "seeds: [zero]",
     "blocks.main.seeds.0: this is of another kind; expected a whole number; seen 'zero'", 7),
    ("seeds: [0]", "seeds: 4", "expected a list such as [4]; seen 4", 7),
    ("    seeds: [0]\n", "", "'seeds' is a required property", 4),
    ("tokens: [100_000]", "tokens: [100_000]\n    tokens_per_parameter: [5]",
     "seen tokens and tokens_per_parameter", 7),
    ("    tokens: [100_000]\n", "", "seen neither", 4),
    ("models: [n0]", "models:\n     - n0\n     - n2", "'n2' is no model", 7),
    ("method: none", "method: gtpq", "'gtpq' is no method, did you mean 'gptq'", 9),
    ("bits: 3,", "bitz: 3,", "'bitz' is no key here, did you mean 'bits'", 10),
    ("scale: noclip}", "scale: noclip, asymmetric: true}", "asymmetric contradicts", 10),
    ("scale: noclip}", "scale: noclip, act_order: true}", "act_order means nothing to rtn", 10),
    ("group: 32", "group: 48", "groups of 48 weights do not divide the widths [64]", 10),
    ("sequences: 384", "sequences: 1536", "at most 1535 sequences of 64 tokens", 2),
    ("[100_000]", "[100_000, 20_000_000]", "planned 20000768, unique 49", 6),
    ("[100_000]", "[100_000, 15_000]", "seen 1 of 7 steps of 2048 tokens", 6),
    ("[100_000]", "[100_000, 100_100]", "n0-t100100-s0/none is the same work as", 6),
    ("[n0]", "[n0]\n    exclude: ['seed>=0']", "grid mine has no cells", 2),
    ("[n0]", "[n0]\n    exclude: ['model=n0 and sead>0']", "'sead' is no name", 6),
    ("seeds: [0]", "seeds: [0]\n    seeds: [1]", "key 'seeds' is here twice", 8),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message", "line"), MISTAKES)
def test_grid_is_refused_with_line_when_it_cannot_be_meant(
    refusal: Callable[[str, str], str], old: str, new: str, message: str, line: int
) -> None:
    """Each mistake is told in words, with file and line, before anything is planned."""
    said = refusal(old, new)

    assert message in said
    assert f"(config/grids/mine.yaml:{line})" in said


@pytest.mark.parametrize(("old", "new", "message", "line"), MISTAKES[:5])
def test_grid_is_refused_alike_when_snakemake_validates(
    copy: Path, old: str, new: str, message: str, line: int
) -> None:
    """Snakemake's errors know neither file nor line; ours do, with its validation too."""
    layout.section_file(copy, "grid", "mine").write_text(GRID.replace(old, new, 1))

    with pytest.raises(ConfigRefusal) as refused:
        load_grid(copy, "mine", _snakemake())

    assert message in str(refused.value)
    assert f"(config/grids/mine.yaml:{line})" in str(refused.value)


def test_validator_may_fail_in_its_own_way(root: Path) -> None:
    """An error that is no finding about the data is not disguised as one."""

    def broken(_data: Any, _schema: str) -> None:
        raise RuntimeError("the validator is broken")

    with pytest.raises(RuntimeError, match="the validator is broken"):
        load_grid(root, "demo", broken)


def test_loaded_grid_is_accepted_when_nothing_is_replaced(copy: Path) -> None:
    """The grid of the refusals above is fine as it stands."""
    layout.section_file(copy, "grid", "mine").write_text(GRID)

    ids = [cell.id for cell in load_grid(copy, "mine").cells]

    assert ids == ["n0-t100k-s0/none", "n0-t100k-s0/rtn-w3g32-noclip"]
