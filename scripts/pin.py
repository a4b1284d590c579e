"""Say what only the science knows of a corpus: train its vocabulary, or count its tokens."""

import argparse
from pathlib import Path

from prepare import opened, tokens
from quantgrid import atomic, entry, layout, yaml_lines
from quantgrid.corpus import sources
from quantgrid.fingerprint import digest_file
from quantgrid.load import load_corpus
from quantgrid.recipe import Recipe
from quantlm import text


def main() -> None:
    """Pin the vocabulary, trained when it is not there; then count, when that is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["vocabulary", "count"])
    parser.add_argument("--root", required=True, type=Path, help="folder of the Snakefile")
    parser.add_argument("--corpus", required=True, help="name of the corpus")
    options = parser.parse_args()
    root, scratch = options.root.absolute(), options.root.absolute() / layout.WORK
    scratch.mkdir(parents=True, exist_ok=True)
    _pin_vocabulary(root, options.corpus, scratch)
    if options.what == "count":
        print(sum(map(len, tokens(load_corpus(root, options.corpus), root, scratch))))


def _pin_vocabulary(root: Path, name: str, scratch: Path) -> None:
    data = yaml_lines.read(layout.section_file(root, "corpus", name), root=root).data
    if data.get("tokeniser", "bytes") == "bytes":
        return
    recipe = _with_bytes(root, name, data)
    files = sources.vocabulary_files(data["tokeniser"], data.get("tokeniser_folder"), name, root)
    if data["tokeniser"] == "bpe" and not files[0].exists():
        atomic.publish(files[0], _trained(recipe, root, scratch, data))
    pins = "".join(f"{digest_file(path)}  {path.name}\n" for path in files)
    atomic.publish(layout.tokeniser_pins(root, name), pins.encode())


def _with_bytes(root: Path, name: str, data: dict[str, object]) -> Recipe:
    """The recipe as if every byte were a token: how the texts are read for a vocabulary."""
    theirs = {"tokeniser", "vocab_size", "end_token", "tokeniser_folder"}
    plain = {key: value for key, value in data.items() if key not in theirs}
    pins = layout.pins_file(root, name).read_text(encoding="utf-8")
    return Recipe.from_mapping({"num_tokens": 1, **plain}, pins, name)


def _trained(recipe: Recipe, root: Path, scratch: Path, data: dict[str, object]) -> bytes:
    """A vocabulary of the documents that come last, so that validation takes no part in it."""
    from quantlm import subwords  # needs a package that corpora of bytes do without

    found, ends = opened(recipe, root, scratch)
    order = text.order(found, recipe.document_bytes, recipe.shuffle_seed, ends)
    pieces = (found[name][start:stop] for name, start, stop in reversed(order))
    return subwords.trained(pieces, int(str(data["vocab_size"])), has_end="end_token" in data)


if __name__ == "__main__":
    entry.run(main)
