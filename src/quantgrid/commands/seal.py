"""`quantgrid seal`: read a prepared corpus again, in this other process, and vouch for it."""

import argparse
from pathlib import Path

HELP = "verify every shard of a prepared corpus and publish its sentinel"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--corpus", required=True, help="name of the corpus")
    parser.add_argument("--volume", required=True, type=Path, help="root of the volume")
    parser.add_argument("--prepared", required=True, type=Path, help="receipt of the producer")
    parser.add_argument("--sentinel", required=True, type=Path, help="where the sentinel goes")
    parser.add_argument("--reload", help="how its view is refreshed; by default as configured")


def main(options: argparse.Namespace) -> int:
    """Seal the corpus, or refuse.

    Raises:
        CorpusRefusal: when the corpus is not what its receipt and its recipe say.
    """
    from quantgrid.clock import SystemClock
    from quantgrid.corpus.seal import seal
    from quantgrid.load import load_corpus
    from quantgrid.reload import reloader
    from quantgrid.wording import counted

    root = options.root.absolute()
    sealed = seal(
        load_corpus(root, options.corpus),
        options.volume.absolute(),
        options.prepared.absolute(),
        options.sentinel.absolute(),
        clock=SystemClock(),
        reload=reloader(options.reload or _configured(root)),
    )
    shards = counted(sealed.num_shards, "shard")
    print(f"sealed {sealed.corpus}: {shards}, {sealed.num_tokens:,} tokens")
    return 0


def _configured(root: Path) -> str:
    """How the configured platform refreshes a view; a folder without configuration needs none."""
    from quantgrid import layout
    from quantgrid.load import load_platform, load_settings
    from quantgrid.reload import NONE

    if not (root / layout.CONFIG).exists():
        return NONE
    return load_platform(root, load_settings(root, {}).platform).reload
