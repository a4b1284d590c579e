"""What an attempt of somebody's own program sees of its folder, and the digest of all of it.

What counts is what is seen: the program with what it imports from its own folder, declared inputs,
and linked data.  Anything else beside it, such as what an earlier call by hand left there, is
neither seen nor counted.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.fingerprint import digest, digest_file
from quantgrid.own_script import Script
from quantgrid.science import local_files, science_digest

MOST_COPIED_BYTES = 256 << 20


class Seen(NamedTuple):
    """The files of a folder that an attempt sees, relative to it and sorted.

    `program` is empty for a program from PATH.
    """

    program: tuple[str, ...]
    inputs: tuple[str, ...]
    links: tuple[str, ...]

    @property
    def copied(self) -> tuple[str, ...]:
        """Those that are copied; a file that is linked as well is copied."""
        return tuple(sorted({*self.program, *self.inputs}))


def look(folder: Path, script: Script) -> Seen:
    """What an attempt sees of a folder.

    Args:
        folder: The script's own folder, or a copy of it.
        script: The declaration.

    Raises:
        ConfigRefusal: when a pattern matches nothing, or more than may be copied.
    """
    program = tuple(sorted(_program_files(folder, script)))
    inputs = tuple(sorted({*_matching(folder, script.inputs)} - {*program}))
    links = tuple(sorted({*_matching(folder, script.links)} - {*program, *inputs}))
    seen = Seen(program, inputs, links)
    _refuse_large(folder, seen.copied)
    return seen


def code_digest(folder: Path, script: Script) -> str:
    """Digest of all that an attempt sees of a folder.

    Python is read with what it imports, blind to comments and layout; of other programs and of
    inputs the bytes count, of linked data names and sizes.  PATH's programs are known by name.
    """
    seen = look(folder, script)
    return digest(
        {
            "program": _program_digest(folder, script),
            "inputs": {name: digest_file(folder / name) for name in seen.inputs},
            "links": {name: (folder / name).stat().st_size for name in seen.links},
        }
    )


def program_path(folder: Path, script: Script) -> Path:
    """The program file within a folder."""
    return folder / layout.relative_to_folder(script.program, script.folder or "")


def _program_files(folder: Path, script: Script) -> Iterator[str]:
    if script.is_file:
        path = program_path(folder, script)
        yield path.relative_to(folder).as_posix()
        if layout.is_python(path):
            try:
                closure = local_files(path)
            except (SyntaxError, ValueError):  # another Python's grammar: declare what it imports
                return
            yield from (file.relative_to(folder).as_posix() for file in closure)


def _program_digest(folder: Path, script: Script) -> str:
    if not script.is_file:
        return script.program
    path = program_path(folder, script)
    if layout.is_python(path):
        try:
            return science_digest(path, source_root=path.parent, package=None)
        except (SyntaxError, ValueError):
            return digest_file(path)
    return digest_file(path)


def _matching(folder: Path, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        found = [file for path in folder.glob(pattern) for file in _files(path)]
        if not found:
            raise ConfigRefusal(
                f"{pattern} is declared and matches no file",
                where=folder,
                do="Correct the pattern, or make the file; patterns are relative to this folder.",
            )
        yield from (file.relative_to(folder).as_posix() for file in found)


def _files(path: Path) -> Iterator[Path]:
    """A file itself, or all files below a folder, without Python's caches."""
    for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if each.is_file() and not layout.is_bytecode(each):
            yield each


def _refuse_large(folder: Path, names: Sequence[str]) -> None:
    sizes = {name: (folder / name).stat().st_size for name in names}
    if sum(sizes.values()) > MOST_COPIED_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ConfigRefusal(
            "the script's folder is too large to be copied for every attempt",
            expected=f"at most {MOST_COPIED_BYTES >> 20} MiB",
            seen=f"{sum(sizes.values()) >> 20} MiB, of which {largest} {sizes[largest] >> 20} MiB",
            where=folder,
            do="Declare large data under `links` instead of `inputs`.",
        )
