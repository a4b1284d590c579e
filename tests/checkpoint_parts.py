"""A clock to be moved by hand, and a state that is only a number: checkpoints without torch."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quantgrid.checkpoint.folder import Bytes


class HandClock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        """The time of day."""
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic_s(self) -> float:
        """Seconds."""
        return self.seconds


class Count:
    """A state that counts tokens; its file is JSON."""

    def __init__(self, tokens: int = 0, size_bytes: int = 10_000_000) -> None:
        self.tokens, self.size_bytes = tokens, size_bytes

    def snapshot(self, facts: Mapping[str, Any]) -> Sequence[Bytes]:
        """The parts of a file."""
        whole = json.dumps({"facts": dict(facts), "tokens": self.tokens}).encode()
        return [whole[:10], memoryview(whole)[10:]]

    def facts(self, file: Path) -> Mapping[str, Any]:
        """The facts in a file."""
        facts: Mapping[str, Any] = json.loads(file.read_bytes())["facts"]
        return facts

    def restore(self, file: Path) -> None:
        """Count on from a file."""
        self.tokens = json.loads(file.read_bytes())["tokens"]
