"""Paths of the screens, and keys of what somebody was told."""

from pathlib import Path

__all__ = [
    "BUDGET",
    "CLEARANCE",
    "COMPILED",
    "NOTICES",
    "NOTICE_BEGUN",
    "NOTICE_PLACE",
    "NOTICE_TOLD",
    "PROBED",
    "SCREENS_WORK",
    "SCREEN_LOG",
    "SCREEN_LOGS",
    "SMOKED",
    "notice_key",
    "runner_module",
    "screen_log",
    "screen_receipt",
]

# -- screens: what was looked at before money is spent --------------------------------------------

COMPILED = "receipts/screens/{grid}/compile.{fp}.json"
SMOKED = "receipts/screens/smoke.{fp}.json"
PROBED = "receipts/screens/probe/{probe}.{fp}.json"
BUDGET = "receipts/screens/{grid}/budget.{fp}.json"
CLEARANCE = "receipts/screens/{grid}/clearance.{fp}.json"
SCREENS_WORK = "work/screens"
SCREEN_LOG = "screen.log"
SCREEN_LOGS = "*.log"


def screen_receipt(name: str) -> str:
    """The receipt of a tiny cell."""
    return f"{name}.json"


def screen_log(name: str) -> str:
    """What the runner of a tiny cell says."""
    return f"{name}.log"


def runner_module(root: Path) -> Path:
    """The program that runs cells, where a source tree has it."""
    return root / "src" / "quantgrid" / "commands" / "run.py"


# -- notices: where to look for whom to tell ------------------------------------------------------

NOTICE_PLACE = "work/notices.json"

# -- what somebody was told: keys of the store ----------------------------------------------------

NOTICES = "notices"
NOTICE_TOLD = "told"
NOTICE_BEGUN = "begun-{:06d}"


def notice_key(event: str, part: str = "") -> str:
    """The key of a part of a notice, or the prefix of all of them."""
    return f"{NOTICES}/{event}/{part}".rstrip("/")
