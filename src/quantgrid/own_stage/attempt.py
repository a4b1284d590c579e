"""One attempt of a cell with a program of its own, from the contract to its result."""

import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import atomic, contract, layout, template
from quantgrid.cell import Cell
from quantgrid.errors import Checkpointed
from quantgrid.own_files import program_path
from quantgrid.own_script import Resume, Script
from quantgrid.own_stage import folder as private
from quantgrid.own_stage import process, results
from quantgrid.own_stage.kept import Copy, Keeper, Kept
from quantgrid.own_stage.metrics import Metrics
from quantgrid.own_stage.watched import OwnWatch
from quantgrid.science import imported_names

_ENDS_TIDY = {0, Checkpointed.exit_code, 128 + signal.SIGINT, 128 + signal.SIGTERM}
"""Exit codes of programs that were asked to stop and did so in their own way."""


class Desk(NamedTuple):
    """The private places of one attempt."""

    folder: Path
    made: Path
    state: Path

    @classmethod
    def lay(cls, work: Path) -> "Desk":
        """Make them, all empty."""
        names = (layout.OWN_FOLDER, layout.OWN_FILES, layout.OWN_STATE)
        desk = cls(*(work / name for name in names))
        for path in (desk.made, desk.state):
            path.mkdir(parents=True)
        return desk


def run(cell: Cell, code: Path) -> int:
    """Run the program of a cell and hand back its numbers.

    Args:
        cell: What the runner asked for.
        code: Folder of the Snakefile.

    Returns:
        0 when there is a result, else the exit code of the program.

    Raises:
        Checkpointed: when it was interrupted after a new checkpoint.
        QuantgridError: when its code changed since the plan, it diverged, or left no result.
    """
    declared = cell.spec["cell"]
    script, desk = _script(declared), Desk.lay(cell.out.parent)
    linked: private.Stamps = {}
    if script.folder is None:
        desk.folder.mkdir()
    else:
        linked = private.lay(code / script.folder, desk.folder, script)
    private.refuse_changed(desk.folder, script, declared["code"])
    receipt = _verified_corpus(cell) if script.corpus else None
    attempt = _Attempt(cell, script, desk)
    exit_code = attempt.run()
    if exit_code:
        return exit_code
    private.refuse_written(linked)
    declared_results = attempt.placed(script.results, ("json", "last_line"))
    numbers = results.read(declared_results, desk.folder, attempt.output)
    private.collect(desk.made, desk.folder, script.keep, cell.out)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = spent.ru_utime + spent.ru_stime
    told = cell._replace(started_cpu_s=cell.started_cpu_s - cpu_s)
    environment, watch = _environment(cell, script, desk), attempt.watch
    heard = watch.results() if watch else None
    told.finish(numbers, receipt=receipt, environment=environment, watch=heard)
    return 0


class _Attempt:
    def __init__(self, cell: Cell, script: Script, desk: Desk) -> None:
        self._cell, self._script, self._desk = cell, script, desk
        self._kept = Kept(cell.state / layout.OWN_KEPT, cell.fingerprint)
        pattern = script.results.get("stdout")
        self.output = results.Matcher(pattern) if pattern else None
        names = self.placed(script.metrics or {}, ("file",))
        self.watch = OwnWatch(cell, names) if script.metrics else None
        self._metrics = self._follow(names, self.watch) if self.watch else None

    def run(self) -> int:
        """Start where the newest checkpoint is; see `attempt.run`."""
        start = self._kept.newest() if self._script.resume else None
        if start:
            print(f"going on from checkpoint {start.number}", file=sys.stderr, flush=True)
            self._kept.restore(start, self._cell.out.parent)
            if self.watch:
                self.watch.restore()
        keeper = Keeper(self._kept, self._files, self._tell, self._hear)
        with process.Interruption() as interruption:
            code = process.run(
                self._command(is_resumed=start is not None),
                folder=self._desk.folder,
                environment=self._environment(),
                look=lambda lives: self._look(keeper, lives),
                feed=self.output.feed if self.output else None,
            )
        if interruption.came:
            self._interrupted(keeper, code)
        self._look_at_the_end(code)
        return self._ended(keeper, start, code)

    def placed(self, declared: Mapping[str, Any], files: Sequence[str]) -> dict[str, Any]:
        """A part of the declaration with the places in its file names filled in."""
        places = self._places()
        filled = {key: template.finish(declared[key], places) for key in files if key in declared}
        return {**declared, **filled}

    def _follow(self, names: Mapping[str, Any], watch: OwnWatch) -> Metrics:
        source = self._desk.folder / names["file"]
        return Metrics(source, names, self._cell.metrics, watch.hear)

    def _look(self, keeper: Keeper, lives: Callable[[], bool]) -> bool:
        is_due = self._script.resume is not None and keeper.look(lives)
        self._look_at_the_end(0)
        if self.watch:
            self.watch.listen()
        return is_due

    def _hear(self) -> None:
        """A checkpoint counts when all was heard that lies before it: nobody tells it again."""
        self._look_at_the_end(0)
        if self.watch:
            self.watch.save()

    def _look_at_the_end(self, code: int) -> None:
        if self._metrics and not code:
            self._metrics.look()

    def _interrupted(self, keeper: Keeper, code: int) -> None:
        """A program that was asked to stop is not finished, whatever it wrote."""
        if self._script.resume and code in _ENDS_TIDY:
            keeper.finish()
        if keeper.saves:
            raise Checkpointed(
                f"{self._script.program} was interrupted after {keeper.saves} new checkpoints"
            )
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _ended(self, keeper: Keeper, start: Copy | None, code: int) -> int:
        if code and start and not keeper.saves:
            self._kept.drop(start)  # perhaps it is to blame; an older one has its turn
        if code < 0:
            # the same end as the program's, so that whoever waits for us tells it apart
            signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
            os.kill(os.getpid(), -code)
        return code

    def _files(self) -> dict[str, Path]:
        """Name at the desk -> path of everything that the next link needs."""
        desk, resume = self._desk, self._script.resume
        patterns = resume.files if resume else ()
        named = {desk.folder: private.matching(desk.folder, patterns)}
        named[desk.state] = private.matching(desk.state, ["*"])
        return {
            (root / name).relative_to(self._cell.out.parent).as_posix(): root / name
            for root, names in named.items()
            for name in names
        }

    def _tell(self, copy: Copy, saves: int, save_s: float) -> None:
        """Say that there is a newer checkpoint to whoever starts the next link."""
        path = os.environ.get(contract.LINK)
        if path:
            step = self._metrics.step if self._metrics else None
            facts = {"tokens": int(step or 0), "checkpoint": str(copy.number), "saves": saves}
            atomic.publish_json(Path(path), {**facts, "save_s": round(save_s, 3), "stall_s": 0.0})

    # -- the command ------------------------------------------------------------------------------

    def _command(self, *, is_resumed: bool) -> list[str]:
        script, values = self._script, self._places()
        texts = list(script.arguments)
        if is_resumed and script.resume:
            texts += script.resume.arguments
        program = [script.program]
        if script.is_file:
            path = program_path(self._desk.folder, script)
            program = [sys.executable, str(path)] if layout.is_python(path) else [str(path)]
        return program + [template.finish(text, values) for text in texts]

    def _environment(self) -> dict[str, str]:
        declared = self._script.environment or {}
        values = self._places()
        private_tmp = self._cell.out.parent / layout.OWN_TMP
        private_tmp.mkdir(exist_ok=True)
        return {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(private_tmp),
            **{name: template.finish(text, values) for name, text in declared.items()},
        }

    def _places(self) -> dict[str, str]:
        cell, environment = self._cell, os.environ
        return {
            "out": str(self._desk.made),
            "state": str(self._desk.state),
            "folder": str(self._desk.folder),
            "corpus": str(cell.corpus or ""),
            "spec": environment[contract.SPEC],
            "metrics": str(cell.metrics),
            "device": cell.device,
            "threads": str(cell.threads),
            "deadline_s": environment[contract.DEADLINE],
            "python": sys.executable,
        }


def _script(declared: Mapping[str, Any]) -> Script:
    resume = declared["resume"]
    return Script(
        block=declared["block"],
        program=declared["program"],
        is_file=declared["is_file"],
        folder=declared["folder"],
        results=declared["results"],
        links=tuple(declared["links"]),
        inputs=tuple(declared["inputs"]),
        arguments=tuple(declared["arguments"]),
        environment=declared["environment"],
        keep=tuple(declared["keep"]),
        resume=resume
        and Resume(files=tuple(resume["files"]), arguments=tuple(resume["arguments"])),
        metrics=declared["metrics"] or None,
        corpus=declared["corpus"],
    )


def _verified_corpus(cell: Cell) -> Mapping[str, Any]:
    """Hash every shard against the seal: the program itself will not."""
    from quantgrid.corpus.view import View  # numpy, for those who read a corpus

    view = View.open(*cell.sealed_corpus(), planned_tokens=0, context=1)
    view.ahead(view.shard_tokens)
    for name in view.shard_tokens:
        view.shard(name)
    view.validation()
    return view.receipt()


def _environment(cell: Cell, script: Script, desk: Desk) -> dict[str, Any]:
    """Device, and versions of what a Python program imports."""
    packages: dict[str, str] = {}
    if script.is_file and layout.is_python(path := program_path(desk.folder, script)):
        for name in imported_names(path):
            try:
                packages[name] = version(name)
            except PackageNotFoundError:
                continue
    return {"device": cell.device, "driver": None, "packages": packages}
