"""What a person sees of a real `snakemake --logger quantgrid`, in a terminal and in a pipe."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from terminal_grid import FP, JOB, SNAKEFILE

import forked
from emulator import Emulator
from quantgrid.layout import progress_file

BOUND_S = 180.0


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """A working copy of the small grid: 3 cells, 9 jobs."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / progress_file("x")).parent.mkdir(parents=True)
    _configure(tmp_path)
    return tmp_path


def _configure(grid: Path, held: tuple[str, ...] = (), **fates: str) -> None:
    progress = progress_file("OUTPUT")
    config = {"fp": FP, "progress": progress, "held": held, "fates": fates}
    (grid / "config.json").write_text(json.dumps(config))
    for stage in held:
        os.mkfifo(grid / f"go-{stage}")


def _release(grid: Path, stage: str) -> None:
    (grid / f"go-{stage}").write_text("go")


def _command(*options: str) -> list[str]:
    common = ["--cores", "2", "--scheduler", "greedy", "--latency-wait", "0", "--nolock"]
    return [sys.executable, "-m", "snakemake", *common, *options]


def _environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return kept | {"TERM": "xterm-256color", "PYTHONHASHSEED": "0"} | extra


def _piped(grid: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return forked.run(_command(*options), cwd=grid, env=_environment(), timeout=BOUND_S, apart=True)


class Watched:
    """Snakemake in a pseudo-terminal, watched through an emulator."""

    def __init__(self, grid: Path, *options: str, columns: int = 80, **extra: str) -> None:
        self.emulator, self.raw = Emulator(columns, 24), ""
        self._master, child = pty.openpty()
        self.resize(columns)
        self.process = forked.Forked(
            _command("--quiet", "host", "--logger", "quantgrid", *options),
            cwd=grid,
            env=_environment(**extra),
            stdin=child,
            stdout=child,
            stderr=child,
            leads="session",
        )
        os.close(child)

    def resize(self, columns: int) -> None:
        """Another width; a wider terminal shows the same lines."""
        self.emulator.columns = columns
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Keys of the person."""
        os.write(self._master, keys.encode())

    def until(self, holds: Callable[[list[str]], Any]) -> list[str]:
        """Watch until something is seen; what is seen then."""
        end = time.monotonic() + BOUND_S
        while not holds(self.emulator.lines):
            assert time.monotonic() < end, "\n".join(self.emulator.lines)
            if not self._read(end):
                break
        assert holds(self.emulator.lines), "\n".join(self.emulator.lines)
        return self.emulator.lines

    def finish(self) -> tuple[int, list[str]]:
        """Watch until the end: exit code and all lines."""
        end = time.monotonic() + BOUND_S
        while self._read(end):
            assert time.monotonic() < end, "\n".join(self.emulator.lines)
        return self.process.wait(BOUND_S), self.emulator.lines

    def close(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(end - time.monotonic(), 0))
        try:
            text = os.read(self._master, 65536).decode() if ready else ""
        except OSError:  # the last process closed the terminal
            return False
        self.raw += text
        self.emulator.feed(text)
        return bool(text)


@pytest.fixture
def watch(grid: Path) -> Iterator[Callable[..., Watched]]:
    """Starts Snakemake in a terminal; whatever still runs at the end is killed."""
    started: list[Watched] = []

    def start(*options: str, **settings: Any) -> Watched:
        started.append(Watched(grid, *options, **settings))
        return started[-1]

    yield start
    for each in started:
        each.close()


def _has(lines: list[str], *parts: str) -> bool:
    return any(all(part in line for part in parts) for line in lines)


def _starts(lines: list[str], words: str) -> bool:
    return any(line.startswith(words) for line in lines)


def _shows_two_jobs(now: list[str]) -> bool:
    """Whether a whole frame tells of two jobs; of a half read one a test knows nothing."""
    base = "n0-t100k-s0/none  cooldown  120/391  loss 2.41  38.1k/s  0:42"
    return (
        len(now) > 4
        and now[-5].startswith("done  n0-s0/79872 ")
        and not now[-4]
        and max(map(len, now[-3:])) < 80
        and bool(
            re.fullmatch(r"demo  60/105 cells  1/9 jobs  2 running  \d+:\d\d elapsed", now[-3])
        )
        and base.split() in [line.split() for line in now[-2:]]
        and _has(now[-2:], "n0-t100k-s0/qat", "120")
    )


# -- a terminal -----------------------------------------------------------------------------------


def test_terminal_shows_every_running_job_and_ends_with_finished_ones(
    grid: Path, watch: Callable[..., Watched]
) -> None:
    """Live lines while jobs run, at 80 columns and wider; afterwards one line a finished job."""
    _configure(grid, held=("cooldown", "qat"))
    seen = watch()
    seen.until(_shows_two_jobs)
    seen.resize(110)
    wide = ("loss 2.41  38.1k tok/s  0:42 left", "n0-t100k-s0/qat-ternary-row-absmean")
    seen.until(lambda now: all(_has(now[-2:], part) for part in wide))
    for stage in ("cooldown", "qat"):
        _release(grid, stage)
    code, lines = seen.finish()
    assert code == 0
    said = lines[next(i for i, line in enumerate(lines) if line.startswith("done")) :]
    assert sorted(line.split()[2] for line in said if line.startswith("done")) == [
        "base",
        "milestone",
        "qat",
        "quantise",
        "table",
    ]
    # of two lines that others print between two frames, the second ends as a line of the block
    others = ("trunk speaks", "table speaks", "a hook speaks")
    assert [words for words in others if _starts(lines, words)] == list(others), "\n".join(lines)
    assert said[-1].startswith("demo  63/105 cells  9/9 jobs  0:")
    ours = [line for line in said if not line.startswith(others)]
    assert not any("running" in line or "0:42" in line or "fold" in line for line in ours)


def test_terminal_is_clean_after_an_interrupt_and_the_code_is_snakemakes(
    grid: Path, watch: Callable[..., Watched]
) -> None:
    """Ctrl-C leaves whole lines, no block, no hidden cursor, no colour when none is wanted."""
    _configure(grid, held=("cooldown", "qat"))
    seen = watch(NO_COLOR="1")
    seen.until(_shows_two_jobs)
    seen.press("\x03")
    code, lines = seen.finish()
    assert code == 1
    assert lines[-1].startswith("demo  60/105 cells  1/9 jobs  2 stopped")
    assert not _has(lines, "running")
    assert seen.emulator.cursor == (len(lines), 0)
    assert "\x1b[?" not in seen.raw
    assert not re.search(r"\x1b\[[0-9;]*m", seen.raw)


def test_terminal_that_is_dumb_gets_lines_without_any_escape(
    grid: Path, watch: Callable[..., Watched]
) -> None:
    """TERM=dumb means that nothing but text is understood."""
    code, lines = watch(TERM="dumb").finish()
    assert code == 0
    assert _has(lines, "[1/9] done  milestone n0-s0/79872")


# -- a pipe ---------------------------------------------------------------------------------------


def test_pipe_gets_one_line_a_job_with_counts(grid: Path) -> None:
    """A log can be searched: counts, word, rule, owner, then facts."""
    done = _piped(grid, "--logger", "quantgrid")
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("[")]
    assert lines[0] == "[0/9] start milestone n0-s0/79872"
    pattern = r"\[1/9\] done  milestone n0-s0/79872  \d+\.\d s  loss 2\.41  38\.1k tok/s"
    assert re.fullmatch(pattern, lines[1])
    assert sum("] done  " in line for line in lines) == 9
    assert sum("] start " in line for line in lines) == 5
    assert _has(lines, "] done  fold n0-t100k-s0/none", " s  ", "/105 cells")
    assert "\x1b" not in done.stderr + done.stdout
    assert done.stderr.splitlines()[-1].startswith("demo  63/105 cells  9/9 jobs  0:")


def test_pipe_names_each_failure_once_and_snakemakes_log_keeps_the_rest(grid: Path) -> None:
    """Refusal and traceback: the job and its own error; the commands are in Snakemake's log."""
    _configure(grid, cooldown="refuses", qat="raises")
    ours = _piped(grid, "--logger", "quantgrid", "--keep-going", "--config", "grid=laws")
    assert ours.returncode == 1
    lines = ours.stderr.splitlines()
    refused = next(line for line in lines if "] fail  base" in line)
    mend = "Make it: `snakemake --profile local corpus --config grid=laws`."
    assert refused.endswith(f"refused: a shard is short; expected 9; seen 8. {mend}")
    log = f"  log: logs/cell/n0-t100k-s0/none.{FP}.log"
    assert lines[lines.index(refused) + 1] == log
    assert _has(lines, "] fail  qat n0-t100k-s0/qat-ternary", "ValueError: step 12 has no loss")
    assert lines[-1].startswith("demo  60/105 cells  1/9 jobs  2 failed")
    assert "Command '" not in ours.stderr
    assert "did not complete successfully" not in ours.stderr
    kept = "".join(path.read_text() for path in grid.rglob("*.snakemake.log"))
    assert kept.count("Error in rule") == kept.count("Command '") == 2


def test_pipe_names_a_job_whose_output_is_missing(grid: Path) -> None:
    """Snakemake tells this failure in another way than all others."""
    _configure(grid, trunk="forgets")
    done = _piped(grid, "--logger", "quantgrid")
    assert done.returncode == 1
    assert _has(done.stderr.splitlines(), "[0/9] fail  milestone n0-s0/79872", "output is missing")
    assert "MissingOutputException in rule milestone" in done.stderr


# -- calls that compute nothing -------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [("-n",), ("--dag",), ("--summary",), ("--touch",)],
    ids=" ".join,
)
def test_output_is_snakemakes_own_when_nothing_is_computed(
    grid: Path, options: tuple[str, ...]
) -> None:
    """Byte for byte, but for times, ids and the command line itself."""
    _assert_alike(grid, *options)


def test_dry_run_ends_after_its_table_when_the_jobs_are_many(tmp_path: Path) -> None:
    """Real Snakemake takes notice, tells the table, and describes none of the jobs."""
    rule = "rule one:\n    output: 'out/{number}'\n    shell: 'touch {output}'\n"
    (tmp_path / "Snakefile").write_text(
        f"rule all:\n    input: expand('out/{{n}}', n=range(100))\n{rule}"
    )

    done = _piped(tmp_path, "-n", "--logger", "quantgrid")

    assert done.returncode == 0
    said = done.stdout + done.stderr
    assert re.search(r"(?m)^one +100$", said)
    assert "rule one:" not in said
    assert said.count("101 jobs are not listed: `-n -p` lists them") == 1


def test_output_is_snakemakes_own_when_everything_is_current(grid: Path) -> None:
    """Nothing is drawn when nothing is to be done."""
    assert _piped(grid).returncode == 0
    said = _assert_alike(grid)
    assert "Nothing to be done" in said["stderr"]


def test_output_is_snakemakes_own_when_the_snakefile_is_broken(grid: Path) -> None:
    """Errors at parse are Snakemake's to tell."""
    (grid / "Snakefile").write_text("rule a:\n    output: 'x'\n    shell: 1 +\n")
    said = _assert_alike(grid)
    assert "SyntaxError" in said["stderr"]


def _assert_alike(grid: Path, *options: str) -> Mapping[str, str]:
    pair = [_said(_piped(grid, *options, *logger)) for logger in ((), ("--logger", "quantgrid"))]
    assert pair[0] == pair[1]
    return pair[0]


def _said(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    said = {"stdout": done.stdout, "stderr": done.stderr, "code": str(done.returncode)}
    return {name: _timeless(text) for name, text in said.items()}


def _timeless(text: str) -> str:
    text = text.replace(" --logger quantgrid", "")
    text = re.sub(r"(?m)^\[\w{3} \w{3} +\d+ .*\]$", "[time]", text)
    return re.sub(r"(?m)^(  Date|  Workflow ID|Elapsed time|Complete log\(s\)): .*$", r"\1", text)
