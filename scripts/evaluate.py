"""Measure a form, or a base itself, against its base on the fixed validation set."""

from quantgrid.cell import Cell
from quantgrid.corpus.view import View
from quantlm import environment, evaluation, tensorfile
from quantlm.model import Architecture
from quantlm.weights import load_weights


def main() -> None:
    """One stage under the cell contract."""
    cell = Cell.from_environment()
    device = environment.prepare(cell.device, cell.threads)
    spec, asked = cell.spec["model"], cell.spec["evaluation"]
    view = View.open(*cell.sealed_corpus(), planned_tokens=0, context=spec["context"])
    paths = [cell.parents[role][tensorfile.WEIGHTS_FILE] for role in ("weights", "base")]
    loaded = {path: load_weights(path, Architecture.of(spec), device) for path in set(paths)}
    model, base = (loaded[path] for path in paths)
    sequences = evaluation.validation_set(
        view.validation(), context=spec["context"], sequences=asked["sequences"]
    )
    results = evaluation.evaluate(model, base, sequences, asked["metrics"])
    cell.finish(results, receipt=view.receipt(), environment=environment.describe(device))


if __name__ == "__main__":
    main()
