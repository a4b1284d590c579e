"""What a corpus is made from, and therefore what it is: known when rules are read, before any I/O.

A recipe is two files of `config/corpora`: `<name>.yaml` says where the texts are and how they
become tokens, `<name>.sha256` pins every text in the format of sha256sum(1).  A vocabulary that
was trained or given pins its files in the same format, in `<name>.tokeniser.sha256`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any

from quantgrid.errors import ConfigRefusal
from quantgrid.fingerprint import digest

TOKENISERS = ("bytes", "bpe", "gpt2")
VALIDATION_TOKENS = 98_304
_VOCABULARIES = {"bytes": 256, "gpt2": 50_257}
_MOST_TOKENS = 1 << 16
"""Shards hold 16 bits a token."""
_NO_PART = {"tokeniser_files", "tokeniser_folder", "documents"}
"""What has a default and decides no token: where files are, declared totals, what is digested."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NOT_PINNED = "0" * 64
"""Stands in a file of pins where nobody has seen the texts yet."""
_PIN = re.compile(r"(?P<sha256>[0-9a-f]{64}) [ *](?P<name>[^\\]+)")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One text: its name below the source's folder, with `/`, and the sha256 of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the texts are on this machine; no part of what they are.

    The folder of an installed Python module (`package` is the requirement that installs it), a
    folder, relative to the root of the workflow, or a data set of the Hugging Face hub at a commit.
    """

    glob: str
    folder: str | None = None
    package: str | None = None
    module: str | None = None
    dataset: str | None = None
    revision: str | None = None

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], where: str) -> "Source":
        """Read the section `source`.

        Raises:
            ConfigRefusal: for an unknown key, no glob, not just one of folder, module and data
                set, or a data set without a commit.
        """
        _known_keys(cls, mapping, where)
        places = [key for key in ("folder", "module", "dataset") if key in mapping]
        if "glob" not in mapping or len(places) != 1:
            raise ConfigRefusal(
                "a corpus source is one folder or one module or one dataset, with a glob",
                expected="glob and folder, or glob, module and package, or glob, dataset and "
                "revision",
                seen=", ".join(sorted(mapping)) or "nothing",
                where=where,
            )
        if "dataset" in mapping and not _COMMIT.fullmatch(str(mapping.get("revision"))):
            raise ConfigRefusal(
                f"data set {mapping['dataset']} is not named by a commit",
                expected="revision: 40 hex digits (a branch or a tag may move)",
                seen=mapping.get("revision"),
                where=where,
            )
        return cls(**mapping)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How texts become shards of tokens.

    Args:
        name: Name of the corpus.
        files: The pinned texts, by name.
        source: Where the texts are.
        num_tokens: Declared training tokens; the producer refuses to make another number.
        tokeniser_files: The pinned files of the vocabulary; none for `bytes`.
        tokeniser_folder: Where the files of `gpt2` are: `vocab.json` and `merges.txt`.
        documents: Declared documents, when the source says how many there are.
        tokeniser: How text becomes tokens: `bytes` is one token a byte, `bpe` a vocabulary trained
            on these texts, `gpt2` one given as files.
        vocab_size: Distinct tokens; only `bpe` has a choice.
        end_token: Follows every document, as nanoGPT has it; None for none.
        text_field: The field of a row that holds the document, in tables and lines of JSON.
        surplus: `refuse` texts that make more tokens than declared, or `leave` what is over.
        document_bytes: A document ends at the first line end after so many bytes.
        shuffle_seed: Seed of the order of documents.
        shard_tokens: Tokens of every training shard but the last.
        validation_tokens: Tokens at the start of the shuffled stream that no training sees.
    """

    name: str
    files: tuple[SourceFile, ...]
    source: Source
    num_tokens: int
    tokeniser_files: tuple[SourceFile, ...] = ()
    tokeniser_folder: str | None = None
    documents: int | None = None
    tokeniser: str = "bytes"
    vocab_size: int | None = None
    end_token: str | None = None
    text_field: str = "text"
    surplus: str = "refuse"
    document_bytes: int = 1024
    shuffle_seed: int = 0
    shard_tokens: int = 100_000
    validation_tokens: int = VALIDATION_TOKENS

    @classmethod
    def from_mapping(
        cls, mapping: Mapping[str, Any], pins_text: str, name: str, tokeniser_pins: str = ""
    ) -> "Recipe":
        """Resolve a recipe from the contents of its files.

        Args:
            mapping: The contents of `config/corpora/<name>.yaml`.
            pins_text: The contents of `config/corpora/<name>.sha256`.
            name: Name of the corpus.
            tokeniser_pins: The contents of `config/corpora/<name>.tokeniser.sha256`.

        Raises:
            ConfigRefusal: for a setting that cannot be meant and for pins that cannot be read.
        """
        where = f"corpus {name}"
        _known_keys(cls, mapping, where, besides={"name", "files", "tokeniser_files"})
        if "source" not in mapping:
            raise ConfigRefusal("this corpus names no source of texts", where=where)
        options = {key: value for key, value in mapping.items() if key != "source"}
        _check_options(options, where)
        _check_tokeniser(options, where)
        is_pinned = options.get("tokeniser", "bytes") != "bytes"
        return cls(
            name=name,
            files=parse_pins(pins_text, where),
            source=Source.from_mapping(mapping["source"], where),
            tokeniser_files=parse_pins(tokeniser_pins, f"{where}, tokeniser") if is_pinned else (),
            **options,
        )

    @cached_property
    def digest(self) -> str:
        """sha256 of what decides the tokens: texts, tokeniser, options; defaults left out."""
        parts = {"files": self.files, "tokeniser_files": self.tokeniser_files}
        pinned = {
            key: {file.name: file.sha256 for file in files} for key, files in parts.items() if files
        }
        cut = {"num_tokens": self.num_tokens} if self.surplus == "leave" else {}
        return digest({**pinned, **cut, **self._options()})

    def _options(self) -> dict[str, Any]:
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.default is not MISSING
            and each.name not in _NO_PART
            and getattr(self, each.name) != each.default
        }

    @property
    def vocabulary(self) -> int:
        """Distinct tokens."""
        return self.vocab_size or _VOCABULARIES[self.tokeniser]

    @property
    def num_shards(self) -> int:
        """Number of training shards."""
        return -(-self.num_tokens // self.shard_tokens)

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """Tokens of every training shard, in order."""
        last = self.num_tokens - (self.num_shards - 1) * self.shard_tokens
        return (self.shard_tokens,) * (self.num_shards - 1) + (last,)

    def usable_tokens(self, context: int) -> int:
        """Tokens that one pass trains on, in windows of `context` tokens and their successors."""
        full, last = self.num_shards - 1, self.shard_sizes[-1]
        return full * windowed(self.shard_tokens, context) + windowed(last, context)


def windowed(num_tokens: int, context: int) -> int:
    """Tokens of a shard that windows cover: a window needs one token more, its last target."""
    return max(num_tokens - 1, 0) // context * context


def parse_pins(text: str, where: str) -> tuple[SourceFile, ...]:
    """Read the output of sha256sum(1); `#` starts a comment; the order of lines means nothing.

    Raises:
        ConfigRefusal: for no pin at all, a line of another form, a name that comes twice, or a
            text that nobody has seen yet.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    files = sorted((_parse_pin(line, where) for line in lines), key=lambda file: file.name)
    twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if twice:
        raise ConfigRefusal(f"pinned twice: {', '.join(twice)}", where=where)
    if not files:
        raise ConfigRefusal(
            "no text of this corpus is pinned",
            expected="lines of sha256sum: <64 hex digits>  <name>",
            seen="none",
            where=where,
            do="Look at the texts, then pin them with `quantgrid corpus pin NAME`.",
        )
    _refuse_unseen(files, where)
    return tuple(files)


def _refuse_unseen(files: Sequence[SourceFile], where: str) -> None:
    """Refuse before anything is brought: nobody could say whether it is what was meant."""
    unseen = sum(file.sha256 == _NOT_PINNED for file in files)
    if unseen:
        raise ConfigRefusal(
            "the texts of this corpus are not pinned yet",
            expected="the sha256 of every text",
            seen=f"zeros instead of {unseen} of {len(files)}",
            where=where,
            do="`quantgrid corpus pin NAME` brings the texts, hashes them and counts their tokens.",
        )


def _parse_pin(line: str, where: str) -> SourceFile:
    match = _PIN.fullmatch(line)
    if match is None:
        raise ConfigRefusal(
            "a pin cannot be read",
            expected="<64 hex digits>  <name>",
            seen=repr(line),
            where=where,
        )
    return SourceFile(name=match["name"], sha256=match["sha256"])


def _check_options(options: Mapping[str, Any], where: str) -> None:
    if "num_tokens" not in options:
        raise ConfigRefusal(
            "this corpus declares no num_tokens",
            where=where,
            do="`quantgrid corpus pin NAME` counts them.",
        )
    choices = {"tokeniser": TOKENISERS, "surplus": ("refuse", "leave")}
    for key, valid in choices.items():
        if options.get(key, valid[0]) not in valid:
            raise ConfigRefusal(
                f"unknown {key}", expected=" or ".join(valid), seen=options[key], where=where
            )
    texts = {"tokeniser_folder", "end_token", "text_field"}
    for key in sorted(options.keys() - choices.keys() - texts):
        least = 0 if key == "shuffle_seed" else 1
        value = options[key]
        if type(value) is not int or value < least:
            raise ConfigRefusal(
                f"{key} is a whole number of at least {least}", seen=repr(value), where=where
            )


def _check_tokeniser(options: Mapping[str, Any], where: str) -> None:
    """Refuse options that the tokeniser does not take, or cannot do without."""
    kind = options.get("tokeniser", "bytes")
    takes = {
        "bytes": set(),
        "bpe": {"vocab_size", "end_token"},
        "gpt2": {"tokeniser_folder", "end_token"},
    }[kind]
    given = {"vocab_size", "tokeniser_folder", "end_token"} & options.keys()
    needed = takes - {"end_token"}
    if given - takes or needed - given:
        raise ConfigRefusal(
            f"tokeniser {kind} and its options do not go together",
            expected=", ".join(sorted(takes)) or "no further option",
            seen=", ".join(sorted(given)) or "none",
            where=where,
        )
    if not 256 < options.get("vocab_size", 257) <= _MOST_TOKENS:
        raise ConfigRefusal(
            "a vocabulary has 257 to 65,536 tokens, bytes among them",
            seen=options["vocab_size"],
            where=where,
        )


def _known_keys(
    kind: type[Any], mapping: Mapping[str, Any], where: str, besides: set[str] | None = None
) -> None:
    valid = {each.name for each in fields(kind)} - (besides or set())
    unknown = sorted(mapping.keys() - valid)
    if unknown:
        raise ConfigRefusal(
            f"unknown key {', '.join(map(str, unknown))}",
            expected=", ".join(sorted(valid)),
            where=where,
        )
