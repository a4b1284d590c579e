"""What to run and where: the settings of a working copy and the limits of its platforms."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from quantgrid import layout, yaml_lines
from quantgrid.schemas import Validate, check, read, refuse_missing

MICROUSD = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Money:
    """What may be spent where platforms are paid; no fingerprint depends on it.

    Args:
        max_usd_per_grid: Dollars that a grid may cost in all; 0 until a person allows some.
        max_usd_per_cell: Dollars that one cell may cost; None for no bound of its own.
        max_usd_per_day: Dollars of a day in UTC, over all grids of an archive.
        cents_per_hour: What all rented machines together may cost in an hour.
        probe_max_usd: Dollars that the probes of a grid may cost before it has a clearance.
    """

    max_usd_per_grid: float = 0.0
    max_usd_per_cell: float | None = None
    max_usd_per_day: float | None = None
    cents_per_hour: float | None = None
    probe_max_usd: float = 0.0

    def bounds(self) -> tuple[int | None, int, int | None, int | None]:
        """The fields of `rental.spend.Caps`, in whole micro-dollars."""
        cents = self.cents_per_hour
        return (
            _microusd(self.max_usd_per_cell),
            round(self.max_usd_per_grid * MICROUSD),
            _microusd(self.max_usd_per_day),
            None if cents is None else _microusd(cents / 100),
        )


def _microusd(amount: float | None) -> int | None:
    return None if amount is None else round(amount * MICROUSD)


@dataclass(frozen=True, kw_only=True, slots=True)
class Notify:
    """Whom to tell what happens while nobody looks.

    Args:
        command: A program and its arguments; it gets the event as JSON on standard input.
        webhook: An address that the event is posted to; `$NAME` is that of a variable.
        timeout_s: How long each of them may take.
        spend_at: Parts of the grid's cap at which it is told what was spent.
    """

    command: tuple[str, ...] = ()
    webhook: str = ""
    timeout_s: float = 10.0
    spend_at: tuple[float, ...] = (0.5, 0.8, 1.0)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What is done about findings of the watch; no fingerprint depends on it.

    Args:
        policy: Rule -> `stop` or `record`, for rules that shall act otherwise than they do.
        stall_s: Seconds without a step after which a cell is ended.
        tokens_per_s: Model -> tokens a second that were measured on this kind of device.
    """

    policy: Mapping[str, str] = field(default_factory=dict)
    stall_s: float = 900.0
    tokens_per_s: Mapping[str, float] = field(default_factory=dict)

    def options(self) -> list[str]:
        """Options of `quantgrid run`; none where everything is as usual."""
        told = {name: value for name, value in asdict(self).items() if value != _USUAL[name]}
        return ["--watch", json.dumps(told, sort_keys=True)] if told else []


_USUAL = asdict(Watch())


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What to run and where: `config/config.yaml`, overridden by `--config`.

    Args:
        root: Folder of the Snakefile, absolute.
        grid: Name of the grid.
        select: Choice of cells, empty for all.
        archive: Folder (relative to the working copy) or address of the archive.
        archive_id: Id that the archive must have; empty for any.
        archives: Archives to read from as well.
        volume: Folder of the corpora, relative to the working copy when not absolute.
        platform: Name of the platform.
        on_held: Whether cells that somebody else computes are left to them, or waited for.
        money: What may be spent.
        notify: Whom to tell of alarms, refusals and the end.
        watch: What is done about findings of the watch.
    """

    root: Path
    grid: str = "demo"
    select: str = ""
    archive: str = "archive"
    archive_id: str = ""
    archives: tuple[str, ...] = ()
    volume: str = "volume"
    platform: str = "local"
    on_held: str = "leave"
    money: Money = Money()
    notify: Notify = Notify()
    watch: Watch = Watch()


@dataclass(frozen=True, kw_only=True, slots=True)
class Platform:
    """Limits of a place where cells run.

    Args:
        name: Name of the platform.
        device: Device that a cell uses.
        threads: Threads that a cell uses.
        cap_s: Seconds after which the platform ends an attempt; None if it never does.
        grace_s: Seconds between SIGTERM and SIGKILL.
        warm: Whether the controller keeps an interpreter warm that jobs are forked from.
        durable: Whether its volume must outlive container and power: jobs refuse any other one.
        volume_id: Identity of the volume that is meant; None where any will do.
        reload: How to refresh what a machine sees of the volume (see `quantgrid.reload`).
        clock_factor: How much faster than a clock the cap and the grace run, for rehearsals.
        interruption_s: Mean seconds between two interruptions; None where nobody knows.
        chains: Whether the runner itself starts the next link when a link ended by its cap.
        gpus: Numbers of the GPUs that cells may use, or "auto" for all that are visible.
        gpu_share: The part of a GPU that a cell takes.
        hold_ttl_s: Our own silence after which others may take over a cell from us.
        bills_as: The file of config/devices with the price of an hour; None where none is paid.
        at_once: Cells that share one machine; a probe measures with as many.
        rented: Machines that are rented here (see `quantgrid.rental.facts`); None where none are.
        mirror_state: Whether checkpoints are mirrored to the archive's store while a job runs.
    """

    name: str
    device: str
    threads: int
    cap_s: int | None
    grace_s: int
    warm: bool = False
    durable: bool = False
    volume_id: str | None = None
    reload: str = "none"
    clock_factor: float = 1.0
    interruption_s: float | None = None
    chains: bool = False
    gpus: str | list[int] = "auto"
    gpu_share: float = 1.0
    hold_ttl_s: float = 120.0
    bills_as: str | None = None
    at_once: int = 1
    rented: Mapping[str, Any] | None = None
    mirror_state: bool = False

    @property
    def is_paid(self) -> bool:
        """Whether an hour here costs money, so that nothing starts before a clearance."""
        return self.bills_as is not None

    @property
    def own_grace_s(self) -> float:
        """The grace in seconds of this machine's clock."""
        return self.grace_s / self.clock_factor

    def limits(self, *, waits: bool = False) -> list[str]:
        """Options of `quantgrid run`: what is allowed, and whether other holders are waited for."""
        options = ["--grace-s", str(self.grace_s), "--hold-ttl-s", str(self.hold_ttl_s)]
        options += [] if self.cap_s is None else ["--cap-s", str(self.cap_s)]
        mean_s = self.interruption_s
        options += [] if mean_s is None else ["--interruption-s", str(mean_s)]
        if self.device == "cuda":
            names = self.gpus if isinstance(self.gpus, str) else ",".join(map(str, self.gpus))
            options += ["--gpus", names, "--gpu-share", str(self.gpu_share)]
        options += ["--patience-s", "inf"] if waits else []
        options += ["--chains"] if self.chains else []
        options += ["--mirrors"] if self.mirror_state else []
        return options + (
            ["--clock-factor", str(self.clock_factor)] if self.clock_factor != 1 else []
        )


def load_settings(
    root: Path, overrides: Mapping[str, object], validate: Validate | None = None
) -> Settings:
    """The settings of a working copy.

    Args:
        root: Folder of the Snakefile.
        overrides: What a person gave on the command line; None means not given.
        validate: Schema validation; `check_schema` when not given.

    Raises:
        ConfigRefusal: for an unknown key, a wrong type, or a grid or platform that is not there.
    """
    document = yaml_lines.read(root / layout.CONFIG, root=root)
    given = {key: _given(key, value) for key, value in overrides.items() if value is not None}
    changed = {key: value for key, value in given.items() if value != document.data.get(key)}

    def where(*keys: str | int) -> str:
        key = str(keys[0]) if keys else ""
        return f"--config {key}={changed[key]}" if key in changed else document.where(*keys)

    data = {**document.data, **changed}
    check(data, where, layout.schema_file(root, "config"), validate)
    settings = Settings(root=root.absolute(), **_parts(_with_endpoint(data)))
    refuse_missing(root, "grid", settings.grid, where("grid"))
    refuse_missing(root, "platform", settings.platform, where("platform"))
    return settings


def _parts(data: dict[str, Any]) -> dict[str, Any]:
    """Sections as objects; what a file leaves out has its default."""
    told = dict(data.get("notify", {}))
    told |= {name: tuple(told[name]) for name in ("command", "spend_at") if name in told}
    sections = {"money": Money(**data.get("money", {})), "notify": Notify(**told)}
    return {**data, **sections, "watch": Watch(**data.get("watch", {}))}


def _with_endpoint(data: dict[str, Any]) -> dict[str, Any]:
    """Addresses of buckets with the endpoint that belongs to them."""
    endpoint = data.pop("endpoint_url", "")

    def at(address: str) -> str:
        is_bare = endpoint and address.startswith("s3://") and "?" not in address
        return f"{address}?endpoint_url={endpoint}" if is_bare else address

    also = tuple(at(address) for address in data.get("archives", ()))
    return {**data, "archive": at(data.get("archive", "archive")), "archives": also}


def _given(key: str, value: object) -> object:
    """Snakemake reads a number within a section as a text, and a name of digits as a number."""
    if key == "money" and isinstance(value, Mapping):
        texts = {name: each for name, each in value.items() if isinstance(each, str)}
        return {**value, **{name: yaml.safe_load(each) for name, each in texts.items()}}
    return _text(value)


def _text(value: object) -> object:
    """Snakemake reads `--config grid=7` as a number; a name is a text all the same."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


def load_platform(root: Path, name: str, validate: Validate | None = None) -> Platform:
    """A platform of `config/platforms`.

    Raises:
        ConfigRefusal: when it is not there (lists the platforms) or cannot be meant.
    """
    document = read(root, "platform", name, validate)
    platform = Platform(name=name, **document.data)
    if platform.bills_as is not None:
        refuse_missing(root, "device", platform.bills_as, document.where("bills_as"))
    return platform
