"""Credentials that were valid when training began, and not when it ended.

Incident: a job trained for a day, and the session token of its bucket had lasted twelve hours.  The
upload was refused, the container ended, and the weights with it; the cell was trained again.

Guard: `quantgrid.archive.waiting.deposit_or_keep` moves a finished result that cannot be deposited
to the volume and says so; `quantgrid.archive.waiting.deposit` brings it in at the next attempt.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core_parts import CLOCK, MAKE, MEASURE, Desk, stage
from quantgrid.archive import Archive, waiting
from quantgrid.errors import PlatformFault
from quantgrid.job import Job
from quantgrid.runner import Runner
from quantgrid.store.s3 import S3Store
from s3_proxy import Proxy, proxy
from s3_server import HASTY, Server

WEIGHTS = stage("quantise", "weights")
CELL = stage("evaluate", "cells", weights=WEIGHTS)
JOB = Job(cell="n0-t1k-s0/rtn", seed=0, corpus="c", recipe="r", stages=(WEIGHTS, CELL))
FORBIDDEN = "raise SystemExit('made again')"


@pytest.fixture
def between(seaweed: Server, s3_address: str) -> Iterator[Proxy]:
    """The service as this machine sees it."""
    with proxy(seaweed.port) as made:
        yield made


@pytest.mark.parametrize("fault", ["expired", "denied", "503"])
def test_result_waits_and_is_deposited_when_credentials_expired_during_the_work(
    between: Proxy, s3_address: str, tmp_path: Path, fault: str
) -> None:
    """Both stages wait whole; the next attempt deposits them and starts no script."""
    desk = Desk.lay(tmp_path / "desk")
    flag = tmp_path / "expired"
    desk.change("quantise", f"from pathlib import Path\nPath({str(flag)!r}).touch()\n{MAKE}")
    desk.change("evaluate", MEASURE)
    between.plan = lambda _: fault if flag.exists() else ""
    place = s3_address.partition("?")[0]
    store = S3Store(f"{place}?endpoint_url={between.endpoint}", tmp_path / "stores", HASTY)
    runner = Runner(Archive(store), desk.runner().machine, CLOCK)

    with pytest.raises(PlatformFault, match="the result is finished") as caught:
        runner.run(JOB, progress=desk.progress)
    assert "Nothing is lost" in str(caught.value)
    assert set(waiting.keys(desk.root)) == {WEIGHTS.record, CELL.record}

    flag.unlink()
    for name in ("quantise", "evaluate"):
        desk.change(name, FORBIDDEN)
    deposit = runner.run(JOB, progress=desk.progress)

    assert deposit.record == CELL.record
    assert list(waiting.keys(desk.root)) == []
    record = runner.archive.record(WEIGHTS.record)
    assert runner.archive.file(record, "weights.bin", tmp_path / "cache").exists()
    assert runner.archive.record(CELL.record)["weights"]["fingerprint"] == WEIGHTS.fingerprint
