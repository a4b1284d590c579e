"""Machines that worked twice, for nobody, or for ever: with real processes on the plain platform.

Incident: a container started again when its job had ended, and trained again (dstack 1142); a
client died and took its jobs along, or nobody was left to end them (training-gym 323,
liquid-finetune 24, firstmate 4307); a machine without its volume lost everything at its end
(ai-dock 21); and what a provider can do to anybody: a quota, an image that cannot be pulled, a
wrong clock, credentials that were revoked, a data centre that is gone (CP 4: 1, 8, 9, 16, 21, 28,
29).

Guards: `quantgrid.inside.life.Life` works once for a nonce and ends its machine by itself,
`quantgrid.inside.times.Times` counts the deadline on the monotonic clock,
`quantgrid.inside.copies.Copies` keeps what waits on the volume, and
`quantgrid.rental.steps.step` adopts, waits and gives up.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core_parts import MAKE, job_of, stage
from quantgrid.archive import Archive
from quantgrid.rental.lease import End, Phase
from quantgrid.rental.port import Candidate
from renter import PRICE, TERMS, Renter
from supervised import House, housed, until

VOLUMES = {
    "v": {"name": "v", "account": "lab/main", "region": "here", "size_bytes": 1 << 30},
    "v2": {"name": "v", "account": "lab/main", "region": "there", "size_bytes": 1 << 30},
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A platform that starts a first process again when it returned, as RunPod does."""
    with housed(tmp_path, volumes=VOLUMES) as house:
        yield house


def subject() -> str:
    """What a lease is for."""
    return os.urandom(32).hex()


def test_job_is_done_once_when_its_machine_cannot_end_itself_at_first(house: House) -> None:
    """CP 4.8: the first process never returns, so nothing is started again; the lease ends it."""
    a, renter = subject(), Renter(house)
    house.task(a, "echo once >> $QG_VOLUME/once")
    house.double.fault("stop", 1, "before")
    house.double.fault("stop", 2, "silent")
    renter.want(a)

    lease = renter.until(a, Phase.SUCCESS, Phase.ERROR)

    machines = house.double.machines()
    assert (lease.phase, lease.end) == (Phase.SUCCESS, End.DONE)
    assert (house.volume / "once").read_text() == "once\n"
    assert [each["starts"] for each in machines] == [1]
    assert house.double.billing() == []


def test_machine_is_one_when_the_reply_to_its_create_was_lost(house: House) -> None:
    """CP 4.1: it is there, works, and is adopted by its claim or its name."""
    a, renter = subject(), Renter(house)
    house.task(a, "echo done")
    house.double.fault("launch", 1, "after")
    renter.want(a)

    assert renter.until(a, Phase.SUCCESS, Phase.ERROR).phase is Phase.SUCCESS
    assert len(house.double.machines()) == 1


@pytest.mark.parametrize("is_late", [False, True])
def test_job_is_done_when_its_controller_died(house: House, *, is_late: bool) -> None:
    """CP 4.16, 4.21 and 4.29: the machine works, ends itself, and the next controller sees it."""
    a, first = subject(), Renter(house)
    task = house.task(a, "sleep 0.5; echo done")
    first.want(a)
    lease = first.until(a, Phase.BOOTING, Phase.RUNNING)
    del first  # nobody looks from here on
    if is_late:
        house.double.wait(lambda machines: all(each["ended_s"] for each in machines))
        assert house.end(lease, task) is not None

    second = Renter(house)
    second.want(a)

    assert second.until(a, Phase.SUCCESS, Phase.ERROR).phase is Phase.SUCCESS
    assert len(house.double.machines()) == 1


def test_job_goes_on_from_its_checkpoint_when_the_host_is_lost(house: House) -> None:
    """CP 4.9: a machine that is gone was interrupted; the next one finds the state."""
    a, renter = subject(), Renter(house)
    task = house.task(
        a, "[ -e $QG_VOLUME/state ] && exit 0; touch $QG_VOLUME/state; exec sleep 600"
    )
    renter.want(a)
    until(lambda: (renter.rounds.go(), (house.volume / "state").exists())[1])
    renter.until(a, Phase.RUNNING)

    house.double.take(house.double.billing()[0])
    lease = renter.until(a, Phase.SUCCESS, Phase.ERROR)

    assert (lease.phase, lease.interruptions, lease.failures) == (Phase.SUCCESS, 1, 0)
    assert house.end(lease, task) is not None
    assert house.double.billing() == []


def test_subjects_wait_when_the_account_has_a_quota(house: House) -> None:
    """More is wanted than the account may have: the others come later, and nothing has failed."""
    account = {"id": "lab/main", "balance_usd": 100.0, "quota": 1}
    house.double.change(accounts={"token-main": account})
    renter, subjects = Renter(house), [subject() for _ in range(3)]
    for each in subjects:
        house.task(each, "echo done")
        renter.want(each)

    ends = [renter.until(each, Phase.SUCCESS, Phase.ERROR) for each in subjects]

    assert [each.phase for each in ends] == [Phase.SUCCESS] * 3
    assert [(each.failures, each.interruptions) for each in ends] == [(0, 0)] * 3
    assert len(house.double.machines()) == 3


def test_machine_is_ended_when_its_image_cannot_be_pulled(house: House) -> None:
    """A machine without a sign of life is ended and confirmed, twice, and then no more."""
    house.double.change(broken_images=["image"])
    a, renter = subject(), Renter(house)
    renter.want(a, TERMS._replace(limits=TERMS.limits._replace(boot_s=1.0)))

    lease = renter.until(a, Phase.SUCCESS, Phase.ERROR)

    assert (lease.phase, lease.end) == (Phase.ERROR, End.SLOW_BOOT)
    assert len(house.double.machines()) == 2
    assert house.double.billing() == []


def test_job_moves_when_its_data_centre_is_gone(house: House) -> None:
    """The declared second volume is in another region; what is there is computed again there."""
    ways = (Candidate("cpu", 1, "here", PRICE), Candidate("cpu", 1, "there", PRICE))
    a, renter = subject(), Renter(house)
    task = house.task(a, "[ -e $QG_VOLUME/second ] || exec sleep 600")
    (house.double.folder / "volumes" / "v2" / "second").touch()
    renter.facts = renter.facts._replace(volumes={"there": "v2"})
    renter.want(a, TERMS._replace(candidates=ways))
    renter.until(a, Phase.RUNNING)

    house.double.change(regions_down=["here"])
    lease = renter.until(a, Phase.SUCCESS, Phase.ERROR)

    assert (lease.phase, lease.candidate.region) == (Phase.SUCCESS, "there")
    assert house.end(lease, task) is not None
    assert house.double.billing() == []


SHIFTED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int done = real(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += SHIFT_S;
  return done;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler to shift a clock")
@pytest.mark.parametrize("shift_s", [-500_000, 500_000])
def test_deadline_holds_when_the_clock_of_the_container_is_wrong(
    house: House, tmp_path: Path, shift_s: int
) -> None:
    """Five days off, a task runs as long as it may, is told to leave in time, and no longer."""
    source, library = tmp_path / "shifted.c", tmp_path / "shifted.so"
    source.write_text(SHIFTED.replace("SHIFT_S", str(shift_s)))
    command = ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    lease, told = house.lease(life_s=15.0), tmp_path / "told"
    look = "import os, time; print(float(os.environ['QG_ENDS_AT']) - time.time())"
    python = shlex.quote(sys.executable)
    house.task(
        lease,
        f'{python} -c "{look}" > {told}; trap "exit 75" TERM; while :; do sleep 0.05; done',
    )
    words = ("env", f"LD_PRELOAD={library}", sys.executable, "-m", "quantgrid", "supervise")

    machine = house.launch(lease, words=words, grace_s=0.5)
    ended = house.gone(machine)

    assert house.exit(lease).reason is End.CAP
    assert 0 < float(told.read_text()) < 15.0
    assert lease.deadline_s - 4.0 < ended["ended_s"] < lease.deadline_s + 100.0


def test_result_waits_on_the_volume_when_the_credentials_were_revoked(
    house: House, tmp_path: Path
) -> None:
    """What one machine computed and could not deposit, the next one deposits, and computes nothing.

    The store refuses everything from the moment when the script has finished.
    """
    away = house.store.root.with_name("away")
    revoke = f"os.rename({str(house.store.root)!r}, {str(away)!r})"
    work = (
        "import os\nfrom pathlib import Path\n"
        "open(os.environ['QG_VOLUME'] + '/computed', 'a').write('x')\n"
        f"{MAKE}{revoke}; Path({str(house.store.root)!r}).touch()\n"
    )
    job = job_of(stage("quantise", "weights"))
    house.packed({"quantise.py": work})
    a = subject()
    line = (
        f'exec {shlex.quote(sys.executable)} -m quantgrid run --root . --volume "$QG_VOLUME" '
        f"--archive {house.store.root} --receipt receipts/a.json {shlex.quote(job.to_json())}"
    )
    task = house.task(a, line, outputs=("receipts/a.json",))
    renter = Renter(house, stall_s=1.5)
    renter.want(a)
    until(lambda: (renter.rounds.go(), away.exists())[1])
    first = house.double.machines()[0]
    house.double.wait(lambda machines: machines[0]["ended_s"])

    house.store.root.unlink()
    away.rename(house.store.root)
    lease = renter.until(a, Phase.SUCCESS, Phase.ERROR)

    end = house.end(lease, task)
    assert (lease.phase, lease.interruptions) == (Phase.SUCCESS, 1)
    assert end is not None
    assert (end.code, end.records) == (0, (job.last.record,))
    assert (house.volume / "computed").read_text() == "x"
    assert Archive(house.store).record(job.last.record)["results"] == {"made": job.cell}
    assert first["id"] != lease.machine
    assert time.time() < lease.deadline_s


def test_nothing_starts_when_the_volume_takes_no_files(house: House) -> None:
    """CP 4.28: a machine whose volume has no size refuses its task, with a sentence."""
    house.double.change(volumes=VOLUMES | {"v": VOLUMES["v"] | {"size_bytes": 0}})
    lease = house.lease()
    task = house.task(lease, "echo computed; touch $QG_VOLUME/lost")
    machine = house.launch(lease)

    house.gone(machine)

    end = house.end(lease, task)
    assert end is not None
    assert end.code == 78
    assert "the volume of this machine takes no files" in end.sentence
