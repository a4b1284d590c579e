"""Two small statements: what a producer says it made, and what a seal vouches for after looking.

Both reach their readers through Snakemake or the object store, never through the volume.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quantgrid import atomic
from quantgrid.corpus import record
from quantgrid.corpus.manifest import Manifest
from quantgrid.corpus.producer import Producer
from quantgrid.errors import CorpusRefusal

PREPARED_SCHEMA = "quantgrid/corpus-prepared"
SENTINEL_SCHEMA = "quantgrid/corpus-sentinel"
DECLARED = ("corpus", "recipe", "num_shards", "num_tokens", "validation_tokens")
"""What is known before the first shard, the plainest first."""
STATED = ("volume", *DECLARED, "manifest")
"""All that a statement vouches for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a process says that a corpus is.

    Args:
        corpus: Name of the corpus.
        recipe: Digest of its recipe.
        manifest: Digest of its manifest.
        volume: Identity of its volume.
        num_shards: Training shards.
        num_tokens: Training tokens.
        validation_tokens: Validation tokens.
        by: Who says so.
        at: When, ISO 8601 in UTC.
    """

    corpus: str
    recipe: str
    manifest: str
    volume: str
    num_shards: int
    num_tokens: int
    validation_tokens: int
    by: Producer
    at: str

    @classmethod
    def of(cls, manifest: Manifest, by: Producer, at: str) -> "Statement":
        """The statement that a manifest makes true."""
        return cls(
            corpus=manifest.corpus,
            recipe=manifest.recipe,
            manifest=manifest.digest,
            volume=manifest.volume,
            num_shards=len(manifest.shards),
            num_tokens=manifest.num_tokens,
            validation_tokens=manifest.validation.tokens,
            by=by,
            at=at,
        )

    def publish(self, path: Path, schema: str) -> None:
        """Publish the statement; what a dead publication left is removed."""
        atomic.clear_debris(path)
        atomic.publish_json(path, self.to_json(schema))

    def to_json(self, schema: str) -> dict[str, Any]:
        """The record."""
        return {"schema": schema, "version": record.VERSION, **asdict(self)}

    @classmethod
    def read(cls, path: Path, schema: str, what: str) -> "Statement":
        """Read a statement.

        Raises:
            CorpusRefusal: when it is missing, unreadable or another record.
        """
        value = record.read(path, schema, what)
        del value["schema"], value["version"]
        try:
            return cls(**{**value, "by": Producer(**value["by"])})
        except (KeyError, TypeError) as error:
            raise record.unreadable(path, what, error) from error


def read_sentinel(path: Path) -> Statement:
    """Read what a seal vouches for."""
    return Statement.read(path, SENTINEL_SCHEMA, "sentinel")


def read_prepared(path: Path) -> Statement:
    """Read what a producer says it made."""
    return Statement.read(path, PREPARED_SCHEMA, "receipt of the producer")


def compare(expected: object, seen: object, names: Sequence[str], what: str, where: Path) -> None:
    """Refuse a corpus of which two records say different things.

    Args:
        expected: The record that is believed.
        seen: The record that is compared with it.
        names: Fields that both have and that must be equal.
        what: What a person calls the record that is compared.
        where: Folder of the corpus.

    Raises:
        CorpusRefusal: for the first field that differs, with both values.
    """
    for name in names:
        wanted, found = getattr(expected, name), getattr(seen, name)
        if wanted != found:
            raise CorpusRefusal(
                f"{what} is not that of the corpus asked for: {name} differs",
                expected=f"{name} {_readable(wanted)} (corpus {getattr(expected, 'corpus', '?')})",
                seen=f"{name} {_readable(found)}",
                where=where,
                do=_OTHER_CORPUS if name in {"corpus", "recipe"} else record.MAKE_AGAIN,
            )


_OTHER_CORPUS = (
    "This is another corpus; seal the one you mean: "
    "`snakemake --profile local corpus --forcerun seal`."
)


def _readable(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
