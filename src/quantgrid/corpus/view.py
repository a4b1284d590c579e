"""The consumer's view: nothing is read before it was compared with what a seal vouches for.

Names and sizes of all files are compared at the start; every shard is hashed before its first
token is used, in the background and ahead of the reader.  What was seen is the receipt.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.clock import Clock, SystemClock
from quantgrid.corpus import passes as contract
from quantgrid.corpus import shards
from quantgrid.corpus.manifest import Manifest
from quantgrid.corpus.plan import Plan
from quantgrid.corpus.sentinel import DECLARED, STATED, Statement, compare, read_sentinel
from quantgrid.corpus.shards import Tokens
from quantgrid.errors import CorpusRefusal, QuantgridError
from quantgrid.recipe import windowed
from quantgrid.volume import Volume, require

Reload = Callable[[Path], None]
"""Asks the platform to refresh what this machine sees of a corpus folder."""


def nothing_to_reload(folder: Path) -> None:
    """A local folder is always fresh."""


class View:
    """A sealed corpus as this process sees it.

    Attributes:
        shard_tokens: Tokens of every training shard by name, in the order of the manifest.
    """

    def __init__(
        self,
        folder: Path,
        volume: Volume,
        manifest: Manifest,
        *,
        planned_tokens: int,
        passes: int,
        context: int,
        unique_tokens: int | None = None,
    ) -> None:
        self.shard_tokens = {shard.name: shard.tokens for shard in manifest.shards}
        self._folder, self._volume, self._manifest = folder, volume, manifest
        self._planned_tokens, self._passes = planned_tokens, passes
        self._usable = {name: windowed(n, context) for name, n in self.shard_tokens.items()}
        self._unique_tokens = self._bounded(unique_tokens)
        self._used = dict.fromkeys(self.shard_tokens, 0)
        self._files = {shard.name: shard for shard in manifest.files()}
        self._verified = _Ahead(self._verify)
        self._verified_before: set[str] = set()
        self._manifests = {manifest.digest}
        contract.check(planned_tokens, self._unique_tokens, passes, f"corpus {manifest.corpus}")

    @classmethod
    def open(
        cls,
        folder: Path,
        sentinel: Path,
        *,
        planned_tokens: int,
        context: int,
        passes: int = 1,
        unique_tokens: int | None = None,
        reload: Reload = nothing_to_reload,
        clock: Clock | None = None,
    ) -> "View":
        """Look at a corpus and refuse it unless it is the sealed one.

        Args:
            folder: Folder of the corpus.
            sentinel: What a seal vouches for; it came another way than the volume.
            planned_tokens: Training tokens that will be read in all, repetitions included.
            context: Tokens of a window; the rest of a shard after its last window is not read.
            passes: Declared passes.
            unique_tokens: Read only so many different tokens; None for all.
            reload: Refreshes what this machine sees of the volume.
            clock: Tells whether a producer's heartbeat is recent.

        Raises:
            CorpusRefusal: with expected and seen, when anything differs or is still written.
        """
        reload(folder)
        sealed = read_sentinel(sentinel)
        volume = require(layout.volume_of(folder), sealed.volume)
        manifest = look(folder, sealed, clock or SystemClock())
        return cls(
            folder,
            volume,
            manifest,
            planned_tokens=planned_tokens,
            passes=passes,
            context=context,
            unique_tokens=unique_tokens,
        )

    @property
    def manifest(self) -> str:
        """Digest of the manifest of what is seen."""
        return self._manifest.digest

    @property
    def unique_tokens(self) -> int:
        """Tokens that one pass trains on."""
        return self._unique_tokens

    def ahead(self, names: Iterable[str]) -> None:
        """Start to hash shards in the background, in this order."""
        self._verified.request(names)

    def shard(self, name: str) -> Tokens:
        """The tokens of a training shard, read-only, mapped; waits until they are verified.

        Raises:
            CorpusRefusal: when the shard is not the sealed one.
        """
        return self._verified.take(name)

    def validation(self) -> Tokens:
        """The validation tokens, read-only, mapped, verified.

        Raises:
            CorpusRefusal: when they are not the sealed ones.
        """
        return self._verified.take(layout.VALIDATION_SHARD)

    def charge(self, name: str, tokens: int) -> None:
        """Count tokens that were taken from a shard.

        Raises:
            CorpusRefusal: when the shard or the corpus was read more often than was declared.
        """
        self._used[name] += tokens
        where = f"{name} of corpus {self._manifest.corpus}"
        contract.check(self._used[name], self._usable[name], self._passes, where)
        total = sum(self._used.values())
        contract.check(total, self._unique_tokens, self._passes, f"corpus {self._manifest.corpus}")

    def receipt(self) -> dict[str, Any]:
        """What was seen, verified and used; `shards` counts the tokens taken from each.

        What was taken up counts: a receipt says what a result rests on, however many processes
        came to it.  Of a bounded corpus no more tokens are different than the bound allows.
        """
        used = {name: tokens for name, tokens in self._used.items() if tokens}
        different = sum(min(used[name], self._usable[name]) for name in used)
        return {
            "volume": {"id": self._volume.id, "workspace": self._volume.workspace},
            "manifest": self._manifest.digest,
            "manifests": sorted(self._manifests),
            "shards": used,
            "unique_tokens": min(different, self._unique_tokens),
            "planned_tokens": self._planned_tokens,
            "passes": self._passes,
            "verified_shards": len(self._verified_shards()),
        }

    def seen(self) -> dict[str, Any]:
        """What the receipt rests on, for the process that goes on from here."""
        used = {name: tokens for name, tokens in self._used.items() if tokens}
        return {
            "manifests": sorted(self._manifests),
            "used": used,
            "verified": sorted(self._verified_shards()),
        }

    def take_up(self, seen: Mapping[str, Any]) -> None:
        """Count what the process saw from whose state this one goes on.

        Raises:
            CorpusRefusal: when that was of another manifest, or more than was declared.
        """
        self._manifests |= set(seen["manifests"])
        if others := self._manifests - {self._manifest.digest}:
            raise CorpusRefusal(
                f"the state to go on from was trained on another corpus {self._manifest.corpus}",
                expected=f"manifest {self._manifest.digest}",
                seen=", ".join(sorted(others)),
                where=self._folder,
                do="One recipe makes one manifest: find out which of the two was made wrong.",
            )
        self._verified_before |= set(seen["verified"])
        for name, tokens in seen["used"].items():
            self.charge(name, tokens)

    def _verified_shards(self) -> set[str]:
        return self._verified_before | self._verified.finished(self.shard_tokens)

    def _verify(self, name: str) -> Tokens:
        return shards.open_verified(self._folder, self._manifest, self._files[name])

    def _bounded(self, unique_tokens: int | None) -> int:
        usable = sum(self._usable.values())
        if unique_tokens is None:
            return usable
        if unique_tokens > usable:
            raise CorpusRefusal(
                f"corpus {self._manifest.corpus} has not so many unique tokens",
                expected=f"at least {unique_tokens:,} tokens",
                seen=f"{usable:,} tokens in windows",
                where=self._folder,
                do="Lower unique_tokens in the grid, or take a larger corpus.",
            )
        return unique_tokens


def look(folder: Path, sealed: Statement, clock: Clock) -> Manifest:
    """Compare plan, manifest, names and sizes of a folder with what a seal vouches for.

    Raises:
        CorpusRefusal: when anything differs or is still written.
    """
    plan = Plan.read(folder)
    plan.require_written(clock, folder)
    compare(sealed, plan, DECLARED, "the plan", folder)
    manifest = Manifest.read(folder)
    seen = Statement.of(manifest, sealed.by, sealed.at)
    compare(sealed, seen, STATED, "the manifest", folder)
    shards.check_listing(folder, manifest)
    return manifest


class _Ahead:
    """Verifies each name once, in the background when asked ahead, else for who needs it."""

    def __init__(self, verify: Callable[[str], Tokens]) -> None:
        self._verify = verify
        self._lock = threading.Lock()
        self._waiting: deque[str] = deque()
        self._outcomes: dict[str, Future[Tokens]] = {}
        self._thread: threading.Thread | None = None

    def request(self, names: Iterable[str]) -> None:
        """Verify names in this order; a daemon thread does it, so that no exit waits for it."""
        with self._lock:
            self._waiting.extend(names)
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="verifier", daemon=True)
                self._thread.start()

    def take(self, name: str) -> Tokens:
        """The verified tokens; what made the verification fail is raised here, each time."""
        with suppress(QuantgridError):  # raised by the outcome, the first time and every other
            self._settle(name)
        return self._outcomes[name].result()

    def finished(self, names: Iterable[str]) -> set[str]:
        """Which of these are verified."""
        found = [(name, self._outcomes.get(name)) for name in names]
        return {name for name, each in found if each and each.done() and not each.exception()}

    def _work(self) -> None:
        while (name := self._next()) is not None:
            with suppress(QuantgridError):  # raised where the shard is needed
                self._settle(name)

    def _next(self) -> str | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            return None

    def _settle(self, name: str) -> None:
        """Verify a name unless somebody does or did."""
        with self._lock:
            if name in self._outcomes:
                return
            outcome = self._outcomes[name] = Future()
        try:
            outcome.set_result(self._verify(name))
        finally:
            if not outcome.done():
                outcome.set_exception(sys.exception())
