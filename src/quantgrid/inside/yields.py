"""What a task made: its files by digest, the records that they name, and what it has to say."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout
from quantgrid.errors import Refusal
from quantgrid.inside.patience import tell
from quantgrid.masking import masked
from quantgrid.rental import bundle
from quantgrid.rental.bundle import Item
from quantgrid.rental.tasks import TaskOrder
from quantgrid.store import Store

_ALSO_BYTES = 1 << 20
_SENTENCE = 2000


class Yield(NamedTuple):
    """What is left in a working copy when a task has ended.

    Args:
        order: The task.
        root: The working copy.
        code: Of its process.
    """

    order: TaskOrder
    root: Path
    code: int

    def files(self, store: Store, log: bytes) -> tuple[Item, ...]:
        """Store all of them by their digests.

        Args:
            store: Where to.
            log: The whole log, masked.

        Raises:
            Refusal: for a file that looks like a secret, or too many bytes.
        """
        for name in self._outputs():
            self._refuse_secret(name)
        items = bundle.put_files(store, self.root, self._outputs())
        items += self._put_also(store)
        if self.order.log:
            items += (Item(self.order.log, bundle.put(store, log), len(log)),)
        return items

    def _refuse_secret(self, name: str) -> None:
        """What a task writes travels as it is, so nothing of what only it may see is in it."""
        text = (self.root / name).read_text(errors="replace")
        if masked(text, os.environ) != text:
            raise Refusal(
                "a file that a task made has a secret of its machine in it, and does not travel",
                expected="no value of a variable that looks secret, and no password or token",
                where=name,
                do="Let the script write down no environment and no address with a password.",
            )

    def records(self) -> tuple[str, ...]:
        """Keys of the archive that its receipts name."""
        found = (_told(self.root / name).get("record") for name in self._outputs())
        return tuple(record for record in found if isinstance(record, str))

    def sentence(self) -> str:
        """The first sentence of its error; empty when it has none."""
        if not self.code:
            return ""
        for name in self.order.outputs:
            end = (self.root / layout.progress_file(name)).with_suffix(".end")
            if told := _told(end).get("sentence"):
                return str(told)[:_SENTENCE]
        return self._last_line()[:_SENTENCE]

    def _last_line(self) -> str:
        with suppress(OSError):
            text = layout.said_file(self.root, self.order.log).read_text(errors="replace")
            return next((line for line in reversed(text.splitlines()) if line.strip()), "")
        return ""

    def _outputs(self) -> list[str]:
        return [name for name in self.order.outputs if (self.root / name).is_file()]

    def _put_also(self, store: Store) -> tuple[Item, ...]:
        """What travels back as well; a result never fails because of it."""
        try:
            names = list(self._also())
            for name in names:
                self._refuse_secret(name)
            return bundle.put_files(store, self.root, names)
        except Refusal as refusal:
            tell(str(refusal))
            return ()

    def _also(self) -> Iterator[str]:
        left_bytes = _ALSO_BYTES
        for folder in self.order.also:
            for path in sorted((self.root / folder).rglob("*")):
                left_bytes -= path.stat().st_size if path.is_file() else 0
                if path.is_file() and left_bytes >= 0:
                    yield path.relative_to(self.root).as_posix()


def _told(path: Path) -> dict[str, object]:
    with suppress(OSError, ValueError):
        told = json.loads(path.read_bytes())
        return told if isinstance(told, dict) else {}
    return {}
