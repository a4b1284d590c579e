"""`quantgrid run`: make the records of one job and publish its receipt."""

import argparse
from pathlib import Path

from quantgrid import layout, receipts
from quantgrid.archive.opened import configure as configure_archive
from quantgrid.archive.opened import opened
from quantgrid.clock import SystemClock
from quantgrid.durability import prove
from quantgrid.job import Job
from quantgrid.runner import Machine, Runner

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


def main(options: argparse.Namespace) -> int:
    """Run the job in the current working copy."""
    root = Path.cwd()
    machine = Machine(
        code=options.root.absolute(),
        root=root,
        volume=root / options.volume,
        platform=options.platform,
        device=options.device,
        threads=options.threads,
    )
    if options.durable or options.volume_id:
        prove(machine.volume, is_durable=options.durable, pin=options.volume_id)
    runner = Runner(opened(options, root), machine, SystemClock())
    progress = root / layout.progress_file(str(options.receipt))
    deposit = runner.run(Job.from_json(options.job), progress=progress)
    receipts.publish(root / options.receipt, deposit)
    return 0
