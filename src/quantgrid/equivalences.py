"""Digests of science that were proved to give equal numbers, so that a refactor costs no cell."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from quantgrid import atomic, layout, yaml_lines
from quantgrid.errors import ConfigRefusal
from quantgrid.forms import METHODS, Where
from quantgrid.load import check
from quantgrid.spec import BASE

Part = tuple[str, str | None]
"""A stage and the method that it runs, if it runs one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What was computed with both digests and found equal.

    Args:
        grid: Name of the grid.
        cells: How many cells were compared.
        digest: Digest of all numbers and files that were compared.
    """

    grid: str
    cells: int
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Equivalence:
    """Two science digests of one stage, and method, that give the same numbers.

    Args:
        stage: The stage.
        method: The method that it runs; None for a stage without one.
        old: The digest that came first.
        new: The digest that counts as the old one.
        reason: Why the science was changed.
        date: When it was proved, as ISO 8601 in UTC.
        proof: What was compared.
    """

    stage: str
    method: str | None
    old: str
    new: str
    reason: str
    date: str
    proof: Proof


@dataclass(frozen=True, slots=True)
class Equivalences:
    """Entries of a working copy; `older` leads from a digest of a part to the one before it."""

    entries: tuple[Equivalence, ...]
    older: Mapping[tuple[Part, str], str]

    @classmethod
    def of(
        cls, entries: Iterable[Equivalence], where: Where = lambda *_: layout.EQUIVALENCES
    ) -> "Equivalences":
        """Entries that agree with each other.

        Raises:
            ConfigRefusal: for a method that the stage does not run, for a digest with two older
                ones, and for a circle.
        """
        older: dict[tuple[Part, str], str] = {}
        known = cls(tuple(entries), older)
        for index, each in enumerate(known.entries):
            part = each.stage, each.method
            _refuse_unknown(part, where(index, "method"))
            if (part, each.new) in older:
                raise ConfigRefusal(
                    f"{_told(part)} {each.new[:16]} counts as two older digests",
                    expected=older[part, each.new],
                    seen=each.old,
                    where=where(index, "new"),
                    do="Remove the entry that is wrong, and prove the other one again.",
                )
            if known.oldest(*part, each.old) == each.new:
                raise ConfigRefusal(
                    f"{_told(part)} {each.new[:16]} would be older than itself",
                    where=where(index, "new"),
                    do="Remove one entry of the circle; the oldest digest is the `new` of none.",
                )
            older[part, each.new] = each.old
        return known

    def oldest(self, stage: str, method: str | None, digest: str) -> str:
        """The oldest digest that a digest counts as; itself when no entry is about it."""
        part = stage, method
        while (part, digest) in self.older:
            digest = self.older[part, digest]
        return digest


def load_equivalences(root: Path) -> Equivalences:
    """The equivalences of a working copy; none when it has no such file.

    Raises:
        ConfigRefusal: for entries that the schema refuses or that contradict each other.
    """
    try:
        document = yaml_lines.read_list(root / layout.EQUIVALENCES, root=root)
    except FileNotFoundError:
        return Equivalences.of(())
    if document.data:  # loading the validator costs more than all the rest
        check(document.data, document.where, layout.schema_file(root, "equivalences"), None)
    return Equivalences.of(map(_parse, document.data), document.where)


def publish_equivalences(root: Path, entries: Iterable[Equivalence]) -> None:
    """Replace the equivalences of a working copy.

    Raises:
        ConfigRefusal: when they contradict each other; nothing is written then.
    """
    known = [asdict(entry) for entry in Equivalences.of(entries).entries]
    text = yaml.safe_dump(known, sort_keys=False, allow_unicode=True, width=100)
    atomic.publish(root / layout.EQUIVALENCES, text.encode())


def _parse(data: Mapping[str, Any]) -> Equivalence:
    return Equivalence(**{**data, "proof": Proof(**data["proof"])})


def _refuse_unknown(part: Part, where: str) -> None:
    stage, method = part
    valid = list(_methods(stage))
    if method not in valid:
        raise ConfigRefusal(
            f"stage {stage} does not run method {method}",
            expected=" or ".join(map(str, valid)),
            seen=method,
            where=where,
        )


def _methods(stage: str) -> Iterable[str | None]:
    if stage not in {"quantise", "qat"}:
        return [None]
    made = {name: each for name, each in METHODS.items() if name != BASE.method}
    return [name for name, each in made.items() if each.trains == (stage == "qat")]


def _told(part: Part) -> str:
    return " ".join(filter(None, part))
