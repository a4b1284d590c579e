"""Frozen descriptions of what is asked: models, trunks, cool-downs, forms, evaluations, cells.

A spec is resolved (every field has its value) where it is used, and canonical (defaults left out)
where it is fingerprinted: a new option with a default therefore changes no fingerprint.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from quantgrid.fingerprint import digest


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A llama-like model and how it is trained (config/models; the recipe's source is there)."""

    name: str
    d_model: int
    num_layers: int
    num_heads: int
    d_ff: int
    vocab_size: int
    context: int
    batch_sequences: int
    learning_rate: float
    warmup_steps: int
    tied: bool = True
    rope_base: float = 10000.0
    norm_eps: float = 1e-6
    init_std: float = 0.02
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    clip_norm: float = 1.0
    precision: str = "float32"
    compiled: bool = False
    microbatch_sequences: int | None = None

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one optimiser step consumes."""
        return self.context * self.batch_sequences

    @property
    def num_parameters(self) -> int:
        """Parameters without embedding and head, norms included (the N of the laws)."""
        attention = 4 * self.d_model**2
        feed_forward = 3 * self.d_model * self.d_ff
        norms = (2 * self.num_layers + 1) * self.d_model
        return self.num_layers * (attention + feed_forward) + norms


@dataclass(frozen=True, kw_only=True, slots=True)
class Trunk:
    """The constant-rate training of one (model, corpus, seed), without its final length."""

    model: Model
    seed: int
    corpus: str
    passes: int = 1
    unique_tokens: int | None = None

    @property
    def id(self) -> str:
        """`n0-s0`; allowed four passes `n1-s0-p4`; over a bounded corpus `n1-s0-u5000000p4`."""
        bound = f"-u{self.unique_tokens}" if self.unique_tokens is not None else ""
        passes = f"p{self.passes}" if bound else f"-p{self.passes}" if self.passes != 1 else ""
        return f"{self.model.name}-s{self.seed}{bound}{passes}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cooldown:
    """The branch from a milestone to a base: linear decay to zero over the last steps."""

    num_steps: int
    cooldown_steps: int

    @property
    def milestone_steps(self) -> int:
        """Steps of the trunk before the branch."""
        return self.num_steps - self.cooldown_steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """One quantised form of a base, or `none`; `forms` says which fields go together.

    Fields beyond `method` mean what they mean in the literature: `bits` of a weight (`ternary`
    is a width of its own), `group` of weights that share a scale (`tensor`, `row` or a number),
    `scale` rule, and whether a zero point makes the grid asymmetric.  `activation_bits` and
    `kv_bits` are dynamic, per token; None leaves them as they are.
    """

    method: str
    bits: int | str | None = None
    group: int | str | None = None
    scale: str | None = None
    asymmetric: bool = False
    scale_dtype: str = "float16"
    act_order: bool = True
    damping: float = 0.01
    calibration_sequences: int = 128
    start: str = "cooldown"
    activation_bits: int | None = None
    kv_bits: int | None = None
    tag: str | None = None

    @property
    def id(self) -> str:
        """`none`, `rtn-w4row-noclip`, `gptq-w2g32-asym`, `qat-ternary-row-absmean`, `cache-kv8`."""
        return "-".join([self.method, *self._width(), *self._extras()])

    def _width(self) -> list[str]:
        if self.bits is None:
            return []
        group = f"g{self.group}" if isinstance(self.group, int) else str(self.group)
        width = f"w{self.bits}{group}" if isinstance(self.bits, int) else f"{self.bits}-{group}"
        return [width, "asym" if self.asymmetric else str(self.scale)]

    def _extras(self) -> list[str]:
        """A mark for each field that differs from its default: the id carries everything."""
        short = {"float32": "s32", "bfloat16": "sb16", "float16": None}
        marks = [
            short.get(self.scale_dtype, self.scale_dtype),
            None if self.act_order else "noact",
            None if self.damping == 0.01 else f"damp{self.damping!r}".replace(".", "p"),
            None if self.calibration_sequences == 128 else f"cal{self.calibration_sequences}",
            None if self.start == "cooldown" else self.start,
            None if self.activation_bits is None else f"a{self.activation_bits}",
            None if self.kv_bits is None else f"kv{self.kv_bits}",
            self.tag,
        ]
        return [mark for mark in marks if mark is not None]


BASE = Form(method="none")
"""The form of a base: nothing is quantised."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """How a cell is measured: a fixed validation set with one loss per sequence."""

    sequences: int
    metrics: tuple[str, ...] = ("loss", "kl")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of a grid."""

    trunk: Trunk
    budget: str
    num_tokens: int
    cooldown: Cooldown
    form: Form
    evaluation: Evaluation
    block: str = field(compare=False)

    @cached_property
    def base(self) -> str:
        """Id of the trained model, `n0-t800k-s0`."""
        model, seed = self.trunk.id.split("-", 1)
        return f"{model}-{self.budget}-{seed}"

    @cached_property
    def variant(self) -> str:
        """Id of its form, `rtn-w4row-noclip`."""
        return self.form.id

    @cached_property
    def id(self) -> str:
        """`<base>/<variant>`."""
        return f"{self.base}/{self.variant}"

    @property
    def milestone(self) -> int:
        """Tokens on the trunk before the cool-down."""
        return self.cooldown.milestone_steps * self.trunk.model.tokens_per_step


def with_floats(kind: type[Any], mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the fields of a spec, with 1 written for 1.0 made 1.0: one spec, one JSON."""
    real = {each.name for each in fields(kind) if each.type is float}
    return {key: float(value) if key in real else value for key, value in mapping.items()}


def resolved(spec: Any) -> dict[str, Any]:
    """All fields of a spec with their values, as JSON types."""
    return {key: _listed(value) for key, value in asdict(spec).items()}


def canonical_spec(spec: Any) -> dict[str, Any]:
    """The fields of a spec whose value is not the default, as JSON types, nested specs alike."""
    kept = {}
    for each in fields(spec):
        value = getattr(spec, each.name)
        default = each.default if each.default is not MISSING else MISSING
        if default is MISSING or value != default:
            kept[each.name] = canonical_spec(value) if hasattr(value, "__slots__") else value
    return {key: _listed(value) for key, value in kept.items()}


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def fingerprint(
    stage: str,
    spec: dict[str, Any],
    *,
    parents: dict[str, str],
    corpus: str,
    science: str,
) -> str:
    """sha256 that decides sameness.

    Args:
        stage: Which script makes it.
        spec: Canonical spec (defaults left out).
        parents: Fingerprints of what it is made from, by role.
        corpus: Digest of the corpus recipe.
        science: Science digest of the stage.
    """
    return digest(
        {"stage": stage, "spec": spec, "parents": parents, "corpus": corpus, "science": science}
    )
