"""Files of the configuration: found by section and name, and checked against their schemas.

The schemas of `config/schemas` say which keys there are and of which type.  Who calls brings the
validator: Snakemake its own, the command line `check_schema`.
"""

import math
import re
import reprlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from quantgrid import layout, yaml_lines
from quantgrid.errors import ConfigRefusal
from quantgrid.forms import Where, refuse_unknown
from quantgrid.yaml_lines import Document

_KINDS = {
    "array": "a list such as [{0}]",
    "object": "names with values, such as `name: {0}`",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}
"""The types of a schema as a person says them."""

Validate = Callable[[Any, str], object]
"""Checks data against the JSON schema at a path, in place; `snakemake.utils.validate` is one."""


def names(root: Path, section: str) -> list[str]:
    """What a section of the configuration holds: grids, corpora, models or platforms."""
    folder = root / layout.SECTIONS[section]
    return sorted(path.stem for path in folder.glob("*.yaml"))


def refuse_missing(root: Path, section: str, name: str, where: str) -> None:
    """Refuse a name that no file of a section has.

    Raises:
        ConfigRefusal: listing the names that there are.
    """
    refuse_unknown([name], names(root, section), lambda *_: where, section)


def read(root: Path, section: str, name: str, validate: Validate | None) -> Document:
    """A file of a section, checked against its schema.

    Raises:
        ConfigRefusal: when it is not there, or not what the schema says.
    """
    refuse_missing(root, section, name, layout.SECTIONS[section])
    sign = layout.WILDCARDS.get(section)
    if sign and not re.fullmatch(sign, name):
        raise ConfigRefusal(
            f"{name!r} can be no name of a {section}: files are called by it",
            expected=f"letters, digits, _ and - ({sign})",
            where=layout.section_file(root, section, name),
            do="Rename the file.",
        )
    document = yaml_lines.read(layout.section_file(root, section, name), root=root)
    check(document.data, document.where, layout.schema_file(root, section), validate)
    return document


def check_schema(data: Any, schema_path: str) -> None:
    """Check data against a JSON schema (draft 2020-12) in a YAML file.

    Raises:
        jsonschema.ValidationError: for the error that explains most.
    """
    from jsonschema import Draft202012Validator  # slow to import, and Snakemake brings its own
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(_schema(schema_path)).iter_errors(data))
    if error is not None:
        raise error


@cache
def _schema(path: str) -> Any:
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def check(data: Any, where: Where, schema: Path, validate: Validate | None) -> None:
    """Check data that came from a file against its schema.

    Raises:
        ConfigRefusal: naming file, line and, for an unknown key, the valid ones.
    """
    try:
        (validate or check_schema)(data, str(schema))
    except Exception as error:
        found = _validation_error(error)
        if found is None:
            raise
        raise _schema_refusal(found, where) from error
    _refuse_no_numbers(data, where)


def _refuse_no_numbers(data: Any, where: Where, *keys: Any) -> None:
    """Refuse YAML's `.nan` and `.inf`: no bound holds against what is neither more nor less.

    Raises:
        ConfigRefusal: naming the key and its place.
    """
    if isinstance(data, float) and not math.isfinite(data):
        path = ".".join(map(str, keys))
        raise ConfigRefusal(f"{path}: {data} is no number that can be meant", where=where(*keys))
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            _refuse_no_numbers(value, where, *keys, key)


def _is_bare(value: object) -> bool:
    """Whether a value may stand within an example."""
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _validation_error(error: BaseException | None) -> Any | None:
    """The schema error within an error of Snakemake's, which knows neither file nor line."""
    while error is not None:
        if hasattr(error, "absolute_path") and hasattr(error, "validator"):
            return error
        error = error.__cause__ or error.__context__
    return None


def _schema_refusal(error: Any, where: Where) -> ConfigRefusal:
    keys, valid = tuple(error.absolute_path), error.schema.get("properties", {})
    if error.validator == "additionalProperties":
        try:
            refuse_unknown(error.instance, valid, lambda *key: where(*keys, *key), "key here")
        except ConfigRefusal as refusal:
            return refusal
    path = ".".join(map(str, keys)) or "the file"
    if error.validator == "type":
        kinds = error.validator_value
        words = [_KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        expected = " or ".join(words).format(error.instance if _is_bare(error.instance) else "a")
        seen = reprlib.repr(error.instance)
        return ConfigRefusal(
            f"{path}: this is of another kind", expected=expected, seen=seen, where=where(*keys)
        )
    return ConfigRefusal(f"{path}: {error.message}", where=where(*keys))
