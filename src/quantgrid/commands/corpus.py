"""`quantgrid corpus`: pin the texts of a corpus, or show what it is and whether it is sealed."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout, yaml_lines
from quantgrid.clock import SystemClock
from quantgrid.errors import ConfigRefusal, CorpusRefusal
from quantgrid.load import load_corpus, load_settings
from quantgrid.recipe import VALIDATION_TOKENS, Recipe, Source

HELP = "pin the texts of a corpus, or show what it is"
_DECLARED = re.compile(r"^num_tokens:.*$", re.MULTILINE)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("action", choices=sorted(_ACTIONS), help="what to do")
    parser.add_argument("name", help="name of the corpus, as in config/corpora")
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Pin or show, and print what is known afterwards."""
    facts = _ACTIONS[options.action](options.root.absolute(), options.name)
    if options.json:
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(f"{key:<17} {_readable(value)}" for key, value in facts.items()))
    return 0


def pin(root: Path, name: str) -> dict[str, Any]:
    """Write the pins of the texts as they are now, and declare the tokens that they make.

    Raises:
        ConfigRefusal: when nothing would be left to train on.
        CorpusRefusal: when the texts cannot be found.
    """
    from quantgrid.corpus import sources

    path = layout.section_file(root, "corpus", name)
    data = yaml_lines.read(path, root=root).data
    source = Source.from_mapping(data.get("source", {}), f"corpus {name}")
    found = sources.find(source, root)
    pins = sources.pin(found)
    size_bytes = sum(text.stat().st_size for text in found.values())
    num_tokens = size_bytes - data.get("validation_tokens", VALIDATION_TOKENS)
    if num_tokens < 1:
        raise ConfigRefusal(
            "the validation tokens leave nothing to train on",
            expected=f"fewer than {size_bytes:,} validation tokens",
            seen=f"{size_bytes - num_tokens:,}",
            where=path,
        )
    atomic.publish(layout.pins_file(root, name), pins.encode())
    _declare(path, num_tokens)
    return {"pins": str(layout.pins_file(root, name)), **_described(load_corpus(root, name))}


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
        "source": f"{source.package or source.folder}, {source.glob}",
        "texts": len(recipe.files),
        "tokeniser": recipe.tokeniser,
        "num_tokens": recipe.num_tokens,
        "num_shards": recipe.num_shards,
        "validation_tokens": recipe.validation_tokens,
    }


def _readable(value: object) -> str:
    if value is None:
        return "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


_ACTIONS = {"pin": pin, "show": show}
