"""What the platform knows, on disk: a crash of the double loses nothing and ends no machine.

FOLDER/world.json            what the platform is like: accounts, devices, volumes, limits
FOLDER/port                  where it listens
FOLDER/machines/<id>.json    every machine that ever was
FOLDER/disks/<id>/           the private folder of a machine, where its first process starts
FOLDER/logs/<id>             what its processes said
FOLDER/volumes/<id>/         named storage, known by its id
FOLDER/image/bash            the shell of every image, which notes what is worked on
FOLDER/works/<id>            those notes
FOLDER/calls.jsonl           every call and what became of it, without tokens and secrets
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

DEFAULT: dict[str, Any] = {
    "factor": 1.0,  # nominal seconds in a second of this machine
    "accounts": {"token-main": {"id": "lab/main", "balance_usd": 100.0, "quota": 1000}},
    "devices": {"cpu": {"price_usd": 0.36, "free": 1000, "regions": ["here", "there"]}},
    "volumes": {},  # id: {"name", "account", "region", "size_bytes", "view": "shared" | "frozen"}
    "limits": {"cap_s": 86400, "grace_s": 10, "boot_s": 600, "create_s": 60, "visible_s": 60},
    "boot_s": 0.0,  # from the create to the first process
    "hidden_s": 0.0,  # how long a fresh machine is shown to nobody
    "restarts": False,  # whether a first process that returned is started again
    "broken_images": [],  # whoever asks for one pays for a machine that never starts
    "regions_down": [],
    "secrets": {},  # what the account keeps: name -> value
    "nemesis": {"rate": 0.0, "seed": 0, "kinds": []},  # and "lost_rate", "lost_s": hosts
}


@dataclass(frozen=True)
class Machine:
    """A machine; moments are Unix seconds of the double's own clock, prices those of an hour."""

    id: str
    name: str
    account: str
    token: str
    image: str
    words: list[str]
    environment: dict[str, str]
    secrets: list[str]
    device: str
    region: str
    volume: str
    mount: str
    price_usd: float
    begin_s: float
    ready_s: float
    visible_s: float
    group: int = 0
    group_start: str = ""
    starts: int = 0
    started_s: float = 0.0
    asked_s: float = 0.0
    killed: bool = False
    lost_s: float = 0.0
    ended_s: float = 0.0
    exit_code: int | None = None

    def cost_microusd(self, now_s: float) -> int:
        """Seconds of the double's clock times price, until its last process was gone; rounded up.

        The account pays whole micro-dollars for each machine.
        """
        seconds = (self.ended_s or now_s) - self.begin_s
        return math.ceil(seconds * self.price_usd * 1e6 / 3600)


def write(path: Path, text: str) -> None:
    """Replace a file, so that a reader sees the old one or the new one."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(3).hex()}")
    beside.write_text(text)
    beside.replace(path)


def start_of(pid: int) -> str:
    """When a process started, in ticks since boot; empty when there is none (proc(5))."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


@dataclass
class State:
    """Everything in a folder, and in memory what was read or written last."""

    folder: Path
    world: dict[str, Any] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "State":
        """What a double that ran here before has left; of a new folder the defaults."""
        for name in ("machines", "disks", "logs", "volumes"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        told = folder / "world.json"
        world = DEFAULT | (json.loads(told.read_text()) if told.exists() else {})
        found = (
            Machine(**json.loads(path.read_text())) for path in (folder / "machines").glob("*.json")
        )
        state = cls(folder, world, {machine.id: machine for machine in found})
        for volume in world["volumes"]:
            state.volume_folder(volume).mkdir(exist_ok=True)
        return state

    def change_world(self, changes: dict[str, Any]) -> None:
        """The platform is another one from now on."""
        self.world |= changes
        for volume in self.world["volumes"]:
            self.volume_folder(volume).mkdir(exist_ok=True)
        write(self.folder / "world.json", json.dumps(self.world, indent=1))

    def keep(self, machine: Machine, **changes: Any) -> Machine:
        """Write a machine down."""
        machine = replace(machine, **changes)
        text = json.dumps(asdict(machine))
        write(self.folder / "machines" / f"{machine.id}.json", text)
        self.machines[machine.id] = machine
        return machine

    def volume_folder(self, volume: str) -> Path:
        """Where the files of a volume are."""
        return self.folder / "volumes" / volume

    def disk(self, machine: str) -> Path:
        """The private folder of a machine."""
        return self.folder / "disks" / machine

    def log(self, machine: str) -> Path:
        """What the processes of a machine said."""
        return self.folder / "logs" / machine

    def alive(self) -> Iterator[Machine]:
        """Machines that cost something now."""
        yield from (each for each in list(self.machines.values()) if not each.ended_s)
