"""Quantise a base after training."""

from functools import partial
from importlib import import_module

from quantgrid import atomic
from quantgrid.cell import Cell
from quantgrid.corpus.view import View
from quantlm import data, environment, packing, tensorfile
from quantlm.model import Architecture
from quantlm.weights import load_weights


def main() -> None:
    """One stage under the cell contract."""
    cell = Cell.from_environment()
    device = environment.prepare(cell.device, cell.threads)
    form, spec = cell.spec["form"], cell.spec["model"]
    context = spec["context"]
    view = View.open(
        *cell.sealed_corpus(),
        planned_tokens=form["calibration_sequences"] * context,
        context=context,
    )
    base = cell.parents["base"][tensorfile.WEIGHTS_FILE]
    model = load_weights(base, Architecture.of(spec), device)
    method = import_module(f"quantlm.methods.{form['method']}")
    layers = method.quantise(model, form, partial(data.calibration, view, context))
    results = packing.summary(model, layers)
    with atomic.writing(cell.out / tensorfile.PACKED_FILE) as file:
        packing.save_packed(file, layers, fingerprint=cell.fingerprint)
    with atomic.writing(cell.out / tensorfile.WEIGHTS_FILE) as file:
        packing.save_values(file, model, layers, fingerprint=cell.fingerprint)
    cell.finish(results, receipt=view.receipt(), environment=environment.describe(device))


if __name__ == "__main__":
    main()
