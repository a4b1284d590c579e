"""The newest checkpoint of a stage in a store, so that another machine can go on from it.

Files are kept by their sha256, and a list that is put last vouches for them: a mirror that was
interrupted anywhere leaves the one before.  Everything lies in the store's deletable area, where
`quantgrid archive gc` finds what a result has made useless.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from quantgrid import atomic, layout, links
from quantgrid.fingerprint import digest_file
from quantgrid.store import Store

SCHEMA = "quantgrid/mirror"
VERSION = 1
GENERATIONS = 2
"""One more than is needed: whoever goes on from the last one is reading it."""


class Found(NamedTuple):
    """A mirrored checkpoint: the key of its list, and what that says."""

    key: str
    facts: Mapping[str, Any]

    @property
    def age(self) -> tuple[int, int]:
        """How far it is: tokens, then links."""
        return _age(self.facts["told"], self.facts["links"])


class Mirror(NamedTuple):
    """The mirrored state of one stage.

    Args:
        store: Where it lies.
        owner: Id of the cell, or of the milestone.
        stage: Name of the stage.
        fingerprint: Whose it is.
        cache: A private folder for files that are fetched.
    """

    store: Store
    owner: str
    stage: str
    fingerprint: str
    cache: Path

    def save(self, state: Path, fence: Callable[[], None] = lambda: None) -> Found | None:
        """Put the newest checkpoint of a state into the store, with its links.

        Args:
            state: The folder of the state; what is written to it meanwhile is not mirrored torn.
            fence: Called right before the list is put; raises when it must not be.

        Returns:
            What was put; None when there is no checkpoint, or it went while it was read.

        Raises:
            QuantgridError: when the store does not take it, or the fence refuses.
        """
        told, files = links.find_told(state), _newest_files(state)
        digests = {name: _digest(path) for name, path in files.items()}
        if not files or None in digests.values():
            return None
        keys = self._keys()
        for name, path in files.items():
            key = layout.mirror_blob(self._folder, str(digests[name]))
            if key not in keys and not self._put(key, path):
                return None
        if any(_digest(path) != digests[name] for name, path in files.items()):
            self._take_back(set(digests.values()), keys)
            return None
        facts = {
            "schema": SCHEMA,
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "files": digests,
            "told": told,
            "links": [dict(each) for each in links.peek(state)],
        }
        fence()
        number = max((each for each, _ in layout.mirrors(keys)), default=0) + 1
        key = layout.mirror_list(self._folder, number)
        if not self.store.put_once(key, atomic.json_bytes(facts)):
            return None  # somebody else was there first, and is further
        self._thin()
        return Found(key, facts)

    def all_of(self) -> list[Found]:
        """The mirrored checkpoints, the furthest first."""
        found = filter(None, (self._read(key) for _, key in layout.mirrors(self._keys())))
        return sorted(found, key=lambda each: (*each.age, each.key), reverse=True)

    def restore(self, state: Path) -> str | None:
        """Put the mirrored checkpoint in the place of a state that is not as far.

        Returns:
            The key that it came from; None when nothing better than what is here is mirrored.
        """
        here = _age(links.find_told(state), links.peek(state)) if _newest_files(state) else (-1, -1)
        for found in self.all_of():
            if found.age <= here:
                return None
            if self._fetch(found, layout.incoming_state(state)):
                _replace(state, found)
                return found.key
        return None

    def clear(self) -> None:
        """Remove all of it: a result needs no state."""
        for key in self._keys():
            self.store.delete(key)

    @property
    def _folder(self) -> str:
        return layout.mirror_folder(self.owner, self.stage, self.fingerprint)

    def _keys(self) -> list[str]:
        return sorted(self.store.list(self._folder))

    def _put(self, key: str, path: Path) -> bool:
        try:
            self.store.put_file_once(key, path)
        except FileNotFoundError:  # a newer checkpoint took its place
            return False
        return True

    def _take_back(self, digests: set[str | None], before: list[str]) -> None:
        """Remove files that changed while they were put: their names would lie."""
        for sha256 in digests:
            key = layout.mirror_blob(self._folder, str(sha256))
            if key not in before:
                self.store.delete(key)

    def _fetch(self, found: Found, folder: Path) -> bool:
        """Put the files of a mirrored checkpoint into an empty folder; whether all are whole."""
        import shutil  # loads three compressors, and most jobs go on from nothing

        shutil.rmtree(folder, ignore_errors=True)
        for name, sha256 in found.facts["files"].items():
            try:
                source = self.store.fetch(layout.mirror_blob(self._folder, sha256), self.cache)
            except KeyError:
                return False
            if _digest(source) != sha256:
                return False
            with atomic.writing(folder / name) as file, source.open("rb") as reader:
                shutil.copyfileobj(reader, file, 1 << 20)
        return True

    def _read(self, key: str) -> Found | None:
        with suppress(ValueError, KeyError, TypeError):
            facts = json.loads(self.store.find(key) or b"")
            is_ours = facts["schema"] == SCHEMA and facts["version"] <= VERSION
            if is_ours and facts["fingerprint"] == self.fingerprint:
                return Found(key, {**facts, "told": links.checked(facts["told"])})
        return None

    def _thin(self) -> None:
        """Keep the last lists and their files."""
        keys = self._keys()
        lists = [key for _, key in layout.mirrors(keys)]
        kept = [each for each in map(self._read, lists[:GENERATIONS]) if each]
        blobs = {
            layout.mirror_blob(self._folder, sha256)
            for each in kept
            for sha256 in each.facts["files"].values()
        }
        for key in set(keys) - blobs - set(lists[:GENERATIONS]):
            self.store.delete(key)


def _age(told: Mapping[str, Any], chain: Iterable[links.Link]) -> tuple[int, int]:
    return int(told.get("tokens", 0)), len(list(chain))


def _replace(state: Path, found: Found) -> None:
    """Let what was fetched take the place of a state, its links and what was told of it."""
    import shutil

    shutil.rmtree(state, ignore_errors=True)
    layout.incoming_state(state).rename(state)
    atomic.sync_folder(state.parent)
    atomic.publish_json(layout.links_file(state), found.facts["links"])
    atomic.publish_json(layout.link_file(state), found.facts["told"])


def _newest_files(state: Path) -> dict[str, Path]:
    """Name in the state -> path of what the next link needs: the checkpoint told, else all."""
    checkpoint = links.find_told(state).get("checkpoint")
    with suppress(OSError, ValueError):  # told, but no name of a file
        if checkpoint and (state / checkpoint).is_file():
            return {checkpoint: state / checkpoint}
    kept = layout.kept_folder(state, checkpoint) if checkpoint else state
    root = kept if kept.is_dir() else state
    paths = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else []
    return {
        path.relative_to(state).as_posix(): path
        for path in paths
        if not atomic.is_debris(path.name)
    }


def _digest(path: Path) -> str | None:
    try:
        return digest_file(path)
    except OSError:
        return None
