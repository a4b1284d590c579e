"""What is looked at before money is spent, and what makes each look void."""

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantgrid import smoke
from quantgrid.cleared import Cleared
from quantgrid.errors import BudgetRefusal, ConfigRefusal, QuantgridError, Refusal
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid, load_platform, load_settings
from quantgrid.main import dispatch
from quantgrid.plan import Plan
from quantgrid.screens import Screens
from quantgrid.settings import Money
from rented_copy import add_waiting
from working_copy import WorkingCopy, lay

PAID = {"grid": "smoke", "platform": "paid-here"}
MUCH = Money(max_usd_per_grid=10, probe_max_usd=10)


def screens(root: Path, platform: str = "paid-here", money: Money = MUCH) -> Screens:
    """The screens of the smoke grid in a working copy, nothing of which is made."""
    settings = replace(load_settings(root, PAID | {"platform": platform}), money=money)
    lineage = trace(load_grid(root, "smoke"), Science(root))
    plan = Plan(lineage, frozenset(), {}, lineage.grid.every)
    return Screens(root, root, settings, load_platform(root, platform), lineage, plan)


@pytest.fixture
def copy(tmp_path: Path) -> WorkingCopy:
    """A working copy with the real science."""
    return lay(tmp_path / "copy", light=False)


def forget_sources() -> None:
    """Digests of files are kept while a program runs; the test has changed them."""
    from quantgrid import lineage, science

    for kept in (science._tree, science._imports, science._module_digest, lineage._digest):
        kept.cache_clear()


def test_everything_paid_waits_for_a_clearance_when_the_platform_is_paid(root: Path) -> None:
    """At the desk nothing waits, and the screens are there for whoever asks."""
    paid, desk = screens(root), screens(root, "local")

    assert paid.clearance == paid.targets()
    assert len(paid.probes) == 4
    assert {*paid.first, *paid.budget_input()} < {*paid.clearance_input()}
    assert desk.clearance == []
    assert len(desk.targets()) == 1


def test_clearance_is_void_when_what_was_screened_changes(copy: WorkingCopy) -> None:
    """Not by a comment; by the science, by a form, by a price and by a cap."""
    before = screens(copy.root)
    first, clearance = before.first, before.clearance
    trunk = copy / "scripts/trunk.py"
    trunk.write_text("# a comment\n" + trunk.read_text())
    forget_sources()
    assert screens(copy.root).clearance == clearance

    copy.edit("config/devices/here.yaml", "usd_per_hour: 1.00", "usd_per_hour: 1.01")
    dearer = screens(copy.root)
    assert dearer.first == first
    assert dearer.clearance != clearance
    assert [each.receipt for each in dearer.probes] == [each.receipt for each in before.probes]

    capped = screens(copy.root, money=replace(MUCH, max_usd_per_grid=9))
    assert capped.clearance != dearer.clearance

    copy.edit("src/quantlm/schedule.py", "\n\n\ndef ", "\n\n\nNEW = 1\n\n\ndef ")
    forget_sources()
    changed = screens(copy.root)
    assert not {*changed.first} & {*first}
    assert changed.probes[0].receipt != before.probes[0].receipt


def test_probe_is_refused_when_it_may_cost_more_than_was_allowed(root: Path) -> None:
    """Four probes of five minutes at a dollar an hour are 33 cents."""
    screens(root, money=Money(probe_max_usd=0.34)).refuse_dear()

    with pytest.raises(BudgetRefusal, match=r"at most \$0.33 .*; seen \$0.33: 4 x 300 s"):
        screens(root, money=Money(probe_max_usd=0.33)).refuse_dear()
    screens(root, "local", Money()).refuse_dear()


def test_plan_is_refused_before_anything_starts_when_it_was_measured(
    copy: WorkingCopy, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slower probes make it dearer than allowed; the same plan passed with the faster ones."""
    asked = screens(copy.root, money=Money(max_usd_per_grid=1))
    measure(asked, step_s=0.01)
    asked.refuse_dear()
    asked.say_forecast()
    assert "(measured; price of" in capsys.readouterr().err

    measure(asked, step_s=600.0)
    with pytest.raises(BudgetRefusal, match=r"the grid would cost \$\d+\.\d\d .* may cost \$1"):
        screens(copy.root, money=Money(max_usd_per_grid=1)).refuse_dear()


def measure(asked: Screens, *, step_s: float) -> None:
    """Write the receipts of all probes."""
    for probe in asked.probes:
        times = dict.fromkeys(("import", "start", "quantise", "sequence", "save"), 0.01)
        seconds = {name: {"wall_s": each} for name, each in (times | {"step": step_s}).items()}
        path = asked.root / probe.receipt
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"seconds": seconds}))


def test_clearance_refuses_when_the_budget_does(tmp_path: Path) -> None:
    """It is written when everything passed, and never else."""
    facts = {"schema": "s", "grid": "g", "platform": "p", "forecast": {"usd": 1.0}, "price": None}
    facts |= {"money": {}, "problems": [], "proposal": {"cells": []}, "at_once": 2}
    probe = {"schema": "probe", "model": "n0", "method": "qat", "tokens_per_s": 900}
    measured = tmp_path / "probe.json"
    measured.write_text(json.dumps(probe))
    seen, receipt = tmp_path / "budget.json", tmp_path / f"clearance.{'f' * 64}.json"
    act = ["screen", "clear", "--receipt", str(receipt), str(measured), str(seen)]
    seen.write_text(json.dumps(facts | {"problems": ["$9 of $8"]}))
    with pytest.raises(BudgetRefusal, match=r"\$9 of \$8"):
        dispatch(act)
    assert not receipt.exists()

    seen.write_text(json.dumps(facts))
    assert dispatch(act) == 0
    cleared = Cleared.open(receipt)
    named = {"fingerprint": "f" * 64, "forecast_usd": 1.0}
    assert cleared.facts_of([{"wall_s": 9}]) == {"clearance": named, "cost": None}
    assert cleared.tokens_per_s == {"n0": {"qat": 900}}


FULL = """{"proceed": %s, "forecast": {"usd": 1}, "grid": "g", "price": null, "at_once": 1,
          "money": {}, "tokens_per_s": {}}"""


@pytest.mark.parametrize("text", [None, "", "{}", FULL % '"true"', FULL % "false"])
def test_runner_refuses_when_the_clearance_is_none(tmp_path: Path, text: str | None) -> None:
    """No file, no JSON, or one that does not say to proceed: nothing is held or started."""
    path = tmp_path / "clearance.f.json"
    if text is not None:
        path.write_text(text)

    with pytest.raises(BudgetRefusal, match="no screen has cleared this job"):
        Cleared.open(path)


# -- mistakes, each caught before a lease ----------------------------------------------------------


def test_mistakes_are_told_at_once_when_no_script_has_to_run(copy: WorkingCopy) -> None:
    """Broken syntax and a wrong value in a configuration: refused with file and line, at parse."""
    forget_sources()
    copy.edit("src/quantlm/schedule.py", "def trunk_rate(", "def trunk_rate((")
    with pytest.raises(ConfigRefusal, match=r"not Python.*quantlm/schedule.py:\d+"):
        screens(copy.root)
    copy.edit("config/models/n0.yaml", "num_heads: 2", "num_heads: 3")
    with pytest.raises(ConfigRefusal, match=r"3 heads do not divide .*n0.yaml:\d+"):
        load_grid(copy.root, "smoke")
    forget_sources()


SHAPE = ("functional.linear(self.norm(x_BTD), self.head_weight)", "self.norm(x_BTD)[..., :7]")


def test_wrong_shape_is_told_by_compile_when_nothing_else_sees_it(copy: WorkingCopy) -> None:
    """Within a minute, on the meta device, with both shapes."""
    copy.edit("src/quantlm/model.py", *SHAPE)
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = compile_(copy)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert done.returncode == 70
    assert "model n0 does not run, so nothing that costs money was started" in done.stderr
    assert "expected (4, 64, 256), seen (4, 64, 7)" in done.stderr
    assert spent.ru_utime - begin.ru_utime < 60  # of a processor: others use it meanwhile
    assert not (copy / "compiled.json").exists()


def test_program_of_ones_own_is_read_by_compile_when_it_is_python(copy: WorkingCopy) -> None:
    """A grid without any model passes; a mistake in syntax is told with its line."""
    add_waiting(copy, [0.1, 0.2])
    copy.edit("config/config.yaml", "platform: plain ", "platform: local ")
    assert compile_(copy, "waiting", "").returncode == 0

    (copy / "mine/wait.py").write_text("fine = 1\ndef broken(:\n")
    done = compile_(copy, "waiting", "")
    assert done.returncode == 70
    assert "program wait.py does not run, so nothing that costs money was started" in done.stderr
    assert "mine/wait.py:2" in done.stderr


def compile_(
    copy: WorkingCopy, grid: str = "smoke", select: str = "variant=none"
) -> "subprocess.CompletedProcess[str]":
    """Run the compile screen of a working copy."""
    words = ["--root", str(copy.root), "--grid", grid, "--select", select]
    return subprocess.run(
        [sys.executable, "scripts/compile.py", *words, "--receipt", "compiled.json"],
        cwd=copy.root,
        env={**os.environ, "PYTHONPATH": str(copy / "src")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


# -- smoke -----------------------------------------------------------------------------------------


def test_smoke_refuses_when_a_script_saves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would lose its money at each interruption; nothing of the tiny cell is left."""
    copy = lay(tmp_path / "copy", light=True)
    monkeypatch.setenv("LIGHT_WORK_S", "0.1")
    monkeypatch.setenv("LIGHT_SAVES", "no")
    form = load_grid(copy.root, "smoke").cells[0].form

    with pytest.raises(Refusal, match="saved no state that a killed attempt could go on from"):
        smoke.run(copy.root, copy / "work", form)
    assert list((copy / "work").iterdir()) == []


def test_smoke_refuses_when_a_bit_differs_after_a_kill() -> None:
    """A number, or the digest of a file."""
    whole: dict[str, Any] = {"results": {"loss": 1.5}, "blobs": {"state": {"sha256": "a"}}}
    smoke.refuse_difference(whole, json.loads(json.dumps(whole)))

    for killed in (
        whole | {"results": {"loss": 1.5000001}},
        whole | {"blobs": {"state": {"sha256": "b"}}},
        whole | {"blobs": {}},
    ):
        with pytest.raises(QuantgridError, match=r"went on ended with another (loss|state)"):
            smoke.refuse_difference(whole, killed)
