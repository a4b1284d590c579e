"""What a machine does when its controller is silent: it works on, and a person hears of it once."""

from collections.abc import Callable
from pathlib import Path

from quantgrid.errors import QuantgridError
from quantgrid.notify import Event, Kind, tell
from quantgrid.rental.lease import Lease
from quantgrid.rental.presence import find_silence_s
from quantgrid.settings import load_settings
from quantgrid.store import Store


class Silence:
    """Listens for the controller of a lease.

    Args:
        store: That of the register.
        patience_s: Silence that nobody hears of, in seconds of the store's clock.
        find_lease: The newest state of the lease that this machine knows.
        find_code: The sources of its task, whose configuration says whom to tell.
    """

    def __init__(
        self,
        store: Store,
        patience_s: float,
        find_lease: Callable[[], Lease | None],
        find_code: Callable[[], Path | None],
    ) -> None:
        self._store, self._patience_s = store, patience_s
        self._find_lease, self._find_code = find_lease, find_code
        self._told = ""

    def listen(self) -> None:
        """Tell of a controller that was silent for too long, each once over all machines.

        Raises:
            PlatformFault: when the store does not answer.
        """
        lease, code = self._find_lease(), self._find_code()
        if lease is None or code is None or lease.by == self._told:
            return
        silence_s = find_silence_s(self._store, lease.by)
        if silence_s is not None and silence_s > self._patience_s:
            self._told = lease.by
            self._tell(lease, silence_s, code)

    def _tell(self, lease: Lease, silence_s: float, code: Path) -> None:
        text = (
            f"nothing was heard of the controller for {silence_s:.0f} s; machines on "
            f"{lease.platform} work on until their deadlines, and what they make is kept"
        )
        try:
            whom = load_settings(code, {}).notify
        except (QuantgridError, OSError):
            return  # a configuration that cannot be read hinders no work
        tell(Event(Kind.SILENCE, f"grid {lease.grid}", text, lease.by), whom, self._store)
