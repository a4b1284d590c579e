"""What a signal asks for is done beside whoever was interrupted, and needs none of its locks."""

import ast
import os
import signal
import threading
from pathlib import Path

from quantgrid.hearing import hear

_LOCKS = {"set", "acquire", "notify", "notify_all", "put"}
"""Methods with which Python synchronises threads: each takes a lock that nobody takes twice."""


def test_answer_takes_a_lock_that_the_interrupted_thread_has() -> None:
    """Given in the main thread, as Python does it, it would wait for that lock for ever."""
    lock, came, is_told = threading.Lock(), [], threading.Event()

    def answer(number: int) -> None:
        came.append((number, lock.acquire(timeout=120)))
        is_told.set()

    before = signal.getsignal(signal.SIGUSR1)
    try:
        with lock:
            hear((signal.SIGUSR1,), answer)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not came  # Python runs handlers before it comes here
        assert is_told.wait(120)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert came == [(signal.SIGUSR1, True)]


def test_no_handler_of_a_signal_takes_a_lock() -> None:
    """Wherever the sources give a signal to a lambda; `hear` is for what needs more."""
    root = Path(__file__).parents[2]
    paths = [path for part in ("src", "rehearsal") for path in (root / part).rglob("*.py")]
    found = [f"{path}:{line}" for path in paths for line in _locking(path.read_text())]

    assert len(paths) > 100
    assert not found
    assert _locking("signal.signal(2, lambda *_: asked.set())") == [1]


def _locking(text: str) -> list[int]:
    """Lines of `signal.signal` whose handler calls what takes a lock."""
    if "signal.signal(" not in text:
        return []
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    given = [call for call in calls if ast.unparse(call.func) == "signal.signal"]
    return [each.lineno for each in given if _calls_lock(each.args[1])]


def _calls_lock(handler: ast.expr) -> bool:
    names = {node.attr for node in ast.walk(handler) if isinstance(node, ast.Attribute)}
    return isinstance(handler, ast.Lambda) and bool(names & _LOCKS)
