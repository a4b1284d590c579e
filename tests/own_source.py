"""A working copy that runs its own source, so that a test may take a guard out of it.

Its programs are interpreters of their own: one forked from this process has our source in memory.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import working_copy
from working_copy import PROJECT, Outcome, WorkingCopy


@dataclass(frozen=True)
class OwnSource(WorkingCopy):
    """A working copy whose programs import the package from its own `src`."""

    @property
    def environment(self) -> dict[str, str]:
        """That of its programs."""
        before = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
        path = os.pathsep.join([str(self.root / "src"), *before])
        return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path}

    @contextmanager
    def start(self, *arguments: str, grid: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Snakemake in a process of its own, which is killed when the block ends."""
        command = [sys.executable, "-m", "snakemake", "--profile", "profiles/local", *arguments]
        process = subprocess.Popen(
            [*command, "--config", f"grid={grid}"],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def call(self, *command: str, code: int | None = 0, timeout_s: float = 560) -> Outcome:
        """Run a program in the working copy; standard output and error together."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
            text=True,
        )
        if code is not None and done.returncode != code:
            pytest.fail(f"exit code {done.returncode}, not {code}:\n{done.stdout[-6000:]}")
        return Outcome(done.returncode, done.stdout)


def lay(root: Path) -> OwnSource:
    """Lay one with all of the source and no warm interpreter."""
    made = OwnSource(working_copy.lay(root, light=False).root)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(PROJECT / "src", made / "src", dirs_exist_ok=True, ignore=ignored)
    made.edit("config/platforms/local.yaml", "warm: true", "warm: false")
    return made
