"""Paths inside a rented machine: its private folder, and what it leaves on the volume."""

from pathlib import Path

__all__ = ["MOUNT_WAITING", "copy_folder", "said_file"]

MOUNT_WAITING = "waiting"
"""On the volume: finished work that could not be deposited, of all working copies there."""


def copy_folder(work: Path, bundle: str) -> Path:
    """The working copy with the files of a bundle; the one of no bundle is empty at first."""
    return work / "copies" / (bundle[:16] or "none")


def said_file(root: Path, log: str) -> Path:
    """What a task says; of one without a log, beside everything else."""
    return root / (log or "said")
