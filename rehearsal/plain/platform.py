"""The port of rented machines on this platform: a thin client.

It is the only module here that knows the product, and the product does not know it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from quantgrid.rental.errors import Call, CallFault, Trouble
from quantgrid.rental.port import (
    Account,
    Candidate,
    Ended,
    Limits,
    Machine,
    MachineState,
    Order,
    Price,
    Statement,
    VolumeFacts,
)
from rehearsal.plain import client

_TROUBLES = {
    "no-account": Trouble.ACCOUNT,
    "no-money": Trouble.ACCOUNT,
    "quota": Trouble.CAPACITY,  # a machine of ours that ends makes room
    "no-capacity": Trouble.CAPACITY,
    "name-taken": Trouble.ALREADY,
    "bad-request": Trouble.FATAL,
    "busy": Trouble.RETRY,
}
_USD = 1_000_000
SOURCE, DATE = "catalogue of the double", "2026-11-30"


class PlainPlatform:
    """A client of one account.

    Args:
        address: Host and port.
        token: Who calls.
        factor: Nominal seconds in one second of this machine.
        limits: What the platform allows, in nominal seconds.
        timeout_s: The longest that a call takes.
    """

    name = "plain"

    def __init__(
        self,
        address: str,
        token: str,
        *,
        factor: float = 1.0,
        limits: Mapping[str, float] | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self._address, self._token, self._timeout_s = address, token, timeout_s
        told = limits or {"cap_s": 86400, "grace_s": 10, "boot_s": 600} | {
            "create_s": 60,
            "visible_s": 60,
        }
        self.limits = Limits(**{name: seconds / factor for name, seconds in told.items()})

    def whoami(self) -> Account:
        """See `Platform.whoami`."""
        told = self._call(Call.WHOAMI)
        return Account(told["id"], round(told["balance_usd"] * _USD))

    def volume(self, id: str, /) -> VolumeFacts | None:  # noqa: A002 - the platform's word
        """See `Platform.volume`."""
        told = self._call(Call.VOLUME, volume=id)
        return VolumeFacts(**told) if told else None

    def candidates(self, device: str, num_devices: int) -> tuple[Candidate, ...]:
        """See `Platform.candidates`."""
        return tuple(
            Candidate(
                device,
                num_devices,
                each["region"],
                Price(round(each["price_usd"] * _USD), SOURCE, DATE),
            )
            for each in self._call(Call.CANDIDATES, device=device)
        )

    def launch(self, order: Order) -> Machine:
        """See `Platform.launch`."""
        told = self._call(
            Call.LAUNCH,
            name=str(order.name),
            image=order.image,
            words=list(order.command),
            environment=dict(order.environment),
            secrets=list(order.secrets),
            device=order.candidate.device,
            region=order.candidate.region,
            volume=order.volume,
            mount=order.mount,
        )
        return _machine(told)

    def find(self, name: str) -> Machine | None:
        """See `Platform.find`."""
        told = self._call(Call.FIND, name=name)
        return _machine(told) if told else None

    def machines(self, owner: str) -> tuple[Machine, ...]:
        """See `Platform.machines`."""
        found = map(_machine, self._call(Call.MACHINES))
        return tuple(each for each in found if each.name.startswith(f"qg-{owner}-"))

    def observe(self, id: str, /) -> Machine | None:  # noqa: A002 - the platform's word
        """See `Platform.observe`."""
        told = self._call(Call.OBSERVE, machine=id)
        return _machine(told) if told else None

    def stop(self, id: str, /) -> None:  # noqa: A002 - the platform's word
        """See `Platform.stop`."""
        self._call(Call.STOP, machine=id)

    def logs(self, id: str, tail: int, /) -> str:  # noqa: A002 - the platform's word
        """See `Platform.logs`."""
        return str(self._call(Call.LOGS, machine=id, tail=tail))

    def statements(self, ended: Sequence[Ended]) -> Mapping[str, Statement]:
        """See `Platform.statements`; here it is said as soon as all machines of a name ended."""
        told = self._call(Call.STATEMENTS, names=[str(each.name) for each in ended])
        return {name: Statement(*words) for name, words in told.items()}

    def _call(self, call: Call, **arguments: Any) -> Any:
        unknown = Trouble.AMBIGUOUS if call is Call.LAUNCH else Trouble.RETRY
        try:
            reply = client.call(self._address, self._token, call, self._timeout_s, **arguments)
        except client.NoReply as error:
            raise CallFault(unknown, call, seen=error) from error
        if "error" in reply:
            trouble = _TROUBLES.get(reply["error"], unknown)
            seen = f"{reply['error']}: {reply['text']}"
            raise CallFault(trouble, call, seen=seen, retry_after_s=reply["after_s"])
        return reply["ok"]


def _machine(told: Mapping[str, Any]) -> Machine:
    return Machine(**{**told, "state": MachineState(told["state"])})


def from_environment(environ: Mapping[str, str]) -> PlainPlatform:
    """What a machine ends itself with: its own key, which ends no other machine."""
    return PlainPlatform(environ["PLAIN_URL"], environ["PLAIN_TOKEN"])
