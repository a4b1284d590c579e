"""What a job asks of SLURM: Snakemake's resources as the words of sbatch(1); pure."""

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from quantgrid.errors import ConfigRefusal

_PLAIN = {
    "slurm_account": "--account",
    "slurm_partition": "--partition",
    "qos": "--qos",
    "constraint": "--constraint",
    "reservation": "--reservation",
    "exclude": "--exclude",
    "gres": "--gres",
}
"""Resources that SLURM takes as they are; the names are those of Snakemake's own SLURM plugin."""

_OURS = {
    *("-J", "--job-name", "--comment", "-o", "--output", "-e", "--error", "--wrap", "--parsable"),
    *("-a", "--array", "--requeue", "--no-requeue", "-D", "--chdir", "--signal", "--export"),
    *("-b", "--begin", "-d", "--dependency", "-n", "--ntasks", "-W", "--wait", "-H", "--hold"),
}
"""Options by which a submission is found again, ended and followed."""


class Ask(NamedTuple):
    """What a job asks for.

    Args:
        words: Options of sbatch.
        cpus: Cores of its only task.
        runtime_min: Its time limit; None leaves it to the partition.
    """

    words: tuple[str, ...]
    cpus: int
    runtime_min: int | None


def parse(resources: Mapping[str, object], threads: int) -> Ask:
    """Read the resources of a job; those that SLURM does not know are for others.

    Args:
        resources: Name to number or text.
        threads: Cores when `cpus_per_task` says nothing else.

    Raises:
        ConfigRefusal: for a resource that is no number, or an option that is not a person's.
    """
    words = [
        f"{option}={resources[name]}" for name, option in _PLAIN.items() if _has(resources, name)
    ]
    cpus = _number(resources, "cpus_per_task") or threads
    runtime = _number(resources, "runtime")
    words += [f"--cpus-per-task={cpus}", *_memory(resources), *_gpus(resources)]
    words += [] if runtime is None else [f"--time={runtime}"]
    return Ask((*words, *_extra(resources)), cpus, runtime)


def _memory(resources: Mapping[str, object]) -> list[str]:
    per_core = _number(resources, "mem_mb_per_cpu")
    if per_core is not None:
        return [f"--mem-per-cpu={per_core}M"]
    whole = _number(resources, "mem_mb")
    return [] if whole is None else [f"--mem={whole}M"]


def _gpus(resources: Mapping[str, object]) -> list[str]:
    """`gpu` says how many, `gpu_model` which; `gres` overrides both."""
    count = _number(resources, "gpu")
    if not count or _has(resources, "gres"):
        return []
    model = resources.get("gpu_model")
    return [f"--gres=gpu:{model}:{count}" if model else f"--gres=gpu:{count}"]


def _extra(resources: Mapping[str, object]) -> list[str]:
    words = shlex.split(str(resources.get("slurm_extra") or ""))
    taken = sorted({word.split("=")[0] for word in words} & _OURS)
    if taken:
        raise ConfigRefusal(
            f"slurm_extra has {', '.join(taken)}, by which submissions are found and ended",
            seen=resources["slurm_extra"],
            do="Leave that out; other options of sbatch are welcome.",
        )
    return words


def _has(resources: Mapping[str, object], name: str) -> bool:
    return resources.get(name) not in {None, ""}


def _number(resources: Mapping[str, object], name: str) -> int | None:
    value = resources.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not str(value).isdigit():
        raise ConfigRefusal(f"resource {name} is no number", expected="digits", seen=repr(value))
    return int(str(value))
