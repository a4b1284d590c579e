"""Checks of a lab host: everything of a desk, then SLURM, and the shared folder from a node."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from quantgrid import layout
from quantgrid.checks import Finding, Level, attempt, local
from quantgrid.errors import ConfigRefusal
from quantgrid.load import Platform, Settings

_PROGRAMS = ("sbatch", "srun", "squeue", "scancel", "scontrol")
_ASKING = "snakemake_executor_plugin_labslurm.asking"
_ANSWER_S = 30
_NODE_S = 90
"""For a node to take a job of a second; a full cluster takes longer, which is no fault."""
_SKEW_S = 30.0
"""Half of what a controller on another host may be silent."""


def check(root: Path, settings: Settings, platform: Platform, second: Path | None) -> list[Finding]:
    """Every finding, in the order in which trouble costs most."""
    found = local.check(root, settings, platform, second)
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        do = "Start on a login node of the cluster."
        return [*found, Finding(Level.REFUSE, "slurm", f"no {', '.join(missing)} here", do)]
    answers = _controller()
    if answers.level is Level.REFUSE:
        return [*found, answers]
    return [
        *found,
        answers,
        _accounting(),
        *_settings(platform),
        *_partitions(),
        attempt("resources", lambda: _resources(settings)),
        *_nodes(root, root / settings.volume, settings),
    ]


def _call(*command: str, within_s: float = _ANSWER_S, given: str | None = None) -> tuple[int, str]:
    """Exit code and words of a program; 124 when it took too long."""
    try:
        done = subprocess.run(
            command,
            input=given or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within_s,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {within_s:.0f} s"
    return done.returncode, done.stdout.strip()


def _controller() -> Finding:
    code, said = _call("scontrol", "ping")
    version = _call("sbatch", "--version")[1]
    if code or "UP" not in said:
        return Finding(
            Level.REFUSE,
            "slurm",
            f"{version}: {said}",
            "slurmctld is down, or SLURM_CONF is wrong.",
        )
    return Finding(Level.OK, "slurm", f"{version}; {said.splitlines()[0]}")


def _accounting() -> Finding:
    code, said = _call("sacct", "-X", "-n", "-S", "now")
    if code:
        return Finding(
            Level.WARN,
            "accounting",
            f"none: {said.splitlines()[-1] if said else f'code {code}'}",
            "Nothing needs it; a job that slurmctld forgot without a word then counts as lost.",
        )
    return Finding(Level.OK, "accounting", "answers")


def _settings(platform: Platform) -> list[Finding]:
    """What slurm.conf says of waiting and killing, against what the platform's file says."""
    said = _call("scontrol", "show", "config")[1]
    kill_s, age_s = (_seconds(said, name) for name in ("KillWait", "MinJobAge"))
    found = []
    if kill_s is not None:
        words = f"{kill_s} s from SIGTERM to SIGKILL, and grace_s is {platform.grace_s}"
        is_short = platform.grace_s > kill_s
        do = f"Set grace_s to {kill_s} or less in the platform's file; save more often."
        level = Level.WARN if is_short else Level.OK
        found.append(Finding(level, "KillWait", words, do if is_short else ""))
    if age_s is not None:
        words = f"slurmctld remembers a job for {age_s} s"
        level = Level.WARN if age_s < 2 * 10 else Level.OK
        do = "Accounting has to answer then, or ended jobs without a word count as lost."
        found.append(Finding(level, "MinJobAge", words, do if level is Level.WARN else ""))
    return found


def _seconds(said: str, name: str) -> int | None:
    found = re.search(rf"^{name}\s*=\s*(\d+)", said, re.MULTILINE)
    return int(found[1]) if found else None


def _partitions() -> list[Finding]:
    code, said = _call("sinfo", "-h", "-o", "%P|%a|%l|%D|%c|%m|%G")
    if code or not said:
        return [Finding(Level.REFUSE, "partition", said or "none", "Ask who runs the cluster.")]
    found = []
    for line in dict.fromkeys(said.splitlines()):
        name, state, limit, nodes, cpus, memory, gpus = line.split("|")
        words = f"{name} {state}, limit {limit}, {nodes} nodes of {cpus} cores, {memory} MB, {gpus}"
        found.append(Finding(Level.OK if state == "up" else Level.WARN, "partition", words))
    return found


# -- what the profile asks for, and a node that does it -------------------------------------------


def _asked(settings: Settings) -> list[str]:
    """The default resources of the profile as words of sbatch, by the executor's translation.

    Raises:
        ConfigRefusal: when they cannot be meant.
    """
    data = yaml.safe_load((settings.root / layout.SLURM_PROFILE).read_text()) or {}
    pairs = [str(each).partition("=") for each in data.get("default-resources", [])]
    given = {name: yaml.safe_load(value) for name, _, value in pairs if value != "None"}
    code, said = _call(sys.executable, "-m", _ASKING, given=json.dumps(given))
    last = said.splitlines()[-1] if said else ""
    if code:
        raise ConfigRefusal(
            "the resources of the profile cannot be meant", seen=last, where=layout.SLURM_PROFILE
        )
    words: list[str] = json.loads(last)
    return words


def _resources(settings: Settings) -> Finding:
    """Whether SLURM would take a job with the profile's account, partition, GPU and limit."""
    words = _asked(settings)
    code, said = _call("sbatch", "--test-only", *words, "--wrap=true")
    last = said.splitlines()[-1] if said else ""
    if code:
        raise ConfigRefusal(
            "SLURM refuses the resources of the profile",
            seen=last,
            where=layout.SLURM_PROFILE,
            do="Set slurm_account, slurm_partition, gpu, mem_mb and runtime there.",
        )
    return Finding(Level.OK, "resources", f"{' '.join(words)}: {last.removeprefix('sbatch: ')}")


_ON_A_NODE = """
import fcntl, json, os, sys, time
told = {"host": os.uname().nodename, "python": sys.version.split()[0]}
for name, folder, token in json.loads(sys.argv[1]):
    path = os.path.join(folder, token)
    try:
        with open(path + ".node", "x") as file:
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
        with open(path + ".here") as file:
            told[name] = "ok" if file.read() == token else "what was written here is not seen there"
        with open(path + ".here", "r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                told[name + " locks"] = "a lock that is held here is not seen there"
            except BlockingIOError:
                told[name + " locks"] = "ok"
            except OSError as error:
                told[name + " locks"] = str(error)
    except OSError as error:
        told[name] = str(error)
told["now"] = time.time()
print("told:" + json.dumps(told))
"""


def _nodes(root: Path, volume: Path, settings: Settings) -> list[Finding]:
    """Write, fsync, read back and lock between here and a node, in both shared folders."""
    import fcntl

    token = f"{layout.volume_probe(os.urandom(6).hex())}"
    places = [("copy", root), ("volume", volume)]
    files = []
    try:
        for _, folder in places:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / f"{token}.here").open("x")
            files.append(file)
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
            fcntl.flock(file, fcntl.LOCK_EX)
        return _told_by_node(places, token, settings)
    except OSError as error:
        return [Finding(Level.REFUSE, "node", str(error))]
    finally:
        for file in files:
            file.close()
        for _, folder in places:
            for end in ("here", "node"):
                (folder / f"{token}.{end}").unlink(missing_ok=True)


def _told_by_node(places: list[tuple[str, Path]], token: str, settings: Settings) -> list[Finding]:
    given = json.dumps([[name, str(folder), token] for name, folder in places])
    where = ["--ntasks=1", "--nodes=1", "--time=1", f"--immediate={_NODE_S}"]
    words = _words_of(settings)
    before_s = time.time()
    command = [sys.executable, "-c", _ON_A_NODE, given]
    code, said = _call("srun", *where, *words, *command, within_s=_NODE_S + 30)
    took_s = time.time() - before_s
    line = next((line for line in said.splitlines() if line.startswith("told:")), None)
    if line is None:
        last = said.splitlines()[-1] if said else f"code {code}"
        do = "The cluster is full, or nodes lack this folder or this Python; try `srun hostname`."
        level = Level.WARN if "immediate" in said or code == 124 else Level.REFUSE
        return [Finding(level, "node", f"no node answered: {last}", do)]
    told = json.loads(line.removeprefix("told:"))
    seen = [_seen_here(told, name, folder, token) for name, folder in places]
    return [*seen, *_locks(told), _skew(told, before_s, took_s)]


def _words_of(settings: Settings) -> list[str]:
    """The profile's words without its time limit, which is not that of a check."""
    try:
        words = _asked(settings)
    except (ConfigRefusal, OSError):
        return []
    place = words.index("-t") if "-t" in words else len(words)
    return words[:place] + words[place + 2 :]


def _seen_here(told: dict[str, Any], name: str, folder: Path, token: str) -> Finding:
    said = told.get(name, "not reached")
    if said != "ok":
        do = "Put it into a folder that all nodes share, at the same path."
        return Finding(Level.REFUSE, "node", f"{folder} from {told['host']}: {said}", do)
    path = folder / f"{token}.node"
    if not path.exists() or path.read_text() != token:
        words = f"what {told['host']} wrote to {folder} and synced is not seen here"
        return Finding(Level.REFUSE, "node", words, "Is it the same folder?")
    return Finding(
        Level.OK, "node", f"{folder}: written and read back between here and {told['host']}"
    )


def _locks(told: dict[str, Any]) -> list[Finding]:
    """Whether a lock reaches the nodes: whoever clears dead attempts trusts that it does."""
    bad = [told[f"{name} locks"] for name in ("copy",) if told.get(f"{name} locks", "ok") != "ok"]
    if not bad:
        return [Finding(Level.OK, "locks", f"reach {told['host']}")]
    do = "Mount the folder with locks (NFS without `nolock`, Lustre with `flock`)."
    return [Finding(Level.REFUSE, "locks", bad[0], do)]


def _skew(told: dict[str, Any], before_s: float, took_s: float) -> Finding:
    """How far a node's clock is off, within what the job took."""
    early, late = before_s - told["now"], told["now"] - (before_s + took_s)
    off_s = max(early, late, 0.0)
    words = f"python {told['python']} on {told['host']}, its clock is off by {off_s:.1f} s at least"
    if off_s > _SKEW_S:
        return Finding(Level.WARN, "node", words, "Let both ask the same time server.")
    return Finding(Level.OK, "node", words)
