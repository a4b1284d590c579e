"""How methods and widths look in plots: one mark a method, one colour a bit width."""

from collections.abc import Iterable
from typing import Any

from quantgrid.report.canvas import KINDS, PAPER, SOFT
from quantgrid.report.records import Grid, bit_width

MARKS = {
    "rtn": "o",
    "gptq": "s",
    "qat": "^",
    "lsq": "v",
    "trust": "<",
    "clip": "h",
    "mxfp": "D",
    "nvfp": "d",
    "fp8": "p",
    "gguf": "8",
    "activation": "P",
    "smoothquant": "X",
    "hadamard": "*",
    "cache": ">",
}
"""Of every declared method, in the order of keys; the report's tests hold it complete."""

LINES: dict[str, Any] = {"rtn": (0, (4, 1.6)), "gptq": "solid"}
LINES |= dict.fromkeys(("qat", "lsq", "trust"), (0, (1, 1.2)))
OTHER_MARK, OTHER_LINE = "H", "dashdot"
"""Of records whose method is declared no more."""

HOLLOW = frozenset({"rtn"})
UNQUANTISED: dict[str, Any] = {"color": SOFT, "linestyle": (0, (3, 2)), "linewidth": 1.2}


def look(method: str, colour: str) -> dict[str, Any]:
    """How the points of a method look; rounding is hollow, so that its neighbours show through."""
    if method == "none":
        return {"color": colour, "marker": "x", "markeredgewidth": 1.4}
    return {
        "color": colour,
        "marker": MARKS.get(method, OTHER_MARK),
        "markerfacecolor": PAPER if method in HOLLOW else colour,
    }


def line(method: str) -> Any:
    """The dashes of a method's lines: what is trained is dotted."""
    return LINES.get(method, OTHER_LINE)


def method_key(methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The mark of every method but none, in one order in all plots."""
    order = {method: place for place, method in enumerate(MARKS)}
    known = sorted(set(methods) - {"none"}, key=lambda each: (order.get(each, len(order)), each))
    return {each.upper(): look(each, SOFT) | {"linestyle": "none"} for each in known}


def width_colours(grid: Grid) -> dict[str, str]:
    """One colour a width of weights, by variant; grey where weights are left as they are."""
    forms = {v: form for v, form in grid.forms().items() if form.method != "none"}
    widths = sorted({bit_width(form)[0] for form in forms.values() if form.bits is not None})
    return {
        variant: SOFT if form.bits is None else KINDS[widths.index(bit_width(form)[0]) % len(KINDS)]
        for variant, form in forms.items()
    }
