"""The plan: published before the first shard, it says what will be there and who is at work."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout
from quantgrid.clock import Clock, timestamp
from quantgrid.corpus import record
from quantgrid.corpus.producer import Producer
from quantgrid.errors import CorpusRefusal
from quantgrid.recipe import Recipe

SCHEMA = "quantgrid/corpus-plan"
WRITING = "writing"
WRITTEN = "written"
LIVE_S = 60.0
"""A producer that cannot be looked at is taken for dead after so long without a heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a producer writes, and how far it is.

    Args:
        corpus: Name of the corpus.
        recipe: Digest of its recipe.
        state: `writing` or `written`.
        num_shards: Training shards that are expected.
        num_tokens: Training tokens that are expected.
        validation_tokens: Validation tokens that are expected.
        producer: Who writes, or wrote.
        heartbeat: When the producer was last alive, ISO 8601 in UTC.
    """

    corpus: str
    recipe: str
    state: str
    num_shards: int
    num_tokens: int
    validation_tokens: int
    producer: Producer
    heartbeat: str

    @classmethod
    def of(cls, recipe: Recipe, producer: Producer, clock: Clock) -> "Plan":
        """The plan of a producer that starts now."""
        return cls(
            corpus=recipe.name,
            recipe=recipe.digest,
            state=WRITING,
            num_shards=recipe.num_shards,
            num_tokens=recipe.num_tokens,
            validation_tokens=recipe.validation_tokens,
            producer=producer,
            heartbeat=timestamp(clock.now()),
        )

    def beat(self, clock: Clock, state: str = WRITING) -> "Plan":
        """The same plan, alive now."""
        return replace(self, heartbeat=timestamp(clock.now()), state=state)

    def publish(self, folder: Path) -> None:
        """Publish the plan of a corpus folder."""
        atomic.publish_json(folder / layout.CORPUS_PLAN, self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The record."""
        return {"schema": SCHEMA, "version": record.VERSION, **asdict(self)}

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        """Read the plan of a corpus folder.

        Raises:
            CorpusRefusal: when it is missing or unreadable.
        """
        path = folder / layout.CORPUS_PLAN
        value = record.read(path, SCHEMA, "plan")
        del value["schema"], value["version"]
        try:
            plan = cls(**{**value, "producer": Producer(**value["producer"])})
            datetime.fromisoformat(plan.heartbeat)
        except (KeyError, TypeError, ValueError) as error:
            raise record.unreadable(path, "plan", error) from error
        return plan

    def is_live(self, clock: Clock) -> bool:
        """Whether its producer is at work now: looked at where possible, else by its heartbeat."""
        if self.state == WRITTEN:
            return False
        runs = self.producer.runs()
        return self.silence(clock) < timedelta(seconds=LIVE_S) if runs is None else runs

    def silence(self, clock: Clock) -> timedelta:
        """Time since the last heartbeat; clocks of two machines may differ either way."""
        return abs(clock.now() - datetime.fromisoformat(self.heartbeat))

    def require_written(self, clock: Clock, where: Path) -> None:
        """Refuse a corpus whose producer has not finished.

        Raises:
            CorpusRefusal: saying whether the producer is at work or stopped.
        """
        if self.state == WRITTEN:
            return
        seen = f"state {self.state}, {self.producer}, heartbeat {self.heartbeat}"
        if self.is_live(clock):
            raise CorpusRefusal(
                "the producer of this corpus is still writing",
                expected=f"state {WRITTEN}",
                seen=seen,
                where=where,
                do="Wait until it has finished.",
            )
        raise CorpusRefusal(
            "the producer of this corpus stopped before the end",
            expected=f"state {WRITTEN}",
            seen=seen,
            where=where,
            do="Finish it: `snakemake --profile local corpus --forcerun prepare`.  If another "
            "machine did, this view of the volume is old: a new machine has a fresh one.",
        )
