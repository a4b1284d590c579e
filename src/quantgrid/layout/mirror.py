"""Keys and paths of state that is mirrored to a store, so that a cell can go on elsewhere."""

from pathlib import Path

from quantgrid.layout.own import OWN_KEPT

__all__ = [
    "incoming_state",
    "kept_folder",
    "mirror_blob",
    "mirror_folder",
    "mirror_list",
    "mirrors",
]

_LIST = ".json"


def mirror_folder(owner: str, stage: str, fingerprint: str) -> str:
    """Where the mirrored state of a stage lies in a store: as on a volume."""
    return f"state/{owner}/{stage}.{fingerprint[:16]}"


def mirror_blob(folder: str, sha256: str) -> str:
    """The key of a mirrored file."""
    return f"{folder}/{sha256}"


def mirror_list(folder: str, number: int) -> str:
    """The key of what vouches for a mirrored checkpoint: its files with their digests."""
    return f"{folder}/{number:06d}{_LIST}"


def mirrors(keys: list[str]) -> list[tuple[int, str]]:
    """Number and key of every such list among keys, newest first."""
    names = [(key.rpartition("/")[2].removesuffix(_LIST), key) for key in keys]
    found = [(name, key) for name, key in names if key.endswith(_LIST) and name.isdigit()]
    return sorted(((int(name), key) for name, key in found), reverse=True)


def kept_folder(state: Path, checkpoint: str) -> Path:
    """Where the state of somebody's own program keeps a checkpoint that it told."""
    return state / OWN_KEPT / checkpoint


def incoming_state(state: Path) -> Path:
    """Where a state is put together before it takes its place."""
    return state.with_name(f"{state.name}.incoming")
