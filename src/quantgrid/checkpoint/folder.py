"""A folder of checkpoints: published whole, verified before use, the oldest removed.

A checkpoint's name holds the tokens after which it was made and the sha256 of its bytes, so that
no second file has to agree with it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from quantgrid import atomic, layout
from quantgrid.errors import ConfigRefusal, CorpusRefusal
from quantgrid.fingerprint import digest_file

Bytes = bytes | memoryview


class State(Protocol):
    """What checkpoints keep: a complete state that can be copied and put back."""

    @property
    def size_bytes(self) -> int:
        """About how large a checkpoint is."""

    @property
    def tokens(self) -> int:
        """Tokens consumed since the very first step."""

    def snapshot(self, facts: Mapping[str, Any]) -> Sequence[Bytes]:
        """A copy of the state, with facts of others, as the parts of one file.

        The parts stay as they are until the next snapshot, whatever becomes of the state.
        """

    def facts(self, file: Path) -> Mapping[str, Any]:
        """The facts in a file."""

    def restore(self, file: Path) -> None:
        """Put the state back from a file."""


class Checkpoint(NamedTuple):
    """One file of the folder."""

    tokens: int
    sha256: str

    @property
    def name(self) -> str:
        """Its file name."""
        return layout.checkpoint_name(self.tokens, self.sha256)


class Folder:
    """The checkpoints of one stage; one process writes at a time.

    Args:
        path: The folder, which need not exist.
        fingerprint: Of the stage; a checkpoint of another one is refused.
        manifest: Digest of the corpus's manifest, None without a corpus; another one is refused.
        last: How many of the newest are kept.
        latency_tokens: How late trouble may be noticed: an older checkpoint is kept to go back to.
    """

    def __init__(
        self,
        path: Path,
        *,
        fingerprint: str,
        manifest: str | None,
        last: int = 2,
        latency_tokens: int = 0,
    ) -> None:
        self.path, self._last, self._latency_tokens = path, last, latency_tokens
        self._identity = {"fingerprint": fingerprint, "manifest": manifest}
        self._damaged: set[Checkpoint] = set()

    def checkpoints(self) -> list[Checkpoint]:
        """What is there, oldest first, verified or not."""
        try:
            names = [path.name for path in self.path.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(Checkpoint(*each) for each in map(layout.find_checkpoint, names) if each)

    def restore(self, state: State) -> tuple[Checkpoint | None, Mapping[str, Any], list[str]]:
        """Put a state back from the newest checkpoint that is whole.

        Returns:
            The checkpoint, or None when there is none; what `facts` were saved with it; a note
            for each damaged one that was passed over.

        Raises:
            ConfigRefusal: for a checkpoint of another fingerprint.
            CorpusRefusal: for one that was trained on another corpus.
        """
        notes: list[str] = []
        for checkpoint in reversed(self.checkpoints()):
            file = self.path / checkpoint.name
            trouble = _find_trouble(file, checkpoint.sha256)
            if trouble is None:
                facts = state.facts(file)
                self._refuse_other(facts, file)
                state.restore(file)
                return checkpoint, facts["facts"], notes
            self._damaged.add(checkpoint)
            notes.append(f"checkpoint {checkpoint.name[:24]} is damaged ({trouble})")
        return None, {}, notes

    def signed(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Facts with the identity that `restore` will ask for."""
        return {**self._identity, "facts": dict(facts)}

    def publish(self, tokens: int, parts: Sequence[Bytes]) -> Checkpoint:
        """Write a checkpoint whole, then remove what is no longer needed.

        Args:
            tokens: Consumed when the state was copied.
            parts: Of `State.snapshot`, made with `signed` facts.

        Raises:
            OSError: when it cannot be written; all earlier ones are as they were.
        """
        digest = sha256()
        for part in parts:
            digest.update(part)
        checkpoint = Checkpoint(tokens, digest.hexdigest())
        with atomic.writing(self.path / checkpoint.name) as file:
            for part in parts:
                file.write(part)
        self._damaged.discard(checkpoint)
        self._clear()
        return checkpoint

    def _clear(self) -> None:
        whole = [each for each in self.checkpoints() if each not in self._damaged]
        tokens = sorted({each.tokens for each in whole})
        wanted = retained(tokens, last=self._last, latency_tokens=self._latency_tokens)
        doomed = self._damaged | {each for each in whole if each.tokens not in wanted}
        with suppress(OSError):  # one too many does no harm
            for each in doomed:
                (self.path / each.name).unlink(missing_ok=True)
            atomic.clear_dead_in(self.path)

    def _refuse_other(self, facts: Mapping[str, Any], file: Path) -> None:
        if facts["fingerprint"] != self._identity["fingerprint"]:
            raise ConfigRefusal(
                "the state to go on from is of another fingerprint",
                expected=self._identity["fingerprint"],
                seen=facts["fingerprint"],
                where=file,
                do="Remove that folder, or give this stage one of its own.",
            )
        if facts["manifest"] != self._identity["manifest"]:
            raise CorpusRefusal(
                "the state to go on from was trained on another corpus than this one",
                expected=self._identity["manifest"],
                seen=facts["manifest"],
                where=file,
                do="Look at the volume that the state came from, or remove the state's folder.",
            )


def retained(tokens: Sequence[int], *, last: int, latency_tokens: int) -> set[int]:
    """Which of some checkpoints are kept.

    The `last` newest; the newest one that is `latency_tokens` older than the newest of all; and
    the next one after it, which will take its place when it is old enough: without it the only old
    one would grow older for ever.

    Args:
        tokens: Of every checkpoint, ascending.
        last: At least 1.
        latency_tokens: 0 for none but the last.
    """
    kept = set(tokens[-last:])
    if tokens and latency_tokens:
        old = [each for each in tokens if each <= tokens[-1] - latency_tokens]
        young = [each for each in tokens if each > tokens[-1] - latency_tokens]
        kept |= {*old[-1:], *young[:1]}
    return kept


def _find_trouble(file: Path, expected: str) -> str | None:
    """Why a file is not the one that its name says; None when it is."""
    try:
        seen = digest_file(file)
    except OSError as error:
        return error.strerror or type(error).__name__
    return None if seen == expected else f"{file.stat().st_size} bytes, sha256 {seen[:12]}"
