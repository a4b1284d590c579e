"""What a person reads instead of an id or a bare number."""

from collections import Counter
from collections.abc import Mapping, Sequence

from quantgrid.report.stats import Estimate
from quantgrid.spec import Form


def form_labels(forms: Mapping[str, Form]) -> dict[str, str]:
    """Short names by variant id; a variant whose short name is not its own keeps its id."""
    short = _told_apart({variant: _short(form) for variant, form in forms.items()}, forms)
    counts = Counter(short.values())
    return {variant: name if counts[name] == 1 else variant for variant, name in short.items()}


def _told_apart(names: Mapping[str, str], forms: Mapping[str, Form]) -> dict[str, str]:
    """Names with the start of training where two forms differ by that."""
    counts = Counter(names.values())
    started = {v: counts[name] > 1 and forms[v].start != "cooldown" for v, name in names.items()}
    return {v: f"{name} {forms[v].start}" if started[v] else name for v, name in names.items()}


def family_labels(families: Sequence[str]) -> dict[str, str]:
    """Families without their corpus when they share one: `n0 shakespeare` -> `n0`."""
    corpora = {family.partition(" ")[2] for family in families}
    return {each: each.partition(" ")[0] if len(corpora) == 1 else each for each in families}


def width_label(form: Form) -> str:
    """`3 bits`, `ternary`."""
    weight = weight_label(form) if form.bits is not None else None
    activation = form.activation_bits and f"activations {form.activation_bits} bits"
    cache = form.kv_bits and f"cache {form.kv_bits} bits"
    return ", ".join(part for part in (weight, activation, cache) if part) or "unquantised"


def weight_label(form: Form) -> str:
    """`3 bits`, `ternary`, or `base` for weights that are left as they are."""
    return f"{form.bits} bits" if isinstance(form.bits, int) else form.bits or "base"


def tokens(count: float) -> str:
    """`100 k`, `1.6 M`, `2.5 B` with a blank that does not break."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}\N{NO-BREAK SPACE}{unit}"
    return f"{count:g}"


def nats(value: float) -> str:
    """Four decimals with a true minus sign."""
    return f"{value:.4f}".replace("-", "\N{MINUS SIGN}")


def with_error(value: Estimate) -> str:
    """`0.0123 ± 0.0004`."""
    return plus_minus(value.mean, value.se)


def plus_minus(mean: float, error: float) -> str:
    """`0.0123 ± 0.0004` with blanks that do not break."""
    return f"{nats(mean)} ± {error:.4f}".replace(" ", "\N{NO-BREAK SPACE}")


def z(value: float) -> str:
    """One decimal with a true minus sign."""
    return f"{value:.1f}".replace("-", "\N{MINUS SIGN}")


def grouped(count: float) -> str:
    """Thousands apart by thin blanks: `1 066 368`."""
    return f"{count:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def real_bits(value: float) -> str:
    """`2.56`: bits of a weight with its share of scales and zero points."""
    return f"{value:.2f}"


def _short(form: Form) -> str:
    if form.method == "none":
        return "base"
    group = f"g{form.group}" if isinstance(form.group, int) else form.group
    width = f"W{form.bits}" if isinstance(form.bits, int) else form.bits
    activation = form.activation_bits and f"A{form.activation_bits}"
    cache = form.kv_bits and f"KV{form.kv_bits}"
    asym = "asym" if form.asymmetric else None
    parts = (form.method.upper(), width, group, asym, activation, cache)
    return " ".join(part for part in parts if part)
