"""The manifest: every shard of a corpus with its bytes, tokens and sha256, and the totals."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout
from quantgrid.corpus import record
from quantgrid.errors import CorpusRefusal
from quantgrid.fingerprint import digest
from quantgrid.wording import counted

SCHEMA = "quantgrid/corpus-manifest"


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a corpus."""

    name: str
    tokens: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All files of a corpus, training shards in order.

    Args:
        corpus: Name of the corpus.
        recipe: Digest of its recipe.
        volume: Identity of the volume that it was written to.
        shards: The training shards.
        validation: The validation shard.
    """

    corpus: str
    recipe: str
    volume: str
    shards: tuple[Shard, ...]
    validation: Shard

    @property
    def num_tokens(self) -> int:
        """Training tokens in all."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def digest(self) -> str:
        """sha256 of the contents: blind to the name and to the volume, equal for equal tokens."""
        contents = self.to_json()
        return digest({key: contents[key] for key in contents if key not in {"corpus", "volume"}})

    def files(self) -> Iterator[Shard]:
        """Every file, validation first."""
        yield self.validation
        yield from self.shards

    def to_json(self) -> dict[str, Any]:
        """The record, totals included."""
        return {
            "schema": SCHEMA,
            "version": record.VERSION,
            "corpus": self.corpus,
            "recipe": self.recipe,
            "volume": self.volume,
            "num_shards": len(self.shards),
            "num_tokens": self.num_tokens,
            "validation": asdict(self.validation),
            "shards": [asdict(shard) for shard in self.shards],
        }

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of a corpus folder; any edit, of a total or a blank, shows.

        Raises:
            CorpusRefusal: when it is missing, unreadable, or not the bytes that a producer writes.
        """
        path = folder / layout.CORPUS_MANIFEST
        value = record.read(path, SCHEMA, "manifest")
        try:
            manifest = cls(
                corpus=value["corpus"],
                recipe=value["recipe"],
                volume=value["volume"],
                shards=tuple(Shard(**shard) for shard in value["shards"]),
                validation=Shard(**value["validation"]),
            )
            written = atomic.json_bytes(manifest.to_json())
        except (KeyError, TypeError) as error:
            raise record.unreadable(path, "manifest", error) from error
        if written != path.read_bytes():
            raise _edited(manifest, value, path)
        return manifest


def _edited(manifest: Manifest, value: dict[str, Any], path: Path) -> CorpusRefusal:
    return CorpusRefusal(
        "the manifest was edited: its totals are not those of its shards, or its form is another",
        expected=f"{counted(len(manifest.shards), 'shard')} with {manifest.num_tokens:,} tokens, "
        "as written",
        seen=f"{value.get('num_shards')} shards with {value.get('num_tokens')} tokens declared",
        where=path,
        do=record.MAKE_AGAIN,
    )
