"""Branch off a milestone and let the rate fall to zero: a base."""

from quantgrid import atomic
from quantgrid.cell import Cell, Progress
from quantgrid.checkpoint.keeper import Keeper
from quantgrid.corpus.view import View
from quantlm import environment, schedule, state, tensorfile, weights
from quantlm.checkpoint import TrainingState
from quantlm.loop import Trainer, training_results


def main() -> None:
    """One stage under the cell contract."""
    cell = Cell.from_environment()
    device = environment.prepare(cell.device, cell.threads)
    trunk, steps = cell.spec["trunk"], cell.spec["cooldown"]
    model, num_steps = trunk["model"], steps["num_steps"]
    view = View.open(
        *cell.sealed_corpus(),
        planned_tokens=num_steps * model["context"] * model["batch_sequences"],
        passes=trunk["passes"],
        unique_tokens=trunk["unique_tokens"],
        context=model["context"],
    )
    trainer = Trainer.start(trunk, view, device)
    milestone = cell.parents["milestone"][tensorfile.STATE_FILE]
    rate = schedule.cooldown_rate(
        schedule.trunk_rate(model["learning_rate"], model["warmup_steps"]), **steps
    )
    progress = Progress(cell, num_steps=num_steps)
    with Keeper(cell, TrainingState(trainer, view), manifest=view.manifest) as keeper:
        if not keeper.resume():
            state.load_state(milestone, trainer, step=num_steps - steps["cooldown_steps"])
        losses = trainer.run(num_steps, rate, progress.step, keeper)
    with atomic.writing(cell.out / tensorfile.WEIGHTS_FILE) as file:
        weights.save_weights(file, trainer.model, fingerprint=cell.fingerprint)
    results = training_results(trainer, losses) | {"size": weights.size(trainer.model)}
    made_on = environment.describe(device)
    cell.finish(results, receipt=view.receipt(), environment=made_on, chain=keeper.chain())


if __name__ == "__main__":
    main()
