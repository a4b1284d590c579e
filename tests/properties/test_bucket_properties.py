"""Two writers, a packer and a nemesis: no finished record is ever out of sight."""

import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from acts import sealed_bytes
from core_parts import body, key_of, put
from quantgrid import layout
from quantgrid.archive import Archive
from quantgrid.archive.index import Index
from quantgrid.errors import PlatformFault
from quantgrid.store.s3 import S3Store
from quantgrid.store.s3_calls import Patience
from s3_proxy import FAULTS, Proxy, Request, proxy
from s3_server import Server

PATIENCE = Patience(attempts=2, first_s=0.001, longest_s=0.001, connect_s=5, read_s=20)
NOW = timedelta(0)


class Bucket(RuleBasedStateMachine):
    """`finished` holds the keys whose deposit returned, `begun` those that may or may not be."""

    seaweed: Server

    def __init__(self) -> None:
        super().__init__()
        self.between: Proxy | None = None
        self.finished: set[str] = set()
        self.begun: set[str] = set()
        self.folder = Path(tempfile.mkdtemp(prefix="qg-bucket-"))
        self.context = proxy(self.seaweed.port)
        self.between = self.context.__enter__()
        place = f"s3://shared/machine-{os.urandom(8).hex()}"
        self.address = f"{place}?endpoint_url={self.between.endpoint}"
        self.writers = [self._writer(name) for name in ("one", "two")]
        put(self.writers[0], self.folder, body("cells", of="first"))
        self.finished.add(key_of(body("cells", of="first")))

    def _writer(self, name: str) -> Archive:
        return Archive(S3Store(self.address, self.folder / name, PATIENCE))

    def _fail(self, fault: str, after: int) -> None:
        begin = len(self.between.seen) + after

        def plan(request: Request) -> str:
            is_now = begin <= request.number < begin + 2
            return fault if is_now else ""

        self.between.plan = plan

    @rule(
        writer=st.integers(0, 1),
        of=st.integers(0, 7),
        fault=st.sampled_from(["", *FAULTS]),
        after=st.integers(0, 9),
    )
    def deposit(self, writer: int, of: int, fault: str, after: int) -> None:
        """A deposit through a network that fails for two requests, which is all the patience."""
        record = body("cells", of=str(of), files={"w": b"w"})
        self.begun.add(key_of(record))
        self._fail(fault, after)
        try:
            put(self.writers[writer], self.folder / "out", record, w=b"w")
            self.finished.add(key_of(record))
        except PlatformFault:
            assert fault
        finally:
            self.between.plan = lambda _: ""

    @rule(writer=st.integers(0, 1), of=st.integers(0, 7), step=st.integers(0, 3))
    def die(self, writer: int, of: int, step: int) -> None:
        """A writer ends between two steps of a deposit, and a new one takes its place."""
        record = body("cells", of=str(of), files={"w": b"w"})
        key, store = key_of(record), self.writers[writer].store
        if key in self.begun:
            return
        store.put_once(layout.blob_key(record["blobs"]["w"]["sha256"]), b"w")
        if step >= 1:
            Index(store).begin(key)
        if step >= 2:
            self.begun.add(key)
            store.put_once(key, sealed_bytes(record))
            self.finished.add(key)  # it is there, so it must be shown
        if step >= 3:
            store.put_once(f"{layout.INDEX_DONE}/{key}", b"")
        self.writers[writer] = self._writer(f"{os.urandom(4).hex()}")

    @rule(
        writer=st.integers(0, 1),
        fault=st.sampled_from(["", *FAULTS]),
        after=st.integers(0, 6),
    )
    def pack(self, writer: int, fault: str, after: int) -> None:
        """Pack without any grace, through a network that fails."""
        self._fail(fault, after)
        try:
            Index(self.writers[writer].store, NOW).compact(at_least=1)
        except PlatformFault:
            assert fault
        finally:
            self.between.plan = lambda _: ""

    @rule()
    def rebuild(self) -> None:
        """Somebody verifies the archive; at any time, for a choice may not hang on the network."""
        Index(self.writers[0].store).rebuild()

    @invariant()
    def shows_what_is_there(self) -> None:
        """Every finished record, and nothing that nobody began; it equals a listing of all."""
        if self.between is None:
            return
        shown = self.writers[1].index()
        assert self.finished <= shown <= self.finished | self.begun
        assert shown == Index(self.writers[1].store).listed()

    def teardown(self) -> None:
        self.context.__exit__(None, None, None)
        shutil.rmtree(self.folder)


def _run(seaweed: Server, *, examples: int, steps: int) -> None:
    machine = type("Machine", (Bucket,), {"seaweed": seaweed})
    kinds = list(HealthCheck)
    machine.TestCase.settings = settings(  # type: ignore[attr-defined]
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink takes a quarter hour
        suppress_health_check=kinds,
    )
    machine.TestCase().runTest()  # type: ignore[attr-defined]


def test_bucket_shows_every_record_when_writers_and_nemesis_take_turns(
    seaweed: Server, credentials: None
) -> None:
    """A few dozen steps on a real server."""
    _run(seaweed, examples=2, steps=15)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_bucket_shows_every_record_when_the_nemesis_has_all_night(
    seaweed: Server, credentials: None
) -> None:
    """Two thousand steps."""
    _run(seaweed, examples=40, steps=50)
