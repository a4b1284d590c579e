"""How much of its parameters a precision leaves a model: effective parameters from final losses.

Panferov et al. 2502.05003 (QuEST), after Hoffmann et al. 2203.15556: a model of N parameters
trained on D tokens in a scheme P loses

    L = A / (N eff(P))^alpha + B / D^beta + E

nats per token, with eff = 1 for the unquantised scheme.  Fitted are the logarithms of A, B, E and
of every eff, by Huber's loss on log L.  The published runs are `quest_runs.csv` beside this file.
"""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from quantgrid import layout
from quantgrid.errors import DataFault

Numbers = npt.NDArray[np.float64]

SEVERAL_PASSES = re.compile(r"-s\d+-")
"""In the id of a base, what follows the seed tells passes and unique tokens (config/README.md)."""

UNQUANTISED = "bf16"
HUBER_WIDTH = 1e-3
"""Residuals of log L beyond this count linearly, as in QuEST's and Hoffmann's fits."""
STARTS = tuple((a, b, e) for a in (5.0, 15.0) for b in (5.0, 15.0) for e in (0.0, 0.5))
"""Logarithms of A, B and E from which the search starts; the best end is kept."""


def is_counted(row: Mapping[str, str]) -> bool:
    """Whether a law takes a row: where its table has verdicts, VALID ones alone."""
    return row.get("verdict") in {None, "", "VALID"}


@dataclass(frozen=True, slots=True)
class Run:
    """A trained model: its scheme, parameters without embeddings, tokens, and loss in nats."""

    scheme: str
    parameters: float
    tokens: float
    loss: float


@dataclass(frozen=True, slots=True)
class ScalingLaw:
    """The fitted law; `rmse` is that of losses in nats per token over the runs fitted."""

    a: float
    alpha: float
    b: float
    beta: float
    e: float
    efficiency: dict[str, float]
    rmse: float

    def loss(self, scheme: str, parameters: float, tokens: float) -> float:
        """Nats per token that the law predicts."""
        effective = parameters * self.efficiency[scheme]
        return float(self.a / effective**self.alpha + self.b / tokens**self.beta + self.e)


def published_runs() -> list[Run]:
    """QuEST's runs."""
    text = files(__package__ or "").joinpath(layout.QUEST_RUNS).read_text(encoding="utf-8")
    return parse_runs(text.splitlines(), where=layout.QUEST_RUNS)


def parse_runs(lines: Iterable[str], *, where: str, unquantised: str = UNQUANTISED) -> list[Run]:
    """Runs from a CSV: either of `scheme, parameters, tokens, loss`, or a table of a grid.

    Lines that start with # are remarks.  Of a grid's table, the variant is the scheme, and bases
    that see tokens more than once are left out: the law is of fresh ones.  So are rows that have a
    verdict other than VALID.

    Raises:
        DataFault: when a column is missing or a number is none.
    """
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    names = rows.fieldnames or []
    scheme = "scheme" if "scheme" in names else "variant"
    tokens = "tokens_seen" if "tokens_seen" in names else "tokens"
    try:
        return [
            Run(
                UNQUANTISED if row[scheme] == unquantised else row[scheme],
                float(row["parameters"]),
                float(row[tokens]),
                float(row["loss"]),
            )
            for row in rows
            if not SEVERAL_PASSES.search(row.get("base", "")) and is_counted(row)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DataFault(
            "this is no table of runs",
            expected="columns scheme (or variant), parameters, tokens and loss, with numbers",
            seen=f"{type(error).__name__}: {error}",
            where=where,
        ) from error


def fit(runs: Sequence[Run]) -> ScalingLaw:
    """The law of least Huber loss over some runs.

    Raises:
        DataFault: when the runs cannot fix it: fewer than two sizes, two lengths, or two runs more
            than there are constants, or no unquantised ones.
    """
    from scipy.optimize import least_squares  # half a second, and only fits need it

    schemes = sorted({run.scheme for run in runs} - {UNQUANTISED})
    _require_enough(runs, num_constants=5 + len(schemes))
    log_N, log_D, log_L = (
        np.log([getattr(run, name) for run in runs]) for name in ("parameters", "tokens", "loss")
    )
    which = np.array([schemes.index(r.scheme) + 1 if r.scheme in schemes else 0 for r in runs])

    def log_loss(x: Numbers) -> Numbers:
        log_eff = np.concatenate([[0.0], x[5:]])[which]
        size = np.exp(x[0] - x[1] * (log_N + log_eff))
        return np.asarray(np.log(size + np.exp(x[2] - x[3] * log_D) + np.exp(x[4])))

    found = [
        least_squares(
            lambda x: log_loss(x) - log_L,
            [a, 0.4, b, 0.4, e, *[-0.5] * len(schemes)],
            loss="huber",
            f_scale=HUBER_WIDTH,
        )
        for a, b, e in STARTS
    ]
    x = min(found, key=lambda each: float(each.cost)).x
    rmse = math.sqrt(float(np.mean((np.exp(log_loss(x)) - np.exp(log_L)) ** 2)))
    efficiency = dict(zip(schemes, np.exp(x[5:]).tolist(), strict=True)) | {UNQUANTISED: 1.0}
    a, b, e = (math.exp(float(x[place])) for place in (0, 2, 4))
    return ScalingLaw(a, float(x[1]), b, float(x[3]), e, efficiency, rmse)


def _require_enough(runs: Sequence[Run], *, num_constants: int) -> None:
    seen = {
        "sizes": len({run.parameters for run in runs}),
        "lengths": len({run.tokens for run in runs}),
        "unquantised": sum(run.scheme == UNQUANTISED for run in runs),
        "runs": len(runs),
    }
    least = {"sizes": 2, "lengths": 2, "unquantised": 1, "runs": num_constants + 2}
    if any(seen[name] < number for name, number in least.items()):
        raise DataFault(
            "these runs do not fix a scaling law",
            expected=", ".join(f"{number} {name}" for name, number in least.items()) + " or more",
            seen=", ".join(f"{number} {name}" for name, number in seen.items()),
            do="Leave schemes out, or add models of other sizes and lengths.",
        )
