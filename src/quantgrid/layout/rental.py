"""Paths of rented machines in a working copy."""

import re

__all__ = ["is_clearance"]

_CLEARANCE = re.compile(r"receipts/screens/[^/]+/clearance\.[0-9a-f]{64}\.json")


def is_clearance(path: str) -> bool:
    """Whether a file of the working copy is the clearance of a grid."""
    return _CLEARANCE.fullmatch(path) is not None
