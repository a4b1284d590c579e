"""A cell from the inside: how a Python script reads the contract and hands back what it made.

A convenience over `contract`, not a requirement: a script in any language may read the variables.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import CONTRACT_VERSION, atomic, contract
from quantgrid.errors import ConfigRefusal
from quantgrid.fingerprint import digest_file

INTERRUPTION_S = 4 * 3600.0
"""Mean time between interruptions where the platform says none; spot machines see 1 to 12 h."""
_NO_METHOD = "none"
"""How the training of a base is called where methods are named."""


class Cell(NamedTuple):
    """What the runner asked of this process.

    `spec` is resolved: no field is missing.  `parents` maps a role and a file name to the path of
    a verified file.  `corpus` and `sentinel` are None for stages that read no corpus.  `deadline_s`
    counts from the start of the script; None is never.
    """

    id: str
    stage: str
    fingerprint: str
    spec: Mapping[str, Any]
    parents: Mapping[str, Mapping[str, Path]]
    corpus: Path | None
    sentinel: Path | None
    out: Path
    result: Path
    state: Path
    link: Path | None
    progress: Path
    metrics: Path
    device: str
    threads: int
    attempt: str
    deadline_s: float | None
    grace_s: float
    interruption_s: float
    started_wall_s: float
    started_cpu_s: float
    watch: Mapping[str, Any] = {}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Cell":
        """Read the contract.

        Raises:
            ConfigRefusal: when a variable of the contract is missing, or for another version of it.
        """
        _refuse_other_contract(environment)
        get = environment.__getitem__
        parents = json.loads(Path(get(contract.PARENTS)).read_bytes())
        return cls(
            id=get(contract.CELL),
            stage=get(contract.STAGE),
            fingerprint=get(contract.FINGERPRINT),
            spec=json.loads(Path(get(contract.SPEC)).read_bytes()),
            parents={role: _files(paths) for role, paths in parents.items()},
            corpus=Path(get(contract.CORPUS)) if get(contract.CORPUS) else None,
            sentinel=Path(get(contract.SENTINEL)) if get(contract.SENTINEL) else None,
            out=Path(get(contract.OUT)),
            result=Path(get(contract.RESULT)),
            state=Path(get(contract.STATE)),
            link=Path(get(contract.LINK)) if get(contract.LINK) else None,
            progress=Path(get(contract.PROGRESS)),
            metrics=Path(get(contract.METRICS)),
            device=get(contract.DEVICE),
            threads=int(get(contract.THREADS)),
            attempt=get(contract.ATTEMPT),
            deadline_s=float(get(contract.DEADLINE)) if get(contract.DEADLINE) else None,
            grace_s=float(get(contract.GRACE) or 0),
            interruption_s=float(get(contract.INTERRUPTION) or INTERRUPTION_S),
            started_wall_s=time.monotonic(),
            started_cpu_s=time.process_time(),
            watch=json.loads(environment.get(contract.WATCH) or "{}"),
        )

    @property
    def probed_per_s(self) -> float | None:
        """Tokens a second that a probe measured for such a training: of its model and method."""
        speeds = self.watch.get("tokens_per_s", {})
        model = self.spec.get("trunk", {}).get("model", {}).get("name")
        method = self.spec.get("form", {}).get("method", _NO_METHOD)
        found: float | None = speeds.get(f"{model}-{method}", speeds.get(model))
        return found

    def sealed_corpus(self) -> tuple[Path, Path]:
        """The folder of the corpus and the sentinel that vouches for it.

        Raises:
            ConfigRefusal: when the runner gave none.
        """
        if self.corpus is None or self.sentinel is None:
            raise ConfigRefusal(
                f"stage {self.stage} reads a corpus and was given none",
                expected=f"{contract.CORPUS} and {contract.SENTINEL}",
                seen="an empty variable",
                where=self.id,
            )
        return self.corpus, self.sentinel

    def finish(
        self,
        results: Mapping[str, Any],
        *,
        receipt: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        chain: Mapping[str, Any] | None = None,
        watch: Mapping[str, Any] | None = None,
    ) -> None:
        """Name every file of `out` and hand back the results; the last act of a script.

        Args:
            results: JSON values that belong into the record.
            receipt: What the corpus view saw and verified (`corpus.View.receipt`).
            environment: Device, driver and package versions that the science ran on.
            chain: What this link resumed and saved (`checkpoint.keeper.Keeper.chain`).
            watch: What a watch heard beside the program that made the results.
        """
        files = {
            path.name: {"sha256": digest_file(path), "size_bytes": path.stat().st_size}
            for path in sorted(self.out.iterdir())
            if not atomic.is_debris(path.name)
        }
        atomic.publish_json(
            self.result,
            {
                "fingerprint": self.fingerprint,
                "files": files,
                "results": dict(results),
                "receipt": receipt,
                "environment": dict(environment or {}),
                "chain": dict(chain) if chain else None,
                **({"watch": dict(watch)} if watch else {}),
                "wall_s": round(time.monotonic() - self.started_wall_s, 3),
                "cpu_s": round(time.process_time() - self.started_cpu_s, 3),
            },
        )


class Progress:
    """Tells a person how far this process is, at most every `every_s` seconds.

    Progress is for eyes: an unwritable progress file never stops the work.

    Args:
        cell: Whose progress it is.
        num_steps: The last step.
        every_s: Shortest time between two reports.
    """

    def __init__(self, cell: Cell, *, num_steps: int, every_s: float = 0.5) -> None:
        self._cell, self._num_steps, self._every_s = cell, num_steps, every_s
        self._start = self._last = time.monotonic()
        self._first_step: int | None = None

    def step(self, step: int, *, tokens: int = 0, loss: float | None = None) -> None:
        """Report step `step` of `num_steps`.

        Args:
            step: Steps done, those of earlier attempts included.
            tokens: Tokens that this process consumed so far.
            loss: Loss of that step, in nats per token.
        """
        if self._first_step is None:
            self._first_step = step
        now = time.monotonic()
        if now - self._last < self._every_s and step < self._num_steps:
            return
        self._last = now
        elapsed_s = max(now - self._start, 1e-9)
        done = step - self._first_step
        left_s = elapsed_s * (self._num_steps - step) / done if done > 0 else None
        self._write(
            {
                "cell": self._cell.id,
                "stage": self._cell.stage,
                "step": step,
                "steps": self._num_steps,
                "loss": loss,
                "tokens_per_s": round(tokens / elapsed_s) if tokens else None,
                "probed_per_s": self._cell.probed_per_s,
                "left_s": None if left_s is None else round(left_s, 1),
            }
        )

    def _write(self, facts: dict[str, Any]) -> None:
        with suppress(OSError):
            temporary = self._cell.progress.with_name(f"{self._cell.progress.name}.{os.getpid()}")
            temporary.write_text(json.dumps(facts))
            temporary.replace(self._cell.progress)


def _refuse_other_contract(environment: Mapping[str, str]) -> None:
    missing = [v.name for v in contract.TABLE if v.name not in environment]
    if missing:
        raise ConfigRefusal(
            f"this script runs under the cell contract and misses {', '.join(missing)}",
            do="Start it with `quantgrid run`; docs/formats/contract.md lists the variables.",
        )
    version = environment[contract.CONTRACT]
    if version != str(CONTRACT_VERSION):
        raise ConfigRefusal(
            "the runner speaks another version of the cell contract than this script",
            expected=CONTRACT_VERSION,
            seen=version,
            do="Install one version of quantgrid for both.",
        )


def _files(paths: Mapping[str, str]) -> dict[str, Path]:
    """Files of a parent by name; a parent that this very process made is given as a folder."""
    folder = paths.get("")
    if folder is None:
        return {name: Path(path) for name, path in paths.items()}
    return {path.name: path for path in Path(folder).iterdir()}


def say(line: str) -> None:
    """One line into the log of the cell; a log that cannot be written never stops the work."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
