"""`quantgrid corpus`: pin the texts of a corpus, or show what it is and whether it is sealed."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path, PurePath
from typing import Any

from quantgrid import atomic, layout, yaml_lines
from quantgrid.clock import SystemClock
from quantgrid.errors import ConfigRefusal, CorpusRefusal
from quantgrid.load import load_corpus, load_settings
from quantgrid.recipe import VALIDATION_TOKENS, Recipe, Source
from quantgrid.schemas import refuse_missing

HELP = "pin the texts of a corpus, or show what it is"
_DECLARED = re.compile(r"^num_tokens:.*$", re.MULTILINE)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("action", choices=sorted(ACTS), help="what to do")
    parser.add_argument("name", help="name of the corpus, as in config/corpora")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Pin or show, and print what is known afterwards."""
    facts = ACTS[options.action](options.root.absolute(), options.name)
    if options.json:
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(f"{key:<17} {_readable(value)}" for key, value in facts.items()))
    return 0


def pin(root: Path, name: str) -> dict[str, Any]:
    """Write the pins of the texts as they are now, and declare the tokens that they make.

    A vocabulary of `bpe` that is not there yet is trained on the texts first.

    Raises:
        ConfigRefusal: when nothing would be left to train on.
        CorpusRefusal: when the texts or the vocabulary cannot be found or read.
    """
    from quantgrid.corpus import sources

    refuse_missing(root, "corpus", name, layout.SECTIONS["corpus"])
    path = layout.section_file(root, "corpus", name)
    data = yaml_lines.read(path, root=root).data
    found = sources.find(Source.from_mapping(data.get("source", {}), f"corpus {name}"), root)
    pins, counted = sources.pin(found), _plain_bytes(data, found)
    num_tokens = None if counted is None else _training_tokens(counted, data, path)
    atomic.publish(layout.pins_file(root, name), pins.encode())
    if num_tokens is None:
        num_tokens = _from_script(root, name, data, path)
    if data.get("surplus") != "leave":
        _declare(path, num_tokens)
    return {"pins": str(layout.pins_file(root, name)), **_described(load_corpus(root, name))}


def _plain_bytes(data: dict[str, Any], found: dict[str, Path]) -> int | None:
    """All tokens of texts that need not be read for it; None for any others."""
    from quantgrid.corpus import unpack

    is_plain = not any(PurePath(name).suffix in unpack.SUFFIXES for name in found)
    if is_plain and data.get("tokeniser", "bytes") == "bytes":
        return sum(text.stat().st_size for text in found.values())
    return None


def _from_script(root: Path, name: str, data: dict[str, Any], path: Path) -> int:
    """Training tokens of texts that have to be read, or the declared ones of a part of them."""
    if data.get("surplus") == "leave":
        _asked(root, name, "vocabulary")
        return int(data["num_tokens"])
    if "num_tokens" not in data:
        _declare(path, 1)
    return _training_tokens(int(_asked(root, name, "count")), data, path)


def _asked(root: Path, name: str, what: str) -> str:
    """What the script of the science says about a corpus.

    Raises:
        CorpusRefusal: with what it said last, when it fails.
    """
    script = layout.script(root, "pin")
    command = [sys.executable, str(script), "--root", str(root), "--corpus", name, what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CorpusRefusal(
            f"the tokens of corpus {name} cannot be counted",
            seen=(done.stderr.strip().splitlines() or ["nothing"])[-1],
            where=script,
        )
    return done.stdout.strip()


def _training_tokens(counted: int, data: dict[str, Any], path: Path) -> int:
    num_tokens = counted - int(data.get("validation_tokens", VALIDATION_TOKENS))
    if num_tokens < 1:
        raise ConfigRefusal(
            "the validation tokens leave nothing to train on",
            expected=f"fewer than {counted:,} validation tokens",
            seen=f"{counted - num_tokens:,}",
            where=path,
        )
    return num_tokens


def _declare(path: Path, num_tokens: int) -> None:
    """Put the counted tokens into the file of the corpus; nothing else in it changes."""
    line = f"num_tokens: {num_tokens}"
    text, count = _DECLARED.subn(line, path.read_text(encoding="utf-8"))
    text = text if count else f"{text.rstrip()}\n{line}\n"
    atomic.publish(path, text.encode())


def show(root: Path, name: str) -> dict[str, Any]:
    """What a corpus is, and whether this machine sees it sealed (by names and sizes only)."""
    from quantgrid.corpus.sentinel import read_sentinel
    from quantgrid.corpus.view import look
    from quantgrid.volume import require

    recipe, volume = load_corpus(root, name), root / load_settings(root, {}).volume
    folder = layout.corpus_folder(volume, name, recipe.digest)
    facts = {**_described(recipe), "folder": str(folder)}
    try:
        sealed = read_sentinel(root / layout.SENTINEL.format(corpus=name, fp=recipe.digest))
        seen = require(volume, sealed.volume)
        manifest = look(folder, sealed, SystemClock())
    except CorpusRefusal as refusal:
        return {**facts, "sealed": None, "why_not": str(refusal)}
    identity = {"volume": seen.id, "workspace": seen.workspace, "manifest": manifest.digest}
    return {**facts, "sealed": sealed.at, **identity}


def _described(recipe: Recipe) -> dict[str, Any]:
    source = recipe.source
    return {
        "corpus": recipe.name,
        "recipe": recipe.digest,
        "source": f"{_place(source)}, {source.glob}",
        "texts": len(recipe.files),
        "tokeniser": recipe.tokeniser,
        "num_tokens": recipe.num_tokens,
        "num_shards": recipe.num_shards,
        "validation_tokens": recipe.validation_tokens,
    }


def _place(source: Source) -> str:
    at = f"{source.dataset}@{source.revision}" if source.dataset else None
    return str(at or source.package or source.folder)


def _readable(value: object) -> str:
    if value is None:
        return "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


ACTS = {"pin": pin, "show": show}
