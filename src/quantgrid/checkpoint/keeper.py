"""Keeps the state of a stage while it works, goes on from it, and leaves in time.

A script opens a `Keeper`, asks it to `resume`, asks `is_due` after every step and calls `keep` when
it is; what `chain` tells goes into the result.
"""

from contextlib import suppress
from typing import Any

from quantgrid import atomic
from quantgrid.cell import Cell, say
from quantgrid.checkpoint.cadence import Cadence
from quantgrid.checkpoint.folder import Checkpoint, Folder, State
from quantgrid.checkpoint.interruption import Interruption
from quantgrid.checkpoint.writer import Writer, Written
from quantgrid.clock import Clock, SystemClock
from quantgrid.errors import Checkpointed, PlatformFault


class Keeper:
    """The checkpoints of one stage, from the side of its loop.

    Attributes:
        watch: JSON that a watch wants to find again after an interruption.

    Args:
        cell: Says where states are kept, how long there is, and what is asked.
        state: What is kept; its facts belong to this keeper.
        manifest: Digest of the corpus's manifest; None without a corpus.
        clock: Its monotonic time is that of the deadline and the cadence.
        cadence: Says when; by default it is made from the cell and the size of the state.
        latency_tokens: How late trouble may be noticed (see `folder.retained`).
    """

    def __init__(
        self,
        cell: Cell,
        state: State,
        *,
        manifest: str | None,
        clock: Clock | None = None,
        cadence: Cadence | None = None,
        latency_tokens: int = 0,
    ) -> None:
        self._cell, self._state, self._clock = cell, state, clock or SystemClock()
        self._folder = Folder(
            cell.state,
            fingerprint=cell.fingerprint,
            manifest=manifest,
            latency_tokens=latency_tokens,
        )
        self._cadence = cadence or Cadence(
            size_bytes=state.size_bytes,
            interruption_s=cell.interruption_s,
            start_s=self._clock.monotonic_s(),
        )
        left_s = cell.deadline_s
        deadline_s = None if left_s is None else self._clock.monotonic_s() + left_s
        self._interruption = Interruption(self._clock, deadline_s)
        self._writer = Writer(self._folder, self._tell)
        self._snapshot_s = self._save_s = self._stall_s = 0.0
        self._kept_tokens: int | None = None
        self._resumed_tokens = self._saves = 0
        self._notes: list[str] = []
        self.watch: Any = None

    def __enter__(self) -> "Keeper":
        self._interruption.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._find_reason():  # asked after the last step
                self.keep()
            self._account(self._writer.join())
        finally:
            self._interruption.__exit__()

    def resume(self) -> bool:
        """Put the newest whole state back; False when there is none.

        Raises:
            ConfigRefusal: when the folder holds a state of another fingerprint.
            CorpusRefusal: when it was trained on another corpus.
        """
        checkpoint, facts, notes = self._folder.restore(self._state)
        for note in notes:
            older = f"going on from {checkpoint.tokens:,} tokens" if checkpoint else "starting over"
            self._note(f"{note}; {older}")
        if checkpoint is None:
            return False
        self._resumed_tokens = self._kept_tokens = checkpoint.tokens
        self.watch = facts["watch"]
        self._cadence.resumed(self._clock.monotonic_s())
        say(f"resumed after {checkpoint.tokens:,} tokens from {checkpoint.name[:24]}")
        return True

    def is_due(self) -> bool:
        """Whether `keep` is to be called now; asked after every step."""
        now_s = self._clock.monotonic_s()
        self._cadence.step(now_s)
        if self._find_reason():
            return True
        if self._writer.is_busy():
            return False
        self._account(self._writer.join())
        return self._cadence.is_due(now_s)

    def keep(self) -> None:
        """Copy the state now and write it in the background; in the foreground before leaving.

        Raises:
            Checkpointed: when this process has to leave; the state is on disk.
            PlatformFault: when it has to leave and the state could not be written.
        """
        reason = self._find_reason()
        self._account(self._writer.join())
        if self._kept_tokens != self._state.tokens:
            self._save()
        if reason:
            self._leave(reason, self._writer.join())
        self._cadence.resumed(self._clock.monotonic_s())

    def chain(self) -> dict[str, Any]:
        """What a result tells about the interruptions and saves of this link."""
        return {
            "resumed_tokens": self._resumed_tokens,
            "saves": self._saves,
            "save_s": round(self._save_s, 3),
            "stall_s": round(self._stall_s, 3),
            "notes": list(self._notes),
        }

    def _find_reason(self) -> str | None:
        return self._interruption.find_reason(self._cadence.margin_s(self._cell.grace_s))

    def _save(self) -> None:
        begin_s = self._clock.monotonic_s()
        parts = self._state.snapshot(self._folder.signed({"watch": self.watch}))
        self._writer.start(self._state.tokens, parts)
        self._snapshot_s = self._clock.monotonic_s() - begin_s

    def _account(self, written: Written | None) -> None:
        """Learn from a write that ended."""
        if written is None:
            return
        # as if the writer's processor time were the work's: on a busy machine it is
        cost_s = self._snapshot_s + written.cpu_s
        self._cadence.saved(cost_s=cost_s, save_s=self._snapshot_s + written.wall_s)
        self._stall_s += self._snapshot_s
        if written.checkpoint:
            self._kept_tokens = written.checkpoint.tokens
        if written.error:
            self._note(f"a checkpoint could not be written ({_told(written.error)}); going on")

    def _leave(self, reason: str, written: Written | None) -> None:
        self._account(written)
        tokens = self._state.tokens
        if self._kept_tokens != tokens:
            error = written.error if written else None
            raise PlatformFault(
                f"{reason}, and the state after {tokens:,} tokens could not be written",
                seen=_told(error) if error else None,
                where=self._cell.state,
                do=f"Make room there, then run the same cell again: {self._newest()}.",
            ) from error
        raise Checkpointed(
            f"{reason}; the state after {tokens:,} tokens is kept",
            where=self._cell.state,
            do="Run the same cell again; it goes on from there.",
        )

    def _newest(self) -> str:
        if self._kept_tokens is None:
            return "it starts over"
        return f"it goes on from {self._kept_tokens:,} tokens"

    def _tell(self, checkpoint: Checkpoint, save_s: float) -> None:
        """In the writer's thread: tell the runner, even if this process is killed next."""
        self._saves += 1
        self._save_s += save_s
        told = {"tokens": checkpoint.tokens, "checkpoint": checkpoint.name}
        spent = {name: self.chain()[name] for name in ("saves", "save_s", "stall_s")}
        if self._cell.link:
            with suppress(OSError):  # the checkpoint counts; this is news of it
                atomic.publish_json(self._cell.link, {**told, **spent})

    def _note(self, note: str) -> None:
        """Say a thing once, however often it happens."""
        if note not in self._notes:
            self._notes.append(note)
            say(f"warning: {note}")


def _told(error: OSError) -> str:
    return error.strerror or type(error).__name__
