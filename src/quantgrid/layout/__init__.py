"""Every path and wildcard of the project; nothing else spells one.

Three roots: the working copy (rule files, relative to Snakemake's working directory), the archive
(keys of the store) and the volume (corpora).  `docs/formats/layout.md` shows them as trees.
"""

import re
from hashlib import sha256
from pathlib import Path

from quantgrid.layout.inside import *  # noqa: F403
from quantgrid.layout.mirror import *  # noqa: F403
from quantgrid.layout.own import *  # noqa: F403 - one name space, in files of readable size
from quantgrid.layout.rental import *  # noqa: F403
from quantgrid.layout.screens import *  # noqa: F403
from quantgrid.layout.slurm import *  # noqa: F403

# -- wildcards: ids, never settings ---------------------------------------------------------------

WILDCARDS = {
    "grid": "[A-Za-z0-9_-]+",
    "corpus": "[A-Za-z0-9_-]+",
    "trunk": "[^/]+",
    "milestone": r"\d+",
    "base": "[^/]+",
    "variant": "[^/.]+",
    "fp": "[0-9a-f]{64}",
    "plot": "[a-z-]+",
    "probe": "[^/]+",
}

# -- working copy: what rules read and write ------------------------------------------------------

PREPARED = "receipts/corpus/{corpus}/prepared.{fp}.json"
SENTINEL = "receipts/corpus/{corpus}/sealed.{fp}.json"
TRUNK_RECEIPT = "receipts/trunk/{trunk}/{milestone}.{fp}.json"
CELL_RECEIPT = "receipts/cell/{base}/{variant}.{fp}.json"
EVALUATION_RECEIPT = "receipts/evaluation/{base}/{variant}.{fp}.json"
RESULT = "results/{base}/{variant}/result.json"
TABLE = "results/{grid}.csv"
LAWS = "results/{grid}-laws.csv"
PLOT = "results/{grid}-{plot}.svg"
PLOTS = {plot: PLOT.replace("{plot}", plot) for plot in ("bits", "damage", "size")}
PAGE = "results/{grid}.html"
QUEST_RUNS = "quest_runs.csv"
MEASURED_DAMAGE = "measured_damage.csv"
PAGE_SOURCES = ("page.j2", "page.css", "page.js")
WANTED = "plan/{grid}.json"
RESTORE = "plan/restore/{base}/{variant}.{fp}.json"
LEDGER = "ledger.csv"

PUBLISHED = ("receipts", "results", "plan", "failures")
RESULTS = "results"
RESULT_FILES = "results/*/*/result.json"
VERDICT = "results/{base}/{variant}/verdict.json"
WORK = "work"
ATTEMPTS = "work/attempts"
HOLDERS = "work/holders"
GPU_LOCKS = "/tmp/quantgrid-gpus"  # noqa: S108 - a machine's GPUs are shared by all users of it
GPU_DOOR = "door"
GPU_UNIT = "{uuid}.{unit:02d}"
ATTEMPTS_LOCK = "work/attempts.lock"
BLOB_CACHE = "work/blobs"
STORE_FACTS = "work/stores"
WAITING = "work/waiting"
PULLED = "pulled"
PROGRESS = "work/progress"
CONTROLLER_LOCK = "work/controller.lock"
LAUNCH_LOCK = "work/launch.lock"
CONTROLLER_GATE = "work/controller.gate"
CONTROLLERS = "work/controller"
CONTROLLER_NOW = "work/controller/now.json"
CONTROLLER_LOGS = "logs/controller"
CONTROLLER_FILES = "[0-9]*"
LEDGER_LOCK = "work/ledger.lock"
COPY_ID = "work/copy.id"
"""Random, made at first use: with its place it tells this working copy from every other."""
FAILURES = "failures"


def store_facts(address: str) -> str:
    """The file that says what was found out about a store: whether it honours conditions."""
    return f"{sha256(address.encode()).hexdigest()[:16]}.json"


def log_of(output: str) -> str:
    """The log of the rule that writes `output`."""
    folder, _, name = output.rpartition("/")
    return f"logs/{folder}/{name.rpartition('.')[0]}.log"


def progress_file(output: str) -> str:
    """Where the job that writes `output` says how far it is; with suffix `.end`, how it ended."""
    return f"{PROGRESS}/{output.replace('/', '~')}.json"


def controller_log(controller: str) -> str:
    """What a detached controller says, and one whose terminal was closed."""
    return f"{CONTROLLER_LOGS}/{controller}.log"


def controller_end(controller: str) -> str:
    """Where its supervisor says how a controller ended."""
    return f"{CONTROLLERS}/{controller}.json"


def failure_file(owner: str, stage: str, fingerprint: str) -> str:
    """The latest failure of a stage."""
    return f"{FAILURES}/{owner}/{stage}.{fingerprint[:16]}.json"


# -- an attempt: the private folder of one job, with a desk for each stage -------------------------

ATTEMPT_LOCK = "lock"
ATTEMPT_SPARE = "spare"
DESK_OUT = "out"
DESK_RESULT = "result.json"
DESK_SPEC = "spec.json"
DESK_PARENTS = "parents.json"
DESK_CONTRACT = "contract.json"
DESK_METRICS = "metrics.jsonl"
WATCH_FILE, STATE_REPLAY, STATE_QUARANTINE = "watch.json", "replay.json", "quarantine.json"
DESK_NOTICE = "notice.json"


def desk(attempt: Path, number: int, stage: str) -> Path:
    """The folder of a stage within an attempt."""
    return attempt / f"{number}-{stage}"


# -- finished work that waits for its archive -----------------------------------------------------

WAITING_BODY = "record.json"
WAITING_FILES = "files"


def waiting_folder(root: Path, key: str) -> Path:
    """Where the record of a key waits, with its files."""
    return root / WAITING / key.removesuffix(f"/{RECORD_FILE}").replace("/", "~")


# -- checkpoints: what the folder of a stage's state holds ----------------------------------------

_CHECKPOINT = re.compile(r"(\d{15})-([0-9a-f]{64})\.safetensors")


def checkpoint_name(tokens: int, sha256: str) -> str:
    """The file of a checkpoint; names sort by tokens, and say what the bytes have to be."""
    return f"{tokens:015d}-{sha256}.safetensors"


def find_checkpoint(name: str) -> tuple[int, str] | None:
    """Tokens and sha256 in the name of a checkpoint; None for another name."""
    found = _CHECKPOINT.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


# -- configuration --------------------------------------------------------------------------------

SNAKEFILE = "Snakefile"
RULES_END = frozenset({"", ".smk"})
"""How files of rules end."""

CONFIG = "config/config.yaml"
SCHEMAS = "config/schemas"
EQUIVALENCES = "config/equivalences.yaml"
SECTIONS = {
    "grid": "config/grids",
    "corpus": "config/corpora",
    "model": "config/models",
    "platform": "config/platforms",
    "device": "config/devices",
}


def section_file(root: Path, section: str, name: str) -> Path:
    """The file that describes one grid, corpus, model or platform."""
    return root / SECTIONS[section] / f"{name}.yaml"


def schema_file(root: Path, section: str) -> Path:
    """The JSON schema of one section of the configuration."""
    return root / SCHEMAS / f"{section}.schema.yaml"


def pins_file(root: Path, corpus: str) -> Path:
    """The digests of a corpus's texts, in the format of sha256sum."""
    return root / SECTIONS["corpus"] / f"{corpus}.sha256"


def tokeniser_pins(root: Path, corpus: str) -> Path:
    """The digests of the files of a corpus's vocabulary, in the format of sha256sum."""
    return root / SECTIONS["corpus"] / f"{corpus}.tokeniser.sha256"


GPT2_FILES = ("vocab.json", "merges.txt")
"""GPT-2's vocabulary, as its owner publishes it."""
JSON_LINES, PARQUET, ARROW = ".jsonl", ".parquet", ".arrow"
COMPRESSED = (".gz", ".dz")
"""Ends of the names of files that are not text as they are."""


def tokeniser_file(root: Path, corpus: str) -> Path:
    """A vocabulary that was trained on a corpus, as `tokenizers` writes it."""
    return root / SECTIONS["corpus"] / f"{corpus}.tokeniser.json"


# -- code -----------------------------------------------------------------------------------------


def script(root: Path, stage: str) -> Path:
    """The script of a stage."""
    return root / "scripts" / f"{stage}.py"


def code_of(script_: Path) -> Path:
    """The folder of the Snakefile that a script belongs to."""
    return script_.parents[1]


def source_root(root: Path) -> Path:
    """The folder that holds the packages."""
    return root / "src"


def method_module(root: Path, method: str) -> Path:
    """The science module of a method."""
    return root / "src" / "quantlm" / "methods" / f"{method}.py"


CODE_PARTS = ("scripts", "src/quantlm")
"""The science of a source tree."""
CONFIG_PARTS = ("config",)
WORKFLOW_PARTS = ("Snakefile", "rules", "profiles", "envs", "docs/report")
"""What Snakemake reads of a source tree beside its configuration and science."""
LOCAL_PROFILE = "profiles/local"


def scratch_tree(folder: Path, role: str) -> Path:
    """A temporary source tree that is compared with others."""
    return folder / role


def scratch_archive(root: Path) -> Path:
    """The archive of a temporary source tree."""
    return root / "archive"


def scratch_volume(root: Path) -> Path:
    """The volume of a temporary source tree."""
    return root / "volume"


# -- archive keys ---------------------------------------------------------------------------------

ARCHIVE_IDENTITY = "archive.json"
INCOMING = ".incoming"
STORE_PROBES = "probe"
INDEX = "index"
INDEX_BEGUN = "index/begun"
INDEX_DONE = "index/done"
INDEX_PACKS = "index/packs"
BLOBS = "blobs"
VERDICT_KEY = "verdicts/{cell}/{fp}/{number:06d}.json"
RECORD_KINDS = ("trunks", "weights", "cells")
RECORD_FILE = "record.json"


def record_key(kind: str, owner: str, fingerprint: str) -> str:
    """The key of a record of a kind; the owner is `<trunk>/<milestone>` or a cell id."""
    return f"{kind}/{owner}/{fingerprint}/{RECORD_FILE}"


def owner_of(key: str) -> str:
    """The owner in the key of a record."""
    return key.partition("/")[2].rsplit("/", 2)[0]


def fingerprint_of(key: str) -> str:
    """The fingerprint in the key of a record."""
    return key.rsplit("/", 2)[1]


def is_record(key: str) -> bool:
    """Whether a key has the shape of `record_key`; an owner has two parts."""
    return key.count("/") == 4 and key.endswith(f"/{RECORD_FILE}")


def index_pack(number: int) -> str:
    """The key of a pack of the index."""
    return f"{INDEX_PACKS}/{number:08d}.json.z"


def number_of_pack(key: str) -> int | None:
    """The number in the key of a pack, None for anything else."""
    name = key.removeprefix(f"{INDEX_PACKS}/").removesuffix(".json.z")
    return int(name) if name.isdecimal() and key == index_pack(int(name)) else None


def blob_key(sha256: str) -> str:
    """The key of a blob."""
    return f"{BLOBS}/{sha256}"


HOLDS = "holds"
HOLD_CLAIM = "claim"
HOLD_OVER = "over"
HOLD_BEAT = "beat-{:012d}"


def hold_key(fingerprint: str, token: int, part: str) -> str:
    """The key of a part of a hold: its claim, a beat, or its end."""
    return f"{HOLDS}/{fingerprint}.{token:06d}.{part}"


def hold_parts(key: str) -> tuple[str, int, str]:
    """Fingerprint, token and part in a key of a hold; token 0 for a key that is none."""
    fingerprint, _, rest = key.rpartition("/")[2].partition(".")
    token, _, part = rest.partition(".")
    return fingerprint, int(token) if token.isdigit() else 0, part


# -- the register of rented machines: keys of the store --------------------------------------------


def rental_key(part: str, *words: str) -> str:
    """A key of a part of the register, or the part itself; words have no dots."""
    return "/".join(("rental", part, *(".".join(words),) * bool(words)))


def rental_words(key: str) -> list[str]:
    """The words of a key of the register."""
    return key.rpartition("/")[2].split(".")


# -- volume ---------------------------------------------------------------------------------------

VOLUME_IDENTITY = ".volume.json"
VOLUME_PARTS = ("corpora", "state")
CORPUS_PLAN = "plan.json"
CORPUS_MANIFEST = "manifest.json"
VALIDATION_SHARD = "validation.npy"
STATE = "state"


def shard_name(index: int) -> str:
    """A training shard, as in `volume/corpora/shakespeare-0123456789abcdef/shard-00000.npy`."""
    return f"shard-{index:05d}.npy"


def state_folder(volume: Path, owner: str, stage: str, fingerprint: str) -> Path:
    """What outlives the attempts of a stage; the first digits keep two fingerprints apart."""
    return volume / STATE / owner / f"{stage}.{fingerprint[:16]}"


def state_parts(path: str) -> tuple[str, str, str]:
    """Folder, owner and fingerprint's digits of a path of state, on a volume or in a store."""
    words = path.split("/")[:4]
    return "/".join(words), "/".join(words[1:3]), words[-1].rpartition(".")[2]


def link_file(state: Path) -> Path:
    """Where a script tells of its newest checkpoint; beside the state, which is the script's."""
    return state.with_name(f"{state.name}.link.json")


def links_file(state: Path) -> Path:
    """The links of a resume chain so far."""
    return state.with_name(f"{state.name}.links.json")


def volume_probe(token: str) -> str:
    """The file by which a volume is tried; its token is unique."""
    return f".probe-{token}"


def corpus_folder(volume: Path, corpus: str, recipe: str) -> Path:
    """The folder of a corpus on a volume; the recipe's first digits keep two recipes apart."""
    return volume / "corpora" / f"{corpus}-{recipe[:16]}"


def volume_of(corpus: Path) -> Path:
    """The volume that a corpus folder lies on."""
    return corpus.parent.parent


# -- the machine ----------------------------------------------------------------------------------

PROCESSES = "/proc"
PROCESS = "[0-9]*"
OPEN_FILES = "fd"
OPEN_FACTS = "fdinfo"
