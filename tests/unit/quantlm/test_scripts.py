"""The scripts under the cell contract, on a real sealed corpus: from nothing to measures."""

import json
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import small_corpus
from memory_corpus import TINY, form, trunk
from quantgrid import CONTRACT_VERSION, contract, layout
from quantgrid.errors import Checkpointed, ConfigRefusal, CorpusRefusal
from quantgrid.forms import METHODS
from quantlm import held_out, tensorfile
from quantlm.model import Architecture
from quantlm.unpacking import load_packed
from quantlm.weights import load_weights
from small_corpus import CONTEXT, SmallCorpus

MODEL = TINY | {"d_model": 32, "d_ff": 64, "context": CONTEXT, "batch_sequences": 2}
TRUNK = trunk(MODEL)
COOLDOWN = {"num_steps": 10, "cooldown_steps": 4}
A4, KV2 = {"activation_bits": 4}, {"kv_bits": 2}
EVERY = [
    form("rtn", 3, "row", "noclip"),
    form("gptq", 2, 16, None),
    form("clip", 2, 16, None),
    form("mxfp", 4, 32, "floor") | {"scale_dtype": "e8m0"},
    form("nvfp", 4, 16, "absmax") | {"scale_dtype": "e4m3"},
    form("fp8", 8, "row", "absmax"),
    form("gguf", 8, 32, "absmax"),
    form("activation", 4, "row", "noclip") | A4,
    form("smoothquant", 4, "row", "noclip") | A4,
    form("hadamard", 4, "row", "noclip") | A4,
    form("cache", 0, "row", "noclip") | KV2,
    form("qat", "ternary", "row", "absmean") | {"start": "scratch"},
    form("lsq", 3, "row", "learned"),
    form("lsq", "ternary", "row", "learned") | {"start": "scratch"},
    form("trust", 2, "row", "gaussian"),
]
Parents = dict[str, dict[str, str]]


class _Stages:
    """Runs stages one after the other in this process, as the runner's child does."""

    def __init__(
        self, root: Path, folder: Path, corpus: SmallCorpus, patch: pytest.MonkeyPatch
    ) -> None:
        self._root, self._folder, self._corpus, self._patch = root, folder, corpus, patch
        self.variables = {
            contract.CORPUS: str(corpus.folder),
            contract.SENTINEL: str(corpus.sentinel),
        }

    def run(
        self, name: str, stage: str, spec: Mapping[str, Any], parents: Parents
    ) -> dict[str, Any]:
        """What a stage hands back, with the files it made under `parent`."""
        work = self._folder / name
        (work / "out").mkdir(parents=True, exist_ok=True)
        (work / "spec.json").write_text(json.dumps(spec))
        (work / "parents.json").write_text(json.dumps(parents))
        values = {variable.name: "" for variable in contract.TABLE} | {
            contract.CONTRACT: str(CONTRACT_VERSION),
            contract.CELL: f"cell/{name}",
            contract.STAGE: stage,
            contract.FINGERPRINT: "f" * 64,
            contract.SPEC: str(work / "spec.json"),
            contract.PARENTS: str(work / "parents.json"),
            contract.OUT: str(work / "out"),
            contract.RESULT: str(work / "result.json"),
            contract.PROGRESS: str(work / "progress.json"),
            contract.STATE: str(work / "state"),
            contract.LINK: str(work / "link.json"),
            contract.DEVICE: "cpu",
            contract.THREADS: "1",
            **self.variables,
        }
        for variable, value in values.items():
            self._patch.setenv(variable, value)
        runpy.run_path(str(layout.script(self._root, stage)), run_name="__main__")
        handed: dict[str, Any] = json.loads((work / "result.json").read_text())
        return handed | {"parent": {path.name: str(path) for path in (work / "out").iterdir()}}

    def in_links(
        self, name: str, stage: str, spec: Mapping[str, Any], parents: Parents
    ) -> dict[str, Any]:
        """Like `run`, in three links whose time ends after one step, and a last one."""
        self.variables[contract.DEADLINE] = "0"
        for _ in range(3):
            with pytest.raises(Checkpointed, match=r"its time ends in 0\.0 s"):
                self.run(name, stage, spec, parents)
        del self.variables[contract.DEADLINE]
        return self.run(name, stage, spec, parents)

    def trunk(self, name: str, num_steps: int, parents: Parents) -> dict[str, Any]:
        """A milestone after so many steps."""
        num_tokens = num_steps * CONTEXT * MODEL["batch_sequences"]
        spec = {"trunk": TRUNK, "num_steps": num_steps, "num_tokens": num_tokens}
        return self.run(name, "trunk", spec, parents)

    def base(self) -> tuple[Parents, dict[str, Any]]:
        """A milestone, as parents, and the base that cools down from it."""
        milestone = {"milestone": self.trunk("m", 6, {})["parent"]}
        spec = {"trunk": TRUNK, "cooldown": COOLDOWN}
        return milestone, self.run("base", "cooldown", spec, milestone)

    def measured(
        self,
        name: str,
        weights: dict[str, Any],
        base: dict[str, Any],
        running: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Results of an evaluation; `running` is a form that rounds what flows through."""
        spec = {"model": MODEL, "evaluation": {"sequences": 4, "metrics": ["loss", "kl"]}}
        parents = {"weights": weights["parent"], "base": base["parent"]}
        stage = "evaluate_running" if running else "evaluate"
        asked = spec | {"cell": {"form": running}}
        results: dict[str, Any] = self.run(name, stage, asked, parents)["results"]
        return results


@pytest.fixture
def stages(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Stages:
    """Stages on a small corpus."""
    return _Stages(root, tmp_path / "work", small_corpus.sealed(tmp_path / "c"), monkeypatch)


def test_scripts_make_base_forms_and_measures_when_run_in_turn(stages: _Stages) -> None:
    """Milestone, base, a rounded, a solved and a trained form, each measured against the base."""
    milestone, base = stages.base()
    forms = [form("rtn", 3, "row", "noclip"), form("gptq", 2, 16, None)]
    made = [
        stages.run(
            f"f{index}",
            "quantise",
            {"form": each | {"calibration_sequences": 10}, "model": MODEL, "seed": 0},
            {"base": base["parent"]},
        )
        for index, each in enumerate(forms)
    ]
    ternary = {"form": form("qat", "ternary", "row", "absmean")}
    made.append(
        stages.run("q", "qat", {**ternary, "trunk": TRUNK, "cooldown": COOLDOWN}, milestone)
    )

    own = stages.measured("e", base, base)
    others = [stages.measured(f"e{index}", each, base) for index, each in enumerate(made)]

    assert own["kl"] == 0.0
    assert len(own["validation"]["losses"]) == 4
    for each, results in zip(made, others, strict=True):
        assert results["kl"] > 0
        assert results["loss"] != own["loss"]
        assert results["validation"]["id"] == own["validation"]["id"]
        assert each["results"]["size"].keys() == base["results"]["size"].keys()
        assert each["results"]["size"]["packed_bytes"] < base["results"]["size"]["packed_bytes"]
        _assert_packed_is_measured(each["parent"])
    assert base["receipt"]["shards"]
    assert base["results"]["num_steps"] == made[2]["results"]["num_steps"] == 10
    assert base["environment"]["packages"]["torch"] == torch.__version__


def test_every_declared_method_runs_when_asked(stages: _Stages) -> None:
    """Each method of `quantgrid.forms` makes its files and is measured, as the plan asks for it."""
    milestone, base = stages.base()
    missing = METHODS.keys() - {"none"} - {each["method"] for each in EVERY}
    assert not missing, f"add a form to EVERY of: {', '.join(sorted(missing))}"
    for index, each in enumerate(EVERY):
        method, settings = METHODS[each["method"]], each | {"calibration_sequences": 10}
        if method.trains:
            parents = milestone if settings["start"] == "cooldown" else {}
            spec = {"form": settings, "trunk": TRUNK, "cooldown": COOLDOWN}
            made = stages.run(f"w{index}", "qat", spec, parents)
            assert made["results"]["num_steps"] == COOLDOWN["num_steps"]
        else:
            spec = {"form": settings, "model": MODEL, "seed": 0}
            made = stages.run(f"w{index}", "quantise", spec, {"base": base["parent"]})

        results = stages.measured(f"e{index}", made, base, settings if method.runs else None)

        assert results["kl"] > 0, settings
        assert results["loss"] < 6, settings
        _assert_packed_is_measured(made["parent"])


def _assert_packed_is_measured(files: dict[str, str]) -> None:
    weights = load_weights(
        Path(files[tensorfile.WEIGHTS_FILE]), Architecture.of(MODEL), torch.device("cpu")
    )
    for name, layer in load_packed(Path(files[tensorfile.PACKED_FILE])).items():
        assert torch.equal(weights.get_parameter(f"{name}.weight"), layer.values())


@pytest.fixture
def evaluated(stages: _Stages, monkeypatch: pytest.MonkeyPatch) -> _Stages:
    """Stages that evaluate every other step on few sequences, and record what a rule finds."""
    monkeypatch.setattr(held_out, "LEAST_SEQUENCES", 4)
    monkeypatch.setattr(held_out, "STEPS_PER_SEQUENCE", 1)
    policy = dict.fromkeys(("gap", "spike", "rise"), "record")
    stages.variables[contract.WATCH] = json.dumps({"policy": policy})
    return stages


def test_trunk_is_the_same_when_it_goes_on_from_a_milestone(evaluated: _Stages) -> None:
    """Six steps, and three and three more: equal files, results and receipt.

    What the milestone read is on the receipt as well: nobody may read twice because the reading was
    divided.
    """
    whole = evaluated.trunk("whole", 6, {})
    half = evaluated.trunk("half", 3, {})

    rest = evaluated.trunk("rest", 6, {"milestone": half["parent"]})

    for told in ("files", "results", "receipt"):
        assert rest[told] == whole[told]
    assert [step for step, *_ in rest["results"]["watch"]["curve"]] == [2, 4, 6]
    assert sum(rest["receipt"]["shards"].values()) == 6 * CONTEXT * MODEL["batch_sequences"]


@pytest.mark.parametrize(
    ("stage", "asked_form"),
    [("cooldown", {}), ("qat", form("qat", "ternary", "row", "absmean"))],
)
def test_branch_is_the_same_whichever_milestones_came_before(
    evaluated: _Stages, stage: str, asked_form: dict[str, Any]
) -> None:
    """A milestone in one piece, and one in three: what branches off is equal, consumption too."""
    whole, first = evaluated.trunk("whole", 6, {}), evaluated.trunk("first", 2, {})
    second = evaluated.trunk("second", 5, {"milestone": first["parent"]})
    third = evaluated.trunk("third", 6, {"milestone": second["parent"]})
    spec = {"trunk": TRUNK, "form": asked_form, "cooldown": COOLDOWN}

    one = evaluated.run("one", stage, spec, {"milestone": whole["parent"]})
    other = evaluated.run("other", stage, spec, {"milestone": third["parent"]})

    for told in ("files", "results", "receipt"):
        assert other[told] == one[told]
    assert [step for step, _ in one["results"]["train_losses"]] == list(range(1, 11))
    assert sum(one["receipt"]["shards"].values()) == 10 * CONTEXT * MODEL["batch_sequences"]


@pytest.mark.parametrize(
    ("stage", "asked_form"),
    [
        ("trunk", {}),
        ("cooldown", {}),
        ("qat", form("qat", "ternary", "row", "absmean")),
        ("qat", form("lsq", 3, "row", "learned")),
    ],
)
def test_scripts_make_the_same_when_their_time_ends_again_and_again(
    evaluated: _Stages, stage: str, asked_form: dict[str, Any]
) -> None:
    """Files, results and receipt of four links equal those of one; the chain tells the rest."""
    milestone = {"milestone": evaluated.trunk("m", 6, {})["parent"]}
    tokens = 10 * CONTEXT * MODEL["batch_sequences"]
    asked = {"num_steps": 10, "num_tokens": tokens} if stage == "trunk" else {"cooldown": COOLDOWN}
    spec = {"trunk": TRUNK, "form": asked_form, **asked}
    whole = evaluated.run("whole", stage, spec, milestone)

    parts = evaluated.in_links("parts", stage, spec, milestone)

    for told in ("files", "results", "receipt"):
        assert parts[told] == whole[told]
    assert parts["chain"]["resumed_tokens"] == 9 * CONTEXT * MODEL["batch_sequences"]
    assert whole["chain"]["resumed_tokens"] == 0


def test_cooldown_refuses_when_the_milestone_is_another(stages: _Stages) -> None:
    """A branch from another step than the spec's is an error, and nothing is handed back."""
    milestone = {"milestone": stages.trunk("m", 5, {})["parent"]}

    with pytest.raises(ValueError, match="expected 6; seen 5"):
        stages.run("base", "cooldown", {"trunk": TRUNK, "cooldown": COOLDOWN}, milestone)


def test_trunk_refuses_when_the_corpus_is_too_small(stages: _Stages) -> None:
    """More tokens than the passes hold are refused before a step is made."""
    with pytest.raises(CorpusRefusal, match="more tokens than the declared passes hold"):
        stages.trunk("m", 60, {})


def test_trunk_refuses_when_it_is_given_no_corpus(stages: _Stages) -> None:
    """An empty variable is a clear refusal, not a folder named after nothing."""
    stages.variables[contract.CORPUS] = ""

    with pytest.raises(ConfigRefusal, match="stage trunk reads a corpus and was given none"):
        stages.trunk("m", 6, {})
