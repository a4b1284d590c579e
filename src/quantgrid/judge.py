"""The judge: what a finished cell's own record says about whether its numbers mean anything.

Pure: a record in, a word with evidence out.  It trusts no alarm and no guard that ran before, and
asks the questions again of what was recorded: receipts, curve, losses.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from quantgrid.archive.record import Record
from quantgrid.verdicts import Word
from quantgrid.watch.observation import Expected, Finding, Point
from quantgrid.watch.rules import Gap, NonFinite, Rise, SecondPass, Spike
from quantgrid.wording import counted

VERSION = 1

_SAME = 1e-6
"""Nats by which a mean may differ from the mean of what it was made from: it was rounded."""
_WORSE_THAN_GUESSING = 0.5
"""Nats above a uniform guess that a trained model cannot explain by its start."""


class Evidence(NamedTuple):
    """One question, its answer and what was seen."""

    question: str
    word: Word
    seen: str


class Judgement(NamedTuple):
    """The word on a record and everything that was asked."""

    word: Word
    evidence: tuple[Evidence, ...]

    @property
    def reason(self) -> str:
        """The worst answers in one sentence; empty when VALID."""
        doubts = [each for each in self.evidence if each.word is not Word.VALID]
        worst = [each for each in doubts if each.word is self.word]
        return "; ".join(f"{each.question}: {each.seen}" for each in worst)


def judge(record: Record) -> Judgement:
    """Judge a record of kind `cells`; a question that it cannot answer is not asked."""
    evidence = (*_losses(record), *_receipts(record), *_training(record))
    words = {each.word for each in evidence}
    word = next((w for w in (Word.INVALID, Word.SUSPECT) if w in words), Word.VALID)
    return Judgement(word, evidence)


# -- losses ---------------------------------------------------------------------------------------


def _losses(record: Record) -> Iterator[Evidence]:
    results = record["results"]
    numbers = {name: v for name, v in results.items() if isinstance(v, float)}
    wrong = [f"{name} is {value}" for name, value in numbers.items() if not math.isfinite(value)]
    yield _asked("finite numbers", wrong, f"{len(numbers)} numbers", Word.INVALID)
    validation = results.get("validation")
    if validation:
        losses, loss = validation["losses"], results["loss"]
        mean = math.fsum(losses) / max(len(losses), 1)
        wrong = [] if abs(mean - loss) <= _SAME else [f"loss {loss}, mean of sequences {mean}"]
        seen = f"{len(losses)} sequences with that mean"
        yield _asked("loss is the mean of its sequences", wrong, seen, Word.INVALID)
        yield from _guessing(record, loss)


def _guessing(record: Record, loss: float) -> Iterator[Evidence]:
    """A base that is worse than a uniform guess learnt something else than this text."""
    cell = _cell(record)
    if (cell.get("form") or {}).get("method") == "none":
        limit = math.log(cell["trunk"]["model"]["vocab_size"]) + _WORSE_THAN_GUESSING
        wrong = [f"loss {loss:.3f}, a uniform guess {limit:.3f}"] if loss > limit else []
        yield _asked("better than guessing", wrong, f"loss {loss:.3f}", Word.SUSPECT)


# -- what was read --------------------------------------------------------------------------------


def _receipts(record: Record) -> Iterator[Evidence]:
    weights = record.get("weights") or {}
    named = {
        "evaluation": record.get("receipt"),
        str(weights.get("stage")): weights.get("receipt"),
    }
    receipts = {stage: receipt for stage, receipt in named.items() if receipt}
    yield from _manifests(record, receipts)
    passes = (_cell(record).get("trunk") or {}).get("passes")
    for stage, receipt in receipts.items():
        if receipt.get("shards") and passes:
            yield _passes(stage, receipt, passes)
            yield _verified(stage, receipt)


def _manifests(record: Record, receipts: Mapping[str, Any]) -> Iterator[Evidence]:
    told = {stage: each["manifest"] for stage, each in receipts.items() if each.get("manifest")}
    for stage, each in receipts.items():
        told |= {f"{stage} {n}": digest for n, digest in enumerate(each.get("manifests", []), 1)}
    corpus = record.get("corpus") or {}
    if corpus.get("manifest"):
        told["record"] = corpus["manifest"]
    if told:
        different = len(set(told.values())) > 1
        wrong = [f"{stage} {digest[:12]}" for stage, digest in told.items()] if different else []
        yield _asked("one corpus in all stages", wrong, counted(len(told), "receipt"), Word.INVALID)


def _passes(stage: str, receipt: Mapping[str, Any], passes: int) -> Evidence:
    """Whether a stage, with those it went on from, read more than was declared."""
    read, unique = sum(receipt["shards"].values()), receipt["unique_tokens"]
    shards = counted(len(receipt["shards"]), "shard")
    seen = f"{stage} read {read:,} tokens of {unique:,} unique ones in {shards}"
    seen += f": {read / max(unique, 1):.2f} passes of {passes} declared"
    word = Word.INVALID if read > passes * unique else Word.VALID
    return Evidence("declared passes", word, seen)


def _verified(stage: str, receipt: Mapping[str, Any]) -> Evidence:
    used, verified = len(receipt["shards"]), receipt.get("verified_shards", 0)
    word = Word.INVALID if verified < used else Word.VALID
    return Evidence("shards verified before use", word, f"{stage}: {verified} of {used}")


# -- training -------------------------------------------------------------------------------------


def _training(record: Record) -> Iterator[Evidence]:
    watched = _watch(record)
    if not watched:
        return
    passes = int((_cell(record).get("trunk") or {}).get("passes") or watched.get("passes", 1))
    points = [Point(*each) for each in watched["curve"]]
    found = {f.rule: f for f in map(Finding.parse, watched["findings"])}
    for rule in (NonFinite(Expected()), Gap(Expected()), Rise(Expected())):
        again = next(filter(None, map(rule.point, points)), None)
        finding = again or found.get(rule.name)
        word = _weight(rule.name, passes) if finding else Word.VALID
        seen = _told(finding) if finding else f"quiet at {len(points)} evaluations"
        yield Evidence(rule.name, word, seen)
    for name in (SecondPass.name, Spike.name):
        if name in found:
            yield Evidence(name, _weight(name, passes), _told(found[name]))


def _told(finding: Finding) -> str:
    """A finding whose rule is named beside it."""
    return finding.line().removeprefix(f"{finding.rule}, ")


def _weight(rule: str, passes: int) -> Word:
    """A gap where several passes are declared is what one looks for; it is shown all the same.

    So it is where nobody knows how many there are.
    """
    certain = {NonFinite.name, SecondPass.name} | ({Gap.name} if passes == 1 else set())
    return Word.INVALID if rule in certain else Word.SUSPECT


def _watch(record: Record) -> Mapping[str, Any]:
    """What the watch of the training kept; empty where nothing was trained or nobody watched."""
    for part in (record.get("weights") or {}, record):
        watched = (part.get("results") or {}).get("watch")
        if isinstance(watched, Mapping) and "curve" in watched:
            return watched
    beside: Mapping[str, Any] = record.get("watch") or {}
    return beside


def _cell(record: Record) -> Mapping[str, Any]:
    cell: Mapping[str, Any] = (record.get("spec") or {}).get("cell") or {}
    return cell


def _asked(question: str, wrong: list[str], seen: str, word: Word) -> Evidence:
    return Evidence(question, word if wrong else Word.VALID, "; ".join(wrong) or seen)
