"""Which fields of a form go together: a contradiction is refused before anything is planned.

Each method says what it takes, so that no field of a spec is ever there without a meaning.  A
method is declared here and written in `quantlm.methods` (docs/guides/add-a-method.md).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from quantgrid.errors import ConfigRefusal
from quantgrid.spec import Form, Model, with_floats
from quantgrid.wording import meant

Where = Callable[..., str]
"""Names file and line of a key below an object: `where("bits")` -> `config/grids/x.yaml:7`."""

INTEGER_SCALES = ("noclip", "absmax", "symmetric")
TERNARY = "ternary"
TERNARY_BITS = 1.58
"""log2(3), as the literature rounds it."""

_STANDARD_DTYPES = ("e8m0", "e4m3")

_GRID = ("bits", "group", "scale", "asymmetric", "scale_dtype", "tag")


@dataclass(frozen=True, slots=True)
class Method:
    """What a method takes.

    Args:
        takes: Fields of a form that mean something to it.
        scales: Scale rules for a number of bits; empty when it has no choice of a grid.
        ternary: Scale rules for ternary weights; empty when it cannot make them.
        trains: Whether its weights are trained, so that `start` says from where.
        needs: Fields that it cannot do without, besides those of the weights' grid.
        runs: Whether it also rounds what flows through a running model, so that its module takes
            part in the evaluation.
        fixed: Values that fields must have, for a format that is a standard.
    """

    takes: tuple[str, ...]
    scales: tuple[str, ...] = INTEGER_SCALES
    ternary: tuple[str, ...] = ()
    trains: bool = False
    needs: tuple[str, ...] = ()
    runs: bool = False
    fixed: tuple[tuple[str, int | str], ...] = ()


_STANDARD = ("bits", "group", "scale", "scale_dtype", "tag")
_SOLVER = ("act_order", "damping", "calibration_sequences")
_LEARNED = (*_GRID, "start")

METHODS: Mapping[str, Method] = {
    "none": Method(()),
    "rtn": Method(_GRID, ternary=("absmean",)),
    "gptq": Method((*_GRID, *_SOLVER)),
    "qat": Method(_LEARNED, ternary=("absmean",), trains=True),
    # learned step size: Esser et al. 1902.08153; one step a row, trained with the weights
    "lsq": Method(_LEARNED, ("learned",), ("learned",), trains=True),
    # QuEST 2502.05003: trust gradient, clip at the Gaussian optimum times rms (QU 4)
    "trust": Method(_LEARNED, ("gaussian",), ("gaussian",), trains=True),
    # round to nearest on ranges that the least square error chose (QU 1.3: it pays at 2 bits)
    "clip": Method(_GRID, ("noclip", "absmax")),
    # OCP microscaling: E2M1 elements, a power of two per 32; floor as torchao's default (QU 4)
    "mxfp": Method(
        _STANDARD,
        ("floor",),
        fixed=(("bits", 4), ("group", 32), ("scale_dtype", "e8m0")),
    ),
    # NVIDIA: E2M1 elements, an E4M3 scale per 16 under one float32 scale of the matrix (QU 4)
    "nvfp": Method(
        _STANDARD,
        ("absmax",),
        fixed=(("bits", 4), ("group", 16), ("scale_dtype", "e4m3")),
    ),
    # E4M3 elements, absmax / 448
    "fp8": Method(_STANDARD, ("absmax",), fixed=(("bits", 8),)),
    # Q8_0 of llama.cpp, code for code
    "gguf": Method(
        _STANDARD,
        ("absmax",),
        fixed=(("bits", 8), ("group", 32), ("scale_dtype", "float16")),
    ),
    "activation": Method((*_GRID, "activation_bits"), needs=("activation_bits",), runs=True),
    "smoothquant": Method(
        (*_GRID, "activation_bits", "calibration_sequences"),
        needs=("activation_bits",),
        runs=True,
    ),
    "hadamard": Method((*_GRID, "activation_bits"), needs=("activation_bits",), runs=True),
    "cache": Method(("kv_bits", "tag"), needs=("kv_bits",), runs=True),
}


def parse_form(mapping: Mapping[str, Any], where: Where) -> Form:
    """A form from its fields.

    Raises:
        ConfigRefusal: for an unknown field or method, and for fields that contradict each other.
    """
    refuse_unknown(mapping, [field.name for field in fields(Form)], where, "field of a form")
    form = Form(**with_floats(Form, mapping))
    refuse_unknown([form.method], METHODS, lambda _: where("method"), "method")
    method = METHODS[form.method]
    for check in (_taken, _complete, _widths, _grid_of_ternary, _grid_of_bits, _standard):
        for field, problem in check(form, mapping, method):
            raise ConfigRefusal(f"{_told(mapping)}: {problem}", where=where(field))
    return form


def refuse_unknown(
    names: Mapping[str, Any] | Sequence[str],
    valid: Mapping[str, Any] | Sequence[str],
    where: Where,
    kind: str,
) -> None:
    """Refuse the first name that is not valid, with all that are and the closest of them.

    Raises:
        ConfigRefusal: when a name is not valid.
    """
    for name in names:
        if name not in valid:
            raise ConfigRefusal(
                f"{name!r} is no {kind}{meant(str(name), map(str, valid))}",
                expected=f"one of {', '.join(map(str, valid)) or 'none'}",
                where=where(name),
            )


def group_problem(form: Form, model: Model) -> str | None:
    """Why the groups of a form do not fit the input widths of a model's linear layers."""
    if not isinstance(form.group, int):
        return None
    odd = [width for width in (model.d_model, model.d_ff) if width % form.group]
    if not odd:
        return None
    return f"groups of {form.group} weights do not divide the widths {odd} of model {model.name}"


Problems = Iterator[tuple[str, str]]
_DEFAULTS = {field.name: field.default for field in fields(Form) if field.default is not MISSING}


def _taken(form: Form, mapping: Mapping[str, Any], method: Method) -> Problems:
    for field in mapping:
        if field != "method" and field not in method.takes:
            takes = f"it takes {', '.join(method.takes)}" if method.takes else "it takes no fields"
            yield field, f"{field} means nothing to {form.method}; {takes}"


def _complete(form: Form, _mapping: Mapping[str, Any], method: Method) -> Problems:
    needed = [*method.needs, *(("bits", "group") if "bits" in method.takes else ())]
    for field in needed:
        if getattr(form, field) is None:
            yield "method", f"{field} is missing"
    if "scale" in method.takes and form.scale is None and not form.asymmetric:
        rules = method.ternary if form.bits == TERNARY else method.scales
        yield "method", f"scale is missing; rules: {', '.join(rules)}"


def _widths(form: Form, _mapping: Mapping[str, Any], _method: Method) -> Problems:
    if form.group is not None and form.group not in ("tensor", "row") and not _is_size(form.group):
        yield "group", f"group {form.group!r} is neither tensor, row nor a number of weights"
    for field in ("bits", "activation_bits", "kv_bits"):
        bits = getattr(form, field)
        allowed = bits is None or (field == "bits" and bits == TERNARY)
        if not allowed and not (_is_size(bits) and 2 <= bits <= 8):
            yield (
                field,
                f"{field} {bits!r} is neither 2 to 8"
                + (f" nor {TERNARY}" if field == "bits" else ""),
            )


def _grid_of_ternary(form: Form, _mapping: Mapping[str, Any], method: Method) -> Problems:
    if form.bits != TERNARY:
        return
    if not method.ternary:
        makers = [name for name, each in METHODS.items() if each.ternary]
        yield "bits", f"{form.method} makes no ternary weights; {', '.join(makers)} do"
    if form.asymmetric:
        yield "asymmetric", "ternary weights are symmetric: -1, 0 and 1 times a scale"
    if _is_size(form.group):
        yield "group", f"ternary weights have a scale per row or tensor, not per {form.group}"
    if form.scale not in method.ternary:
        yield "scale", f"scale {form.scale} is no rule for ternary; {', '.join(method.ternary)} is"


def _grid_of_bits(form: Form, _mapping: Mapping[str, Any], method: Method) -> Problems:
    if form.bits is None or form.bits == TERNARY:
        return
    if form.asymmetric and form.scale is not None:
        yield (
            "asymmetric",
            f"asymmetric contradicts the symmetric scale rule {form.scale}: leave one out",
        )
    if form.scale is not None and form.scale not in method.scales:
        rules = ", ".join(method.scales)
        yield (
            "scale",
            f"scale {form.scale} is no rule of {form.method} for {form.bits} bits; {rules}",
        )
    if form.scale == "gaussian" and form.bits == 7:
        yield "bits", "the gaussian rule has no constant for 7 bits"


def _standard(form: Form, _mapping: Mapping[str, Any], method: Method) -> Problems:
    """A standard's fields are fixed, and its types of scale are no other method's."""
    for field, value in method.fixed:
        if getattr(form, field) != value:
            told = ", ".join(f"{field} {value}" for field, value in method.fixed)
            yield field, f"{form.method} has {told}"
    if form.scale_dtype in _STANDARD_DTYPES and ("scale_dtype", form.scale_dtype) not in (
        method.fixed
    ):
        yield "scale_dtype", f"scale_dtype {form.scale_dtype} is no type of {form.method}"


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _told(mapping: Mapping[str, Any]) -> str:
    return "form {" + ", ".join(f"{key}: {value}" for key, value in mapping.items()) + "}"
