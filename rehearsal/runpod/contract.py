"""Requests and replies against the model of the vendor's document, contract.yaml."""

import re
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator

MODEL: dict[str, Any] = yaml.safe_load((files(__package__) / "contract.yaml").read_text())


class Operation(NamedTuple):
    """What a request asks for.

    Args:
        name: As the vendor names it.
        id: The resource in its path; empty for none.
        request: Shape of its body; empty for none.
        replies: Shape of each reply that is no error, by status.
    """

    name: str
    id: str
    request: str
    replies: dict[int, str]


def find_operation(method: str, path: str) -> Operation | None:
    """The operation of a request, or None when the vendor has none there."""
    for name, model in MODEL["operations"].items():
        pattern = re.escape(model["path"]).replace(r"\{id\}", "([^/]+)")
        found = re.fullmatch(pattern, path)
        if found and model["method"] == method:
            id_ = found[1] if found.groups() else ""
            return Operation(name, id_, model.get("request", ""), model["replies"])
    return None


def violations(shape: str, value: Any) -> list[str]:
    """What is wrong with a value, in the validator's words."""
    return [f"{each.json_path}: {each.message}" for each in _validator(shape).iter_errors(value)]


@cache
def _validator(shape: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/shapes/{shape}", "shapes": MODEL["shapes"]})
