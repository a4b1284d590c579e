"""A document says "never run" while the archive holds the whole grid.

Incident: a grid of 105 cells was complete in the archive while a document said "never run", and was
nearly paid for again.

Guard: `quantgrid.claims.check.check`; `quantgrid.claims.tables.unfolded` for generated tables.
"""

import subprocess
import sys
from pathlib import Path

from core_parts import archive_in, body, put
from quantgrid import layout, ledger
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid

BOUND_S = 120.0
DOCUMENT = """# State of the work

The demo grid was never run. <!-- grid: demo -->

<!-- table: demo -->
nothing yet
<!-- end -->
"""


def _claims(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "quantgrid", "claims", "state.md", *options]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BOUND_S, check=False
    )


def test_document_is_contradicted_when_the_archive_holds_the_grid(
    tmp_path: Path, root: Path
) -> None:
    """Named before anything is run again; after the fold the table tells the truth by itself."""
    for name in ("config", "scripts", "src"):
        (tmp_path / name).symlink_to(root / name)
    cells = trace(load_grid(root, "demo"), Science(root)).cells
    records = [
        {**body("cells", cell), "fingerprint": stage.fingerprint} for cell, stage in cells.items()
    ]
    for record in records:
        put(archive_in(tmp_path), tmp_path / "out", record)
    document = tmp_path / "state.md"
    document.write_text(DOCUMENT)

    before = _claims(tmp_path)
    assert before.returncode == 65
    assert (
        "state.md:3: false: says that grid demo was not run; of its 105 cells 0 are in the ledger "
        "and 105 in the archive only"
    ) in before.stdout
    assert "state.md:5: false: the table of grid demo; the archive has 105 cells" in before.stdout

    archive = archive_in(tmp_path)
    found = [archive.record(key) for key in archive.index() if key.startswith("cells/")]
    ledger.enter_all(tmp_path / layout.LEDGER, tmp_path / layout.LEDGER_LOCK, found)
    told = _claims(tmp_path, "--fix")
    assert told.returncode == 65
    assert "state.md:3: false" in told.stdout
    assert "| all | 105 | 105 | 0 | 0 |" in document.read_text()

    document.write_text(document.read_text().replace("was never run", "is complete"))
    assert _claims(tmp_path).returncode == 0
