"""The links of a resume chain: one an attempt, in a file beside the state, until the record.

The file moves with the state, so that the record lists every link from the first step to the
result, on whichever host or platform it ran.  A link is opened before its script starts; one that
was never closed belongs to an attempt that was killed, and the next attempt closes it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import atomic, layout, masking
from quantgrid.errors import Fault

DONE, CHECKPOINTED, CAP, INTERRUPTED, FAILED = (
    "done",
    "checkpointed",
    "cap",
    "interrupted",
    "failed",
)
"""Ends of a link: with the result, by its own checkpoint, by the runner's clock, from outside."""

Link = Mapping[str, Any]

_TOLD: Mapping[str, type | tuple[type, ...]] = {
    "tokens": int,
    "checkpoint": str,
    "saves": int,
    "save_s": (int, float),
    "stall_s": (int, float),
    "resumed_tokens": int,
    "notes": list,
}
"""What a script may tell of its link, by `QG_LINK` or by `chain` of its result."""


class Chain(NamedTuple):
    """The links of one stage so far, and what its newest checkpoint was before this attempt."""

    state: Path
    links: tuple[Link, ...]
    newest: str

    @classmethod
    def read(cls, state: Path) -> "Chain":
        """The chain of a state; a link that was never closed was interrupted."""
        newest = newest_checkpoint(state)
        return cls(state, tuple(_closed_late(each, state, newest) for each in _find(state)), newest)

    @classmethod
    def read_closing(cls, state: Path, attempt: str) -> "Chain":
        """The chain of a state without the open link of an attempt, which is closed by `closed`."""
        found = _find(state)
        ours = [each for each in found if each.get("attempt") == attempt]
        links = tuple(each for each in found if each.get("attempt") != attempt)
        newest = ours[0].get("newest", "") if ours else newest_checkpoint(state)
        return cls(state, links, newest)

    def open(self, link: Link) -> None:
        """Publish that an attempt starts."""
        begun = {**link, "end": None, "newest": self.newest}
        atomic.clear_debris(layout.links_file(self.state))
        atomic.publish_json(layout.links_file(self.state), [*self.links, begun])

    def closed(self, link: Link, end: str, told: object = None) -> "Chain":
        """The chain with the link of an attempt that ended.

        Args:
            link: Facts of the attempt.
            end: How it ended.
            told: What the script told beside `QG_LINK`.
        """
        newest = newest_checkpoint(self.state)
        facts = {**find_told(self.state), **checked(told)}
        done = {**link, **facts, "end": end, "is_newer": newest != self.newest}
        return Chain(self.state, (*self.links, done), newest)

    def save(self) -> None:
        """Publish the chain as it is."""
        atomic.publish_json(layout.links_file(self.state), list(self.links))

    def counters(self) -> dict[str, int]:
        """Links, interruptions and failures, counted apart; each attempt is one of them."""
        ends = [link["end"] for link in self.links]
        interruptions, failures = ends.count(INTERRUPTED), ends.count(FAILED)
        return {
            "links": len(ends) - interruptions - failures,
            "interruptions": interruptions,
            "failures": failures,
        }

    def refuse_standstill(self, cell: str) -> None:
        """Hold that of two links in a row one got further.

        Interruptions say nothing: a script that was stopped early had no time to save.

        Raises:
            Fault: when the last two links that ended by their own clock left no newer checkpoint.
        """
        by_clock = [link for link in self.links if link["end"] in {CHECKPOINTED, CAP}][-2:]
        if len(by_clock) == 2 and not any(link["is_newer"] for link in by_clock):
            seconds = " and ".join(f"{link['wall_s']:.0f} s" for link in by_clock)
            raise Fault(
                f"{cell} ran two links and left no newer checkpoint, so a third would not help",
                expected="a checkpoint in QG_STATE, or QG_LINK replaced, before the deadline",
                seen=f"links of {seconds}, newest checkpoint {self.newest or 'none'}",
                where=self.state,
                do="Save earlier, stop by QG_DEADLINE_S or on SIGTERM, or choose a longer cap.",
            )


def clear(state: Path) -> None:
    """Remove a state, its links included: the record of its stage has them now.

    A script that was killed while it told its link leaves what it had not published.
    """
    links, told = layout.links_file(state), layout.link_file(state)
    for path in (links, told):
        path.unlink(missing_ok=True)
        atomic.clear_debris(path)
    if state.is_dir():
        import shutil  # loads three compressors, and most stages keep no state

        shutil.rmtree(state)
    if (incoming := layout.incoming_state(state)).is_dir():
        import shutil

        shutil.rmtree(incoming)
    for parent in state.parents[:3]:
        if parent.name == layout.STATE:
            break
        try:
            parent.rmdir()
        except OSError:  # another stage's state is here
            break


# -- checkpoints ----------------------------------------------------------------------------------


def newest_checkpoint(state: Path) -> str:
    """A name for the newest checkpoint, which changes when there is a newer one; empty if none.

    A script tells it by `QG_LINK`; of one that does not, the newest file counts.
    """
    told = find_told(state)
    if told.get("checkpoint") or told.get("tokens"):
        return f"{told.get('checkpoint', '')} at {told.get('tokens', '?')} tokens"
    return newest_file(state)


def newest_file(*folders: Path) -> str:
    """The newest file below folders, by name, time and size; empty when there is none."""
    files = [
        (status.st_mtime_ns, status.st_size, str(path.relative_to(folder)))
        for folder in folders
        for path in (folder.rglob("*") if folder.is_dir() else ())
        if path.is_file() and not atomic.is_debris(path.name) and (status := path.stat())
    ]
    if not files:
        return ""
    time_ns, size_bytes, path = max(files)
    return f"{path} of {size_bytes} bytes, {time_ns} ns"


def find_told(state: Path) -> dict[str, Any]:
    """What the script told by `QG_LINK`; fields of other types count as not told."""
    try:
        return checked(json.loads(layout.link_file(state).read_bytes()))
    except (OSError, ValueError):
        return {}


def checked(told: object) -> dict[str, Any]:
    """The fields of a script's own account that have the types of the contract, without secrets."""
    if not isinstance(told, dict):
        return {}
    return {
        name: _masked(told[name])
        for name, kind in _TOLD.items()
        if isinstance(told.get(name), kind) and not isinstance(told[name], bool)
    }


def _masked(value: Any) -> Any:
    """Notes without secrets: records and mirrors carry them to others."""
    if not isinstance(value, list):
        return value
    return [masking.masked(each, os.environ) if isinstance(each, str) else each for each in value]


def planned_links(tokens: int, *, tokens_per_s: float, link_s: float, save_s: float = 0.0) -> int:
    """How many links a stage needs.

    Args:
        tokens: Tokens that are left.
        tokens_per_s: Measured speed.
        link_s: Seconds until the runner ends a link.
        save_s: Seconds that a link loses to start and last checkpoint.
    """
    per_link = tokens_per_s * max(link_s - save_s, 0.0)
    return -int(-tokens // per_link) if per_link > 0 else 0


def more_links(num_tokens: int | None, done: Sequence[Link], link_s: float | None) -> int | None:
    """How many more links a stage needs, by the speed of those so far; None when that is untold.

    Args:
        num_tokens: Where the stage ends; None for one that is not counted in tokens.
        done: Its links so far.
        link_s: Seconds that the runner gives a link; None if no cap ends one.
    """
    speed = tokens_per_s(done)
    if speed is None or link_s is None or not num_tokens:
        return None
    told = [link["tokens"] for link in done if "tokens" in link]
    save_s = max(link.get("save_s", 0.0) / max(link.get("saves", 1), 1) for link in done)
    left = num_tokens - max(told, default=0)
    return planned_links(left, tokens_per_s=speed, link_s=link_s, save_s=2 * save_s)


def tokens_per_s(links: Sequence[Link]) -> float | None:
    """The speed that the links so far had; None when they do not tell."""
    tokens, seconds = 0.0, 0.0
    before = 0
    for link in links:
        if "tokens" in link and link.get("wall_s"):
            tokens += max(link["tokens"] - before, 0)
            seconds += link["wall_s"]
            before = link["tokens"]
    return tokens / seconds if tokens and seconds else None


def peek(state: Path) -> tuple[Link, ...]:
    """The links of a state as they stand; one that is open runs, or was killed."""
    return tuple(_find(state))


def _find(state: Path) -> list[Link]:
    try:
        links = json.loads(layout.links_file(state).read_bytes())
    except (OSError, ValueError):
        return []
    return [each for each in links if isinstance(each, dict)] if isinstance(links, list) else []


def _closed_late(link: Link, state: Path, newest: str) -> Link:
    if link.get("end"):
        return link
    facts = {**link, "wall_s": None, "cpu_s": None, "exit_code": None, **find_told(state)}
    before = facts.pop("newest", "")
    return {**facts, "end": INTERRUPTED, "is_newer": newest != before}
