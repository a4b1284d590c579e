"""Smoke and probe by the real science: what was predicted is what it takes."""

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from quantgrid import forecast, probes, probing, smoke
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid, load_platform, load_settings
from quantgrid.plan import Plan
from quantgrid.select import choose
from quantgrid.settings import Money
from working_copy import WorkingCopy, lay

FIVE = "budget=t400k and seed=0 and (method in (none, rtn, gptq) and bits!=3 or method=qat)"


@pytest.mark.nightly
def test_smoke_passes_when_the_science_is_whole(root: Path, tmp_path: Path) -> None:
    """Killed after its first checkpoint and gone on with, to the same bits; nothing is left."""
    form = load_grid(root, "demo").cells[1].form

    facts = smoke.run(root, tmp_path / "work", form)

    assert [cell.rpartition("/")[2] for cell in facts["cells"]] == ["none", form.id]
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_prediction_is_within_a_fifth_when_five_cells_are_computed(tmp_path: Path) -> None:
    """CPU seconds of the jobs of five cells, predicted by probes, against their links."""
    copy = lay(tmp_path / "copy", light=False)
    copy.edit("config/platforms/local.yaml", "warm: true", "warm: false")
    settings = replace(load_settings(copy.root, {"grid": "demo"}), money=Money())
    lineage = trace(load_grid(copy.root, "demo"), Science(copy.root))
    wanted = choose(lineage.grid.every, FIVE)
    plan = Plan(lineage, frozenset(), {}, wanted)
    platform = load_platform(copy.root, "local")
    for probe in probes.needed(plan, platform, copy.root).values():
        facts = probing.run(copy.root, copy / "work", probe.cell, platform)
        (copy / probe.receipt).parent.mkdir(parents=True, exist_ok=True)
        (copy / probe.receipt).write_text(json.dumps(facts))
    rates, guessed = probes.rates_of(settings, platform, plan, copy.root, time="cpu_s")
    assert guessed == []
    predicted = forecast.jobs(plan, rates)

    words = ("--cores", "1", "--config", "grid=demo", f"select={FIVE}")
    copy.snakemake(*words, grid="", timeout_s=2400)

    measured = {key: _cpu_s(copy, key) for key in predicted}
    ratios = {key: predicted[key].seconds / measured[key] for key in predicted}
    print(json.dumps(ratios, indent=1))
    assert len(wanted) == 5
    whole = sum(work.seconds for work in predicted.values()) / sum(measured.values())
    assert abs(whole - 1) < 0.2, ratios
    assert statistics.median(abs(each - 1) for each in ratios.values()) < 0.2, ratios


def _cpu_s(copy: WorkingCopy, key: str) -> float:
    """CPU seconds of the attempt that made a job, its runner's child and imports included."""
    if key.startswith("trunks/"):
        record = json.loads((copy / "archive" / key).read_bytes())
    else:
        record = json.loads((copy / f"results/{key}/result.json").read_bytes())
    return sum(float(link["cpu_s"]) for link in record["links"])
