"""Paths of rented machines in a working copy."""

import re

__all__ = ["COORDINATOR", "COORDINATOR_LOG", "CORPUS_RECEIPTS", "is_clearance", "profile"]

COORDINATOR = "work/coordinator.json"
"""Says where a coordinator was launched, until its end was seen."""
COORDINATOR_LOG = "logs/coordinator.log"
CORPUS_RECEIPTS = "receipts/corpus"

_CLEARANCE = re.compile(r"receipts/screens/[^/]+/clearance\.[0-9a-f]{64}\.json")


def is_clearance(path: str) -> bool:
    """Whether a file of the working copy is the clearance of a grid."""
    return _CLEARANCE.fullmatch(path) is not None


def profile(platform: str) -> str:
    """The folder of the Snakemake profile of a platform."""
    return f"profiles/{platform}"
