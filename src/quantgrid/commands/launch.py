"""`quantgrid launch`: start a controller that needs neither this terminal nor this connection."""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantgrid import layout, standing, supervisor
from quantgrid.clock import SystemClock
from quantgrid.controller import new_id, occupied
from quantgrid.errors import ConfigRefusal, Fault
from quantgrid.slurm import coordinator
from quantgrid.standing import Standing
from quantgrid.terminal import find_error_sentence

HELP = "start Snakemake detached: a closed terminal or a dropped connection does not end it"

_LOOK_EVERY_S = 0.1
_KEPT_LOGS = 20
_PROFILE = "--profile"
_OWN = {"here", "slurm"}
"""Where a controller finds this very working copy."""

Started = subprocess.Popen[bytes] | coordinator.Coordinator


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--on", default="here", metavar="PLATFORM", help="here, slurm, or a platform that rents"
    )
    example = 'as in --ask="--mem=1G"'
    parser.add_argument(
        "--ask", default="", help=f"words of sbatch for a controller on slurm, {example}"
    )
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="-- ...",
        help="Snakemake's arguments; the profile `local` is added when they name none",
    )


def main(options: argparse.Namespace) -> int:
    """Start it, and come back when it holds the working copy or has said why not.

    Raises:
        HoldRefusal: when a controller runs here already.
        ConfigRefusal: when there is no workflow here.
    """
    root, code = Path.cwd(), options.root.absolute()
    _refuse_no_workflow(code)
    if options.on not in _OWN:
        return _rented(root, code, options.on, _given(options.arguments))
    with _alone(root):
        name = new_id(SystemClock())
        started = _start(root, name, options, code)
        _forget_old(root)
        try:
            return _await(root, name, started)
        except KeyboardInterrupt:
            print(f"It goes on without you: {layout.controller_log(name)}", file=sys.stderr)
            return 130


def _start(root: Path, name: str, options: argparse.Namespace, code: Path) -> Started:
    """Start a controller where the person said.

    Raises:
        ConfigRefusal: when SLURM refuses it.
    """
    is_on_slurm = options.on == "slurm"
    profile = str(Path(layout.SLURM_PROFILE).parent) if is_on_slurm else layout.LOCAL_PROFILE
    command = _command(options.arguments, code, profile)
    if is_on_slurm:
        return coordinator.start(root, name, command, shlex.split(options.ask))
    return supervisor.start(root, name, command)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """One launch at a time: two Snakemakes that make `.snakemake` at once fail over each other.

    Raises:
        HoldRefusal: when a controller runs here, or does before it is our turn.
    """
    path = root / layout.LAUNCH_LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        is_our_turn = False
        while not is_our_turn:
            is_our_turn = standing.is_taken(lock)
            seen = standing.look(root)
            if seen.state.is_live:
                raise occupied(root, seen.holder)
            if not is_our_turn:
                time.sleep(_LOOK_EVERY_S)
        yield


def _refuse_no_workflow(code: Path) -> None:
    if not (code / layout.SNAKEFILE).is_file():
        raise ConfigRefusal(
            "there is no workflow here to launch",
            expected=layout.SNAKEFILE,
            seen="no such file",
            where=code,
            do="Change to the working copy, or name the folder of the Snakefile with --root.",
        )


def _given(arguments: list[str]) -> list[str]:
    return arguments[1:] if arguments[:1] == ["--"] else arguments


def _rented(root: Path, code: Path, platform: str, arguments: list[str]) -> int:
    """Start a coordinator: the controller as a small job on a rented platform."""
    from quantgrid.rental.coordinating import Coordinator, overrides_of

    with _alone(root):
        coordinator = Coordinator.of(code, root, platform, overrides_of(arguments))
        lease = coordinator.launch(arguments)
    print(f"Launched on {lease.platform}, machine {lease.machine}.  This computer may be closed.")
    print("  quantgrid attach   follow it (Ctrl-C only leaves)")
    print("  quantgrid leases   what is rented, and what it may still cost")
    print("  quantgrid stop     end it with all its machines, and confirm it")
    return 0


def _command(given: list[str], code: Path, usual: str) -> list[str]:
    """Snakemake with the arguments of a person, and the profile of this machine if none is named.

    What the person typed stays as it is: `--config grid=paper` at the end takes all that follows.
    """
    arguments = _given(given)
    names_profile = any(each.split("=")[0] == _PROFILE for each in arguments)
    is_here = code == Path.cwd()
    if not (names_profile or os.environ.get("SNAKEMAKE_PROFILE")):
        profile = usual if is_here else str(code / usual)
        arguments = [_PROFILE, profile, *arguments]
    snakefile = [] if is_here else ["--snakefile", str(code / layout.SNAKEFILE)]
    return [sys.executable, "-P", "-m", "snakemake", *snakefile, *arguments]


def _await(root: Path, name: str, started: Started) -> int:
    """Wait until the controller of a name holds the working copy, or has ended."""
    while True:
        has_ended = started.poll() is not None  # before the look, which then sees all that it did
        seen = standing.look(root)
        if seen.holder and seen.holder.id == name:
            return _launched(seen)
        if has_ended:
            return _not_launched(root / layout.controller_log(name), started.returncode)
        time.sleep(_LOOK_EVERY_S)


def _launched(seen: Standing) -> int:
    """Say that it runs, and how to look, follow and stop."""
    said = _text(seen.log)
    print("\n".join(line for line in said.splitlines() if line.startswith(("plan ", "stale"))))
    print(f"Launched: {seen.holder}.  This terminal may be closed.")
    print("  quantgrid attach   follow it (Ctrl-C only leaves)")
    print("  quantgrid status   how far it is")
    print("  quantgrid stop     end it; its jobs save their state first")
    print(f"  log                {layout.controller_log(seen.holder.id) if seen.holder else ''}")
    return 0


def _not_launched(log: Path, code: int) -> int:
    """Say why it did not come to the lock: its own error first."""
    said = _text(log)
    if code == 0:
        print("\n".join(line for line in said.splitlines() if line.startswith("plan ")))
        print("There was nothing to do, so nothing runs.")
        return 0
    words = find_error_sentence(said) or Fault(f"Snakemake ended with exit code {code}").message()
    print(words, file=sys.stderr)
    print(f"Nothing was launched; all that it said: {log}", file=sys.stderr)
    return code


def _text(path: Path | None) -> str:
    return path.read_text(errors="replace") if path and path.exists() else ""


def _forget_old(root: Path) -> None:
    """Keep the logs and ends of the newest controllers."""
    for folder in (layout.CONTROLLER_LOGS, layout.CONTROLLERS):
        found = sorted((root / folder).glob(layout.CONTROLLER_FILES))
        for path in found[:-_KEPT_LOGS]:
            path.unlink(missing_ok=True)
