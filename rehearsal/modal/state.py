"""What the double knows, on disk: a crash of it loses nothing, and a restart goes on.

`state.json` has apps, volumes, images and the replies to idempotency keys; every sandbox has a
folder of its own with `box.json`.  Written whole, by rename.  `tokens.json`, `secrets.json`,
`prices.json`, `capacity.json` and `faults.json` are written by whoever rehearses, and read here.
"""

import dataclasses
import json
import os
import secrets
import string
import time
from pathlib import Path
from typing import Any

_LETTERS = string.ascii_letters + string.digits


def fresh_id(prefix: str, length: int = 22) -> str:
    """An id in the vendor's form: 22 letters and digits make the SDK take a sandbox for V1."""
    return prefix + "-" + "".join(secrets.choice(_LETTERS) for _ in range(length))


def write(path: Path, fields: Any) -> None:
    """Publish JSON whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}~")
    beside.write_text(json.dumps(fields, indent=1))
    beside.replace(path)


def read(path: Path, otherwise: Any) -> Any:
    """JSON of a file, or something else when it is not there."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return otherwise


@dataclasses.dataclass
class Mount:
    """A volume in a sandbox: which, where, whether its view may be changed, and which part."""

    volume: str
    path: str
    read_only: bool
    part: str


@dataclasses.dataclass
class Box:
    """A sandbox.

    Args:
        id: Its id, whose shape says V1 or V2.
        task: Id of its task.
        app: Id of its app.
        workspace: Who pays.
        name: Its name, unique among the running ones of an app.
        tags: Names and values.
        words: First process.
        environment: What that sees, without the values of secrets.
        secrets: Names of secrets that it sees too.
        mounts: Volumes.
        device: GPU type, or `cpu`.
        timeout_s: As asked for, in the vendor's seconds.
        created_s: When it was asked for.
        started_s: When its container started; 0 while it waits for capacity.
        ended_s: When it ended; 0 before.
        status: Name of a `GenericResult` status; empty before the end.
        code: What the result says of the exit code.
        bounds: Cores and memory, requested and at most; no limit is 0.
    """

    id: str
    task: str
    app: str
    workspace: str
    name: str
    tags: dict[str, str]
    words: list[str]
    environment: dict[str, str]
    secrets: list[str]
    mounts: list[Mount]
    device: str
    timeout_s: int
    created_s: float
    image: str = ""
    regions: list[str] = dataclasses.field(default_factory=list)
    bounds: dict[str, int] = dataclasses.field(default_factory=dict)
    started_s: float = 0.0
    ended_s: float = 0.0
    status: str = ""
    code: int = 0
    keeper: int = 0

    @property
    def is_over(self) -> bool:
        """Whether it has a result."""
        return bool(self.status)

    @property
    def ran_s(self) -> float:
        """For how long it had a container, until now."""
        return (self.ended_s or time.time()) - self.started_s if self.started_s else 0.0


class State:
    """Everything, in memory and on disk.

    Args:
        root: Folder of the double.
        factor: How much faster than the vendor's its clocks run.
    """

    def __init__(self, root: Path, factor: float) -> None:
        self.root, self.factor = root, factor
        (root / "boxes").mkdir(parents=True, exist_ok=True)
        (root / "volumes").mkdir(exist_ok=True)
        kept = read(root / "state.json", {})
        self.apps: dict[str, dict[str, Any]] = kept.get("apps", {})
        self.volumes: dict[str, dict[str, Any]] = kept.get("volumes", {})
        self.passing: dict[str, dict[str, str]] = {}
        """Nameless secrets, which the SDK makes of plain variables: id -> names and values."""
        self.images: dict[str, str] = kept.get("images", {})
        self.replied: dict[str, str] = kept.get("replied", {})
        self.boxes = {box.id: box for box in self._kept_boxes()}

    def _kept_boxes(self) -> list[Box]:
        found = []
        for path in (self.root / "boxes").glob("*/box.json"):
            fields = read(path, {})
            mounts = [Mount(**each) for each in fields.pop("mounts")]
            found.append(Box(**fields, mounts=mounts))
        return sorted(found, key=lambda box: box.created_s)

    def save(self) -> None:
        """Keep what is not a sandbox."""
        names = ("apps", "volumes", "images", "replied")
        write(self.root / "state.json", {name: getattr(self, name) for name in names})

    def keep(self, box: Box) -> None:
        """Keep a sandbox."""
        self.home(box).mkdir(exist_ok=True)
        write(self.home(box) / "box.json", dataclasses.asdict(box))

    def home(self, box: Box) -> Path:
        """The folder of a sandbox."""
        return self.root / "boxes" / box.id

    def committed(self, volume: str) -> Path:
        """The tree that a volume has for whoever mounts or reloads it now."""
        return self.root / "volumes" / volume

    def environments(self) -> list[str]:
        """Names of the environments that every workspace has."""
        found: list[str] = read(self.root / "environments.json", ["main"])
        return found

    def tokens(self) -> dict[str, dict[str, str]]:
        """Id of a token -> its secret and workspace; read each time, so that it can be revoked."""
        found: dict[str, dict[str, str]] = read(self.root / "tokens.json", {})
        return found

    def secrets(self) -> dict[str, dict[str, str]]:
        """`workspace/environment/name` of a secret -> its names and values."""
        found: dict[str, dict[str, str]] = read(self.root / "secrets.json", {})
        return found

    def capacity(self, device: str) -> int:
        """How many sandboxes of a device may run."""
        return int(read(self.root / "capacity.json", {}).get(device, 1 << 30))

    def price(self, device: str) -> float:
        """Micro-dollars of an hour."""
        return float(read(self.root / "prices.json", {}).get(device, 0))

    def running(self, device: str) -> list[Box]:
        """Sandboxes of a device that have a container now."""
        boxes = [box for box in self.boxes.values() if box.device == device]
        return [box for box in boxes if box.started_s and not box.is_over]
