"""The commands of the guides: fenced blocks with what they are for, and whether they can be parsed.

```console            is run by a test, in the order of the guide, in one working copy
```console nightly    the same, in `make nightly` only
```console account    needs an account, a cluster or an environment of its own: parsed only
```                   parsed only when its first word is a program of this project
```yaml file=PATH     is written there before the next block is run
"""

import argparse
import contextlib
import importlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[1]
GUIDES = PROJECT / "docs" / "guides"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`((?:quantgrid|snakemake|make) [^`\n]+)`(?!`)")
ORDINARY = {"cd", "cp", "git", "mkdir", "python", "pip", "rm", "source", "pytest", "dot", "cat"}
TYPED = ["make", "quantgrid", "snakemake"]
SEPARATORS = {"|", "&&", ";", "||"}


class Block(NamedTuple):
    """A fenced block.

    Args:
        words: What stands behind the fence.
        text: What stands in it.
    """

    words: tuple[str, ...]
    text: str

    @property
    def is_command(self) -> bool:
        """Whether a person types it; a block that says nothing shows what its first word is."""
        shows = self.text.split(maxsplit=1)[:1]
        return self.words[:1] == ("console",) or (not self.words and shows[0] in TYPED)

    @property
    def file(self) -> str:
        """Where it belongs, when it is a file."""
        named = [word.removeprefix("file=") for word in self.words if word.startswith("file=")]
        return named[0] if named else ""

    def is_run(self, *, nightly: bool) -> bool:
        """Whether a test runs it."""
        return self.words[:1] == ("console",) and self.words[1:] in (
            {()} | ({("nightly",)} if nightly else set())
        )


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a document."""
    return [Block(tuple(words.split()), body) for words, body in FENCE.findall(text)]


def problems(command: str) -> Iterator[str]:
    """What keeps a line from being typed: unknown programs, commands, options and targets."""
    try:
        words = shlex.split(command.replace("\\|", "|"), comments=True)
    except ValueError as error:
        yield f"{command!r}: {error}"
        return
    simple: list[str] = []
    for word in [*words, ";"]:
        if word in SEPARATORS:
            yield from (f"{command!r}: {problem}" for problem in _of_simple(simple))
            simple = []
        else:
            simple.append(word)


def _of_simple(words: list[str]) -> Iterator[str]:
    match words:
        case []:
            return
        case ["quantgrid", name, *rest]:
            yield from _of_quantgrid(name, rest)
        case ["snakemake", *rest]:
            yield from _of_snakemake(rest)
        case ["make", *rest]:
            targets = re.findall(r"^(\w+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
            yield from (f"no target {w}" for w in rest if "=" not in w and w not in targets)
        case [program, *_] if program not in ORDINARY and "=" not in program:
            yield f"what is {program}?"


def _of_quantgrid(name: str, words: list[str]) -> Iterator[str]:
    try:
        module = importlib.import_module(f"quantgrid.commands.{name.replace('-', '_')}")
    except ModuleNotFoundError:
        yield f"no command {name}"
        return
    parser = argparse.ArgumentParser(prog=f"quantgrid {name}")
    module.configure(parser)
    yield from _parsed(parser, words)
    if name == "launch" and "--" in words:
        yield from _of_snakemake(words[words.index("--") + 1 :])


def _of_snakemake(words: list[str]) -> Iterator[str]:
    from snakemake.cli import get_argument_parser

    yield from _parsed(get_argument_parser(), words)


def _parsed(parser: argparse.ArgumentParser, words: list[str]) -> Iterator[str]:
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            parser.parse_args(words)
    except SystemExit as ended:
        if ended.code:
            yield told.getvalue().strip().splitlines()[-1]
