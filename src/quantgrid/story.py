"""The whole story of a cell, from what this working copy, its volume and the archive know."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import common_jobs, failures, hold, judging, layout, links, masking, verdicts
from quantgrid.archive import Archive
from quantgrid.archive.record import Record
from quantgrid.forms import METHODS
from quantgrid.job import Stage
from quantgrid.lineage import Lineage
from quantgrid.remembered import Remembered
from quantgrid.verdicts import Word, base_of
from quantgrid.wording import as_typed, clause, counted, next_step, wrapped

_OF_JUDGE = frozenset({"by", "at", "evidence"})
"""What a verdict tells beside word and reason."""


_COUNTED = ("link", "interruption", "failure")


class Place(NamedTuple):
    """Where to look: working copy, volume, archive; `configured` is the grid that needs no word."""

    root: Path
    volume: Path
    archive: Archive
    configured: str = ""

    def command(self, cell: str, grid: str) -> str:
        """What a person types for the result of a cell of a grid."""
        base, variant = cell.split("/")
        typed = f"snakemake --profile local {layout.RESULT.format(base=base, variant=variant)}"
        return typed if grid == self.configured else f"{typed} --config grid={grid}"


def story(lineage: Lineage, cell: str, place: Place, *, link_s: float | None) -> dict[str, Any]:
    """All that is known of a cell.

    Args:
        lineage: What every cell is made from.
        cell: Its id, or that of a milestone.
        place: Where to look.
        link_s: Seconds that the runner gives a link here; None if no cap ends one.
    """
    stages = stages_of(lineage, cell)
    last = stages[-1][1]
    verdict = _verdict(place, lineage, cell)
    told = [_stage(owner, stage, place, link_s) for owner, stage in stages]
    pending = [stage for stage in told if not stage["archived"]]
    common = None if told[-1]["archived"] else _common(lineage, place)
    holds = hold.live(place.archive.store, {stage["fingerprint"] for stage in pending})
    for stage in pending:
        seen = holds.get(stage["fingerprint"])
        stage["hold"] = seen.words() if seen else None
    return {
        "cell": cell,
        "grid": lineage.grid.name,
        "fingerprint": last.fingerprint,
        "spec": last.spec.get("cell", last.spec),
        "archive": place.archive.store.address,
        "archived": told[-1]["archived"],
        "result": _result(place.root, cell),
        "verdict": verdict,
        "made_from": sorted(
            {layout.owner_of(key) for _, s in stages for key in s.parents.values()} - {cell}
        ),
        "hold": next((stage["hold"] for stage in pending if stage["hold"]), None),
        "common": common,
        "stages": told,
        "do": _after_common(common, place, lineage.grid.name)
        or _next_step(place, lineage, cell, told, verdict),
    }


def stages_of(lineage: Lineage, cell: str) -> list[tuple[str, Stage]]:
    """Every stage that a cell or milestone is made by, with its owner; empty when unknown."""
    milestones = {layout.owner_of(stage.record): stage for stage in lineage.milestones.values()}
    if cell not in lineage.cells:
        return [(cell, milestones[cell])] if cell in milestones else []
    made = [(cell, lineage.weights[cell])] if cell in lineage.weights else []
    parents = {key for _, weights in made for key in weights.parents.values()}
    before = [each for each in milestones.items() if each[1].record in parents]
    return [*before, *made, (cell, lineage.cells[cell])]


def _stage(owner: str, stage: Stage, place: Place, link_s: float | None) -> dict[str, Any]:
    state = layout.state_folder(place.volume, owner, stage.name, stage.fingerprint)
    record = place.archive.find_record(stage.record)
    chain = links.Chain(state, tuple(record["links"]) if record else links.peek(state), "")
    memory = Remembered(place.root, place.archive.store)
    failure = memory.find(owner, stage.name, stage.fingerprint)
    planned = links.more_links(stage.spec.get("num_tokens"), chain.links, link_s)
    return {
        "owner": owner,
        "stage": stage.name,
        "fingerprint": stage.fingerprint,
        "archived": record is not None,
        "state": str(state) if state.is_dir() else None,
        "checkpoint": None if record else links.newest_checkpoint(state) or None,
        "checkpoint_tokens": None if record else links.find_told(state).get("tokens"),
        "num_tokens": _tokens_at_end(stage.spec),
        "links": list(chain.links),
        "counters": chain.counters(),
        "hold": None,
        "planned_links": None if record else planned,
        "failure": _masked(failure),
    }


def _common(lineage: Lineage, place: Place) -> dict[str, Any] | None:
    """What failed before every cell of a grid, in the making of its corpus; None where none did."""
    found = common_jobs.first_error(common_jobs.before(lineage.grid.corpus), place.root)
    if found is None:
        return None
    job, said = found
    return {"owner": job.owner, "stage": job.rule, "message": said, "log": job.log}


def _after_common(common: Mapping[str, Any] | None, place: Place, grid: str) -> str:
    """The mend of what failed before every cell, and what follows; empty where none did."""
    if common is None:
        return ""
    command = () if grid == place.configured else ("--config", f"grid={grid}")
    mend = as_typed(next_step(common["message"]), command) or f"Read {common['log']}."
    return f"{mend} Then the same command as before."


def _tokens_at_end(spec: Mapping[str, Any]) -> int | None:
    """Tokens that weights have seen when their stage is finished; None for one without training."""
    if "cooldown" in spec:
        model = spec["trunk"]["model"]
        steps: int = spec["cooldown"]["num_steps"]
        return steps * int(model["batch_sequences"]) * int(model["context"])
    return spec.get("num_tokens")


def _masked(failure: failures.Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        name: masking.masked(value, os.environ) if isinstance(value, str) else value
        for name, value in failure.items()
    }


def _parents(stages: list[tuple[str, Stage]]) -> set[str]:
    return {layout.owner_of(key) for _, stage in stages for key in stage.parents.values()}


def _verdict(place: Place, lineage: Lineage, cell: str) -> dict[str, Any] | None:
    """The verdict that counts for a cell, with evidence on it; None for what no judge looks at.

    `own` is what is said of the cell itself, where its base is worse.
    """
    record = _measured(place, lineage, cell)
    if record is None:
        return None
    found = verdicts.find_newest(place.archive, record)
    own = judging.said_of(place.archive, record)
    base = None if cell == base_of(cell) else _measured(place, lineage, base_of(cell))
    of_base = judging.said_of(place.archive, base) if base else None
    said = verdicts.counting(own, of_base)
    known = {name: value for name, value in (found or {}).items() if name in _OF_JUDGE}
    return {"verdict": said.word, "reason": said.reason, **known} | (
        {"own": own.word, "base": base_of(cell)} if said != own else {}
    )


def _measured(place: Place, lineage: Lineage, cell: str) -> Record | None:
    """The archived record of a cell; None for a milestone, and before it was measured."""
    stage = lineage.cells.get(cell)
    return place.archive.find_record(stage.record) if stage else None


def _result(root: Path, cell: str) -> str | None:
    base, variant = cell.split("/")
    path = root / layout.RESULT.format(base=base, variant=variant)
    return str(path) if path.is_file() and path.stat().st_size else None


def _next_step(
    place: Place,
    lineage: Lineage,
    cell: str,
    stages: list[dict[str, Any]],
    verdict: Mapping[str, Any] | None,
) -> str:
    grid, is_milestone = lineage.grid.name, stages[-1]["stage"] == "trunk"
    if stages[-1]["archived"] and is_milestone:
        return "Nothing: its record is archived."
    if verdict and (doubted := _after_doubt(cell, verdict)):
        return doubted
    if stages[-1]["archived"] and _result(place.root, cell):
        return "Nothing: its record is archived, and its result is here."
    if stages[-1]["archived"]:
        return f"Nothing: its record is archived; `{place.command(cell, grid)}` folds it."
    for stage in stages:
        failure = None if stage["archived"] else stage["failure"]
        if failure and failure["is_remembered"]:
            is_mended = common_jobs.is_mended(failure, lineage.grid.corpus, place.root)
            lead = "Its cause was mended since:" if is_mended else "Mend the cause, then"
            return f"{lead} `quantgrid retry {stage['owner']}` and the same command."
    if is_milestone:
        return "Ask for a cell that is made from it; it goes on from what is kept."
    return f"Run `{place.command(cell, grid)}`; it goes on from what is kept."


def _after_doubt(cell: str, verdict: Mapping[str, Any]) -> str:
    """What a person does about a cell that is not VALID; empty for one that is."""
    if verdict["verdict"] == Word.INVALID:
        return (
            "Find the cause, by docs/guides/wrong-output.md; the table has the reason instead of "
            "its numbers. When code, corpus or setting is mended, it is another cell to the "
            "archive, and the same command computes it."
        )
    if verdict["verdict"] != Word.SUSPECT:
        return ""
    if verdict.get("own") == Word.VALID:
        return (
            f"`quantgrid why {verdict['base']}` tells what is wrong with its base; what is done "
            "about that holds for this cell."
        )
    return (
        "Look at it as docs/guides/wrong-output.md says. Wrong: "
        f'`quantgrid reject {cell} --reason "..."`. Right after all: leave it, it stays in the '
        "table, marked, and in no average."
    )


# -- words ----------------------------------------------------------------------------------------


def lines(told: Mapping[str, Any], configured: str = "") -> list[str]:
    """A story as a person reads it: what is wrong first.

    Args:
        told: The story.
        configured: The grid that a command means which names none.
    """
    command = () if told["grid"] == configured else ("--config", f"grid={told['grid']}")
    failed = [stage for stage in told["stages"] if stage["failure"] and not stage["archived"]]
    text = _common_lines(told["common"]) if told["common"] else []
    text += [line for stage in failed for line in _failure_lines(stage, command)]
    text += [f"cell         {told['cell']}", f"grid         {told['grid']}"]
    text += [f"fingerprint  {told['fingerprint']}"]
    text.append(f"archived     {'yes' if told['archived'] else 'no'}, in {told['archive']}")
    if told["stages"][-1]["stage"] != "trunk":  # a milestone has a record and no result
        text.append(f"result       {told['result'] or 'not folded here'}")
    text += _verdict_lines(told["verdict"]) if told["verdict"] else []
    text.append(f"held         {told['hold'] or 'by nobody'}")
    for stage in told["stages"]:
        text += _stage_lines(stage)
    if told["made_from"]:
        text += _wrapped("made from", ", ".join(told["made_from"]))
    text += [
        line for name, value in _meant(told["spec"]).items() for line in _spec_lines(name, value)
    ]
    return [*text, *_wrapped("next", told["do"])]


def _verdict_lines(verdict: Mapping[str, Any]) -> list[str]:
    """Word and reason, then what was seen; who looks at a VALID cell wants no list."""
    word, reason = verdict["verdict"], verdict.get("reason")
    is_of_base = verdict.get("own") == Word.VALID
    lead = ", because " if is_of_base else ": "
    text = _wrapped("verdict", f"{word}{lead}{reason}" if reason else word)
    text += _wrapped("", f"the cell itself: {verdict['own']}") if "own" in verdict else []
    for each in verdict.get("evidence") or ():
        is_told = f"{each['question']}: {each['seen']}" in (reason or "")
        if each["verdict"] != Word.VALID and not is_told:
            answer = f"{each['question']}: {each['verdict']}, seen {each['seen']}"
            text += _wrapped("  question", answer)
    return text


def _spec_lines(name: str, value: Any) -> list[str]:
    """What is asked for, without what was left at nothing."""
    if not isinstance(value, Mapping):
        return [] if value is None else _wrapped("spec", f"{name}: {value}")
    return _wrapped("spec", f"{name}: {', '.join(_flat('', value))}")


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[str]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(f"{prefix}{name}.", inner)
        elif inner is not None:
            yield f"{prefix}{name} {_said(inner)}"


def _said(value: Any) -> str:
    """A value of a spec as a person says it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _meant(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec with the tokens that it comes to, and the fields of a form that mean something."""
    end = _tokens_at_end(spec)
    if end != spec.get("num_tokens"):
        spec = {**spec, "num_tokens": f"{spec['num_tokens']}, in whole steps {end:,}"}
    form = spec.get("form")
    if not isinstance(form, Mapping) or form.get("method") not in METHODS:
        return dict(spec)
    takes = {"method", *METHODS[form["method"]].takes}
    return {**spec, "form": {name: value for name, value in form.items() if name in takes}}


def _wrapped(label: str, text: str) -> list[str]:
    """A text beside its label, in eighty columns where ids and paths allow."""
    return wrapped(text, 80, first=f"{label:<12} ", rest=" " * 13)


def _common_lines(common: Mapping[str, Any]) -> list[str]:
    """What every cell of the grid waits for, and what was wrong with it in few words."""
    what = f"the {common['stage']} of {common['owner']}, which failed: {clause(common['message'])}"
    return [*_wrapped("waits for", what), f"  log        {common['log']}"]


def _failure_lines(stage: Mapping[str, Any], command: Sequence[str]) -> list[str]:
    failure = stage["failure"]
    kinds = dict.fromkeys((failure["kind"], failure["class"]))
    head = f"{', class '.join(kinds)} in {stage['owner']}, stage {stage['stage']}"
    word = failures.word(failure)
    message = as_typed(failure["message"].removeprefix(f"{word}: "), command)
    text = [*_wrapped(word, message), f"  what       {head}"]
    text.append(
        f"  when       {failure['when']} on {failure['host']}, attempt {failure['attempt']}"
    )
    text += [f"  log        {failure['log']}"] if failure["log"] else []
    more = [line for line in failure["lines"] if line.strip() != failure["message"].strip()]
    return text + [f"  | {line}" for line in more]


def _stage_lines(stage: Mapping[str, Any]) -> list[str]:
    counts = stage["counters"]
    facts = [
        "archived" if stage["archived"] else "not archived",
        ", ".join(
            counted(counts[f"{each}s"], each) for each in ("link", "interruption", "failure")
        ),
    ]
    if stage["checkpoint"]:
        tokens = stage["checkpoint_tokens"]
        newest = stage["checkpoint"] if tokens is None else f"at {tokens:,} tokens"
        facts.append(f"newest checkpoint {newest}")
    planned = stage["planned_links"]
    facts += [] if planned is None else [f"{counted(planned, 'more link')} at this speed"]
    facts += [f"held by {stage['hold']}"] if stage["hold"] else []
    head = _wrapped("stage", f"{stage['stage']} of {stage['owner']}: {'; '.join(facts)}")
    end = stage["num_tokens"]
    return [*head, *(f"  attempt    {_link_line(link, end)}" for link in stage["links"])]


def _link_line(link: links.Link, end: int | None) -> str:
    """A link with the tokens at its end: those of a finished stage are all that it was asked for.

    Its own account tells the last checkpoint, which lies before that.
    """
    time = _time(link.get("wall_s"))
    reached = end if end and link.get("end") == links.DONE else link.get("tokens")
    tokens = "" if reached is None else f", {reached:,} tokens"
    where = f"{link.get('host')} ({link.get('platform')})"
    return f"{link.get('started')}  {link.get('end') or 'open'} after {time} on {where}{tokens}"


def _time(seconds: float | None) -> str:
    """How long a link took, in words."""
    if seconds is None:
        return "? s"
    return f"{seconds:.0f} s" if seconds >= 1 else "less than a second"
