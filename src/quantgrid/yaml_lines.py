"""YAML that remembers the line of every key, so that an error can name file and line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from quantgrid.errors import ConfigRefusal

Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML mapping, or a list, and the line (from 1) of every key and list item in it.

    Args:
        file: How messages name the file: relative to the working copy, where it is inside one.
        data: The mapping or list; plain dicts, lists and scalars, for a schema to fill in defaults.
        lines: Path of keys and list indices -> line.
    """

    file: str
    data: Any
    lines: Mapping[Keys, int]

    def where(self, *keys: str | int) -> str:
        """`config/grids/demo.yaml:12`: the line of a key, or of the nearest key above it."""
        known = (
            self.lines[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in self.lines
        )
        return f"{self.file}:{next(known, 1)}"


def read(path: Path, *, root: Path) -> Document:
    """Read a YAML file whose top is a mapping.

    Raises:
        ConfigRefusal: when it is not YAML, holds a key twice, is no mapping, or nobody may read it.
        OSError: when its disk does not give it.
    """
    try:
        text = _text(path, root)
    except FileNotFoundError as error:
        raise ConfigRefusal(
            f"{_name(path, root)} is not there, so this is no working copy",
            seen=root,
            do="Change into the clone, or name it with --root.",
        ) from error
    return parse(text, file=_name(path, root))


def read_list(path: Path, *, root: Path) -> Document:
    """Like `read`, of a file whose top is a list."""
    return parse(_text(path, root), file=_name(path, root), top=yaml.SequenceNode)


def _text(path: Path, root: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (PermissionError, IsADirectoryError) as error:
        raise ConfigRefusal(
            "this file cannot be read", seen=error.strerror, where=_name(path, root)
        ) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigRefusal(
            "this is no text",
            expected="UTF-8",
            seen=f"byte {error.object[error.start]:#x}",
            where=f"{_name(path, root)}:{line}",
            do="Save the file as UTF-8.",
        ) from error


def parse(text: str, *, file: str, top: type[yaml.Node] = yaml.MappingNode) -> Document:
    """Like `read`, of a text."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if not isinstance(node, top):
            raise _refusal(f"this file must hold {_SHAPES[top]}", file, node)
        lines = dict(_lines(node, (), file))
        return Document(file, loader.construct_document(node), lines)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else file
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigRefusal(f"this is not YAML: {problem}", where=place) from error


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


_SHAPES: dict[type[yaml.Node], str] = {
    yaml.MappingNode: "`key: value` lines",
    yaml.SequenceNode: "a list",
}

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _lines(node: yaml.Node, above: Keys, file: str) -> Iterator[tuple[Keys, int]]:
    for key, key_node, value in _children(node):
        here = (*above, key)
        yield here, key_node.start_mark.line + 1
        yield from _lines(value, here, file)
    _refuse_repeated(node, file)


def _children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), key, value
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield index, value, value


def _refuse_repeated(node: yaml.Node, file: str) -> None:
    """YAML lets the last of two equal keys win in silence: a grid would lose a block."""
    first: dict[str, int] = {}
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        name, line = str(key.value), key.start_mark.line + 1
        if name in first:
            raise _refusal(f"key {name!r} is here twice, first on line {first[name]}", file, key)
        first[name] = line


def _refusal(what: str, file: str, node: yaml.Node | None) -> ConfigRefusal:
    line = node.start_mark.line + 1 if node is not None else 1
    return ConfigRefusal(what, where=f"{file}:{line}")
