"""Make the shards of a corpus: texts to tokens by quantlm, tokens to a volume by quantgrid."""

import argparse
from pathlib import Path

from quantgrid import entry
from quantgrid.clock import SystemClock, timestamp
from quantgrid.corpus import sources
from quantgrid.corpus.produce import produce
from quantgrid.corpus.producer import Producer
from quantgrid.corpus.sentinel import PREPARED_SCHEMA, Statement
from quantgrid.load import load_corpus
from quantlm import text


def main() -> None:
    """Verify the texts, bring the corpus onto the volume, say what was made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, type=Path, help="folder of the Snakefile")
    parser.add_argument("--corpus", required=True, help="name of the corpus")
    parser.add_argument("--volume", required=True, type=Path, help="root of the volume")
    parser.add_argument("--receipt", required=True, type=Path, help="what was made goes here")
    options = parser.parse_args()
    root, clock, producer = options.root.absolute(), SystemClock(), Producer.here()
    recipe = load_corpus(root, options.corpus)
    stream = text.stream(
        sources.verified(recipe, root),
        tokeniser=recipe.tokeniser,
        document_bytes=recipe.document_bytes,
        shuffle_seed=recipe.shuffle_seed,
    )
    manifest = produce(recipe, options.volume.absolute(), stream, clock=clock, producer=producer)
    said = Statement.of(manifest, producer, timestamp(clock.now()))
    said.publish(options.receipt.absolute(), PREPARED_SCHEMA)


if __name__ == "__main__":
    entry.run(main)
