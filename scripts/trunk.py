"""Train a trunk at its constant rate to a milestone, from the newest earlier one if any."""

from quantgrid import atomic
from quantgrid.cell import Cell, Progress
from quantgrid.corpus.view import View
from quantgrid.watch.training import watched
from quantlm import environment, schedule, state, tensorfile
from quantlm.checkpoint import TrainingState
from quantlm.held_out import HeldOut
from quantlm.loop import Trainer, training_results


def main() -> None:
    """One stage under the cell contract."""
    cell = Cell.from_environment()
    device = environment.prepare(cell.device, cell.threads)
    trunk, num_steps = cell.spec["trunk"], cell.spec["num_steps"]
    model = trunk["model"]
    view = View.open(
        *cell.sealed_corpus(),
        planned_tokens=cell.spec["num_tokens"],
        passes=trunk["passes"],
        unique_tokens=trunk["unique_tokens"],
        context=model["context"],
    )
    trainer = Trainer.start(trunk, view, device)
    rate = schedule.trunk_rate(model["learning_rate"], model["warmup_steps"])
    progress = Progress(cell, num_steps=num_steps)
    held_out = HeldOut.of(trainer, view, model)
    kept = TrainingState(trainer, view)
    keeper, watch = watched(cell, kept, held_out, view, passes=trunk["passes"])
    with keeper, watch:
        milestone = cell.parents.get("milestone")
        if not watch.resume(milestone) and milestone:
            view.take_up(state.load_state(milestone[tensorfile.STATE_FILE], trainer))
        trainer.run(num_steps, rate, progress.step, keeper, watch)
    with atomic.writing(cell.out / tensorfile.STATE_FILE) as file:
        state.save_state(file, trainer, fingerprint=cell.fingerprint, seen=view.seen())
    results = training_results(trainer) | watch.results()
    made_on = environment.describe(device)
    cell.finish(results, receipt=view.receipt(), environment=made_on, chain=watch.chain())


if __name__ == "__main__":
    main()
