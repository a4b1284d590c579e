"""A cell that is somebody's own program: what it is started with, and what makes it the same."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from quantgrid import layout, template
from quantgrid.errors import ConfigRefusal
from quantgrid.fingerprint import digest_bytes

Scalar = str | int | float | bool

VARIANT = layout.OWN_VARIANT

STAGE = "own"

PLACES = {
    "out": "folder whose files are deposited",
    "state": "folder whose files outlive an interruption",
    "folder": "private copy of the script's folder, where it is started",
    "corpus": "folder of the verified corpus, with `corpus: true`",
    "spec": "JSON file with the axes, the seed and all else that was declared",
    "metrics": "JSON lines that the watch reads",
    "device": "device to use: cpu or cuda",
    "threads": "threads to use",
    "deadline_s": "seconds until the platform ends the attempt; empty if it never does",
    "python": "the interpreter that quantgrid runs on",
}
"""Names that only an attempt knows the values of."""

KNOWN = {
    "cell": "id of the cell",
    "seed": "seed of the cell",
}
"""Names that are known when the grid is read, beside the axes."""

TAKEN = frozenset({*PLACES, *KNOWN, "base", "variant", "block", "method"})
"""What no axis may be called."""

_LONGEST_VALUE = 32
_LONGEST_BASE = 180


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """The script's own checkpoint.

    Args:
        files: Patterns, relative to the script's folder, of what a next link needs; files in
            `{state}` always belong to it.
        arguments: What is added to the command line when there is a checkpoint.
    """

    files: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """The program of a block and how it is used.

    Args:
        block: Name of the block.
        program: Path relative to the folder of the Snakefile, or a name that PATH knows.
        is_file: Whether `program` is such a path.
        folder: Folder that an attempt gets a private copy of, as far as it is declared; None for
            an empty one.
        links: Patterns in it of large data, which is linked and not copied; names and sizes count.
        inputs: Patterns in it of whatever else the program reads; the bytes count.
        arguments: Templates of the command line.
        environment: Templates of variables.
        results: Where numbers are found: one of json, last_line, stdout; and `names` to take.
        keep: Patterns of files that are deposited.
        resume: Its own checkpoint; None when it has none.
        metrics: File and names that the watch reads; no fingerprint depends on it.
        corpus: Whether it reads the corpus of the grid.
    """

    block: str
    program: str
    is_file: bool
    folder: str | None
    results: Mapping[str, Any]
    links: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    keep: tuple[str, ...] = ()
    resume: Resume | None = None
    metrics: Mapping[str, Any] | None = None
    corpus: bool = False


@dataclass(frozen=True, kw_only=True)
class OwnCell:
    """One point of a block with a program of its own."""

    script: Script
    axes: Mapping[str, Scalar]
    seed: int

    @cached_property
    def base(self) -> str:
        """Block, axes and seed: `mine-lr0p1-width8-s0`."""
        axes = (f"{name}{_slug(value)}" for name, value in self.axes.items())
        return "-".join([self.block, *axes, f"s{self.seed}"])

    @property
    def variant(self) -> str:
        """Always `own`."""
        return VARIANT

    @cached_property
    def id(self) -> str:
        """`<base>/own`."""
        return f"{self.base}/{VARIANT}"

    @property
    def block(self) -> str:
        """Name of its block."""
        return self.script.block

    def find(self, name: str) -> str | float | None:
        """What `select` and tables see under a name; None when it has no such property."""
        facts = {"cell": self.id, "base": self.base, "variant": VARIANT, "block": self.block}
        facts |= {"method": VARIANT}
        value = {**self.axes, **facts, "seed": self.seed}.get(name)
        return str(value).lower() if isinstance(value, bool) else value

    @property
    def told(self) -> dict[str, Any]:
        """What the script is told, axes and seed filled in: the part of the spec that counts."""
        script, known = self.script, self._known
        environment = {
            name: template.fill(text, known) for name, text in (script.environment or {}).items()
        }
        told: dict[str, Any] = {
            "program": script.program,
            "axes": dict(self.axes),
            "seed": self.seed,
            "arguments": list(template.fill_all(script.arguments, known)),
            "environment": environment,
            "results": dict(script.results),
            "keep": list(script.keep),
            "corpus": script.corpus,
        }
        # what is empty is left out: an option that comes later changes no fingerprint
        return {name: value for name, value in told.items() if value or name == "seed"}

    @property
    def resolved(self) -> dict[str, Any]:
        """All that an attempt needs, as JSON types."""
        script, resume = self.script, self.script.resume
        return {
            "arguments": [],
            "environment": {},
            "keep": [],
            "corpus": False,
            "axes": {},
            **self.told,
            "block": self.block,
            "is_file": script.is_file,
            "folder": script.folder,
            "links": list(script.links),
            "inputs": list(script.inputs),
            "metrics": dict(script.metrics or {}),
            "resume": resume
            and {
                "files": list(resume.files),
                "arguments": list(template.fill_all(resume.arguments, self._known)),
            },
        }

    @property
    def _known(self) -> dict[str, str]:
        axes = {name: written(value) for name, value in self.axes.items()}
        return {**axes, "seed": str(self.seed), "cell": self.id}


def written(value: Scalar) -> str:
    """A value as it stands on a command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _slug(value: Scalar) -> str:
    """A value in an id: `0p1`, `m3`, `1em05`, `adamw`; a long text by its start and digest."""
    text = written(value)
    if not isinstance(value, str):
        return text.replace("-", "m").replace(".", "p").replace("+", "")
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", text)
    if len(slug) > _LONGEST_VALUE:
        slug = f"{slug[: _LONGEST_VALUE - 9]}_{digest_bytes(text.encode())[:8]}"
    return slug


def expand(
    script: Script, axes: Mapping[str, Sequence[Scalar]], seeds: Sequence[int]
) -> Iterator[OwnCell]:
    """The cells of a block, seeds fastest."""
    for values in product(*axes.values()):
        for seed in seeds:
            yield OwnCell(script=script, axes=dict(zip(axes, values, strict=True)), seed=seed)


def refuse_alike(cells: Sequence[OwnCell], where: Mapping[str, str]) -> None:
    """Refuse two cells with one id, and an id that no file system takes.

    Args:
        cells: All cells of a grid.
        where: File and line of each block.

    Raises:
        ConfigRefusal: naming both.
    """
    seen: dict[str, OwnCell] = {}
    for cell in cells:
        other = seen.setdefault(cell.id, cell)
        if other is not cell:
            raise ConfigRefusal(
                f"two cells are called {cell.id}",
                seen=f"{_facts(other)} and {_facts(cell)}",
                where=where[cell.block],
                do="Ids keep letters, digits and _ of a text; choose values that differ in them.",
            )
        if len(cell.base) > _LONGEST_BASE:
            raise ConfigRefusal(
                f"the id {cell.base} is too long for a file name",
                expected=f"at most {_LONGEST_BASE} characters",
                seen=len(cell.base),
                where=where[cell.block],
            )


def _facts(cell: OwnCell) -> str:
    return ", ".join([cell.block, *(f"{name}={value!r}" for name, value in cell.axes.items())])
