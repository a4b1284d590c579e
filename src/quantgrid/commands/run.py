"""`quantgrid run`: make the records of one job and publish its receipt."""

import argparse
import os
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quantgrid import atomic, layout, receipts, standing
from quantgrid.archive.opened import configure as configure_archive
from quantgrid.archive.opened import opened
from quantgrid.clock import SystemClock
from quantgrid.errors import QuantgridError
from quantgrid.held import Manners
from quantgrid.job import Job
from quantgrid.masking import masked
from quantgrid.reload import NONE, reloader
from quantgrid.runner import Machine, Runner
from quantgrid.watching import Limits

if TYPE_CHECKING:
    from quantgrid.cleared import Cleared
    from quantgrid.gpus import Share

HELP = "run the scripts of one job under the cell contract and deposit what they made"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", help="the job, as JSON (see quantgrid.job)")
    parser.add_argument("--receipt", required=True, type=Path, help="receipt to publish")
    configure_archive(parser)
    parser.add_argument("--root", required=True, type=Path, help="folder of the Snakefile")
    parser.add_argument("--volume", required=True, type=Path, help="folder of the volume")
    parser.add_argument("--platform", default="local", help="name of the platform")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--threads", default=1, type=int, help="threads of the script")
    parser.add_argument("--durable", action="store_true", help="refuse a volume that is fleeting")
    parser.add_argument("--volume-id", help="refuse any other volume than this one")
    parser.add_argument("--cap-s", type=float, help="seconds after which the platform ends a job")
    parser.add_argument("--grace-s", default=30.0, type=float, help="seconds from SIGTERM to kill")
    parser.add_argument("--clock-factor", default=1.0, type=float, help="how much faster time goes")
    parser.add_argument("--interruption-s", type=float, help="mean time between interruptions")
    parser.add_argument("--reload", default=NONE, help="how the view of the volume is refreshed")
    parser.add_argument("--gpus", help="numbers of the GPUs that it may take one of, or auto")
    parser.add_argument("--gpu-share", default=1.0, type=float, help="the part of a GPU it takes")
    parser.add_argument("--hold-ttl-s", default=120.0, type=float, help="silence that ends a hold")
    parser.add_argument("--patience-s", default=600.0, type=float, help="wait for other holders")
    parser.add_argument("--watch", default="", help="what findings of the watch do, as JSON")
    parser.add_argument("--mirrors", action="store_true", help="mirror checkpoints to the archive")
    parser.add_argument("--clearance", type=Path, help="start nothing without it")
    parser.add_argument("--pays", action="store_true", help="write down what this job itself costs")
    parser.add_argument("--chains", action="store_true", help="start the next link after the cap")


def main(options: argparse.Namespace) -> int:
    """Run the job in the current working copy."""
    root = Path.cwd()
    machine = _machine(options, root)
    runner = Runner(opened(options, root), machine, SystemClock())
    progress = root / layout.progress_file(str(options.receipt))
    end = progress.with_suffix(".end")
    end.unlink(missing_ok=True)
    try:
        if options.durable or options.volume_id:
            from quantgrid.durability import prove  # a desk that proves nothing does not pay for it

            prove(machine.volume, is_durable=options.durable, pin=options.volume_id)
        job = Job.from_json(options.job)
        _reload(job, machine.volume, options.reload)
        with _paid(runner, job) if options.pays else nullcontext():
            deposit = runner.run(job, progress=progress)
    except QuantgridError as error:
        _tell(end, error.exit_code, str(error), error.failure_class)
        _notice(runner, options.job, error)
        raise
    except SystemExit as told:
        _tell(end, told.code, None)
        _notice(runner, options.job, told)
        raise
    receipts.publish(root / options.receipt, deposit)
    _notice_silence(runner)
    return 0


def _machine(options: argparse.Namespace, root: Path) -> Machine:
    """Where the job runs; nothing where it is paid and was not cleared.

    Raises:
        BudgetRefusal: without a clearance that says to proceed.
    """
    cleared = _cleared(root / options.clearance) if options.clearance else None
    return Machine(
        code=options.root.absolute(),
        root=root,
        volume=root / options.volume,
        platform=options.platform,
        device=options.device,
        threads=options.threads,
        limits=_limits(options),
        gpu=_share(options),
        manners=Manners(options.hold_ttl_s, options.patience_s),
        watch=cleared.watch(options.watch) if cleared else options.watch,
        mirrors=options.mirrors,
        clearance=cleared,
    )


def _cleared(path: Path) -> "Cleared":
    """What a clearance lets this job do.

    Raises:
        BudgetRefusal: without a clearance that says to proceed.
    """
    from quantgrid.cleared import Cleared  # where nothing is paid there is none

    return Cleared.open(path)


def _paid(runner: Runner, job: Job) -> AbstractContextManager[None]:
    """What the job takes is written down, where no machine is rented that would be."""
    from quantgrid import paying  # the same

    machine = runner.machine
    return paying.charged(runner.archive.store, machine.clearance, job.cell, machine.code)


def _notice(runner: Runner, job: str, error: BaseException) -> None:
    """Somebody hears of an alarm or a refusal, whether the controller lives or not."""
    from quantgrid import noticing  # a job that ends well does not pay for it

    machine = runner.machine
    noticing.of_attempt(machine.root, machine.code, runner.archive.store, Job.from_json(job), error)
    noticing.of_dead_controller(machine.root, machine.code, runner.archive.store)


def _notice_silence(runner: Runner) -> None:
    """Whoever lives tells that the controller does not."""
    machine = runner.machine
    if standing.look(machine.root).state is standing.State.DIED:
        from quantgrid import noticing  # nearly never

        noticing.of_dead_controller(machine.root, machine.code, runner.archive.store)


def _reload(job: Job, volume: Path, spec: str) -> None:
    """Look at the corpus afresh before any script compares it with what the seal vouches for.

    Done here, so that a program in any language need not know how its platform does it.

    Raises:
        PlatformFault: when what is seen may be old.
    """
    if job.corpus:
        reloader(spec)(layout.corpus_folder(volume, job.corpus, job.recipe))


def _share(options: argparse.Namespace) -> "Share | None":
    """What the job takes of the GPUs of this machine; None where it takes none."""
    if options.gpus is None:
        return None
    from quantgrid.gpus import Share  # a job without a GPU does not pay for it

    auto = options.gpus == "auto"
    allowed = None if auto else tuple(int(number) for number in options.gpus.split(","))
    return Share(allowed, options.gpu_share, Path(layout.GPU_LOCKS))


def _limits(options: argparse.Namespace) -> Limits:
    """The limits in seconds of this machine's clock; a factor of 3600 makes an hour a second."""
    factor = options.clock_factor
    cap_s = None if options.cap_s is None else options.cap_s / factor
    mean_s = None if options.interruption_s is None else options.interruption_s / factor
    return Limits(cap_s, options.grace_s / factor, options.chains, factor, mean_s)


def _tell(end: Path, exit_code: object, sentence: str | None, kind: str | None = None) -> None:
    """A file carries the code where a platform loses it: SLURM reports 1 for all."""
    told = None if sentence is None else masked(sentence, os.environ)
    with suppress(OSError):  # a full disk: the sentence itself must still be heard
        atomic.publish_json(end, {"exit_code": exit_code, "sentence": told, "class": kind})
