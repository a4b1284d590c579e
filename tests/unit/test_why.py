"""`quantgrid why` finds what it is asked for: whoever types what a message says named no grid."""

import argparse
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from core_parts import archive_in, body, put
from quantgrid import atomic, common_jobs, failures, layout, verdicts
from quantgrid.archive.record import Record
from quantgrid.commands import retry, why
from quantgrid.diagnosis import Diagnosis
from quantgrid.errors import ConfigRefusal, CorpusRefusal
from quantgrid.hold import Chain, Hold, Terms, new_holder
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid, load_settings
from quantgrid.store.folder import FolderStore
from quantgrid.verdicts import Word

OWN = """blocks:
  line:
    script: train.py
    results: {json: result.json}
"""


@pytest.fixture
def told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What the command prints in a fresh working copy with one more grid."""
    for part in ("config", "scripts", "src/quantlm"):
        shutil.copytree(root / part, tmp_path / part)
    for grid in (tmp_path / "config/grids").glob("*.yaml"):
        if grid.stem not in {"demo", "smoke"}:
            grid.unlink()
    (tmp_path / "config/grids/mine.yaml").write_text(OWN)
    (tmp_path / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)

    def of(*options: str) -> str:
        parser = argparse.ArgumentParser()
        why.configure(parser)
        assert why.main(parser.parse_args(list(options))) == 0
        return capsys.readouterr().out

    return of


@pytest.mark.parametrize(
    ("cell", "grid", "stages"),
    [
        ("n0-t100k-s0/none", "demo", ["trunk", "cooldown", "evaluate"]),
        ("n0-t20k-s0/none", "smoke", ["trunk", "cooldown", "evaluate"]),
        ("line-s0/own", "mine", ["own"]),
        ("n0-s0/16384", "smoke", ["trunk"]),
    ],
)
def test_why_finds_the_grid_of_a_cell_or_milestone_when_none_is_named(
    told: Callable[..., str], cell: str, grid: str, stages: list[str]
) -> None:
    """Failures are told with `quantgrid why CELL`, of any grid and of milestones too."""
    story = json.loads(told(cell, "--json"))

    assert (story["cell"], story["grid"]) == (cell, grid)
    assert [stage["stage"] for stage in story["stages"]] == stages
    assert f"grid         {grid}" in told(cell).splitlines()


def test_why_is_not_misled_by_a_grid_that_cannot_be_read(told: Callable[..., str]) -> None:
    """A half-written grid of somebody hides no cell of another one."""
    Path(layout.SECTIONS["grid"], "ahead.yaml").write_text("blocks: {x: {}}\n")

    assert "grid         mine" in told("line-s0/own")


def test_why_looks_into_the_named_grid_only_when_one_is_named(told: Callable[..., str]) -> None:
    """A cell of two grids may be made from two corpora."""
    with pytest.raises(ConfigRefusal, match="no grid has a cell or milestone line-s0/own"):
        told("line-s0/own", "--grid", "demo")


def test_why_names_the_closest_cell_when_one_is_misspelt(told: Callable[..., str]) -> None:
    """A letter too few is told at once, and not looked for in a list of a thousand."""
    with pytest.raises(ConfigRefusal, match=r"did you mean 'n0-t20k-s0/rtn-w4row-noclip'\?"):
        told("n0-t20k-s0/rtn-w4row-nocli", "--grid", "smoke")


def test_why_tells_who_computes_a_stage_and_how_far_its_chain_is(
    told: Callable[..., str], tmp_path: Path
) -> None:
    """The hold of a parent counts: the cell waits for it; each link is told with its end."""
    lineage = trace(load_grid(tmp_path, "smoke"), Science(tmp_path))
    stage = lineage.milestones["n0-s0", 16384]
    store = FolderStore(tmp_path / "archive")
    terms = Terms("n0-s0/16384", new_holder("/elsewhere", "copy", "attempt"), 600.0)
    assert isinstance(Chain(store, stage.fingerprint).take(terms), Hold)
    volume = tmp_path / load_settings(tmp_path, {}).volume
    state = layout.state_folder(volume, "n0-s0/16384", "trunk", stage.fingerprint)
    link = {"started": "2026-11-30T12:00:00Z", "wall_s": 3000.0, "end": "cap", "tokens": 5000}
    layout.links_file(state).parent.mkdir(parents=True)
    short = {"started": "2026-11-30T13:00:00Z", "wall_s": 0.4, "end": "interrupted"}
    layout.links_file(state).write_text(json.dumps([link, short]))
    layout.link_file(state).write_text(json.dumps({"checkpoint": "0" * 90, "tokens": 4096}))

    said = told("n0-t20k-s0/none", "--grid", "smoke")

    held = f"process {os.getpid()} on {os.uname().nodename} in /elsewhere, since "
    assert f"\nheld         {held}" in said
    (stage,) = [part for part in said.split("\nstage ") if " trunk of " in part]
    assert f"; held by {held}" in " ".join(f"{stage} ".split()) + " "
    assert "2026-11-30T12:00:00Z  cap after 3000 s on" in said
    assert "5,000 tokens" in said
    assert "newest checkpoint at 4,096 tokens" in " ".join(stage.split())
    assert "\n  link " not in said  # an interruption is counted as none
    assert "2026-11-30T13:00:00Z  interrupted after less than a second on" in said
    assert "\nmade from    n0-s0/16384\n" in said  # and not from itself


def test_why_says_how_many_tokens_whole_steps_are(told: Callable[..., str]) -> None:
    """The number that was asked for, and the one that every link of it tells."""
    said = told("n0-t20k-s0/none", "--grid", "smoke").splitlines()
    assert "spec         num_tokens: 20000, in whole steps 20,480" in said
    assert "spec         num_tokens: 16384" in told("n0-s0/16384", "--grid", "smoke").splitlines()


MAKE = "snakemake --profile local corpus --forcerun prepare"


def test_refusal_is_told_whole_by_why_and_in_few_words_by_retry(
    told: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No label stands beside its own word, and no kind beside a class of the same name."""
    stage = trace(load_grid(tmp_path, "smoke"), Science(tmp_path)).milestones["n0-s0", 16384]
    refusal = CorpusRefusal("a shard is short", expected="9", seen="8", do=f"Make it: `{MAKE}`.")
    facts = {"cell": "n0-s0/16384", "stage": "trunk", "fingerprint": stage.fingerprint}
    facts |= {"when": "2026", "host": "desk", "attempt": "a1", "log": "logs/a.log"}
    failures.keep(tmp_path, failures.failure_of(Diagnosis.of(refusal), **facts))

    lines = told("n0-s0/16384", "--grid", "smoke").splitlines()
    assert lines[:3] == [
        "refused      a shard is short; expected 9; seen 8. Make it:",
        f"             `{MAKE} --config grid=smoke`.",  # the grid of the cell
        "  what       refusal in n0-s0/16384, stage trunk",
    ]

    config = tmp_path / "config/config.yaml"
    config.write_text(config.read_text().replace("\ngrid: demo", "\ngrid: smoke"))
    assert f"             `{MAKE}`." in told("n0-s0/16384").splitlines()

    parser = argparse.ArgumentParser()
    retry.configure(parser)
    assert retry.main(parser.parse_args(["n0-s0/16384"])) == 0
    assert capsys.readouterr().out.splitlines() == [
        "n0-s0/16384  trunk  refusal  a shard is short",
        "1 of 1 failure forgotten; the next run tries again",
    ]


BASE, FORM = "n0-t20k-s0/none", "n0-t20k-s0/rtn-w4row-noclip"


def archived(root: Path, kind: str, owner: str, fingerprint: str, **more: object) -> Record:
    """An archived record of a stage, as the grid means it."""
    archive = archive_in(root)
    put(archive, root / "out", {**body(kind, owner), "fingerprint": fingerprint, **more})
    return archive.record(layout.record_key(kind, owner, fingerprint))


def doubt(root: Path, cell: str, word: Word) -> None:
    """A verdict of the judge on an archived cell."""
    lineage = trace(load_grid(root, "smoke"), Science(root))
    record = archived(root, "cells", cell, lineage.cells[cell].fingerprint)
    reason = "" if word is Word.VALID else "gap: 0.4 nats"
    asked = [{"question": "gap", "verdict": str(word), "seen": "0.4 nats"}]
    said = verdicts.sealed(record, word, reason=reason, by={"judge": 99}, at="2026", evidence=asked)
    verdicts.append(archive_in(root), said)


def next_of(said: str) -> str:
    """The last part of a story, in one line."""
    return " ".join(said.rpartition("\nnext ")[2].split())


def test_why_of_a_form_says_that_its_base_is_doubted(
    told: Callable[..., str], tmp_path: Path
) -> None:
    """The verdict that table and page show, the cell's own, and where to look on."""
    doubt(tmp_path, BASE, Word.SUSPECT)
    doubt(tmp_path, FORM, Word.VALID)

    said = told(FORM, "--grid", "smoke")

    assert "\nverdict      SUSPECT, because its base is SUSPECT: gap: 0.4 nats\n" in said
    assert "the cell itself: VALID" in said
    assert next_of(said).startswith(f"`quantgrid why {BASE}` tells what is wrong with its base")
    facts = json.loads(told(FORM, "--grid", "smoke", "--json"))["verdict"]
    assert (facts["verdict"], facts["own"], facts["base"]) == ("SUSPECT", "VALID", BASE)


def test_why_tells_of_a_form_only_what_means_something_to_its_method(
    told: Callable[..., str],
) -> None:
    """An unquantised base has no damping; yes and no are words."""
    form = told(FORM, "--grid", "smoke").partition("spec         form: ")[2]

    assert "\nspec         form: method none\n" in told(BASE, "--grid", "smoke")
    assert "asymmetric no" in form
    assert "damping" not in form


def test_why_of_a_doubted_cell_says_what_a_person_does(
    told: Callable[..., str], tmp_path: Path
) -> None:
    """A guide, the command that rejects it, and that it may stay; of an INVALID one the cause."""
    doubt(tmp_path, BASE, Word.SUSPECT)

    whole = told(BASE, "--grid", "smoke")
    said = next_of(whole)

    assert whole.count("gap: ") == 1  # the reason, and no question that says it again
    assert "docs/guides/wrong-output.md" in said
    assert f'`quantgrid reject {BASE} --reason "..."`' in said
    assert "leave it" in said
    doubt(tmp_path, FORM, Word.INVALID)
    assert next_of(told(FORM, "--grid", "smoke")).startswith("Find the cause, by docs/guides/")


def test_why_of_a_finished_trunk_tells_the_tokens_at_its_end(
    told: Callable[..., str], tmp_path: Path
) -> None:
    """Its link's own account is of the last checkpoint, which lies before; so is what it kept."""
    lineage = trace(load_grid(tmp_path, "smoke"), Science(tmp_path))
    stage = lineage.milestones["n0-s0", 16384]
    link = {"started": "2026-11-30T12:00:00Z", "wall_s": 3.0, "tokens": 5000, "attempt": "a"}
    ends = [{**link, "end": "interrupted"}, {**link, "end": "done", "tokens": 12288}]
    archived(tmp_path, "trunks", "n0-s0/16384", stage.fingerprint, stage="trunk", links=ends)

    said = told("n0-s0/16384", "--grid", "smoke")

    assert "not folded here" not in said
    assert "interrupted after 3 s on None (None), 5,000 tokens" in said
    assert "done after 3 s on None (None), 16,384 tokens" in said
    assert "12,288" not in said
    base = lineage.bases["n0-t20k-s0"]
    archived(tmp_path, "weights", BASE, base.fingerprint, stage="cooldown", links=ends[1:])
    assert "done after 3 s on None (None), 20,480 tokens" in told(BASE, "--grid", "smoke")


@pytest.mark.parametrize(
    ("cell", "grid"), [("n0-t100k-s0/none", ""), ("n0-t20k-s0/none", " --config grid=smoke")]
)
def test_why_names_the_grid_in_its_command_when_it_is_not_the_configured_one(
    told: Callable[..., str], cell: str, grid: str
) -> None:
    """What is typed as told makes this cell, and none of the same name in another grid."""
    target = f"results/{cell}/result.json"

    assert next_of(told(cell)).startswith(f"Run `snakemake --profile local {target}{grid}`; ")


def test_why_tells_of_a_refused_seal_that_every_cell_waits_for(
    told: Callable[..., str], tmp_path: Path
) -> None:
    """No failure is the cell's own, nothing is kept, and the same command fails again."""
    prepare, seal = common_jobs.before(load_grid(tmp_path, "smoke").corpus)
    atomic.publish(tmp_path / prepare.product, b"{}")
    refused = f"refused: a shard is short; seen 8. Make it again: `{MAKE}`.\n"
    atomic.publish(tmp_path / seal.log, refused.encode())

    said = told(BASE, "--grid", "smoke")

    waits = f"the seal of {seal.owner}, which failed: a shard is short"
    assert " ".join(said.partition("  log ")[0].split()) == f"waits for {waits}"
    make = f"Make it again: `{MAKE} --config grid=smoke`."
    assert next_of(said) == f"{make} Then the same command as before."
