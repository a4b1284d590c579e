"""Configuration from files to objects: schema first, then meaning; errors name file and line.

The schemas of `config/schemas` say which keys there are and of which type.  Who calls brings the
validator: Snakemake its own, the command line `check_schema`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from quantgrid import layout, yaml_lines
from quantgrid.errors import ConfigRefusal
from quantgrid.forms import Where, parse_form, refuse_unknown
from quantgrid.grid import Block, Budget, Grid, expand
from quantgrid.own_script import OwnCell
from quantgrid.recipe import Recipe
from quantgrid.select import Selection
from quantgrid.select import parse as parse_selection
from quantgrid.spec import Evaluation, Form, Model, with_floats
from quantgrid.yaml_lines import Document

Validate = Callable[[Any, str], object]
"""Checks data against the JSON schema at a path, in place; `snakemake.utils.validate` is one."""


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
    given = {key: _text(value) for key, value in overrides.items() if value is not None}
    changed = {key: value for key, value in given.items() if value != document.data.get(key)}

    def where(*keys: str | int) -> str:
        key = str(keys[0]) if keys else ""
        return f"--config {key}={changed[key]}" if key in changed else document.where(*keys)

    data = {**document.data, **changed}
    check(data, where, layout.schema_file(root, "config"), validate)
    settings = Settings(root=root.absolute(), **_with_endpoint(data))
    _refuse_missing(root, "grid", settings.grid, where("grid"))
    _refuse_missing(root, "platform", settings.platform, where("platform"))
    return settings


def _with_endpoint(data: dict[str, Any]) -> dict[str, Any]:
    """Addresses of buckets with the endpoint that belongs to them."""
    endpoint = data.pop("endpoint_url", "")

    def at(address: str) -> str:
        is_bare = endpoint and address.startswith("s3://") and "?" not in address
        return f"{address}?endpoint_url={endpoint}" if is_bare else address

    also = tuple(at(address) for address in data.get("archives", ()))
    return {**data, "archive": at(data.get("archive", "archive")), "archives": also}


def _text(value: object) -> object:
    """Snakemake reads `--config grid=7` as a number; a name is a text all the same."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


def load_model(root: Path, name: str, validate: Validate | None = None) -> Model:
    """A model of `config/models`.

    Raises:
        ConfigRefusal: when it is not there (lists the models) or cannot be meant.
    """
    document = _read(root, "model", name, validate)
    model = Model(name=name, **with_floats(Model, document.data))
    if model.d_model % (2 * model.num_heads):
        raise ConfigRefusal(
            f"{model.num_heads} heads do not divide d_model {model.d_model} into even widths",
            where=document.where("num_heads"),
        )
    return model


def load_platform(root: Path, name: str, validate: Validate | None = None) -> Platform:
    """A platform of `config/platforms`.

    Raises:
        ConfigRefusal: when it is not there (lists the platforms) or cannot be meant.
    """
    return Platform(name=name, **_read(root, "platform", name, validate).data)


def load_corpus(root: Path, name: str, validate: Validate | None = None) -> Recipe:
    """The recipe of a corpus of `config/corpora`.

    Raises:
        ConfigRefusal: when it is not there (lists the corpora), is not pinned or cannot be meant.
    """
    document = _read(root, "corpus", name, validate)
    pins = layout.pins_file(root, name)
    pins_text = pins.read_text(encoding="utf-8") if pins.is_file() else ""
    return Recipe.from_mapping(document.data, pins_text, name)


def load_grid(root: Path, name: str, validate: Validate | None = None) -> Grid:
    """A grid of `config/grids`, expanded to its cells.

    Raises:
        ConfigRefusal: when it is not there (lists the grids), or anything in it cannot be meant.
    """
    document = _read(root, "grid", name, validate)
    own = _own_cells(root, document)
    models = [name for name, data in document.data["blocks"].items() if "script" not in data]
    if not models:
        recipe = _corpus(root, document, validate) if "corpus" in document.data else None
        _refuse_empty(name, own, document)
        return Grid(name=name, corpus=recipe, cells=(), own=own)
    _refuse_incomplete(document, models[0])
    reader = _GridReader(root, document, validate)
    grid = expand(
        name,
        corpus=_corpus(root, document, validate),
        evaluation=reader.evaluation(),
        blocks=[reader.block(block) for block in models],
        where=document.where("evaluation", "sequences"),
    )
    return replace(grid, own=own) if own else grid


def _corpus(root: Path, document: Document, validate: Validate | None) -> Recipe:
    name = document.data["corpus"]
    _refuse_missing(root, "corpus", name, document.where("corpus"))
    return load_corpus(root, name, validate)


def _own_cells(root: Path, document: Document) -> tuple[OwnCell, ...]:
    blocks = document.data["blocks"]
    if not any("script" in data for data in blocks.values()):
        return ()
    from quantgrid.own_block import read_blocks  # most grids have none

    def where(*keys: str | int) -> str:
        return document.where("blocks", *keys)

    return read_blocks(root, blocks, where, has_corpus="corpus" in document.data)


def _refuse_empty(name: str, own: tuple[OwnCell, ...], document: Document) -> None:
    if not own:
        raise ConfigRefusal(f"grid {name} has no cells", where=document.where("blocks"))


def _refuse_incomplete(document: Document, block: str) -> None:
    for key in ("corpus", "evaluation"):
        if key not in document.data:
            raise ConfigRefusal(
                f"block {block} trains models, and the grid has no {key}",
                where=document.where("blocks", block),
                do=f"Add `{key}` at the top of the file; config/README.md shows how.",
            )


@dataclass(frozen=True, slots=True)
class _GridReader:
    """Reads the blocks of one grid file; every model file is read once."""

    root: Path
    document: Document
    validate: Validate | None
    models: dict[str, Model] = field(default_factory=dict)

    def evaluation(self) -> Evaluation:
        facts = dict(self.document.data["evaluation"])
        if "metrics" in facts:
            facts["metrics"] = tuple(facts["metrics"])
        return Evaluation(**facts)

    def block(self, name: str) -> Block:
        data = self.document.data["blocks"][name]
        return Block(
            name=name,
            models=tuple(self._model(name, *each) for each in enumerate(data["models"])),
            budgets=tuple(self._budgets(name, data)),
            seeds=tuple(data["seeds"]),
            forms=tuple(self._form(name, *each) for each in enumerate(data["forms"])),
            passes=tuple(data.get("passes", (1,))),
            bounded=data.get("bounded", False),
            exclude=tuple(
                self._exclude(name, *each) for each in enumerate(data.get("exclude", ()))
            ),
        )

    def _where(self, *keys: str | int) -> str:
        return self.document.where("blocks", *keys)

    def _model(self, block: str, index: int, name: str) -> Model:
        if name not in self.models:
            _refuse_missing(self.root, "model", name, self._where(block, "models", index))
            self.models[name] = load_model(self.root, name, self.validate)
        return self.models[name]

    def _budgets(self, block: str, data: Mapping[str, Any]) -> Iterator[Budget]:
        given = [key for key in ("tokens", "tokens_per_parameter") if key in data]
        if len(given) != 1:
            raise ConfigRefusal(
                f"block {block} must say how long to train in one way",
                expected="tokens or tokens_per_parameter",
                seen=" and ".join(given) or "neither",
                where=self._where(block, *given[1:]),
            )
        for index, amount in enumerate(data[given[0]]):
            where = self._where(block, given[0], index)
            yield Budget(amount=amount, per_parameter=given[0] != "tokens", where=where)

    def _form(self, block: str, index: int, mapping: Mapping[str, Any]) -> tuple[Form, str]:
        def where(*keys: str | int) -> str:
            return self._where(block, "forms", index, *keys)

        return parse_form(mapping, where), where()

    def _exclude(self, block: str, index: int, text: str) -> Selection:
        try:
            return parse_selection(text)
        except ConfigRefusal as error:
            place = self._where(block, "exclude", index)
            raise ConfigRefusal(
                error.what, expected=error.expected, where=place, do=error.do
            ) from error


# -- files ----------------------------------------------------------------------------------------


def names(root: Path, section: str) -> list[str]:
    """What a section of the configuration holds: grids, corpora, models or platforms."""
    folder = root / layout.SECTIONS[section]
    return sorted(path.stem for path in folder.glob("*.yaml"))


def _refuse_missing(root: Path, section: str, name: str, where: str) -> None:
    refuse_unknown([name], names(root, section), lambda *_: where, section)


def _read(root: Path, section: str, name: str, validate: Validate | None) -> Document:
    _refuse_missing(root, section, name, layout.SECTIONS[section])
    document = yaml_lines.read(layout.section_file(root, section, name), root=root)
    check(document.data, document.where, layout.schema_file(root, section), validate)
    return document


# -- schemas --------------------------------------------------------------------------------------


def check_schema(data: Any, schema_path: str) -> None:
    """Check data against a JSON schema (draft 2020-12) in a YAML file.

    Raises:
        jsonschema.ValidationError: for the error that explains most.
    """
    from jsonschema import Draft202012Validator  # slow to import, and Snakemake brings its own
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(_schema(schema_path)).iter_errors(data))
    if error is not None:
        raise error


@cache
def _schema(path: str) -> Any:
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def check(data: Any, where: Where, schema: Path, validate: Validate | None) -> None:
    """Check data that came from a file against its schema.

    Raises:
        ConfigRefusal: naming file, line and, for an unknown key, the valid ones.
    """
    try:
        (validate or check_schema)(data, str(schema))
    except Exception as error:
        found = _validation_error(error)
        if found is None:
            raise
        raise _schema_refusal(found, where) from error


def _validation_error(error: BaseException | None) -> Any | None:
    """The schema error within an error of Snakemake's, which knows neither file nor line."""
    while error is not None:
        if hasattr(error, "absolute_path") and hasattr(error, "validator"):
            return error
        error = error.__cause__ or error.__context__
    return None


def _schema_refusal(error: Any, where: Where) -> ConfigRefusal:
    keys, valid = tuple(error.absolute_path), error.schema.get("properties", {})
    if error.validator == "additionalProperties":
        try:
            refuse_unknown(error.instance, valid, lambda *key: where(*keys, *key), "key here")
        except ConfigRefusal as refusal:
            return refusal
    path = ".".join(map(str, keys)) or "the file"
    return ConfigRefusal(f"{path}: {error.message}", where=where(*keys))
