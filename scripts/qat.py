"""Train with rounded weights, in the cool-down of a milestone or from the first step: a form."""

from functools import partial
from importlib import import_module

from quantgrid import atomic
from quantgrid.cell import Cell, Progress
from quantgrid.checkpoint.keeper import Keeper
from quantgrid.corpus.view import View
from quantlm import data, environment, packing, schedule, state, tensorfile
from quantlm.checkpoint import TrainingState
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
    rate = schedule.cooldown_rate(
        schedule.trunk_rate(model["learning_rate"], model["warmup_steps"]), **steps
    )
    progress = Progress(cell, num_steps=num_steps)
    with Keeper(cell, TrainingState(trainer, view), manifest=view.manifest) as keeper:
        milestone = cell.parents.get("milestone")
        if not keeper.resume() and milestone:
            start = num_steps - steps["cooldown_steps"]
            state.load_state(milestone[tensorfile.STATE_FILE], trainer, step=start, fresh=added)
        losses = trainer.run(num_steps, rate, progress.step, keeper)
    layers = method.quantise(trainer.model, form, partial(data.calibration, view, model["context"]))
    results = training_results(trainer, losses) | packing.summary(trainer.model, layers)
    with atomic.writing(cell.out / tensorfile.PACKED_FILE) as file:
        packing.save_packed(file, layers, fingerprint=cell.fingerprint)
    with atomic.writing(cell.out / tensorfile.WEIGHTS_FILE) as file:
        packing.save_values(file, trainer.model, layers, fingerprint=cell.fingerprint)
    made_on = environment.describe(device)
    cell.finish(results, receipt=view.receipt(), environment=made_on, chain=keeper.chain())


if __name__ == "__main__":
    main()
