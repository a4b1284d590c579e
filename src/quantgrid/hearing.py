"""Signals heard aside: what they ask for is done in a thread, never by whoever was interrupted.

Python calls a signal's handler in the main thread, in the middle of whatever that does.  A handler
that takes a lock, as `threading.Event.set` does, waits for ever when the main thread has it.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable


def hear(numbers: Iterable[int], answer: Callable[[int], object]) -> None:
    """From now on, call `answer` in a thread of its own with the number of each signal that comes.

    Args:
        numbers: The signals; called in the main thread, as Python demands.
        answer: It may take locks; signals that come meanwhile are answered afterwards.
    """
    heard, tell = os.pipe()

    def listen() -> None:
        while told := os.read(heard, 1):
            answer(told[0])

    threading.Thread(target=listen, name="signals", daemon=True).start()
    for number in numbers:
        signal.signal(number, lambda came, _: os.write(tell, bytes([came])))
