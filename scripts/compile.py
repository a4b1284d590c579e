"""Look at all science that a grid will run, before anything is paid: imports, shapes, forms."""

import argparse
import ast
import runpy
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from quantgrid import atomic, entry, layout, screens, smoke
from quantgrid.errors import Fault
from quantgrid.lineage import Science, trace
from quantgrid.load import load_grid, load_settings
from quantgrid.room import num_weights
from quantgrid.select import AnyCell, choose
from quantgrid.spec import Cell, Model, resolved

SCHEMA = "quantgrid/compile"
VERSION = 1


def main() -> None:
    """Try everything once and say what was tried; the first mistake is told, with its place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, type=Path, help="folder of the Snakefile")
    parser.add_argument("--grid", required=True, help="name of the grid")
    parser.add_argument("--select", default="", help="a part of it")
    parser.add_argument("--receipt", required=True, type=Path, help="what was tried goes here")
    options = parser.parse_args()
    begin_s, root = time.monotonic(), options.root.absolute()
    grid = load_grid(root, load_settings(root, {"grid": options.grid}).grid)
    cells = choose(grid.every, options.select)
    names = screens.stages(trace(grid, Science(root)), cells)
    for name in names:
        _try(root, f"script {name}", partial(_import, layout.script(root, name)))
    tried = _try_cells(root, [cell for cell in cells if isinstance(cell, Cell)])
    _try_own(root, cells)
    seconds = round(time.monotonic() - begin_s, 1)
    facts = {"schema": SCHEMA, "version": VERSION, "scripts": names, **tried, "seconds": seconds}
    atomic.publish_json(options.receipt.absolute(), facts)


def _import(script: Path) -> None:
    """Run a script as a module: all of it but what it does when it is started."""
    sys.path.insert(0, str(script.parent))
    try:
        runpy.run_path(str(script), run_name=script.stem)
    finally:
        sys.path.remove(str(script.parent))


def _try_cells(root: Path, cells: list[Cell]) -> dict[str, list[str]]:
    """Each model without memory, and each form once on a tiny model."""
    models = {cell.trunk.model: None for cell in cells}
    forms = {cell.form: cell.evaluation.metrics for cell in cells}
    for model in models:
        _try(root, f"model {model.name}", partial(_try_model, model))
    for form, metrics in forms.items():
        tiny = resolved(smoke.tiny_model(form))
        _try(root, f"form {form.id}", partial(_science().try_form, resolved(form), tiny, metrics))
    return {"models": [model.name for model in models], "forms": [form.id for form in forms]}


def _try_model(model: Model) -> None:
    expected, seen = num_weights(model), _science().try_model(resolved(model))
    if seen != expected:
        raise ValueError(f"{seen} weights where the spec of the model means {expected}")


def _try_own(root: Path, cells: tuple[AnyCell, ...]) -> None:
    """Somebody's own Python programs are read; only they know how to import them."""
    scripts = [cell.script for cell in cells if not isinstance(cell, Cell)]
    for program in sorted({script.program for script in scripts if script.is_file}):
        path = root / program
        if layout.is_python(path):
            _try(root, f"program {path.name}", partial(ast.parse, path.read_bytes(), str(path)))


def _science():
    """Imported after the scripts, so that a mistake in it is told with the script that needs it."""
    from quantlm import screening

    return screening


def _try(root: Path, what: str, call: Callable[[], object]) -> None:
    """Do it, or say what failed and where."""
    try:
        call()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [each for each in frames if Path(each.filename).is_relative_to(root)]
        at = f"{ours[-1].filename}:{ours[-1].lineno}" if ours else root
        if isinstance(error, SyntaxError):
            at = f"{error.filename}:{error.lineno}"
        raise Fault(
            f"{what} does not run, so nothing that costs money was started",
            seen=f"{type(error).__name__}: {error}",
            where=at,
        ) from error


if __name__ == "__main__":
    entry.run(main)
