"""`quantgrid stop`: end the controller of this working copy and all that it started."""

import argparse
import signal
import sys
import time
from pathlib import Path

from quantgrid import outlook, processes, standing, stopping
from quantgrid.errors import HoldRefusal, PlatformFault
from quantgrid.load import load_platform, load_settings
from quantgrid.rental.stopping import leases_of_copy
from quantgrid.slurm import ending
from quantgrid.standing import Holder, State
from quantgrid.wording import counted

HELP = "end the controller of this working copy and its rented machines, and confirm it"

_NOTHING = "No controller runs in this working copy, and nothing of an earlier one does."
_MARGIN_S, _LOOK_EVERY_S = 15.0, 0.1
"""What a runner needs after its grace to deposit what is finished, and Snakemake to end."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--now", action="store_true", help="kill at once, without saving state")
    parser.add_argument(
        "--grace-s",
        type=float,
        metavar="S",
        help="seconds that jobs have to save their state; those of its platform by default",
    )
    parser.add_argument("--wait-s", type=float, default=900.0, help="wait for rented machines")


def main(options: argparse.Namespace) -> int:
    """Stop it, and confirm that nothing of it runs, here or on rented machines.

    Raises:
        HoldRefusal: when it runs on another host.
        PlatformFault: when something of it cannot be ended.
    """
    root = Path.cwd()
    is_job = ending.was_launched(root) and ending.end_controllers(root) > 0
    seen = standing.look(root)
    if seen.state is State.ELSEWHERE and not is_job:
        raise HoldRefusal(
            "the controller runs on another host, and cannot be stopped from here",
            seen=seen.holder or "another process",
            where=seen.root,
            do="Type `quantgrid stop` there.",
        )
    said = _end_here(options, seen.holder) or "Its controller in SLURM was ended." * is_job
    if ending.find_open(root):
        said = f"{said}\n{_end_in_slurm(root, options, seen.holder)}".strip()
    rented = leases_of_copy(options.root.absolute(), Path.cwd())
    for each in rented:
        print(f"Ending the machines of {counted(len(each.leases), 'lease')} on {each.platform}.")
        each.end(options.wait_s)
    if said or not rented:
        print(
            said or "No controller runs in this working copy, and nothing of an earlier one does."
        )
    if rented:
        print("Every machine of this working copy is gone, and its cost is written down.")
    return 0


def _end_here(options: argparse.Namespace, holder: Holder | None) -> str:
    """End the controller on this machine; what was done, empty when there was nothing."""
    if holder is None or not holder.family():
        return ""
    grace_s = 0.0 if options.now else _grace_s(options, holder)
    if ending.find_open(Path.cwd()):
        grace_s = min(grace_s, _MARGIN_S)  # its jobs are in SLURM, and asked when it is gone
        _interrupt(holder)
    print(f"Stopping {holder} (up to {grace_s:.0f} s).", file=sys.stderr, flush=True)
    killed = stopping.stop(holder, grace_s)
    stopping.await_supervisor(holder)
    left = holder.family()
    if left:
        raise PlatformFault(
            "not everything of the controller could be ended",
            seen=f"processes {', '.join(str(each.pid) for each in left)}",
            do="They wait for a disk or a device, or belong to another user; look with `ps`.",
        )
    return _said(killed, holder)


def _interrupt(holder: Holder) -> None:
    """Let a controller leave its jobs in SLURM to themselves: after SIGTERM it would wait for them.

    Whatever is left of it is stopped like any other one.
    """
    process = holder.find_process()
    processes.signal_all([process] if process else [], signal.SIGINT)
    deadline = time.monotonic() + _MARGIN_S
    while holder.find_process() and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


def _end_in_slurm(root: Path, options: argparse.Namespace, holder: Holder | None) -> str:
    """End the jobs that a controller, dead by now, left in SLURM; what was done."""
    asked_s = options.grace_s if holder is None else _grace_s(options, holder)
    grace_s = 0.0 if options.now else float(asked_s or _MARGIN_S)
    count = ending.end(root, grace_s, lambda line: print(line, file=sys.stderr, flush=True))
    return f"Ended {counted(count, 'job')} in SLURM, and none is left."


def _grace_s(options: argparse.Namespace, holder: Holder) -> float:
    """The grace of the platform that this very controller was started with."""
    if options.grace_s is not None:
        return float(options.grace_s)
    if holder.grace_s is not None:
        return holder.grace_s + _MARGIN_S
    root = options.root.absolute()
    return load_platform(root, load_settings(root, {}).platform).own_grace_s + _MARGIN_S


def _said(killed: int, holder: Holder) -> str:
    how = f"{killed} processes were killed" if killed else "every process ended by itself"
    again = outlook.again(holder.arguments)
    return f"Stopped: {how}, and nothing of it runs.\nGo on with `{again}`."
