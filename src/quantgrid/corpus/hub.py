"""Data sets of the Hugging Face hub, brought here at a commit by the hub's own client.

The client keeps what it brought (`HF_HOME`) and asks for no more than is missing; what it brings is
compared with the pins like any other text, so that neither the hub nor its copies are trusted.
"""

from pathlib import Path

from quantgrid.errors import CorpusRefusal
from quantgrid.recipe import Source


def fetched(source: Source) -> Path:
    """The folder of a data set at its commit, with at least the files of the glob.

    Raises:
        CorpusRefusal: when the client is not installed, or the files are neither here nor to be
            had.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise CorpusRefusal(
            "data sets are brought by huggingface_hub, which is not installed",
            seen=error,
            do="Install it: `pip install 'quantgrid[corpora]'`.",
        ) from error
    try:
        folder = snapshot_download(
            str(source.dataset),
            repo_type="dataset",
            revision=source.revision,
            # the client's patterns have no `**/` for "here, too", which a glob has
            allow_patterns=[source.glob, source.glob.removeprefix("**/")],
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise CorpusRefusal(
            f"data set {source.dataset} cannot be had",
            expected=f"revision {source.revision}, {source.glob}",
            seen=f"{type(error).__name__}: {error}".splitlines()[0],
            do="Look at the name, the network and the token (`hf auth login`); or download the "
            "files, and name their folder instead of the data set.",
        ) from error
    return Path(folder)
