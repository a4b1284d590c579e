"""Make the shards of a corpus: texts to tokens by quantlm, tokens to a volume by quantgrid."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from quantgrid import entry
from quantgrid.clock import SystemClock, timestamp
from quantgrid.corpus import sources
from quantgrid.corpus.produce import produce
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.sentinel import PREPARED_SCHEMA, Statement
from quantgrid.corpus.unpack import unpacked
from quantgrid.load import load_corpus
from quantgrid.recipe import Recipe
from quantlm import text


def main() -> None:
    """Verify the texts, bring the corpus onto the volume, say what was made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, type=Path, help="folder of the Snakefile")
    parser.add_argument("--corpus", required=True, help="name of the corpus")
    parser.add_argument("--volume", required=True, type=Path, help="root of the volume")
    parser.add_argument("--receipt", required=True, type=Path, help="what was made goes here")
    options = parser.parse_args()
    root, volume = options.root.absolute(), options.volume.absolute()
    clock, producer = SystemClock(), Producer.here()
    recipe = load_corpus(root, options.corpus)
    volume.mkdir(parents=True, exist_ok=True)  # what has to be unpacked lies there meanwhile
    stream = tokens(recipe, root, volume)
    manifest = produce(recipe, volume, stream, clock=clock, producer=producer)
    said = Statement.of(manifest, producer, timestamp(clock.now()))
    said.publish(options.receipt.absolute(), PREPARED_SCHEMA)


def opened(
    recipe: Recipe, root: Path, scratch: Path
) -> tuple[dict[str, text.Text], dict[str, text.Ends]]:
    """The verified texts of a corpus, and where their documents end, as far as files say so."""
    found = unpacked(recipe, sources.verified(recipe, root), scratch)
    ends = {name: each.ends for name, each in found.items() if each.ends is not None}
    return {name: each.text for name, each in found.items()}, ends


def tokens(recipe: Recipe, root: Path, scratch: Path) -> Iterator[text.Tokens]:
    """All tokens of a corpus."""
    texts, ends = opened(recipe, root, scratch)
    return text.stream(
        texts,
        ends=ends,
        encode=encoder(recipe, root),
        document_bytes=recipe.document_bytes,
        shuffle_seed=recipe.shuffle_seed,
    )


def encoder(recipe: Recipe, root: Path) -> text.Encode:
    """How the documents of a corpus become tokens."""
    if recipe.tokeniser == "bytes":
        return text.encode_bytes
    from quantlm import subwords  # needs a package that corpora of bytes do without

    files = sources.vocabulary(recipe, root)
    return subwords.encoder(list(files.values()), recipe.vocabulary, recipe.end_token)


if __name__ == "__main__":
    entry.run(main)
