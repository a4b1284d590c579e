"""Where the numbers of a grid come from, as its records say, and what they do not say."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from quantgrid.archive.record import Record
from quantgrid.report.labels import grouped
from quantgrid.report.records import Grid, Wanted
from quantgrid.report.spending import Spent
from quantgrid.report.stats import Z_THRESHOLD
from quantgrid.verdicts import Word
from quantgrid.wording import agreeing, counted

Facts = list[tuple[str, list[str]]]

VERDICTS = tuple(Word)


def verdict_counts(grid: Grid) -> dict[str, int]:
    """How many cells have which verdict; verdicts that no cell has are left out."""
    counts = Counter(cell.verdict for cell in grid.cells)
    known = {verdict: counts.pop(verdict) for verdict in VERDICTS if verdict in counts}
    return known | dict(sorted(counts.items()))


def facts(grid: Grid, wanted: Wanted, shared: Sequence[Record] = ()) -> Facts:
    """Names of facts with their values; each value once, in the order of the plan.

    Args:
        grid: The cells.
        wanted: What the plan wants.
        shared: Records of the milestones that the cells share.
    """
    records = [cell.record for cell in grid.cells]
    platforms = [record["platform"] for record in records]
    corpora = [record["corpus"] for record in records]
    found: Facts = [
        ("grid", [grid.name]),
        ("records", [f"{len(records)}, each with a digest that matches"]),
        ("fingerprints", [_fingerprints(wanted)]),
        ("archive", _once([wanted.archive])),
        ("corpus", _once(corpus["name"] for corpus in corpora)),
        ("corpus recipe", _once(corpus.get("recipe") for corpus in corpora)),
        ("corpus manifest", _once(corpus.get("manifest") for corpus in corpora)),
        ("volume", _once(_volumes(records))),
        ("validation set", _once(_validation(record["results"]) for record in records)),
        ("platform", _once(_place(platform) for platform in platforms)),
        ("packages", _once(_packages(platform) for platform in platforms)),
        ("digest of the evaluation code", _once(record.get("science") for record in records)),
        ("started", _dates(records)),
        ("interruptions", [_interruptions([*records, *shared])]),
    ]
    return [(name, values) for name, values in found if values]


def alarms(grid: Grid) -> list[str]:
    """What a reader must know before believing anything; usually nothing."""
    manifests: dict[str, set[str]] = {}
    for cell in grid.cells:
        corpus = cell.record["corpus"]
        manifests.setdefault(corpus["recipe"], set()).add(corpus["manifest"] or "")
    return [
        f"Corpus recipe {recipe[:12]} was used with {len(seen)} different manifests: "
        "cells of this grid were trained or measured on different data."
        for recipe, seen in manifests.items()
        if len(seen - {""}) > 1
    ]


def limitations(grid: Grid) -> list[str]:
    """What these numbers do not say."""
    return [*_of_verdicts(verdict_counts(grid)), *_of_errors(grid)]


def _of_verdicts(counts: Mapping[str, int]) -> Iterator[str]:
    total = sum(counts.values())
    yield (
        f"The judge asked {counted(total, 'record')} for finite losses, declared passes, verified "
        "shards, one corpus, and gaps and rises of their curves; it did not look at throughput or "
        "devices."
    )
    left_out = total - counts.get(Word.VALID, 0)
    if left_out:
        yield (
            f"{counted(left_out, 'cell')} {agreeing(left_out, 'is', 'are')} SUSPECT or INVALID: no "
            f"average, plot or law contains {agreeing(left_out, 'it', 'them')}, and "
            "the table gives the reason instead of the numbers of an INVALID one."
        )


def _of_errors(grid: Grid) -> Iterator[str]:
    num_seeds = len({cell.seed for cell in grid.cells})
    yield (
        "Errors of damage are paired over validation sequences: they say how well this validation "
        "set pins the difference between these very models, not how far other seeds, models or "
        f"texts would differ. The grid has {counted(num_seeds, 'seed')}; "
        "how many of them agree is stated beside each claim."
    )
    yield (
        f"A difference is called real when it exceeds {Z_THRESHOLD:g} standard errors. Many are "
        "tested on this page and no correction for their number is made."
    )
    yield (
        "Sizes are exact bytes of packed weights; speed is not measured: weights were dequantised "
        "to be evaluated."
    )


def _fingerprints(wanted: Wanted) -> str:
    different = len(set(wanted.cells.values()))
    return f"{different} different ones, each the one that the plan asks for"


def _once(values: Iterable[object]) -> list[str]:
    return [str(value) for value in dict.fromkeys(values) if value is not None]


def _volumes(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for record in records:
        for receipt in (record.get("receipt"), record["weights"].get("receipt")):
            volume = (receipt or {}).get("volume")
            if isinstance(volume, Mapping):
                yield ", ".join(f"{name} {value}" for name, value in sorted(volume.items()))
            elif volume is not None:
                yield str(volume)


def _validation(results: Mapping[str, Any]) -> str:
    validation = results["validation"]
    return f"{grouped(validation['sequences'])} sequences, id {validation['id']}"


def _place(platform: Mapping[str, Any]) -> str:
    parts = (platform["name"], platform.get("host"), platform["device"], platform.get("driver"))
    return ", ".join(str(part) for part in parts if part is not None)


def _packages(platform: Mapping[str, Any]) -> str:
    packages = {"python": platform.get("python"), **(platform.get("packages") or {})}
    return ", ".join(f"{name} {version}" for name, version in packages.items() if version)


def _dates(records: Iterable[Mapping[str, Any]]) -> list[str]:
    moments = sorted(
        link["started"]
        for record in records
        for link in [*(record["weights"].get("links") or []), *(record.get("links") or [])]
        if link.get("started")
    )
    return [f"first {moments[0]}, last {moments[-1]}"] if moments else []


def _interruptions(records: Iterable[Mapping[str, Any]]) -> str:
    spent = Spent.of(records)
    failed = counted(spent.failed, "failed attempt")
    return f"{counted(spent.interrupted, 'interruption')}, {failed}"
