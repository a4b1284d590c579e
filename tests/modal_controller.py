"""A controller that rents on Modal, as a process that a test may kill at any moment.

    python modal_controller.py FOLDER PRICE

`FOLDER/store` is the register's store and `FOLDER/wanted.json` says for what it rents; it makes
rounds until `FOLDER/stop` is there.  Where Modal is, the SDK's own variables say.
"""

import json
import os
import secrets
import sys
import threading
import time
from pathlib import Path

import modal_parts as parts
from quantgrid.rental.lease import Lease, Terms
from quantgrid.rental.modal import Modal, Place
from quantgrid.rental.port import Candidate, Name, Order
from quantgrid.rental.register import Register
from quantgrid.rental.rounds import Rounds, Wanted, Ways
from quantgrid.rental.spend import Caps
from quantgrid.store import open_store

SUBJECT = "c" * 64
DAY_S = 86_400.0


def terms(candidate: Candidate, factor: float) -> Terms:
    """A controller with no patience, for the clocks of a rehearsal."""
    limits = parts.QUICK._replace(cap_s=DAY_S / factor, grace_s=30 / factor)
    return Terms((candidate,), limits, run_s=DAY_S / factor, look_s=0.5, wait_s=0.2, again_s=0.5)


def is_dead(by: str) -> bool:
    """Whether the process of a controller is gone."""
    return not Path(f"/proc/{by.partition('.')[0]}").exists()


def rounds(folder: Path, platform: Modal, told: list[str], *, is_threaded: bool = True) -> Rounds:
    """A controller of this process."""
    register = Register(open_store(str(folder / "store"), folder))

    def start(call: object) -> None:
        threading.Thread(target=call, daemon=True).start()  # type: ignore[arg-type]

    ways = Ways(
        now=register.store.now,
        start=start,
        fresh=lambda: secrets.token_hex(6),
        verify=lambda _: True,
        tell=told.append,
        is_dead=is_dead,
    )
    return Rounds(platform, register, Caps(), f"{os.getpid()}.{secrets.token_hex(4)}", ways)


def wanted(
    words: tuple[str, ...], candidate: Candidate, factor: float, account: str = "lab/main",
    volume: str = "",
) -> Wanted:  # fmt: skip
    """What the machine of the one subject is for."""

    def order(lease: Lease, name: Name) -> Order:
        return Order(
            name, lease.candidate, parts.IMAGE, words, (), (), volume, "/grid", lease.deadline_s
        )

    return Wanted(SUBJECT, "cell", "grid", account, volume, terms(candidate, factor), order)


def main(folder: Path) -> None:
    """Make rounds until somebody says stop."""
    said = json.loads((folder / "wanted.json").read_text())
    candidate = parts.GPU if said["gpu"] else parts.CPU
    platform = Modal(Place(factor=said["factor"]), (candidate,), parts.QUICK)
    controller = rounds(folder, platform, [])
    controller.want(wanted(tuple(said["words"]), candidate, said["factor"]))
    while not (folder / "stop").exists():
        controller.go()
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
