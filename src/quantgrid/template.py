"""Texts with `{name}` in them, as the arguments of somebody's own program are written.

Only plain names: no attribute, no index, no format.  `{{` and `}}` stand for braces.
"""

from collections.abc import Mapping, Sequence
from string import Formatter


class TemplateError(ValueError):
    """A text that is no template; its words are for the person who wrote it."""


def names(text: str) -> list[str]:
    """The names in a template, in order.

    Raises:
        TemplateError: when a brace stands alone or holds more than a name.
    """
    return [name for _, name in _parts(text) if name is not None]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of names; names without a value stay, for a later fill.

    A value is text and never a template itself, whatever braces it holds.
    """
    parts = []
    for literal, name in _parts(text):
        parts.append(_escaped(literal))
        if name is not None:
            parts.append(_escaped(values[name]) if name in values else f"{{{name}}}")
    return "".join(parts)


def finish(text: str, values: Mapping[str, str]) -> str:
    """Like `fill`, for the last time: no name is left and braces stand alone.

    Raises:
        KeyError: for a name without a value.
    """
    return "".join(
        literal + ("" if name is None else values[name]) for literal, name in _parts(text)
    )


def fill_all(texts: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """`fill` of each."""
    return tuple(fill(text, values) for text in texts)


def _parts(text: str) -> list[tuple[str, str | None]]:
    try:
        found = list(Formatter().parse(text))
    except ValueError as error:
        raise TemplateError(f"{text!r}: {error}") from error
    for _, name, form, conversion in found:
        if name is not None and (form or conversion or not name.isidentifier()):
            raise TemplateError(
                f"{text!r}: between braces stands a name and nothing else; write {{{{ for a brace"
            )
    return [(literal, name) for literal, name, _, _ in found]


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
