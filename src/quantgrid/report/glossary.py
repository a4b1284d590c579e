"""The words of the page, for a reader who meets them first here."""

from quantgrid.report import labels
from quantgrid.report.records import Grid
from quantgrid.report.table import size_of

Terms = list[tuple[str, str]]


def terms(grid: Grid) -> Terms:
    """Words that this grid uses, with their meanings: things, forms, then statistics."""
    return [*_things(grid), *_forms(grid), _real_bits(grid), *STATISTICS]


def _real_bits(grid: Grid) -> tuple[str, str]:
    """Bits of every form as measured, so that nobody takes nominal widths for sizes."""
    names = labels.form_labels(grid.forms())
    cells = {cell.variant: cell for cell in grid.cells if not cell.is_base}
    sizes = {each: size_of(cells[each], "bits_per_weight") for each in names if each in cells}
    known = [f"{names[each]} {labels.real_bits(bits)}" for each, bits in sizes.items() if bits]
    meaning = "Bits of a weight of the linear layers with its share of scales and zero points"
    return "bits per weight", f"{meaning}: {', '.join(known)}." if known else f"{meaning}."


def _things(grid: Grid) -> Terms:
    models = {cell.model.name: cell.model for cell in grid.cells}
    return [
        *(
            (
                name,
                f"A model of {labels.grouped(model.num_parameters)} parameters outside embedding "
                f"and head: width {model.d_model}, {model.num_layers} layers, context "
                f"{model.context}.",
            )
            for name, model in models.items()
        ),
        ("base", "A trained model before quantisation, with 16 bits a weight."),
        ("form", "A way to quantise a base: method, bits, what shares a scale, rule of the scale."),
        ("cell", "One form of one base: a point of the grid, with one measurement."),
        ("budget", "Tokens that a base was trained on; each has its own learning-rate decay."),
        ("seed", "Sets the first weights and the order of the data."),
    ]


def _forms(grid: Grid) -> Terms:
    """Only words of forms that the grid holds."""
    forms = [form for form in grid.forms().values() if form.method != "none"]
    used = {
        *(form.method for form in forms),
        *(form.group for form in forms),
        *(form.scale for form in forms),
        *("W" for form in forms if isinstance(form.bits, int)),
        *("g" for form in forms if isinstance(form.group, int)),
        *("asym" for form in forms if form.asymmetric),
        *("A" for form in forms if form.activation_bits),
        *("KV" for form in forms if form.kv_bits),
        *(form.start for form in forms),
        *(form.bits for form in forms),
    }
    return [(term, meaning) for key, term, meaning in FORMS if key in used]


FORMS = (
    ("rtn", "RTN", "Round to nearest: each weight alone, after training."),
    (
        "gptq",
        "GPTQ",
        "Rounds one column after the other and lets the rest make up for the error, "
        "after training (Frantar et al. 2022).",
    ),
    (
        "qat",
        "QAT",
        "Quantisation-aware training: the cool-down of the training already computes with "
        "quantised weights.",
    ),
    (
        "lsq",
        "LSQ",
        "Quantisation-aware training that also learns the scale of every row (Esser et al. 2020).",
    ),
    (
        "trust",
        "TRUST",
        "Quantisation-aware training in which weights beyond the outermost level get no gradient "
        "(QuEST, Panferov et al. 2025).",
    ),
    ("scratch", "scratch", "Quantised from the first step of the training on."),
    (
        "clip",
        "CLIP",
        "Round to nearest on the range that leaves the least squared error, after training.",
    ),
    (
        "mxfp",
        "MXFP",
        "Four-bit floats in groups of 32 that share a power of two (OCP microscaling).",
    ),
    (
        "nvfp",
        "NVFP",
        "Four-bit floats in groups of 16 with eight-bit scales under one scale of the matrix.",
    ),
    ("fp8", "FP8", "Eight-bit floats with four bits of exponent and three of mantissa (E4M3)."),
    ("gguf", "GGUF", "Q8_0 of llama.cpp: eight bits in groups of 32, after training."),
    (
        "activation",
        "ACTIVATION",
        "Weights rounded to nearest, and the inputs of every matrix rounded token by token while "
        "the model runs.",
    ),
    (
        "smoothquant",
        "SMOOTHQUANT",
        "As activation, after outliers of the inputs were moved into the weights "
        "(Xiao et al. 2023).",
    ),
    (
        "hadamard",
        "HADAMARD",
        "As activation, with inputs and weights rotated first, so that outliers spread.",
    ),
    ("cache", "CACHE", "Weights as they are; keys and values of the attention are rounded."),
    ("A", "A8, A4", "Bits of the inputs of every matrix."),
    ("KV", "KV8, KV4", "Bits of the keys and values that attention keeps."),
    (
        "W",
        "W2, W3, W4",
        "Nominal bits of a weight, by which forms are compared. Its share of scales and zero "
        "points comes on top: see bits per weight.",
    ),
    ("ternary", "ternary", "Weights of \N{MINUS SIGN}1, 0 or 1 times a scale: 1.58 bits."),
    ("row", "row", "One scale for each row of a weight matrix."),
    ("tensor", "tensor", "One scale for a whole weight matrix."),
    ("g", "g32 and the like", "One scale for each group of so many (32) weights of a row."),
    ("asym", "asym", "Asymmetric: a zero point beside each scale."),
    ("noclip", "noclip", "The scale reaches the largest weight; nothing is clipped."),
    ("absmax", "absmax", "The scale lets the largest weight, by size, have the outermost level."),
    (
        "symmetric",
        "symmetric",
        "The largest weight, by size, lies half a step outside: kept to compare with libraries.",
    ),
    ("absmean", "absmean", "The scale is the mean of the absolute weights."),
    (
        "floor",
        "floor",
        "The scale is a power of two: a quarter of the largest one that the group's largest weight "
        "reaches.",
    ),
    ("gaussian", "gaussian", "The scale is the best one for weights with a normal distribution."),
    ("learned", "learned", "The scale is trained with the weights."),
)

STATISTICS: Terms = [
    ("loss", "Validation loss in nats per token."),
    ("damage", "Loss of a form minus that of its own base (same seed and budget)."),
    (
        "paired",
        "Differences are taken sequence by sequence of one validation set, so that what is hard "
        "for both sides cancels. The error is that of the mean of these differences.",
    ),
    ("±", "One standard error, paired."),
    ("z", "A mean divided by its standard error."),
    ("KL", "How far predictions are from those of the base, nats per token."),
]
