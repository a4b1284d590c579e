"""A block with a program of its own, from the grid file to cells; refusals name file and line."""

import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from quantgrid import layout, template
from quantgrid.errors import ConfigRefusal
from quantgrid.forms import Where
from quantgrid.own_files import look
from quantgrid.own_script import (
    KNOWN,
    PLACES,
    TAKEN,
    OwnCell,
    Resume,
    Scalar,
    Script,
    expand,
    refuse_alike,
)
from quantgrid.select import parse

_EXPONENT = re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+")
"""`1e-3`, which YAML 1.1 takes for a text."""


def read_blocks(
    root: Path, blocks: Mapping[str, Any], where: Where, *, has_corpus: bool
) -> tuple[OwnCell, ...]:
    """All cells of the blocks of a grid that name a program.

    Args:
        root: Folder of the Snakefile.
        blocks: The `blocks` of a grid that fits its schema.
        where: Names file and line of a key below `blocks`.
        has_corpus: Whether the grid names a corpus.

    Raises:
        ConfigRefusal: when anything in them cannot be meant.
    """
    cells: list[OwnCell] = []
    own = {name: data for name, data in blocks.items() if "script" in data}
    for name, data in own.items():
        reader = _Reader(root, name, data, where)
        cells += reader.cells(has_corpus=has_corpus)
    refuse_alike(cells, {name: where(name) for name in own})
    return tuple(cells)


class _Reader:
    """Reads one block.

    Args:
        root: Folder of the Snakefile.
        name: Name of the block.
        data: What the grid file says of it.
        where: Names file and line of a key below `blocks`.
    """

    def __init__(self, root: Path, name: str, data: Mapping[str, Any], where: Where) -> None:
        self._root, self._name, self._data, self._where = root, name, data, where

    def cells(self, *, has_corpus: bool) -> list[OwnCell]:
        axes = {name: _values(values) for name, values in self._data.get("axes", {}).items()}
        script = self._script()
        self._check_axes(axes)
        self._check_names(script, axes)
        self._check_results(script.results)
        if script.corpus and not has_corpus:
            raise self._refusal("it reads a corpus, and the grid names none", "corpus")
        self._check_patterns()
        if script.folder is not None:
            self._check_files(script)
        cells = list(expand(script, axes, self._data.get("seeds", (0,))))
        excluded = self._exclusions(cells)
        return [cell for cell in cells if not any(choice(cell) for choice in excluded)]

    # -- the program ------------------------------------------------------------------------------

    def _script(self) -> Script:
        data, program = self._data, str(self._data["script"])
        is_file = (self._root / program).is_file()
        folder = data.get("folder", str(PurePosixPath(program).parent) if is_file else None)
        self._check_program(program, folder, is_file=is_file)
        return Script(
            block=self._name,
            program=program,
            is_file=is_file,
            folder=folder,
            results=data["results"],
            links=tuple(data.get("links", ())),
            inputs=tuple(data.get("inputs", ())),
            arguments=_words(data.get("arguments", ())),
            environment={key: str(value) for key, value in data.get("environment", {}).items()},
            keep=tuple(data.get("keep", ())),
            resume=_resume(data.get("resume")),
            metrics=data.get("metrics"),
            corpus=data.get("corpus", False),
        )

    def _check_program(self, program: str, folder: str | None, *, is_file: bool) -> None:
        path = self._root / program
        if not is_file and ("/" in program or shutil.which(program) is None):
            raise self._refusal(
                f"there is no script {program}",
                "script",
                expected=f"a file below {self._root}, or a program on PATH",
            )
        if is_file and not layout.is_python(path) and not os.access(path, os.X_OK):
            do = f"chmod +x {program}"
            raise self._refusal(f"{program} is not executable", "script", do=do)
        if folder is not None and not (self._root / folder).is_dir():
            raise self._refusal(f"there is no folder {folder}", "folder")
        if is_file and folder is not None and not path.is_relative_to(self._root / folder):
            raise self._refusal(f"{program} does not lie in its folder {folder}", "folder")
        if folder is None and ("inputs" in self._data or "links" in self._data):
            what = "a program from PATH has inputs and no folder that they lie in"
            raise self._refusal(what, "script", do="Name it with `folder`.")

    def _check_patterns(self) -> None:
        lists = {key: self._data.get(key, ()) for key in ("inputs", "links", "keep")}
        for key, patterns in lists.items():
            for index, pattern in enumerate(patterns):
                if pattern.startswith("/") or ".." in PurePosixPath(pattern).parts:
                    expected = "a pattern below the script's folder"
                    raise self._refusal(f"{pattern} leads out", key, index, expected=expected)

    def _check_files(self, script: Script) -> None:
        try:
            look(self._root / str(script.folder), script)
        except ConfigRefusal as error:
            for key in ("inputs", "links"):
                for index, pattern in enumerate(self._data.get(key, ())):
                    if error.what.startswith(f"{pattern} "):
                        raise self._refusal(error.what, key, index, do=error.do) from error
            raise

    def _check_results(self, results: Mapping[str, Any]) -> None:
        given = [key for key in ("json", "last_line", "stdout") if key in results]
        if len(given) != 1:
            expected, seen = "one of json, last_line and stdout", " and ".join(given) or "none"
            what = f"its results are found in one way, not in {seen}"
            raise self._refusal(what, "results", *given[1:2], expected=expected)
        if "stdout" in results:
            try:
                groups = re.compile(results["stdout"]).groupindex
            except re.error as error:
                raise self._refusal(
                    f"no regular expression: {error}", "results", "stdout"
                ) from error
            if not groups:
                expected = r"a named group for each number, such as loss (?P<loss>\S+)"
                what = "the regular expression names no result"
                raise self._refusal(what, "results", "stdout", expected=expected)

    # -- names ------------------------------------------------------------------------------------

    def _check_axes(self, axes: Mapping[str, Sequence[Scalar]]) -> None:
        for name in TAKEN.intersection(axes):
            raise self._refusal(
                f"no axis can be called {name}", "axes", name, expected="a name of your own"
            )

    def _check_names(self, script: Script, axes: Mapping[str, Sequence[Scalar]]) -> None:
        known = {*axes, *KNOWN, *PLACES}
        used = set(self._names(script.arguments, "arguments", known))
        for key, text in (script.environment or {}).items():
            used |= self._names([text], "environment", known, key)
        for part, key in (("results", "json"), ("results", "last_line"), ("metrics", "file")):
            if key in self._data.get(part, {}):
                self._names([self._data[part][key]], part, {*PLACES}, key)
        if script.resume:
            self._names(script.resume.arguments, "resume", known, "arguments")
        varied = {name for name, values in axes.items() if len(values) > 1}
        varied |= {"seed"} if len(self._data.get("seeds", (0,))) > 1 else set()
        for name in sorted(varied - used) if "spec" not in used else ():
            keys = ("seeds",) if name == "seed" else ("axes", name)
            what = f"{name} never reaches the script, so that its cells would be the same work"
            do = f"Put {{{name}}} into arguments or environment, or give it {{spec}}."
            raise self._refusal(what, *keys, do=do)
        if "corpus" in used and not script.corpus:
            raise self._refusal("{corpus} is asked for without `corpus: true`", "arguments")

    def _names(self, texts: Sequence[str], key: str, known: set[str], *below: str) -> set[str]:
        try:
            used = {name for text in texts for name in template.names(text)}
        except template.TemplateError as error:
            raise self._refusal(str(error), key, *below) from error
        for name in sorted(used - known):
            what, expected = f"{{{name}}} is no name here", ", ".join(sorted(known))
            raise self._refusal(what, key, *below, expected=expected)
        return used

    def _exclusions(self, cells: Sequence[OwnCell]) -> list[Callable[[Any], bool]]:
        found = []
        for index, text in enumerate(self._data.get("exclude", ())):
            try:
                found.append(parse(text, cells).matches)
            except ConfigRefusal as error:
                raise ConfigRefusal(
                    error.what,
                    expected=error.expected,
                    where=self._where(self._name, "exclude", index),
                    do=error.do,
                ) from error
        return found

    def _refusal(
        self, what: str, *keys: str | int, expected: object = None, do: str | None = None
    ) -> ConfigRefusal:
        place = self._where(self._name, *keys)
        return ConfigRefusal(f"block {self._name}: {what}", expected=expected, where=place, do=do)


def _values(values: Sequence[Scalar]) -> list[Scalar]:
    return [_number(value) if isinstance(value, str) else value for value in values]


def _number(word: str) -> Scalar:
    """The number that YAML takes for a word, as `1e-3`; a word where no number is that large."""
    number = float(word) if _EXPONENT.fullmatch(word) else math.inf
    return number if math.isfinite(number) else word


def _words(given: str | Sequence[Scalar]) -> tuple[str, ...]:
    """A command line: split once, before names are filled, so that a value stays one word."""
    words = shlex.split(given) if isinstance(given, str) else given
    return tuple(str(word) for word in words)


def _resume(given: Mapping[str, Any] | None) -> Resume | None:
    if given is None:
        return None
    return Resume(files=tuple(given.get("files", ())), arguments=_words(given.get("arguments", ())))
