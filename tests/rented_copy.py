"""A working copy whose rules that compute run on machines of the plain platform."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

import forked
from detached import await_true
from quantgrid.rental.register import Register
from quantgrid.store.folder import FolderStore
from rehearsal.plain.double import Double, running
from working_copy import Outcome, WorkingCopy, lay

FACTOR = 20.0
LIMITS = {"cap_s": 86400, "grace_s": 40, "boot_s": 1800, "create_s": 200, "visible_s": 20}
VOLUME = {"name": "corpus", "account": "lab/main", "region": "here", "size_bytes": 1 << 34}
PLATFORM: dict[str, Any] = {
    "device": "cpu",
    "threads": 1,
    "cap_s": LIMITS["cap_s"],
    "grace_s": LIMITS["grace_s"],
    "clock_factor": FACTOR,
    "rented": {
        "adapter": "plain",
        "account": "lab/main",
        "image": "image",
        "id_variable": "PLAIN_MACHINE",
        "ends_by": "rehearsal.plain.platform:from_environment",
        "python": sys.executable,
        "mount": "volume",
        "volume": "v-good",
        "device": "cpu",
        "num_devices": 0,
        "machines": 2,
        "idle_s": 100,
        "shares_disk": True,
        "coordinator": {"device": "cpu", "secrets": ["PLAIN_MAIN"]},
        "options": {"limits": LIMITS},
    },
}
PROFILE = {
    "executor": "plain",
    "jobs": 20,
    "cores": 2,
    "local-cores": 2,
    "scheduler": "greedy",
    "keep-going": True,
    "rerun-incomplete": True,
    "rerun-triggers": ["mtime", "params"],
    "nolock": True,
    "logger": "quantgrid",
    "quiet": ["host"],
    "seconds-between-status-checks": 1,
    "plain-settle-s": 60,
}


@dataclass(frozen=True)
class RentedCopy:
    """A working copy and the platform that its profile `plain` rents from."""

    copy: WorkingCopy
    double: Double

    @property
    def root(self) -> Path:
        """The working copy."""
        return self.copy.root

    @property
    def command(self) -> list[str]:
        """Snakemake as a person calls it here."""
        return [sys.executable, "-m", "snakemake", "--profile", "profiles/plain"]

    def call(self, *command: str, code: int | None = 0, timeout_s: float = 560) -> Outcome:
        """Run a program; its standard output and error are one text."""
        line = [sys.executable, "-m", *command]
        done = forked.run(line, cwd=self.root, env=os.environ, timeout=timeout_s)
        assert code in {None, done.returncode}, done.stdout[-6000:]
        return Outcome(done.returncode, done.stdout)

    def quantgrid(self, *arguments: str, code: int | None = 0) -> Outcome:
        """Run a command of quantgrid here."""
        return self.call("quantgrid", *arguments, code=code)

    def snakemake(
        self, *arguments: str, code: int | None = 0, grid: str = "", timeout_s: float = 560
    ) -> Outcome:
        """Run Snakemake to its end."""
        config = ["--config", f"grid={grid}", "platform=plain"] if grid else []
        words = [*self.command[2:], *arguments, *config]
        return self.call(*words, code=code, timeout_s=timeout_s)

    @contextmanager
    def running(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        """A program, or Snakemake, which is killed at the latest when the block ends."""
        process = subprocess.Popen(
            words or self.command,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def profile(self, **changes: object) -> None:
        """Change the profile."""
        text = yaml.safe_dump({**PROFILE, **changes})
        (self.root / "profiles/plain/config.yaml").write_text(text)

    def register(self) -> Register:
        """What the controllers wrote down."""
        return Register(FolderStore(self.root / "archive"))

    def assert_paid(self) -> None:
        """Nothing bills, every promise has its cost, and the ledger is the platform's bill."""
        assert self.double.billing() == []
        books = self.register().books()
        assert {each.nonce for each in books.promises} == {each.nonce for each in books.costs}
        spent = sum(span.cost for span in books.spent())
        assert spent == round(self.double.bill_usd() * 1e6), books.unbilled()


@contextmanager
def rented(
    folder: Path,
    *,
    light: bool = True,
    factor: float = FACTOR,
    limits: Mapping[str, float] = LIMITS,
    section: Mapping[str, object] = MappingProxyType({}),
    **world: object,
) -> Iterator[RentedCopy]:
    """A fresh working copy and its platform.

    Args:
        folder: Where both are.
        light: Whether its science is the light one of tests.
        factor: Of its clock.
        limits: Of the platform, nominal.
        section: What the section `rented` of its file has besides.
        world: What the platform is like besides.
    """
    folder.mkdir(exist_ok=True)
    copy = lay(folder / "copy", light=light)
    own = {**PLATFORM["rented"], "options": {"limits": dict(limits)}, **section}
    bounds = {"cap_s": limits["cap_s"], "grace_s": limits["grace_s"], "clock_factor": factor}
    _describe(copy, {**PLATFORM, **bounds, "rented": own})
    before = dict(os.environ)
    paths = [*forked.PLUGINS, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    usual = {
        "factor": factor,
        "limits": dict(limits),
        "volumes": {"v-good": VOLUME},
        "secrets": {"PLAIN_MAIN": "token-main"},
    }
    try:
        with running(folder / "platform", **{**usual, **world}) as double:
            os.environ.update(PLAIN_URL=double.address, PLAIN_TOKEN="token-main")  # noqa: S106 - of the double
            yield RentedCopy(copy, double)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _describe(copy: WorkingCopy, facts: dict[str, Any]) -> None:
    """The file of the platform, and the profile that rents there."""
    (copy / "config/platforms/plain.yaml").write_text(yaml.safe_dump(facts))
    profile = copy / "profiles/plain/config.yaml"
    profile.parent.mkdir()
    profile.write_text(yaml.safe_dump(PROFILE))


def told(root: Path) -> list[dict[str, object]]:
    """All leases that a working copy's register ever had, as `quantgrid leases --all` says."""
    register = Register(FolderStore(root / "archive"))
    return [json.loads(each.lease.to_bytes()) for each in register.leases(ended=True).values()]


# -- a grid of programs that wait for the test ----------------------------------------------------

WAITING = """
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--gate")
parser.add_argument("--seconds", type=float)
given = parser.parse_args()
with open(os.path.join(given.gate, f"{given.lr}.starts"), "a") as starts:
    starts.write(f"{os.environ.get('PLAIN_MACHINE')} {os.getpid()}\\n")
begin = said = time.monotonic()
while not os.path.exists(os.path.join(given.gate, "go")):
    begin = time.monotonic()
    if begin - said >= 1:  # whoever is silent for long is taken for one that hangs
        said = begin
        print("waits for the test", flush=True)
    time.sleep(0.05)
while time.monotonic() - begin < given.seconds:
    print("works", flush=True)
    time.sleep(min(1.0, given.seconds))
if os.path.exists(os.path.join(given.gate, f"{given.lr}.bad")):
    raise ArithmeticError("the loss is not finite")
json.dump({"loss": 2 * given.lr}, open("result.json", "w"))
"""


@dataclass(frozen=True)
class Gate:
    """Where the programs of a grid say that they began, and wait until they may end."""

    folder: Path

    def open(self) -> None:
        """Let all of them end."""
        (self.folder / "go").touch()

    def await_starts(self, count: int) -> None:
        """Wait until so many programs began."""
        await_true(lambda: len(self.starts()) >= count, otherwise=f"began: {self.starts()}")

    def starts(self) -> dict[str, int]:
        """How often each program was started."""
        files = self.folder.glob("*.starts")
        return {path.stem: len(path.read_text().splitlines()) for path in files}

    def pids(self) -> set[int]:
        """All processes that were ever started."""
        lines = (line for path in self.folder.glob("*.starts") for line in path.open())
        return {int(line.split()[1]) for line in lines}


def add_waiting(copy: WorkingCopy, rates: list[float], seconds: float = 0.0) -> Gate:
    """Add the grid `waiting`: one cell a rate, each of which takes so many seconds more."""
    gate = Gate(copy.root.parent / "gate")
    gate.folder.mkdir()
    program = copy / "mine/wait.py"
    program.parent.mkdir()
    program.write_text(WAITING)
    block = {
        "script": "mine/wait.py",
        "arguments": f"--lr {{lr}} --gate {gate.folder} --seconds {seconds}",
        "axes": {"lr": rates},
        "seeds": [0],
        "results": {"json": "result.json"},
    }
    (copy / "config/grids/waiting.yaml").write_text(yaml.safe_dump({"blocks": {"wait": block}}))
    copy.edit("config/config.yaml", "grid: demo ", "grid: waiting ")
    copy.edit("config/config.yaml", "platform: local ", "platform: plain ")
    return gate


RATES = [0.1, 0.2, 0.3]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[RentedCopy]:
    """A working copy and its platform; nothing of it runs afterwards."""
    with rented(tmp_path / "rented") as place:
        yield place


@pytest.fixture
def gate(place: RentedCopy) -> Gate:
    """The grid of programs that wait for the test."""
    return add_waiting(place.copy, RATES)
