"""What jobs cost where a platform is paid and no machine is rented for them: its price by the hour.

Written down in the same register as the machines of rented platforms, so that caps, `budget` and
`leases` know of it.  Only what ended is: who is killed on the spot has written nothing.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantgrid.cleared import Cleared
from quantgrid.errors import ConfigRefusal, PlatformFault, QuantgridError
from quantgrid.fingerprint import digest
from quantgrid.rental import spend
from quantgrid.rental.register import Register
from quantgrid.rental.thresholds import Thresholds
from quantgrid.settings import Money
from quantgrid.store import Store


@contextmanager
def charged(store: Store, cleared: Cleared | None, cell: str, code: Path) -> Iterator[None]:
    """Write down what a job took, however it ends, and tell a person what part of a cap is spent.

    A store that does not answer neither ends nor fails the work.

    Args:
        store: That of the archive.
        cleared: What the job was started under.
        cell: What it is for.
        code: The folder of the Snakefile, whose configuration says whom to tell.

    Raises:
        ConfigRefusal: without a clearance, which alone says whose money it is.
    """
    if cleared is None:
        raise ConfigRefusal("a job that pays needs a clearance", do="Give --clearance as well.")
    begin_s = store.now().timestamp()
    try:
        yield
    finally:
        try:
            _charge(Register(store), cleared, cell, begin_s)
            _tell(store, cleared, code)
        except (PlatformFault, OSError) as error:
            print(f"money: the cost of {cell} was not written down: {error}", file=sys.stderr)


def _charge(register: Register, cleared: Cleared, cell: str, begin_s: float) -> None:
    nonce, per_h = os.urandom(6).hex(), cleared.microusd_per_h
    begin, end = spend.whole(begin_s, register.store.now().timestamp())
    register.promise(spend.Promise(nonce, digest(cell), cleared.grid, begin, end, per_h))
    register.charge(spend.Cost(nonce, begin, end, per_h))


def _tell(store: Store, cleared: Cleared, code: Path) -> None:
    from quantgrid.settings import load_settings

    try:
        whom = load_settings(code, {}).notify
    except QuantgridError:
        return
    money = Money(**cleared.money)
    Thresholds(cleared.grid, money, whom, store).look(Register(store).books())
