"""Train a trunk at its constant rate to a milestone, from the newest earlier one if any."""

from quantgrid import atomic
from quantgrid.cell import Cell, Progress
from quantgrid.checkpoint.keeper import Keeper
from quantgrid.corpus.view import View
from quantlm import environment, schedule, state, tensorfile
from quantlm.checkpoint import TrainingState
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
    with Keeper(cell, TrainingState(trainer, view), manifest=view.manifest) as keeper:
        milestone = cell.parents.get("milestone")
        if not keeper.resume() and milestone:
            state.load_state(milestone[tensorfile.STATE_FILE], trainer)
        losses = trainer.run(num_steps, rate, progress.step, keeper)
    with atomic.writing(cell.out / tensorfile.STATE_FILE) as file:
        state.save_state(file, trainer, fingerprint=cell.fingerprint)
    results = training_results(trainer, losses)
    made_on = environment.describe(device)
    cell.finish(results, receipt=view.receipt(), environment=made_on, chain=keeper.chain())


if __name__ == "__main__":
    main()
