"""What SLURM is asked for: the stock plugin's translation, and what is refused of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from snakemake_interface_common.exceptions import WorkflowError

from quantgrid.slurm import size
from quantgrid.slurm.batch import Ask
from snakemake_executor_plugin_labslurm import ExecutorSettings, asking
from snakemake_executor_plugin_labslurm.asking import Demand, Plain

TASK = ("--ntasks=1", "--cpus-per-task=2")


def asked(settings: ExecutorSettings | None = None, **resources: object) -> Ask:
    """What a job of two threads asks for."""
    return asking.of(Demand(Plain(resources), 2), settings)


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({}, TASK),
        ({"runtime": 90, "mem_mb": 4000}, ("-t", "90", "--mem", "4000", *TASK)),
        ({"mem_mb": 1, "mem_mb_per_cpu": 3}, ("--mem-per-cpu", "3", *TASK)),
        ({"cpus_per_task": 8}, ("--ntasks=1", "--cpus-per-task=8")),
        ({"gpu": 1}, ("--cpus-per-task=2", "--gpus=1")),
        ({"gpu": 2, "gpu_model": "h100"}, ("--cpus-per-task=2", "--gpus=h100:2")),
        ({"gres": "gpu:a:2"}, ("--cpus-per-task=2", "--gres=gpu:a:2")),
        ({"gpu": 0, "tmpdir": "t"}, TASK),
        ({"qos": "q", "constraint": "c"}, ("-C", "c", "--qos=q", *TASK)),
        ({"slurm_extra": "--nice=5 --mail-type=FAIL"}, (*TASK, "--nice=5", "--mail-type=FAIL")),
    ],
)
def test_resources_become_words_of_sbatch(
    resources: dict[str, object], words: tuple[str, ...]
) -> None:
    """The plugin's translation, without what a submission is found by."""
    assert asked(**resources).words == words


@pytest.mark.parametrize(
    "extra",
    ["--job-name=mine", "-J mine", "--comment=x", "--requeue", "--nice=3 --array=1-2", "-a 1"],
)
def test_options_by_which_submissions_are_found_are_refused(extra: str) -> None:
    """Some the plugin keeps for itself, and some are ours."""
    with pytest.raises(WorkflowError):
        asked(slurm_extra=extra)


def test_another_cluster_is_refused() -> None:
    """Jobs there would not be seen, would count as lost, and would run twice."""
    with pytest.raises(WorkflowError, match="jobs of one cluster"):
        asked(clusters="other")


def test_time_limit_and_cores_are_known_to_the_job(tmp_path: Path) -> None:
    """Its own clock and its step need numbers, whatever was typed."""
    assert asked(runtime="2h", cpus_per_task=3)[1:] == (3, 120)
    assert asked(cpus_per_task=-1).cpus is None
    assert asked(gpu=1, cpus_per_gpu=4)[1:] == (None, None)


def test_account_is_none_that_accounting_guesses() -> None:
    """What a person named is quoted for the shell that never comes; nothing else is said."""
    words = asking.of(Demand(Plain()), account=asking.option("-A", "la b")).words

    assert words[:2] == ("-A", "la b")
    assert asking.option("-A", None) == ""


def test_submission_is_never_requeued() -> None:
    """Whatever the cluster's default is: a requeued job is the same job twice."""
    assert "--no-requeue" in asked(ExecutorSettings()).words


@pytest.mark.parametrize(
    "given",
    [{"requeue": True}, {"array_jobs": "all"}, {"jobname_prefix": "x"}, {"status_attempts": 9}],
)
def test_setting_without_meaning_is_refused(given: dict[str, object]) -> None:
    """A person who sets what is not looked at is told so, and not left to believe it."""
    with pytest.raises(WorkflowError, match="--labslurm-" + next(iter(given)).replace("_", "-")):
        ExecutorSettings(**given)


def test_setting_of_the_plugin_keeps_its_meaning() -> None:
    """Quality of service and reservation reach sbatch."""
    words = asked(ExecutorSettings(qos="night", reservation="ours")).words

    assert {"--qos=night", "--reservation=ours"} <= set(words)


def test_words_of_a_profile_are_told_to_the_doctor() -> None:
    """By a program, so that the plumbing needs not know Snakemake."""
    command = [sys.executable, "-m", "snakemake_executor_plugin_labslurm.asking"]

    def told(given: object) -> "subprocess.CompletedProcess[str]":
        """Its answer."""
        text = json.dumps(given)
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    named = told({"slurm_partition": "gpu", "slurm_account": "lab", "runtime": 5})
    assert json.loads(named.stdout)[:6] == ["-A", "lab", "-p", "gpu", "-t", "5"]
    refused = told({"gres": "'gpu'"})
    assert (refused.returncode, refused.stdout) == (78, "")
    assert "GRES format" in refused.stderr


def test_memory_grows_with_the_model(root: Path) -> None:
    """A job that asks for nothing gets what its model needs; one without a model asks for none."""
    sizes = []
    for name in ("n0", "n10", "n100"):
        model = {"name": name, **yaml.safe_load((root / f"config/models/{name}.yaml").read_text())}
        job = {"stages": [{"spec": {"trunk": {"model": model}}}]}
        sizes.append(size.find_memory_mb(json.dumps(job)))

    assert sizes == sorted(sizes)
    assert sizes[0] == 2000
    assert sizes[2] > 4 * 100e6 * 4 / 2**20  # weights, gradients, two moments
    assert size.find_memory_mb("{}") is None
    assert size.find_memory_mb("") is None
    assert Ask(("-t", "1")).with_memory(2000).words == ("-t", "1", "--mem=2000M")
