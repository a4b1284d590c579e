"""A real SLURM on loopback: controller, accounting with its database, and two nodes on one host.

Everything lies in one private folder; every daemon stays in the foreground as a child of the test,
dies with it, and is ended by its process number.  Debian's packages bring the programs
(`.ci/steps/15-slurm` installs them).  What each setting is for was found out by measurement:
Debian's slurmd may run several times on one host (`-N`), clients reach slurmdbd by the path of the
munge socket in AccountingStoragePass, and without DefMemPerCPU one job takes all memory of a node.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from s3_server import DYING, free_ports
from slurm_files import NODE, SLURM, SLURMDBD

BOUND_S = 180.0
NODES = ("n1", "n2")
PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sbatch", "setpriv")
NO_SLURM = "SLURM, munge and MariaDB are not installed (.ci/steps/15-slurm does it as root)"
_SBIN = "/usr/sbin:/sbin"
_QUICK_DB = (
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=64M",
    "--innodb-lock-wait-timeout=900",
    "--skip-name-resolve",
)


@dataclass
class Cluster:
    """A running cluster, its daemons by name, and the environment of its users."""

    folder: Path
    port: int
    daemons: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        """The file that every client and daemon is told."""
        return self.folder / "etc/slurm.conf"

    @property
    def environment(self) -> Mapping[str, str]:
        """What a user of this cluster has in the environment."""
        return {"SLURM_CONF": str(self.configuration)}

    @property
    def environment_with_srun(self) -> Mapping[str, str]:
        """For the stock plugin too, whose job steps forget SLURM_CONF before they call srun."""
        return {**self.environment, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def call(self, *command: str, given: str | None = None, code: int | None = 0) -> str:
        """Run a program of SLURM; what it said."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment, "PATH": f"{os.environ['PATH']}:{_SBIN}"},
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert code is None or done.returncode == code, (command, done.stdout, done.stderr)
        return done.stdout

    def jobs(self) -> list[str]:
        """Every job that is not over, as `id|state|name|comment`."""
        return self.call("squeue", "-h", "-o", "%i|%T|%j|%k").splitlines()

    def starts(self) -> list[str]:
        """Every job that ever began, as `id|state|comment`, from accounting."""
        fields = "JobIDRaw,State,Comment"
        said = self.call("sacct", "-X", "-n", "-P", "-a", "-D", "-S", "now-1hour", "-o", fields)
        return said.splitlines()

    def start(self, name: str) -> None:
        """Start a daemon; it dies with this process."""
        log = (self.folder / f"log/{name}.out").open("ab")
        with log:
            self.daemons[name] = subprocess.Popen(
                [*DYING, *_user_of(name), *self._commands()[name]],
                env={**os.environ, **self.environment, "PATH": f"{os.environ['PATH']}:{_SBIN}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a daemon; jobs that it started live on."""
        process = self.daemons.pop(name)
        process.send_signal(number)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=BOUND_S)

    def kill_steps(self) -> None:
        """Kill every step and what it started, as a node that loses its power does."""
        for process_id in self._steps():
            for child in _below(process_id):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    def signal_launchers(self, number: int) -> None:
        """Signal every srun; one that is stopped ends nothing, as on a node that is cut off."""
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                own = str(self.configuration).encode() in (path / "environ").read_bytes()
                if own and (path / "comm").read_text() == "srun\n":
                    os.kill(int(path.name), number)

    def await_controller(self) -> None:
        """Wait until slurmctld answers; one that ended when accounting did is started again."""

        def answers() -> bool:
            if self.daemons["slurmctld"].poll() is not None:
                self.start("slurmctld")
            return "UP" in self.call("scontrol", "ping", code=None)

        await_true(answers, "slurmctld", self.folder)

    def await_nodes(self, *names: str) -> None:
        """Wait until nodes take jobs."""
        wanted = set(names or NODES)
        await_true(lambda: wanted <= self._ready(), "no node is ready", self.folder)

    def clear(self) -> None:
        """End all jobs, and wait until none is left: the next test starts from nothing."""
        for name in (*NODES, "slurmctld", "slurmdbd"):
            daemon = f"slurmd-{name}" if name in NODES else name
            if daemon not in self.daemons or self.daemons[daemon].poll() is not None:
                self.start(daemon)
        self.await_controller()
        self.signal_launchers(signal.SIGKILL)
        self.call("scancel", "-u", getpass.getuser(), code=None)
        await_true(lambda: not self.jobs(), "jobs are left", None)
        for node in NODES:
            self.call("scontrol", "update", f"NodeName={node}", "State=RESUME", code=None)
        self.await_nodes()

    def _ready(self) -> set[str]:
        said = self.call("sinfo", "-h", "-N", "-t", "idle,mix,alloc", "-o", "%N", code=None)
        return set(said.split())

    def _commands(self) -> dict[str, list[str]]:
        d, munge = self.folder, self.folder / "run/munge.sock"
        key = [f"--key-file={d}/etc/munge.key", f"--socket={munge}", f"--seed-file={d}/run/seed"]
        files = [f"--log-file={d}/log/munged.log", f"--pid-file={d}/run/munged.pid"]
        database = [f"--datadir={d}/db/data", f"--socket={d}/db/s.sock", f"--tmpdir={d}/db"]
        where = ["--bind-address=127.0.0.1", f"--port={self.port + 2}", f"--pid-file={d}/db/pid"]
        return {
            "munged": ["munged", "-F", "--force", *key, *files],
            "mariadbd": ["mariadbd", "--no-defaults", *database, *where, *_QUICK_DB],
            "slurmdbd": ["slurmdbd", "-D"],
            "slurmctld": ["slurmctld", "-D"],
            **{f"slurmd-{node}": ["slurmd", "-D", "-N", node] for node in NODES},
        }

    # -- its life ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Start everything, and come back when the nodes take jobs."""
        for part in ("etc", "run", "log", "state", "spool/n1", "spool/n2", "dev", "db", "bin"):
            (self.folder / part).mkdir(parents=True)
        self.folder.chmod(0o755)
        self._configure()
        self.start("munged")
        self._make_database()
        self.start("slurmdbd")
        await_true(lambda: self._answers("sacctmgr", "-n", "show", "cluster"), "slurmdbd", None)
        user = getpass.getuser()
        lines = ["add cluster lab", "add account lab", f"add user {user} account=lab", "quit"]
        self.call("sacctmgr", "-i", given="\n".join(lines), code=None)
        for name in ("slurmctld", "slurmd-n1", "slurmd-n2"):
            self.start(name)
        await_true(lambda: "UP" in self.call("scontrol", "ping", code=None), "slurmctld", None)
        self.await_nodes()

    def close(self) -> None:
        """End jobs, then daemons, then steps that outlived theirs; only what is ours."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            if {"slurmctld", "munged"} <= self.daemons.keys():
                self.call("scancel", "-u", getpass.getuser(), code=None)
                await_true(lambda: not self.jobs(), "jobs", None, within_s=10)
        for process in self.daemons.values():
            process.send_signal(signal.SIGTERM)
        end_s = time.monotonic() + 1.5  # slurmctld takes more than 4 s to leave politely
        while time.monotonic() < end_s and any(p.poll() is None for p in self.daemons.values()):
            time.sleep(0.05)
        for process in self.daemons.values():
            process.kill()
            process.wait(timeout=BOUND_S)
        for process_id in self._steps():
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _steps(self) -> list[int]:
        """The step daemons of this cluster: they outlive slurmd."""
        mark = f"SLURM_CONF={self.configuration}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if b"slurmstepd" in (path / "cmdline").read_bytes() and mark in (
                    path / "environ"
                ).read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return found

    def _configure(self) -> None:
        d, host = self.folder, socket.gethostname().partition(".")[0]
        ports = {"ctld": self.port, "dbd": self.port + 1, "db": self.port + 2}
        facts = {"d": d, "host": host, "user": getpass.getuser(), **ports}
        nodes = [
            NODE.format(name=name, host=host, port=self.port + 3 + number)
            for number, name in enumerate(NODES)
        ]
        (d / "etc/munge.key").write_bytes(os.urandom(1024))
        (d / "etc/munge.key").chmod(0o600)
        (d / "etc/slurmdbd.conf").write_text(SLURMDBD.format(**facts))
        (d / "etc/slurmdbd.conf").chmod(0o600)
        self.configuration.write_text(SLURM.format(**facts, nodes="\n".join(nodes)))
        (d / "etc/gres.conf").write_text("AutoDetect=off\n" + "\n".join(self._gpus()))
        (d / "etc/cgroup.conf").write_text("CgroupAutomount=no\n")
        srun = f'#!/bin/sh\nSLURM_CONF={self.configuration} exec {shutil.which("srun")} "$@"\n'
        (d / "bin/srun").write_text(srun)
        (d / "bin/srun").chmod(0o755)

    def _gpus(self) -> Iterator[str]:
        """Two GPUs a node: slurmd wants character devices, so these are copies of /dev/null."""
        for number, node in enumerate(NODES):
            first = self.folder / f"dev/nvidia{2 * number}"
            for path in (first, self.folder / f"dev/nvidia{2 * number + 1}"):
                with suppress(PermissionError):
                    os.mknod(path, 0o20666, os.makedev(1, 3))
            files = f"{self.folder}/dev/nvidia[{2 * number}-{2 * number + 1}]"
            if not first.exists():  # without root: consoles that nobody uses
                files = f"/dev/tty[{20 + 2 * number}-{21 + 2 * number}]"
            yield f"NodeName={node} Name=gpu Type=h100 File={files}"

    def _make_database(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder / "db", "mysql")
        options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        place = [f"--datadir={self.folder}/db/data", "--skip-name-resolve"]
        self.call("mariadb-install-db", *_as_mysql(), *place, *options)
        self.start("mariadbd")
        client = ["--no-defaults", f"--socket={self.folder}/db/s.sock", "-uroot"]
        await_true(lambda: self._answers("mariadb-admin", *client, "ping"), "mariadbd", None)
        grants = "".join(
            f"create user slurm@{host} identified by 'slurm'; "
            f"grant all on slurm_acct.* to slurm@{host}; "
            for host in ("127.0.0.1", "localhost")
        )
        self.call("mariadb", *client, "-e", f"create database slurm_acct; {grants}")

    def _answers(self, *command: str) -> bool:
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=BOUND_S,
            check=False,
        )
        return done.returncode == 0


def _below(process_id: int) -> list[int]:
    """A process and all that it started."""
    found = [process_id]
    for parent in found:  # grows while it is read
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _user_of(daemon: str) -> list[str]:
    """The user that a daemon begins as: one who changes later is no longer told of a death."""
    is_mysql = daemon == "mariadbd" and os.geteuid() == 0
    return ["--reuid=mysql", "--regid=mysql", "--init-groups"] if is_mysql else []


def _as_mysql() -> list[str]:
    return ["--no-defaults", *(["--user=mysql"] if os.geteuid() == 0 else [])]


def await_true(
    holds: Callable[[], bool], what: str, folder: Path | None, within_s: float = BOUND_S
) -> None:
    """Wait until something holds; fail with the daemons' last words otherwise."""
    end_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end_s:
            logs = sorted((folder / "log").iterdir()) if folder else []
            said = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs)
            raise AssertionError(f"{what} after {within_s:.0f} s\n{said}")
        time.sleep(0.05)


def start_cluster() -> Cluster:
    """Start a cluster in memory, where its database is made in half a second."""
    shared = Path("/dev/shm")  # noqa: S108 - a private folder below it
    place = shared if os.access(shared, os.W_OK) else None
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="slurm-", dir=place)), free_ports(6))
    try:
        cluster.open()
    except BaseException:
        cluster.close()
        raise
    return cluster


def missing() -> list[str]:
    """The programs that this machine lacks."""
    path = f"{os.environ['PATH']}:{_SBIN}"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


# -- fixtures, imported by conftest.py ------------------------------------------------------------


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Cluster]:
    """A cluster for all tests of this process; CI always has it (QG_TEST_SLURM=required)."""
    if missing() and os.environ.get("QG_TEST_SLURM") != "required":
        pytest.skip(NO_SLURM)
    assert not missing(), f"{NO_SLURM}: {missing()}"
    cluster = start_cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster with nothing in it, whose user this test is."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "SRUN_"))]:
        monkeypatch.delenv(name)
    for name, value in running_cluster.environment.items():
        monkeypatch.setenv(name, value)
    yield running_cluster
    running_cluster.clear()
