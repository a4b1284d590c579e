"""Fields of a form that contradict each other are refused."""

from dataclasses import fields
from typing import Any

import pytest
import yaml

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.forms import METHODS, group_problem, parse_form
from quantgrid.load import load_model
from quantgrid.spec import Form

ROW3 = {"method": "rtn", "bits": 3, "group": "row", "scale": "noclip"}
TERNARY = {"method": "qat", "bits": "ternary", "group": "row", "scale": "absmean"}


def _at(*keys: str) -> str:
    return f"here:{'.'.join(keys)}"


def test_form_has_every_field_when_it_is_meant() -> None:
    """A form of a grid file is the spec of the same fields."""
    assert parse_form(TERNARY, _at) == Form(
        method="qat", bits="ternary", group="row", scale="absmean"
    )


@pytest.mark.parametrize(
    ("mapping", "field", "message"),
    [
        ({**ROW3, "asymmetric": True}, "asymmetric", "contradicts the symmetric scale rule noclip"),
        ({**ROW3, "act_order": False}, "act_order", "act_order means nothing to rtn"),
        ({**ROW3, "start": "scratch"}, "start", "start means nothing to rtn"),
        ({"method": "none", "bits": 3}, "bits", "bits means nothing to none"),
        ({**TERNARY, "group": 32}, "group", "a scale per row or tensor, not per 32"),
        ({**TERNARY, "scale": "noclip"}, "scale", "scale noclip is no rule for ternary"),
        ({**TERNARY, "method": "gptq"}, "bits", "gptq makes no ternary weights; rtn, qat"),
        ({**TERNARY, "asymmetric": True}, "asymmetric", "ternary weights are symmetric"),
        ({**ROW3, "scale": "absmean"}, "scale", "scale absmean is no rule of rtn for 3 bits"),
        ({**ROW3, "bits": 9}, "bits", "bits 9 is neither 2 to 8 nor ternary"),
        ({**ROW3, "bits": "three"}, "bits", "bits 'three' is neither"),
        ({**ROW3, "group": "column"}, "group", "neither tensor, row nor a number"),
        ({**ROW3, "group": 0}, "group", "neither tensor, row nor a number"),
        ({"method": "rtn", "bits": 3, "group": "row"}, "method", "scale is missing"),
        ({"method": "rtn", "bits": 3, "scale": "noclip"}, "method", "group is missing"),
        ({"method": "activation", **{k: v for k, v in ROW3.items() if k != "method"}}, "method",
         "activation_bits is missing"),
        ({"method": "cache", "kv_bits": 1}, "kv_bits", "kv_bits 1 is neither 2 to 8"),
        ({"method": "mxfp", "bits": 4, "group": 16, "scale": "floor", "scale_dtype": "e8m0"},
         "group", "mxfp has bits 4, group 32, scale_dtype e8m0"),
        ({"method": "fp8", "bits": 4, "group": "row", "scale": "absmax"}, "bits", "fp8 has bits 8"),
        ({**ROW3, "scale_dtype": "e8m0"}, "scale_dtype", "scale_dtype e8m0 is no type of rtn"),
        ({"method": "trust", "bits": 7, "group": "row", "scale": "gaussian"}, "bits",
         "no constant for 7 bits"),
        ({"method": "clip", "bits": 2, "group": 32, "scale": "symmetric"}, "scale",
         "symmetric is no rule of clip"),
    ],
)  # fmt: skip
def test_form_is_refused_with_place_when_contradictory(
    mapping: dict[str, Any], field: str, message: str
) -> None:
    """Each contradiction names the form, the reason, and the line of the field."""
    with pytest.raises(ConfigRefusal) as refusal:
        parse_form(mapping, _at)

    assert message in str(refusal.value)
    assert f"(here:{field})" in str(refusal.value)


def test_form_names_closest_method_when_misspelt() -> None:
    """An unknown method lists the valid ones and the closest of them."""
    with pytest.raises(ConfigRefusal, match="'gtpq' is no method, did you mean 'gptq'") as refusal:
        parse_form({**ROW3, "method": "gtpq"}, _at)

    assert all(method in str(refusal.value) for method in METHODS)


def test_form_names_closest_field_when_misspelt() -> None:
    """An unknown field lists the valid ones and the closest of them."""
    with pytest.raises(ConfigRefusal, match="'bitz' is no field of a form, did you mean 'bits'"):
        parse_form({"method": "rtn", "bitz": 3}, _at)


def test_methods_take_only_fields_that_forms_have() -> None:
    """No method takes a field that no form could carry."""
    known = {field.name for field in fields(Form)}

    assert {name for each in METHODS.values() for name in each.takes} <= known


def test_groups_do_not_fit_when_they_leave_a_rest(root: Any) -> None:
    """Groups of 128 do not divide the 64 inputs of n0; groups of 32 do, and rows always."""
    n0 = load_model(root, "n0")

    assert (
        group_problem(Form(method="rtn", bits=4, group=128, scale="noclip"), n0)
        == "groups of 128 weights do not divide the widths [64, 192] of model n0"
    )
    assert group_problem(Form(method="rtn", bits=4, group=32, scale="noclip"), n0) is None
    assert group_problem(Form(method="rtn", bits=4, group="row", scale="noclip"), n0) is None


def test_schema_knows_exactly_the_fields_of_a_form(root: Any) -> None:
    """The schema of a grid and the spec name the same fields."""
    schema = yaml.safe_load(layout.schema_file(root, "grid").read_text())

    assert set(schema["$defs"]["form"]["properties"]) == {field.name for field in fields(Form)}
