"""Train with rounded weights, in the cool-down of a milestone or from the first step: a form."""

from functools import partial
from importlib import import_module

from quantgrid import atomic
from quantgrid.cell import Cell, Progress
from quantgrid.corpus.view import View
from quantgrid.watch.training import watched
from quantlm import data, environment, packing, schedule, state, tensorfile
from quantlm.checkpoint import TrainingState
from quantlm.held_out import HeldOut
from quantlm.loop import Trainer, training_results


def main() -> None:
    """One stage under the cell contract."""
    cell = Cell.from_environment()
    device = environment.prepare(cell.device, cell.threads)
    trunk, steps, form = cell.spec["trunk"], cell.spec["cooldown"], cell.spec["form"]
    model, num_steps = trunk["model"], steps["num_steps"]
    view = View.open(
        *cell.sealed_corpus(),
        planned_tokens=num_steps * model["context"] * model["batch_sequences"],
        passes=trunk["passes"],
        unique_tokens=trunk["unique_tokens"],
        context=model["context"],
    )
    method = import_module(f"quantlm.methods.{form['method']}")
    trainer = Trainer.start(trunk, view, device, forward=method.forward(form))
    added = method.extend(trainer, form)
    constant = schedule.trunk_rate(model["learning_rate"], model["warmup_steps"])
    rate = schedule.cooldown_rate(constant, **steps)
    progress = Progress(cell, num_steps=num_steps)
    kept, held_out = TrainingState(trainer, view), HeldOut.of(trainer, view, model)
    keeper, watch = watched(cell, kept, held_out, view, passes=trunk["passes"])
    with keeper, watch:
        milestone = cell.parents.get("milestone")
        if not watch.resume() and milestone:  # what was watched before had other weights
            file, start = milestone[tensorfile.STATE_FILE], num_steps - steps["cooldown_steps"]
            view.take_up(state.load_state(file, trainer, step=start, fresh=added))
        trainer.run(num_steps, rate, progress.step, keeper, watch)
    layers = method.quantise(trainer.model, form, partial(data.calibration, view, model["context"]))
    summary = packing.summary(trainer.model, layers)
    results = training_results(trainer) | watch.results() | summary
    with atomic.writing(cell.out / tensorfile.PACKED_FILE) as file:
        packing.save_packed(file, layers, fingerprint=cell.fingerprint)
    with atomic.writing(cell.out / tensorfile.WEIGHTS_FILE) as file:
        packing.save_values(file, trainer.model, layers, fingerprint=cell.fingerprint)
    made_on = environment.describe(device)
    cell.finish(results, receipt=view.receipt(), environment=made_on, chain=watch.chain())


if __name__ == "__main__":
    main()
