"""The smoke screen: one tiny cell from raw tokens to an evaluation, killed and gone on with.

It runs on the CPU of the controller, by the scripts and the runner that money will be spent on: a
training that was killed and went on must end with the same bits as one that was not.
"""

import math
import time
from pathlib import Path
from typing import Any

from quantgrid.archive.record import Record
from quantgrid.errors import Fault, Refusal
from quantgrid.fingerprint import canonical
from quantgrid.job import Job
from quantgrid.lineage import Lineage
from quantgrid.scratch import Scratch, kill, scratch
from quantgrid.spec import BASE, Evaluation, Form, Model

SCHEMA = "quantgrid/smoke"
VERSION = 1
STEPS = 600
"""Long enough to be killed between its first checkpoint and its end."""
SEQUENCES = 8
WAIT_S = 300.0
"""For the first checkpoint, on a machine that does much else."""
_POLL_S = 0.01
_ARCHIVES = ("whole", "killed")


def run(code: Path, where: Path, form: Form) -> dict[str, Any]:
    """Run the tiny cell and compare; the facts of a smoke that passed.

    Args:
        code: The folder of the Snakefile.
        where: A folder with room.
        form: The form that is made of it; `BASE` for none.

    Raises:
        Fault: when something of it fails; the message has its last words.
        Refusal: when the bits differ, or when it never saved its state.
    """
    begin_s = time.monotonic()
    with scratch(code, where) as place:
        forms = list(dict.fromkeys((BASE, form)))
        asked = Evaluation(sequences=SEQUENCES)
        lineage = place.grid(tiny_model(form), [STEPS], forms, evaluation=asked)
        trunk, *rest = jobs_of(lineage)
        place.run(trunk, archive=_ARCHIVES[0])
        _kill_and_go_on(place, trunk)
        refuse_difference(*(place.record(trunk.last.record, each) for each in _ARCHIVES))
        for job in rest:
            place.run(job, archive=_ARCHIVES[0])
        results = place.record(rest[-1].last.record, _ARCHIVES[0])["results"]
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "cells": [job.cell for job in rest],
        "loss": results.get("loss"),
        "seconds": round(time.monotonic() - begin_s, 1),
    }


def tiny_model(form: Form) -> Model:
    """A model that trains in seconds and whose widths suit the groups of a form."""
    group = form.group if isinstance(form.group, int) else 1
    width = math.lcm(32, group)
    return Model(
        name="tiny",
        d_model=width,
        num_layers=1,
        num_heads=2,
        d_ff=2 * width,
        vocab_size=256,
        context=16,
        batch_sequences=8,
        learning_rate=2e-3,
        warmup_steps=4,
    )


def jobs_of(lineage: Lineage) -> list[Job]:
    """The trunk, the base and the form of a tiny grid, each after what it needs."""
    milestones = [lineage.milestone(lineage.trunks[trunk], at) for trunk, at in lineage.milestones]
    cells = sorted(lineage.grid.cells, key=lambda cell: cell.form != BASE)
    return [*milestones, *(lineage.job(cell) for cell in cells)]


def _kill_and_go_on(place: Scratch, job: Job) -> None:
    """SIGKILL after the first checkpoint, then the same job again, to its end."""
    process = place.start(job, archive=_ARCHIVES[1])
    deadline_s = time.monotonic() + WAIT_S
    while not place.link_of(job).exists():
        if process.poll() is not None or time.monotonic() > deadline_s:
            kill(process)
            raise Refusal(
                "the tiny cell saved no state that a killed attempt could go on from",
                expected="QG_LINK replaced at a checkpoint",
                seen="; ".join(filter(None, ("none", place.last_words()))),
                do="A script that cannot be resumed loses its money at each interruption.",
            )
        time.sleep(_POLL_S)
    kill(process)
    place.run(job, archive=_ARCHIVES[1])
    ends = [link["end"] for link in place.record(job.last.record, _ARCHIVES[1])["links"]]
    if ends != ["interrupted", "done"]:
        raise Fault(
            "the tiny cell was not gone on with", expected="two links, one killed", seen=ends
        )


def refuse_difference(whole: Record, killed: Record) -> None:
    """Refuse when a training that was killed and went on ended with other bits.

    Raises:
        Refusal: naming the first number or file that differs.
    """
    for part in ("results", "blobs"):
        for name in whole[part].keys() | killed[part].keys():
            one, other = (canonical(each[part].get(name)) for each in (whole, killed))
            if one != other:
                raise Refusal(
                    f"a training that was killed and went on ended with another {name}",
                    expected=one[:200],
                    seen=other[:200],
                    do="The state that is kept is not whole: see docs/formats/checkpoint.md.",
                )
