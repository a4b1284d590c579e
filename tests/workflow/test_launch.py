"""A grid that needs no terminal: launched, looked at, followed, stopped."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from detached import BOUND_S, Desk, Terminal, await_true, working_in
from quantgrid import layout, processes, supervisor
from quantgrid.errors import HoldRefusal
from quantgrid.standing import State
from quantgrid.terminal import Grid
from snakemake_logger_plugin_quantgrid.tally import Tally
from snakemake_logger_plugin_quantgrid.told import snapshot

QUANTGRID = (sys.executable, "-m", "quantgrid")
SNAKEMAKE = (sys.executable, "-m", "snakemake", "--profile", "profiles/local")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A tiny working copy; nothing of it runs afterwards."""
    desk = Desk.lay(tmp_path / "copy")
    yield desk
    desk.clear()


def test_grid_goes_on_when_the_terminal_of_its_launch_is_closed(desk: Desk) -> None:
    """Launch returns while the grid runs; the closed window reaches nothing of it."""
    window = Terminal(desk.root, *QUANTGRID, "launch")
    window.await_text("quantgrid stop")
    assert window.wait() == 0
    window.close()
    desk.await_work()

    assert "running   process" in desk.quantgrid("status")
    desk.release()
    said = desk.quantgrid("attach")

    assert "done  all" in said
    assert "with exit code 0" in said
    assert desk.quantgrid("status").startswith("ended     at 20")


def test_grid_goes_on_when_the_terminal_of_snakemake_itself_is_closed(desk: Desk) -> None:
    """SIGHUP ends neither the controller nor its jobs; what it says goes to a log."""
    window = Terminal(desk.root, *SNAKEMAKE)
    job = desk.await_work()
    window.await_text("running")
    window.close()

    seen = desk.look()
    assert seen.holder is not None
    await_true(lambda: desk.look().log is not None, "the lost terminal was not noticed")
    assert seen.holder.pid == window.pid
    assert processes.find_process(job)
    assert desk.look().state is State.RUNS

    desk.release()
    assert window.wait() == 0
    log = desk.look().log
    assert log is not None
    assert "The terminal was closed at 20" in log.read_text()
    assert "done  all" in log.read_text()
    assert desk.look().state is State.ENDED


def test_attach_leaves_the_grid_running_when_interrupted(desk: Desk) -> None:
    """Ctrl-C ends the look and not the grid, and says so; the display is that of the foreground."""
    desk.quantgrid("launch")
    desk.await_work()
    desk.await_told(lambda now: now.get("running_jobs") == 1)

    window = Terminal(desk.root, *QUANTGRID, "attach")
    window.await_text("tiny  ")
    window.await_text("1 running")
    window.type("\x03")
    window.await_text("Left; the grid goes on.")

    assert window.wait() == 130
    assert desk.look().state is State.RUNS
    desk.release()
    assert "ended" in desk.quantgrid("attach")


def test_attach_ends_with_the_code_of_the_controller_when_a_job_fails(desk: Desk) -> None:
    """What the foreground would have ended with; the failed job is named with its own words."""
    desk.quantgrid("launch")
    desk.await_work()
    follower = desk.start("attach")
    assert follower.stdout is not None
    assert follower.stdout.readline().startswith("Following process")
    desk.release("fail")
    said, _ = follower.communicate(timeout=BOUND_S)

    assert follower.returncode == 1
    assert "fail  base long" in said
    assert said.count("log: logs/base-long.log") == 1  # once, as it came
    status = desk.quantgrid("status")
    assert "failed    base long\n          step 12 has no loss.\n" in status
    assert "log: logs/base-long.log" in status
    assert "1 failed" in status
    assert all(len(line) <= 80 for line in status.splitlines())


def test_status_answers_when_the_controller_is_halted(desk: Desk) -> None:
    """SIGSTOP is seen and explained; after SIGCONT the grid goes on to its end."""
    desk.quantgrid("launch")
    desk.await_work()
    holder = desk.look().holder
    assert holder is not None
    os.kill(holder.pid, signal.SIGSTOP)
    desk.await_state(State.HALTED)

    said = desk.quantgrid("status")
    assert f"stopped by a signal; go on: kill -CONT {holder.pid}" in said
    assert json.loads(desk.quantgrid("status", "--json"))["state"] == "halted"
    assert "already runs" in desk.quantgrid("launch", code=HoldRefusal.exit_code)

    os.kill(holder.pid, signal.SIGCONT)
    desk.await_state(State.RUNS)
    desk.release()
    assert "exit code 0" in desk.quantgrid("attach")


def test_stop_lets_jobs_save_when_the_controller_is_halted(desk: Desk) -> None:
    """The halted controller is woken to end; the job saves its state; nothing runs afterwards."""
    desk.quantgrid("launch")
    job = desk.await_work()
    holder = desk.look().holder
    assert holder is not None
    os.kill(holder.pid, signal.SIGSTOP)
    desk.await_state(State.HALTED)

    said = desk.quantgrid("stop", "--grace-s", "60")

    assert "every process ended by itself, and nothing of it runs" in said
    assert desk.saved()
    assert not processes.find_process(job)
    assert holder.family() == []
    assert processes.find_process(holder.supervisor) is None
    assert [end["killed"] for end in desk.ends()] == [0]


def test_stop_kills_only_what_is_ours_when_a_job_is_deaf(desk: Desk) -> None:
    """A job that ignores SIGTERM is killed after the grace; a bystander in the folder is not."""
    (desk.root / "deaf").touch()
    desk.quantgrid("launch")
    job = desk.await_work()
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    said = desk.quantgrid("stop", "--grace-s", "2")

    assert "were killed, and nothing of it runs" in said
    assert not processes.find_process(job)
    assert bystander.poll() is None
    bystander.communicate(b"\n", timeout=BOUND_S)


def test_stop_waits_as_long_as_the_platform_of_the_launch_says(desk: Desk) -> None:
    """The grace is that of `--config platform=` at the launch, whatever the files here say now."""
    desk.quantgrid("launch", "--", "--config", "grace_s=240")
    desk.await_work()

    said = desk.quantgrid("stop")

    assert "(up to 255 s)" in said
    assert "every process ended by itself" in said
    assert desk.saved()


def test_jobs_of_a_killed_controller_have_the_grace_of_its_platform(desk: Desk) -> None:
    """The supervisor waits as long as the platform of the launch says, and no longer."""
    (desk.root / "deaf").touch()
    desk.quantgrid("launch", "--", "--config", "grace_s=1")
    job = desk.await_work()
    holder = desk.look().holder
    assert holder is not None
    killed_s = time.monotonic()
    os.kill(holder.pid, signal.SIGKILL)
    await_true(lambda: bool(desk.ends()), "the supervisor wrote nothing down")

    assert not processes.find_process(job)
    assert time.monotonic() - killed_s < supervisor.GRACE_S


def test_stop_now_kills_at_once_when_asked(desk: Desk) -> None:
    """No time to save: the job is killed, and the working copy is free at once."""
    desk.quantgrid("launch")
    desk.await_work()

    desk.quantgrid("stop", "--now")

    assert not desk.saved()
    assert not desk.look().state.is_live
    assert "nothing of an earlier one does" in desk.quantgrid("stop")


def test_stop_ends_snakemake_in_the_foreground_too(desk: Desk) -> None:
    """A controller that nobody launched is stopped like one that was."""
    window = Terminal(desk.root, *SNAKEMAKE, "--rerun-incomplete")
    desk.await_work()

    said = desk.quantgrid("stop", "--grace-s", "60")

    assert "Go on with `quantgrid launch -- --rerun-incomplete`." in said  # what was typed
    assert window.wait() != 0
    assert desk.saved()
    window.close()


def test_status_tells_how_far_it_was_when_the_controller_is_killed(desk: Desk) -> None:
    """After kill -9 the supervisor lets the jobs save and says what happened; launch goes on."""
    desk.quantgrid("launch")
    desk.await_work()
    desk.await_told(lambda now: now.get("cells_done") == 1)
    holder = desk.look().holder
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    await_true(lambda: bool(desk.ends()), "the supervisor wrote nothing down")

    said = desk.quantgrid("status")
    assert said.startswith("died      was running until 20")
    assert "1 of 2 cells done; killed by SIGKILL" in said
    assert "start     quantgrid launch\n" in said
    assert desk.saved()
    assert holder.family() == []

    (desk.root / "working").unlink()
    desk.quantgrid("launch")
    desk.await_work()
    desk.release()
    assert "3/3 jobs" in desk.quantgrid("attach")


def test_status_tells_how_far_it_was_when_everything_is_killed_at_once(desk: Desk) -> None:
    """As after a power cut: nobody could write anything down, and the answer is the same."""
    desk.quantgrid("launch")
    desk.await_work()
    desk.await_told(lambda now: now.get("cells_done") == 1)
    holder = desk.look().holder
    assert holder is not None
    os.kill(holder.supervisor, signal.SIGKILL)
    processes.signal_all(holder.family(), signal.SIGKILL)
    await_true(lambda: not holder.family(), "something lives on")

    said = desk.quantgrid("status")
    assert said.startswith("died      was running until 20")
    assert "1 of 2 cells done" in said
    assert desk.quantgrid("attach", code=70).startswith("died")


def test_launch_is_won_by_one_when_two_race(desk: Desk) -> None:
    """Exactly one holds the working copy; the other says who does, and leaves nothing running."""
    racers = [desk.start("launch") for _ in range(2)]
    said = [racer.communicate(timeout=BOUND_S)[0] for racer in racers]
    codes = [racer.returncode for racer in racers]

    assert sorted(codes) == [0, HoldRefusal.exit_code], "\n".join(said)
    winner = desk.look().holder
    assert winner is not None
    loser = said[codes.index(HoldRefusal.exit_code)]
    assert loser.startswith(
        f"refused: a controller already runs in this working copy; seen {winner}"
    )
    desk.await_work()
    desk.release()
    assert "2/2 cells" in desk.quantgrid("attach")


def test_launch_waits_for_its_turn_when_another_is_at_work(desk: Desk) -> None:
    """No second Snakemake is started beside one that has not come to the lock yet."""
    path = desk.root / layout.LAUNCH_LOCK
    path.parent.mkdir(parents=True)
    with path.open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = desk.start("launch")
        opened = Path(f"/proc/{second.pid}/fd")
        await_true(
            lambda: any(each.resolve() == path for each in opened.iterdir()), "it never asked"
        )
        assert [each.pid for each in working_in(desk.root)] == [second.pid]
        assert not (desk.root / layout.CONTROLLER_LOGS).exists()

    said, _ = second.communicate(timeout=BOUND_S)
    assert "Launched" in said
    desk.await_work()
    desk.release()
    assert "2/2 cells" in desk.quantgrid("attach")


def test_launch_tells_the_real_error_first_when_snakemake_cannot_start(desk: Desk) -> None:
    """The first line is the error itself, the last one the place of the whole log."""
    (desk.root / "Snakefile").write_text("raise ValueError('no such moon')\n")
    said = desk.quantgrid("launch", code=1).splitlines()

    assert "no such moon" in said[0]
    assert said[-1].startswith("Nothing was launched; all that it said: ")
    assert Path(said[-1].rpartition(": ")[2]).is_file()


def test_desk_ends_a_launch_when_it_is_killed_before_its_lock(desk: Desk) -> None:
    """A Snakemake that hangs while it reads its rules holds no lock, and is ended all the same."""
    (desk.root / "Snakefile").write_text('open("reading", "w").close()\nopen("go").read()\n')
    launch = desk.start("launch")
    await_true((desk.root / "reading").exists, "Snakemake never read its rules")
    launch.kill()
    launch.communicate(timeout=BOUND_S)
    assert working_in(desk.root)

    desk.clear()

    assert working_in(desk.root) == []


def test_launch_is_refused_when_there_is_no_workflow(tmp_path: Path) -> None:
    """Outside a working copy nothing is started or written."""
    said = Desk(tmp_path).quantgrid("launch", code=78)

    assert said.startswith("refused: there is no workflow here to launch; expected Snakefile")
    assert list(tmp_path.iterdir()) == []


def test_status_names_the_host_when_the_controller_is_on_another(desk: Desk) -> None:
    """On a shared disk the lock is seen and its process is not: look there, not here."""
    path = desk.root / layout.CONTROLLER_LOCK
    path.parent.mkdir(parents=True)
    facts = {"id": "x", "pid": os.getpid(), "start": "1", "place": "another boot", "host": "far"}
    facts |= {"since": "2026-11-30T12:00:00Z", "supervisor": 0, "arguments": []}
    path.write_text(json.dumps(facts))
    with path.open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert "elsewhere process" in desk.quantgrid("status")
        assert "on far, since" in desk.quantgrid("status")
        for command in ("attach", "stop", "launch"):
            assert "on far" in desk.quantgrid(command, code=HoldRefusal.exit_code)

    assert desk.quantgrid("status").startswith("died")


def test_launch_is_refused_when_locks_do_not_reach_the_other_host(desk: Desk) -> None:
    """The lock looks free, and what the other host's controller tells says that it runs."""
    facts = {"id": "x", "pid": os.getpid(), "start": "1", "place": "another boot", "host": "far"}
    facts |= {"since": "2026-11-30T12:00:00Z", "supervisor": 0, "arguments": []}
    grid = snapshot(Tally({}, Grid("tiny", 2, 0), 0.0), {}, 0.0, is_over=False)
    now = {"controller": "x", **grid}
    place, told = (desk.root / each for each in (layout.CONTROLLER_LOCK, layout.CONTROLLER_NOW))
    told.parent.mkdir(parents=True)
    place.write_text(json.dumps(facts))
    told.write_text(json.dumps(now))

    assert "elsewhere process" in desk.quantgrid("status")
    said = desk.quantgrid("launch", code=HoldRefusal.exit_code)
    assert "on far, since 2026-11-30T12:00:00Z" in said
    assert "If that host is gone, try again 60 s after its last word." in said
    assert "on far" in desk.quantgrid("stop", code=HoldRefusal.exit_code)
    refused = subprocess.run(
        SNAKEMAKE, cwd=desk.root, capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    assert refused.returncode != 0
    assert "already runs in this working copy" in refused.stderr
    assert json.loads(place.read_text()) == facts

    for gone in ({"told": time.time() - 61}, {"is_over": True}, {"controller": "y"}):
        told.write_text(json.dumps(now | gone))
        assert not desk.look().state.is_live, gone
    told.write_text(json.dumps(now))
    place.write_text(json.dumps(facts | {"host": os.uname().nodename}))
    assert desk.look().state is State.DIED, "this host was booted since: its controller is dead"


def test_status_changes_nothing_when_nothing_ever_ran(tmp_path: Path) -> None:
    """A look at an empty folder leaves it empty, and says that this is no working copy."""
    assert "this is no working copy" in Desk(tmp_path).quantgrid("status", code=78)
    assert list(tmp_path.iterdir()) == []
