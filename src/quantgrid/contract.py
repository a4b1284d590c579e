"""The cell contract: what the runner tells a script, in any language, and what it expects back.

The runner starts a script in a private working directory with the variables of `TABLE`.  The
script writes whole files into `QG_OUT`, then names them in `QG_RESULT`; its exit code is one of
`errors`.  `docs/formats/contract.md` is generated from this table.
"""

from typing import NamedTuple

from quantgrid import CONTRACT_VERSION


class Variable(NamedTuple):
    """One environment variable of the contract."""

    name: str
    meaning: str
    example: str


CONTRACT = "QG_CONTRACT"
CELL = "QG_CELL"
STAGE = "QG_STAGE"
FINGERPRINT = "QG_FINGERPRINT"
SPEC = "QG_SPEC"
PARENTS = "QG_PARENTS"
CORPUS = "QG_CORPUS"
SENTINEL = "QG_SENTINEL"
WORK = "QG_WORK"
OUT = "QG_OUT"
RESULT = "QG_RESULT"
STATE = "QG_STATE"
LINK = "QG_LINK"
PROGRESS = "QG_PROGRESS"
METRICS = "QG_METRICS"
DEVICE = "QG_DEVICE"
THREADS = "QG_THREADS"
SEED = "QG_SEED"
DEADLINE = "QG_DEADLINE_S"
GRACE = "QG_GRACE_S"
INTERRUPTION = "QG_INTERRUPTION_S"
ATTEMPT = "QG_ATTEMPT"
WATCH = "QG_WATCH"

ENDS_AT = "QG_ENDS_AT_MONOTONIC_S"
"""Not a part of the contract: the deadline on this host's monotonic clock, from which each script
gets the seconds that are left when it starts."""

WARM = "QG_WARM"
"""Not a part of the contract: tells runners where their controller keeps an interpreter warm."""

TABLE = (
    Variable(CONTRACT, "version of this table", str(CONTRACT_VERSION)),
    Variable(CELL, "id of the cell or milestone", "n0-t800k-s0/none"),
    Variable(STAGE, "what is asked: trunk, cooldown, quantise, qat, evaluate", "cooldown"),
    Variable(FINGERPRINT, "sha256 of what is asked; state of another one is refused", "64 hex"),
    Variable(SPEC, "JSON file with the resolved spec of the stage", "/w/a1/spec.json"),
    Variable(
        PARENTS, "JSON file: role -> file name -> path of verified bytes", "/w/a1/parents.json"
    ),
    Variable(CORPUS, "folder of the corpus in this view; empty if none", "/volume/corpora/x"),
    Variable(
        SENTINEL,
        "path of the sentinel that vouches for the corpus; empty if none",
        "/r/sealed.json",
    ),
    Variable(WORK, "private working directory of this attempt", "/w/a1"),
    Variable(OUT, "folder for the files that are to be deposited", "/w/a1/out"),
    Variable(
        RESULT,
        "where to write the JSON that names files and results, last of all",
        "/w/a1/result.json",
    ),
    Variable(
        STATE,
        "folder that outlives the attempt, made by whoever needs it: checkpoints",
        "/volume/state/n0-s0/800k/trunk.0123456789abcdef",
    ),
    Variable(
        LINK,
        "JSON file that the script replaces whole at each save, so that a killed link tells too: "
        "`tokens`, `checkpoint` (name of the newest), `saves`, `save_s`, `stall_s`",
        "/volume/state/n0-s0/800k/trunk.0123456789abcdef.link.json",
    ),
    Variable(
        PROGRESS,
        "JSON file that the script may replace at any time: step, steps, loss",
        "/w/p/1.json",
    ),
    Variable(METRICS, "JSON lines that the script may append to", "/w/a1/metrics.jsonl"),
    Variable(DEVICE, "device to use", "cpu"),
    Variable(THREADS, "threads to use", "1"),
    Variable(SEED, "seed of the cell", "0"),
    Variable(
        DEADLINE,
        "seconds from the start of this script until the runner sends SIGTERM; empty if never",
        "86340",
    ),
    Variable(GRACE, "seconds between SIGTERM and SIGKILL", "30"),
    Variable(
        INTERRUPTION,
        "mean seconds between two interruptions here; empty if unknown",
        "14400",
    ),
    Variable(
        WATCH,
        "JSON for `quantgrid.watch`: `policy` (rule -> stop or record), `tokens_per_s` of a "
        "probe by model, `stall_s`; empty for what is usual",
        '{"policy": {"rise": "stop"}}',
    ),
    Variable(ATTEMPT, "unique id of this attempt", "20261130T120000-4711-9f3a"),
)
