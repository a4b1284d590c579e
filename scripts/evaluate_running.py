"""Measure a form that also rounds what flows through the model: activations, keys and values."""

from importlib import import_module

from quantgrid.cell import Cell
from quantgrid.corpus.view import View
from quantlm import environment, evaluation, tensorfile
from quantlm.model import Architecture
from quantlm.weights import load_weights


def main() -> None:
    """One stage under the cell contract."""
    cell = Cell.from_environment()
    device = environment.prepare(cell.device, cell.threads)
    spec, asked, form = cell.spec["model"], cell.spec["evaluation"], cell.spec["cell"]["form"]
    view = View.open(*cell.sealed_corpus(), planned_tokens=0, context=spec["context"])
    model, base = (
        load_weights(cell.parents[role][tensorfile.WEIGHTS_FILE], Architecture.of(spec), device)
        for role in ("weights", "base")
    )
    import_module(f"quantlm.methods.{form['method']}").run(model, form)
    sequences = evaluation.validation_set(
        view.validation(), context=spec["context"], sequences=asked["sequences"]
    )
    results = evaluation.evaluate(model, base, sequences, asked["metrics"])
    cell.finish(results, receipt=view.receipt(), environment=environment.describe(device))


if __name__ == "__main__":
    main()
