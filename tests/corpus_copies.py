"""Copies of a corpus from one volume onto another, in part or whole."""

import shutil
from contextlib import suppress
from pathlib import Path

from quantgrid import layout
from small_corpus import SmallCorpus


def bring(source: SmallCorpus, target: SmallCorpus, *, num_shards: int) -> None:
    """Copy the identity, the records and the first shards; with the sixth the validation set."""
    target.folder.mkdir(parents=True, exist_ok=True)
    paths = [source.shard(index) for index in range(num_shards)]
    paths += [source.folder / name for name in (layout.CORPUS_PLAN, layout.CORPUS_MANIFEST)]
    paths += [source.folder / layout.VALIDATION_SHARD] if num_shards == 6 else []
    copies = {path: target.folder / path.name for path in paths}
    copies[source.volume / layout.VOLUME_IDENTITY] = target.volume / layout.VOLUME_IDENTITY
    for path, copy in copies.items():
        if not copy.exists():
            shutil.copyfile(path, copy)


def names(folder: Path) -> list[str]:
    """What a folder holds, sorted; nothing when it is not there."""
    with suppress(OSError):
        return sorted(path.name for path in folder.iterdir())
    return []
