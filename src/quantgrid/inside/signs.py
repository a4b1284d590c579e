"""What a machine says of itself in the register: each sign is created once, under its nonce."""

import json
from typing import NamedTuple

from quantgrid.rental.lease import Exit, Lease, Phase
from quantgrid.rental.register import BEAT, CLAIM, EXIT, START, Register, exit_bytes, sign_key
from quantgrid.store import Store

DEVICE = "device"
_KEPT = 2
"""Beats that are there at any time: the newest, and the one before."""
_WANTED = {Phase.INTENT, Phase.CREATING, Phase.RECONCILE, Phase.BOOTING, Phase.RUNNING}
"""In these phases a lease wants the machine of its newest nonce."""


class Signs:
    """The signs of one machine.

    Args:
        store: The store of the register.
        subject: Of its lease.
        nonce: Of the machine.
        machine: Its id.
    """

    def __init__(self, store: Store, subject: str, nonce: str, machine: str) -> None:
        self.store, self.subject, self.nonce, self.machine = store, subject, nonce, machine
        self.starts = 0
        self.lease: Lease | None = None
        """Its newest state that was seen here."""
        self._register, self._number, self._is_wanted = Register(store), 0, False
        self._beats = 0
        self._kept: list[str] = []

    def start(self) -> None:
        """Count one more start of the first process."""
        while not self.store.put_once(self._key(START, f"{self.starts:06d}"), b""):
            self.starts += 1

    def has_ended(self) -> bool:
        """Whether this machine has said already how it ended."""
        return self.store.find(self._key(EXIT)) is not None

    def claim(self) -> bool:
        """Be the machine that works for the nonce; False when another one is."""
        mine = self.machine.encode()
        key = self._key(CLAIM)
        return self.store.put_once(key, mine) or self.store.find(key) == mine

    def is_wanted(self) -> bool:
        """Whether the newest state of the lease still names this machine."""
        newer = self._register.newest(self.subject, after=self._number)
        if newer:
            self._number, self.lease = newer.number, newer.lease
            self._is_wanted = newer.lease.nonce == self.nonce and newer.lease.phase in _WANTED
        return self._is_wanted

    def beat(self, progress: int) -> None:
        """Say that it lives; of the beats before only the last one is kept.

        A listing that is being made shows neither a key that is new nor one that goes, and whoever
        sees no beat at all takes the machine for a silent one.
        """
        key = self._key(BEAT, f"{self.starts:02d}{self._beats:06d}", str(progress))
        self._beats += 1
        self.store.put_once(key, b"")
        self._kept.append(key)
        while len(self._kept) > _KEPT:
            self.store.delete(self._kept[0])
            self._kept.pop(0)

    def device(self, facts: dict[str, object]) -> None:
        """Say what it computes on."""
        data = json.dumps(facts, sort_keys=True).encode()
        self.store.put_once(self._key(DEVICE, f"{self.starts:06d}"), data)

    def exit(self, record: Exit) -> None:
        """Say last of all how it ended."""
        self.store.put_once(self._key(EXIT), exit_bytes(record))

    def _key(self, kind: str, *words: str) -> str:
        return sign_key(self.nonce, kind, *words)


class Left(NamedTuple):
    """How a machine leaves: the reason of its exit record, and the code beside it."""

    reason: str
    code: int
    sentence: str = ""
