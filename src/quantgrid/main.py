"""`quantgrid COMMAND`: one file a command under `commands/`, found by name."""

import argparse
import importlib
import sys
from pathlib import Path

from quantgrid import commands, entry


def main() -> None:
    """Entry point of the console script; exits with the command's code."""
    entry.run(lambda: dispatch(sys.argv[1:]))


def dispatch(arguments: list[str]) -> int:
    """Run one command; only its module is imported."""
    name = arguments[0].replace("-", "_") if arguments else ""
    if name not in names():
        return _usage(arguments)
    module = importlib.import_module(f"{commands.__name__}.{name}")
    parser = argparse.ArgumentParser(prog=f"quantgrid {arguments[0]}", description=module.HELP)
    module.configure(parser)
    code: int = module.main(parser.parse_args(arguments[1:]))
    return code


def names() -> list[str]:
    """The commands that exist, sorted."""
    files = [file for folder in commands.__path__ for file in Path(folder).glob("*.py")]
    return sorted(file.stem for file in files if not file.stem.startswith("_"))


def _usage(arguments: list[str]) -> int:
    wanted_help = not arguments or arguments[0] in {"-h", "--help"}
    out = sys.stdout if wanted_help else sys.stderr
    if not wanted_help:
        print(f"refused: there is no command {arguments[0]!r}.", file=out)
    print("usage: quantgrid COMMAND [-h] ...\n", file=out)
    for name in names():
        module = importlib.import_module(f"{commands.__name__}.{name}")
        print(f"  {name.replace('_', '-'):<12} {module.HELP}", file=out)
    return 0 if wanted_help else 64
