"""A program's own checkpoint, kept whole: it may be killed while it writes the next one.

Most programs write their checkpoint in place, so the file that a kill leaves may be torn.  While
the program runs, its checkpoint files are copied whenever they changed and nobody has them open
for writing; a link starts from the newest copy whose digests hold.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from quantgrid import atomic, layout
from quantgrid.fingerprint import digest_file
from quantgrid.own_stage.folder import copy_file
from quantgrid.own_stage.open_files import held_still

GENERATIONS = 2
"""One more than is needed, for the day on which the newest is damaged."""

REST_S = 0.2
"""Several files belong together when all were left alone for so long; our choice."""

Files = Mapping[str, Path]
Stamp = Mapping[str, tuple[int, int, int]]


class Copy(NamedTuple):
    """One kept checkpoint."""

    number: int
    folder: Path
    digests: Mapping[str, str]


class Kept:
    """The kept checkpoints of one cell.

    Args:
        root: Folder in the state of the cell.
        fingerprint: Whose they are; those of another one are removed.
    """

    def __init__(self, root: Path, fingerprint: str) -> None:
        self._root, self._fingerprint = root, fingerprint
        self._clear()

    def newest(self) -> Copy | None:
        """The newest checkpoint whose every file has its digest; damaged ones are removed."""
        for copy in self._copies():
            damaged = [n for n, sha in copy.digests.items() if _digest(copy.folder / n) != sha]
            if not damaged:
                return copy
            _say(f"checkpoint {copy.number} is damaged ({damaged[0]}); an older one is used")
            _remove(copy.folder)
        return None

    def keep(self, files: Files, is_moment: Callable[[], bool] = lambda: True) -> Copy | None:
        """Copy files that nobody writes to; then forget all but the last `GENERATIONS`.

        Args:
            files: Name -> path.
            is_moment: Asked after the copy whether the files are still those it began with.

        Returns:
            The copy; None when the program went on meanwhile, so that it is no single moment.

        Raises:
            OSError: when there is no room; the older ones are untouched.
        """
        number = max((copy.number for copy in self._copies()), default=0) + 1
        folder = self._root / str(number)
        _remove(folder)
        try:
            for name, path in files.items():
                copy_file(path, folder / name)
            if not is_moment():
                _remove(folder)
                return None
            digests = {name: digest_file(folder / name) for name in files}
            facts = {"fingerprint": self._fingerprint, "files": digests}
            atomic.publish_json(folder / layout.OWN_KEPT_LIST, facts)
        except OSError:
            _remove(folder)
            raise
        for old in self._copies()[GENERATIONS:]:
            _remove(old.folder)
        return Copy(number, folder, digests)

    def drop(self, copy: Copy) -> None:
        """Remove one that the program cannot go on from, so that an older one has its turn."""
        _remove(copy.folder)

    def restore(self, copy: Copy, target: Path) -> None:
        """Put the files of a checkpoint where the program looks for them."""
        for name in copy.digests:
            copy_file(copy.folder / name, target / name)

    def _copies(self) -> list[Copy]:
        """Complete ones, newest first."""
        found = []
        for folder in self._root.glob("*"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                facts = json.loads((folder / layout.OWN_KEPT_LIST).read_bytes())
                if facts["fingerprint"] == self._fingerprint:
                    found.append(Copy(int(folder.name), folder, dict(facts["files"])))
        return sorted(found, reverse=True)

    def _clear(self) -> None:
        """Remove what a kill left half done, and what belongs to another fingerprint."""
        whole = {copy.folder for copy in self._copies()}
        for folder in self._root.glob("*"):
            if folder not in whole:
                _remove(folder)


class Keeper:
    """Looks at a running program's checkpoint files and keeps them when they are whole.

    Args:
        kept: Where they go.
        files: The files that belong to the checkpoint now.
        told: Called after each keep with how many there were and what the last one took.
        before: Called when a copy is made and does not count yet.
    """

    def __init__(
        self,
        kept: Kept,
        files: Callable[[], Files],
        told: Callable[[Copy, int, float], None],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._kept, self._files, self._told, self._before_it = kept, files, told, before
        self._done: Stamp = _stamp(files())
        self._before, self._since_s = self._done, 0.0
        self._is_full = False
        self.saves = 0

    def look(self, lives: Callable[[], bool] = lambda: True) -> bool:
        """Keep the files if they changed and are closed; several of them also if they rest.

        One file that is closed is whole.  Several belong together when none of them changed for
        `REST_S`.  What is copied are the files that were looked at, and they are held still: a
        program that begins its next save meanwhile changes nothing about this one.

        Args:
            lives: Asked after the copy whether the program lives: a death closes files too, in the
                middle of a save.

        Returns:
            Whether a change waits to be kept, so that the next look should come soon.
        """
        files, now_s = self._files(), time.monotonic()
        now = _stamp(files)
        if now != self._before:
            self._before, self._since_s = now, now_s
        if not now or now == self._done:
            return False
        if len(now) > 1 and now_s - self._since_s < REST_S:
            return True
        with held_still(list(files.values())) as held:
            if held.is_still and _stamp(files) == now:
                still = dict(zip(files, held.files, strict=True))
                self._keep(still, now, is_held=held.is_kept, lives=lives)
        return now != self._done

    def finish(self) -> None:
        """Keep the files of a program that ended by itself: nobody writes to them any more."""
        files = self._files()
        now = _stamp(files)
        if files and now != self._done:
            self._keep(files, now, is_held=False, lives=lambda: True)

    def _keep(self, files: Files, now: Stamp, *, is_held: bool, lives: Callable[[], bool]) -> None:
        """Keep files of a moment; where they are not held, a writer may come in between."""
        begin = time.monotonic()
        try:
            copy = self._kept.keep(files, lambda: lives() and self._is_moment(now, is_held=is_held))
        except OSError as error:
            if not self._is_full:
                _say(f"the checkpoint could not be kept ({error.strerror}); the last one stays")
            self._is_full = True
            return
        if copy is None:
            return
        self._done, self._is_full, self.saves = now, False, self.saves + 1
        self._told(copy, self.saves, time.monotonic() - begin)

    def _is_moment(self, stamp: Stamp, *, is_held: bool) -> bool:
        self._before_it()
        return is_held or _stamp(self._files()) == stamp


def _stamp(files: Files) -> Stamp:
    found = {}
    for name, path in files.items():
        with suppress(OSError):
            facts = path.stat()
            found[name] = (facts.st_size, facts.st_mtime_ns, facts.st_ino)
    return found


def _digest(path: Path) -> str | None:
    try:
        return digest_file(path)
    except OSError:
        return None


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
