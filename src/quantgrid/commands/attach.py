"""`quantgrid attach`: follow a controller until it ends; leaving it never ends it."""

import argparse
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import IO

from quantgrid import layout, outlook, standing
from quantgrid.errors import Fault, HoldRefusal
from quantgrid.rental.coordinating import Coordinator, find_launched
from quantgrid.screen import Screen
from quantgrid.standing import Standing, State

HELP = "follow the controller of this working copy; Ctrl-C leaves it and does not end it"

_EVERY_S = 0.25
_ENDS_WITHIN_S = 45.0
"""How long a supervisor takes to end what a dead controller left, and to write that down."""

_LEFT = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--lines", type=int, default=10, metavar="N", help="lines of its log to begin with"
    )


def main(options: argparse.Namespace) -> int:
    """Follow it; the exit code is the controller's own, or 130 when it was left before its end.

    Raises:
        HoldRefusal: when it runs on another host.
    """
    seen = standing.look(Path.cwd())
    if seen.state is State.ELSEWHERE:
        raise HoldRefusal(
            "the controller runs on another host, where its terminal and its processes are",
            seen=seen.holder or "another process",
            where=seen.root,
            do="Type `quantgrid attach` there; `quantgrid status` shows here how far it is.",
        )
    if not seen.state.is_live and (launched := find_launched(Path.cwd())):
        return _rented(*launched)
    if not seen.state.is_live:
        print("\n".join(outlook.lines(seen)))
        return _exit_code(seen)
    return _Follower(seen, options.lines).follow()


def _rented(platform: str, overrides: dict[str, str]) -> int:
    """Follow a coordinator; its files come home when it has ended."""
    root = Path.cwd()
    try:
        ended = Coordinator.of(root, root, platform, overrides).attach()
    except KeyboardInterrupt:
        return _LEFT
    print(ended.sentence or f"done: the coordinator on {platform} ended; Snakemake folds here.")
    return ended.code


class _Follower:
    """Shows what the log of a controller gains, and below it what changes all the time."""

    def __init__(self, seen: Standing, num_lines: int) -> None:
        self._seen, self._num_lines = seen, num_lines
        self._screen = Screen(sys.stdout)
        self._is_live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._log: IO[str] | None = None
        self._told = 0

    def follow(self) -> int:
        try:
            print(f"Following {self._seen.holder}.  Ctrl-C leaves it running.", flush=True)
            while self._seen.state.is_live:
                self._show()
                time.sleep(_EVERY_S)
                self._seen = self._look()
            return self._conclude()
        except KeyboardInterrupt:
            self._screen.draw([])
            print("Left; the grid goes on.  Look again: quantgrid attach", flush=True)
            return _LEFT

    def _look(self) -> Standing:
        """How it stands; a successor in the same working copy is somebody else."""
        seen = standing.look(self._seen.root)
        same = seen.holder and self._seen.holder and seen.holder.id == self._seen.holder.id
        return seen if same else self._seen._replace(state=State.ENDED)

    def _show(self) -> None:
        self._screen.write(self._news())
        self._screen.draw(self._block() if self._is_live else [])

    def _block(self) -> list[str]:
        halted = outlook.lines(self._seen)[1:2] if self._seen.state is State.HALTED else []
        return outlook.block(self._seen, self._screen.size()[0] - 1) + halted

    def _news(self) -> str:
        """What the log gained; where there is none, the failures that are new."""
        if self._log is None and self._seen.log:
            self._log = self._seen.log.open(errors="replace")
            return "".join(deque(self._log, maxlen=self._num_lines))
        if self._log is not None:
            return self._log.read()
        found = outlook.failures(self._seen)
        new, self._told = found[self._told :], len(found)
        return "".join(f"{line}\n" for each in new for line in outlook.failure_lines(each, 80))

    def _conclude(self) -> int:
        """Say how it ended, when its supervisor has written that down."""
        holder, deadline = self._seen.holder, time.monotonic() + _ENDS_WITHIN_S
        end = self._seen.root / layout.controller_end(holder.id) if holder else Path()
        while holder and holder.supervisor and not end.exists() and time.monotonic() < deadline:
            time.sleep(_EVERY_S)
        self._seen = self._look()
        self._screen.write(self._news())
        self._screen.draw([])
        # its log ends with a summary, unless it was killed
        told = outlook.lines(self._seen, are_failures_told=self._seen.state is State.ENDED)
        print("\n".join(told), flush=True)
        return _exit_code(self._seen)


def _exit_code(seen: Standing) -> int:
    """The controller's own code; that of a fault when it died, or ended with failed jobs."""
    if seen.ended:
        code = int(seen.ended["exit_code"])
        return code if code >= 0 else 128 - code
    if seen.state is State.DIED or outlook.failures(seen):
        return Fault.exit_code
    return 0
