"""The container of a sandbox: starts its first process, and ends all that is left when it ends.

    python keeper.py HOME SECONDS WORD...

It outlives a crash of the double.  `HOME/end` says how the first process ended: its code, or
`timeout` when the seconds were over.  Whatever a process of it starts stays below it, for it adopts
orphans (`prctl(2)`, PR_SET_CHILD_SUBREAPER = 36).
"""

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path

_AGAIN_S = 0.01


def descendants(of: int) -> list[int]:
    """All processes below one, by /proc."""
    parents: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text(errors="replace")
            parent = int(stat.rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        parents.setdefault(parent, []).append(int(process.name))
    found, left = [], [of]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def end_all(of: int) -> None:
    """Kill what is below a process, until nothing is."""
    while below := descendants(of):
        for process in below:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _reap()
        time.sleep(_AGAIN_S)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def wait(first: int, until_s: float) -> dict[str, object]:
    """How the first process ended; orphans that it adopted are buried meanwhile."""
    while (left_s := until_s - time.monotonic()) > 0:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == first:
            code = os.waitstatus_to_exitcode(status)
            return {"code": code if code >= 0 else 128 - code}
        if process == 0:
            signal.sigtimedwait({signal.SIGCHLD}, left_s)
    return {"timeout": True}


def start(words: list[str]) -> int:
    """The first process, in a session of its own."""
    first = os.fork()
    if first:
        return first
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell in the background has it ignored
    try:
        os.execvp(words[0], words)  # noqa: S606 - a list of words, as the vendor takes it
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def main(home: str, seconds: str, *words: str) -> None:
    """Run, and write down the end."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    until_s = time.monotonic() + float(seconds)
    first = start(list(words))
    publish(Path(home, "first"), str(first))
    end = wait(first, until_s)
    end_all(os.getpid())
    publish(Path(home, "end"), json.dumps({**end, "ended_s": time.time()}))


def publish(path: Path, text: str) -> None:
    """Write a file that its readers see whole or not at all."""
    aside = path.with_name(f"{path.name}~")
    aside.write_text(text)
    aside.rename(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
