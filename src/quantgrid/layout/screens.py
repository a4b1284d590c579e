"""Paths of the screens, and keys of what somebody was told."""

__all__ = [
    "BUDGET",
    "CLEARANCE",
    "COMPILED",
    "NOTICES",
    "NOTICE_BEGUN",
    "NOTICE_PLACE",
    "NOTICE_TOLD",
    "PROBED",
    "SMOKED",
    "SPARE_VOLUME",
    "notice_key",
]

# -- screens: what was looked at before money is spent --------------------------------------------

COMPILED = "receipts/screens/{grid}/compile.{fp}.json"
SMOKED = "receipts/screens/smoke.{fp}.json"
PROBED = "receipts/screens/probe/{probe}.{fp}.json"
BUDGET = "receipts/screens/{grid}/budget.{fp}.json"
CLEARANCE = "receipts/screens/{grid}/clearance.{fp}.json"
SPARE_VOLUME = "spare"
"""In a screen's scratch folder: the volume of its tiny cell."""

# -- notices: where to look for whom to tell ------------------------------------------------------

NOTICE_PLACE = "work/notices.json"

# -- what somebody was told: keys of the store ----------------------------------------------------

NOTICES = "notices"
NOTICE_TOLD = "told"
NOTICE_BEGUN = "begun-{:06d}"


def notice_key(event: str, part: str = "") -> str:
    """The key of a part of a notice, or the prefix of all of them."""
    return f"{NOTICES}/{event}/{part}".rstrip("/")
