"""`quantgrid COMMAND`: one file a command under `commands/`, found by name."""

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from quantgrid import commands, entry


class _Parser(argparse.ArgumentParser):
    """Arguments of a command; who types a setting of Snakemake's is told what it is called here."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and leave."""
        if "--config" in message and "--grid" in self.format_usage():
            message += ": that is Snakemake's; here it is --grid NAME"
        super().error(message)


def main() -> None:
    """Entry point of the console script; exits with the command's code."""
    entry.run(lambda: dispatch(sys.argv[1:]))


def dispatch(arguments: list[str]) -> int:
    """Run one command; only its module is imported."""
    name = arguments[0].replace("-", "_") if arguments else ""
    if name not in names():
        return _usage(arguments)
    module = _module(name)
    parser = _Parser(prog=f"quantgrid {arguments[0]}", description=module.HELP)
    module.configure(parser)
    code: int = module.main(parser.parse_args(arguments[1:]))
    return code


def names() -> list[str]:
    """The commands that exist, sorted."""
    files = [file for folder in commands.__path__ for file in Path(folder).glob("*.py")]
    return sorted(file.stem for file in files if not file.stem.startswith("_"))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{commands.__name__}.{name}")


def _usage(arguments: list[str]) -> int:
    wanted_help = not arguments or arguments[0] in {"-h", "--help"}
    out = sys.stdout if wanted_help else sys.stderr
    if not wanted_help:
        print(
            f"refused: there is no command {arguments[0]!r}{_meant(arguments[0]) or '.'}", file=out
        )
    print("usage: quantgrid COMMAND [-h] ...\n", file=out)
    for name in names():
        print(f"  {name.replace('_', '-'):<12} {_module(name).HELP}", file=out)
    return 0 if wanted_help else 64


def _meant(wanted: str) -> str:
    """The command that has the wanted word as an act, or the closest one."""
    from quantgrid.wording import meant  # only who errs pays for it

    for name in names():
        if wanted in getattr(_module(name), "ACTS", ()):
            return f", did you mean `quantgrid {name} {wanted}`?"
    return meant(wanted, [name.replace("_", "-") for name in names()])
