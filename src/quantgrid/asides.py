"""What a running script leaves for a person to hear before it ends: read beside it, told once."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LOOK_EVERY_S = 5.0
"""Later than this nobody hears of it; a look is one stat."""


@contextmanager
def heard(
    notices: Sequence[Path], tell: Callable[[Path], None], every_s: float = LOOK_EVERY_S
) -> Iterator[None]:
    """Call `tell` for each of some files that appears meanwhile, and at the end for the rest.

    Args:
        notices: The files, which are published whole.
        tell: Gets each once; it raises nothing.
        every_s: Seconds between two looks.
    """
    over, waiting = threading.Event(), list(notices)

    def listen() -> None:
        is_over = False
        while waiting and not is_over:
            is_over = over.wait(every_s)
            for notice in [each for each in waiting if each.exists()]:
                waiting.remove(notice)
                tell(notice)

    thread = threading.Thread(target=listen, name="asides", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
