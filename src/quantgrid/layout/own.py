"""Paths of somebody's own program: at the desk of its stage, in its state, in the archive."""

from pathlib import Path

__all__ = [
    "OWN_FILES",
    "OWN_FOLDER",
    "OWN_KEPT",
    "OWN_KEPT_LIST",
    "OWN_STATE",
    "OWN_TMP",
    "OWN_VARIANT",
    "OWN_WATCH",
    "blob_name",
    "has_header",
    "is_bytecode",
    "is_python",
    "relative_to_folder",
]

# -- somebody's own program -----------------------------------------------------------------------

OWN_VARIANT = "own"
"""The variant of every cell with a program of its own; no form of a base is called so."""
OWN_FOLDER = "folder"
"""At the desk of a stage: the private copy of the program's folder, where it is started."""
OWN_FILES = "files"
"""At the desk of a stage: what `{out}` names."""
OWN_STATE = "state"
"""At the desk of a stage: what `{state}` names."""
OWN_TMP = "tmp"
"""At the desk of a stage: where the program puts its temporary files."""
OWN_KEPT = "kept"
"""In the state of a cell: copies of the program's own checkpoint, one folder each."""
OWN_KEPT_LIST = "kept.json"
OWN_WATCH = "watch.json"
"""In the state of a cell: what the watch heard of the program's metrics."""


def is_python(path: Path) -> bool:
    """Whether a file is run by a Python interpreter."""
    return path.suffix == ".py"


def has_header(path: Path) -> bool:
    """Whether a table's lines are fields below a line of names."""
    return path.suffix in {".csv", ".tsv"}


def is_bytecode(path: Path) -> bool:
    """Whether a file is what Python compiled for itself."""
    return "__pycache__" in path.parts


def relative_to_folder(path: str, folder: str) -> str:
    """A path within a folder; both are relative to the folder of the Snakefile."""
    return Path(path).relative_to(folder).as_posix()


def blob_name(relative: str) -> str:
    """The name that a file below a folder is deposited under."""
    return relative.replace("/", "~")
