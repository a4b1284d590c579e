"""What makes two sources the same science: the digest of a script and of all that it imports."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from quantgrid.fingerprint import digest


def science_digest(entry: Path, *, source_root: Path, package: str | None = "quantlm") -> str:
    """Digest of a module and of everything of `package` that it imports, directly or not.

    Blind to comments, docstrings (and other texts that are statements), layout, the order and
    grouping of imports, and the version of Python.  Imports are followed through static `import`
    and `from` statements anywhere in a file, relative ones included.

    Args:
        entry: The script or module to start from.
        source_root: The folder that holds `package`.
        package: Name of the science package; imports of anything else are not followed.  None
            follows everything that `source_root` holds.

    Raises:
        SyntaxError: when a file of the closure is not Python.
        OSError: when `entry` cannot be read.
    """
    return digest(
        {
            _name(path, source_root): _module_digest(path)
            for path in _closure(entry, source_root, package)
        }
    )


def local_files(entry: Path) -> set[Path]:
    """A script and every file beside or below it that it imports, directly or not.

    Raises:
        SyntaxError: when a file of the closure is not Python.
    """
    return _closure(entry, entry.parent, None)


def imported_names(entry: Path) -> list[str]:
    """Top-level names that a script and its local files import; none when it is not Python."""
    try:
        files = local_files(entry)
    except (SyntaxError, ValueError):
        return []
    found = {name for path in files for name in _imported_names(path, entry.parent)}
    return sorted({name.split(".")[0] for name in found} - {""})


def _name(path: Path, source_root: Path) -> str:
    inside = path.is_relative_to(source_root)
    return path.relative_to(source_root).as_posix() if inside else path.name


def _closure(entry: Path, source_root: Path, package: str | None) -> set[Path]:
    found: set[Path] = set()
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(_imports(path, source_root, package))
    return found


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


@cache
def _imports(path: Path, source_root: Path, package: str | None) -> tuple[Path, ...]:
    names = _imported_names(path, source_root)
    ours = {name for name in names if package in {None, name.split(".")[0]}}
    return tuple(sorted({file for name in ours for file in _files_of(name, source_root)}))


def _imported_names(path: Path, source_root: Path) -> Iterator[str]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, path, source_root)
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))


def _absolute(node: ast.ImportFrom, path: Path, source_root: Path) -> str:
    """The module that a `from` statement names, with leading dots resolved."""
    above: tuple[str, ...] = ()
    if node.level and path.is_relative_to(source_root):
        above = path.relative_to(source_root).parts[: -node.level]
    return ".".join([*above, *([node.module] if node.module else [])])


def _files_of(name: str, source_root: Path) -> Iterator[Path]:
    """The files that an import of `name` runs: each package's `__init__`, then the module."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        base = source_root.joinpath(*parts[:end])
        for candidate in (base / "__init__.py", base.with_suffix(".py")):
            if candidate.is_file():
                yield candidate


@cache
def _module_digest(path: Path) -> str:
    body = _tree(path).body
    imports = sorted({line for node in body for line in _import_lines(node)})
    return digest([imports, _plain([node for node in body if not _is_import(node)])])


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _import_lines(node: ast.stmt) -> Iterator[str]:
    """One line per imported name, so that grouping and order do not matter."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        source = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        yield from (f"{source} {alias.name} {alias.asname or ''}" for alias in node.names)


def _is_text(node: object) -> bool:
    """Whether this is a docstring, or another text that nobody reads at run time."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _plain(node: object) -> object:
    """A node as JSON: type name and non-empty fields, so that all versions of Python agree."""
    if isinstance(node, list):
        return [_plain(item) for item in node if not _is_text(item)]
    if not isinstance(node, ast.AST):
        return _plain_constant(node)
    if isinstance(node, ast.Constant):
        return ["Constant", _plain_constant(node.value)]
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    if isinstance(node, ast.JoinedStr):
        fields["values"] = [part for part in node.values if not _is_empty(part)]
    return [type(node).__name__, {name: _plain(value) for name, value in fields.items()}]


def _is_empty(part: ast.expr) -> bool:
    """Python 3.12 puts an empty text beside a nested format, as in `f"{x:{width}}"`."""
    return isinstance(part, ast.Constant) and part.value == ""


_CONSTANTS: dict[type, Callable[[object], object]] = {
    str: lambda value: value,
    bool: lambda value: value,
    int: str,
    float: repr,
}


def _plain_constant(value: object) -> object:
    convert = _CONSTANTS.get(type(value), repr)
    return [type(value).__name__, convert(value)]
