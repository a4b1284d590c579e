"""What a job asks of SLURM: its resources as the words of sbatch(1), in the plugin's translation.

    python -m snakemake_executor_plugin_labslurm.asking < resources.json

prints the words for resources of a profile; `quantgrid doctor` asks SLURM whether it takes them.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from snakemake_interface_common.exceptions import WorkflowError

from quantgrid.slurm.batch import Ask
from snakemake_executor_plugin_labslurm import stock

_MARK = "@"
"""Where the plugin would put what a job is found by; here each submission has its own."""

_FORBIDDEN = re.compile(
    r"(?:^|\s)(--(?:no-)?requeue|--array|-a|--begin|-b|--dependency|-d|--wait|-W|--hold|-H|--wrap)"
    r"(?=$|[=\s])"
)
"""Options by which a submission is ended and followed, and which the plugin leaves to a person."""


class Plain(dict[str, Any]):
    """Resources of no job of Snakemake: looked up and asked for by name alike."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Demand(NamedTuple):
    """What the plugin wants to know of a job."""

    resources: Any
    threads: int = 1


def of(
    job: Any,
    settings: Any = None,
    nodes_to_avoid: Iterable[str] = (),
    *,
    account: str = "",
    partition: str = "",
) -> Ask:
    """Translate the resources of a job.

    Args:
        job: Has `resources` and `threads`.
        settings: The plugin's settings; None for none.
        nodes_to_avoid: Their names.
        account: The option of sbatch that says the account; empty for SLURM's own choice.
        partition: The same of the partition.

    Raises:
        WorkflowError: for resources that cannot be meant.
    """
    stock.plugin.validate_slurm_extra(job)
    _refuse_clusters(job.resources)
    _refuse_ours(str(job.resources.get("slurm_extra") or ""))
    names = dict.fromkeys(("run_uuid", "slurm_logfile", "comment_str"), _MARK)
    params = {**names, "account": account, "partition": partition, "workdir": None}
    line = stock.plugin.get_submit_command(job, params, settings, set(nodes_to_avoid))
    words = shlex.split(line + stock.plugin.set_gres_string(job))
    last = max(number for number, word in enumerate(words) if word == _MARK)
    return Ask(tuple(words[last + 1 :]), _cores(job), _minutes(job.resources.get("runtime")))


def _refuse_clusters(resources: Any) -> None:
    named = [name for name in ("cluster", "clusters", "slurm_cluster") if resources.get(name)]
    if named:
        raise WorkflowError(
            f"{named[0]} is {resources.get(named[0])!r}, and labslurm follows jobs of one cluster: "
            "of another one it would see no job, and submit it again.  Set SLURM_CONF instead."
        )


def _refuse_ours(extra: str) -> None:
    found = _FORBIDDEN.search(extra)
    if found:
        raise WorkflowError(
            f"slurm_extra has {found[1]}, by which submissions are ended and followed: "
            f"{extra!r}.  Leave that out; other options of sbatch are welcome."
        )


def _cores(job: Any) -> int | None:
    """Cores of its only task; None where the site forbids to say so, or a GPU decides."""
    said = job.resources.get("cpus_per_task")
    if said:
        return int(said) if said > 0 else None
    return None if job.resources.get("cpus_per_gpu") else int(job.threads)


def _minutes(runtime: Any) -> int | None:
    if not runtime:
        return None
    minutes: int = stock.minutes_of(runtime)
    return minutes


def main() -> int:
    """Print the words for the resources on stdin; the account and partition that they name too."""
    resources = Plain(json.load(sys.stdin))
    try:
        ask = of(
            Demand(resources),
            account=option("-A", resources.get("slurm_account")),
            partition=option("-p", resources.get("slurm_partition")),
        )
    except WorkflowError as error:
        print(error, file=sys.stderr)
        return 78
    print(json.dumps(ask.words))
    return 0


def option(name: str, value: Any) -> str:
    """An option of sbatch, quoted; empty where nothing is said."""
    return f" {name} {shlex.quote(str(value))}" if value else ""


if __name__ == "__main__":
    sys.exit(main())
