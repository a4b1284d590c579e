"""`make laws`: the grid of laws through the whole pipeline, from a dictionary to the verdict."""

from pathlib import Path

import pytest

import working_copy
from quantgrid.load import load_corpus

DICTIONARY = Path("/usr/share/dictd/gcide.dict.dz")


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)  # 90 minutes of CPU time are the bar; a busy machine takes longer
@pytest.mark.skipif(not DICTIONARY.exists(), reason="needs the Debian package dict-gcide")
def test_published_laws_are_found_again(tmp_path: Path, root: Path) -> None:
    """Every law of QU 1.3 marked yes, and the fit of RTN row within its bounds."""
    assert len(load_corpus(root, "gcide").files) == 1
    copy = working_copy.lay(tmp_path / "copy", light=False)
    copy.snakemake("--quiet", "all", grid="laws", timeout_s=4 * 3600)

    told = copy.quantgrid("laws", "laws", code=None)

    print(told.text)
    assert told.code == 0, told.text
