"""Branch off a milestone and let the rate fall to zero: a base."""

from quantgrid import atomic
from quantgrid.cell import Cell, Progress
from quantgrid.corpus.view import View
from quantgrid.watch.training import watched
from quantlm import environment, schedule, state, tensorfile, weights
from quantlm.checkpoint import TrainingState
from quantlm.held_out import HeldOut
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
    milestone, start = cell.parents["milestone"], num_steps - steps["cooldown_steps"]
    rate = schedule.cooldown_rate(
        schedule.trunk_rate(model["learning_rate"], model["warmup_steps"]), **steps
    )
    progress = Progress(cell, num_steps=num_steps)
    held_out = HeldOut.of(trainer, view, model)
    kept = TrainingState(trainer, view)
    keeper, watch = watched(cell, kept, held_out, view, passes=trunk["passes"])
    with keeper, watch:
        if not watch.resume(milestone):
            view.take_up(state.load_state(milestone[tensorfile.STATE_FILE], trainer, step=start))
        trainer.run(num_steps, rate, progress.step, keeper, watch)
    with atomic.writing(cell.out / tensorfile.WEIGHTS_FILE) as file:
        weights.save_weights(file, trainer.model, fingerprint=cell.fingerprint)
    size = weights.size(trainer.model)
    results = training_results(trainer) | watch.results() | {"size": size}
    made_on = environment.describe(device)
    cell.finish(results, receipt=view.receipt(), environment=made_on, chain=watch.chain())


if __name__ == "__main__":
    main()
