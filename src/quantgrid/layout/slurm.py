"""Paths of what is submitted to SLURM: both ends of a submission write in the working copy."""

__all__ = ["SLURM", "SLURM_PROFILE", "slurm_file", "slurm_log", "subject_name"]

# -- submissions to SLURM -------------------------------------------------------------------------

SLURM = "work/slurm"
SLURM_PROFILE = "profiles/slurm/profile.yaml"


def slurm_file(subject: str, part: str) -> str:
    """A file of a subject's submissions: its ledger, or the start or end of one of them."""
    return f"{SLURM}/{subject.replace('/', '~')}.{part}"


def slurm_log(subject: str, token: str) -> str:
    """What SLURM itself, and the shell of a submission, have to say."""
    return f"logs/slurm/{subject.replace('/', '~')}.{token}.log"


def subject_name(subject: str) -> str:
    """What a person is told of an output: its owner, without folder and fingerprint."""
    stem = subject.removesuffix(".json").removeprefix("receipts/")
    return stem.rpartition(".")[0] or stem
