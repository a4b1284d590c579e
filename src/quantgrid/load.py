"""Configuration from files to objects: schema first, then meaning; errors name file and line.

The door to all of it: settings and platforms are in `settings`, files and schemas in `schemas`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from quantgrid import layout
from quantgrid.errors import ConfigRefusal
from quantgrid.forms import parse_form
from quantgrid.grid import Block, Budget, Grid, expand
from quantgrid.own_script import OwnCell
from quantgrid.recipe import Recipe
from quantgrid.schemas import Validate, check, check_schema, names, read, refuse_missing
from quantgrid.select import Selection
from quantgrid.select import parse as parse_selection
from quantgrid.settings import Platform, Settings, load_platform, load_settings
from quantgrid.spec import Evaluation, Form, Model, with_floats
from quantgrid.yaml_lines import Document

__all__ = [
    "Platform",
    "Settings",
    "Validate",
    "check",
    "check_schema",
    "load_corpus",
    "load_grid",
    "load_model",
    "load_platform",
    "load_settings",
    "names",
]


def load_model(root: Path, name: str, validate: Validate | None = None) -> Model:
    """A model of `config/models`.

    Raises:
        ConfigRefusal: when it is not there (lists the models) or cannot be meant.
    """
    document = read(root, "model", name, validate)
    model = Model(name=name, **with_floats(Model, document.data))
    if model.d_model % (2 * model.num_heads):
        raise ConfigRefusal(
            f"{model.num_heads} heads do not divide d_model {model.d_model} into even widths",
            where=document.where("num_heads"),
        )
    if model.batch_sequences % (model.microbatch_sequences or 1):
        raise ConfigRefusal(
            f"parts of {model.microbatch_sequences} do not divide a batch evenly",
            expected=f"a divisor of {model.batch_sequences} sequences",
            where=document.where("microbatch_sequences"),
        )
    return model


def load_corpus(root: Path, name: str, validate: Validate | None = None) -> Recipe:
    """The recipe of a corpus of `config/corpora`.

    Raises:
        ConfigRefusal: when it is not there (lists the corpora), is not pinned or cannot be meant.
    """
    document = read(root, "corpus", name, validate)
    pins, vocabulary = layout.pins_file(root, name), layout.tokeniser_pins(root, name)
    has_files = document.data.get("tokeniser", "bytes") != "bytes"
    return Recipe.from_mapping(
        document.data, _read(pins), name, _read(vocabulary) if has_files else ""
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def load_grid(root: Path, name: str, validate: Validate | None = None) -> Grid:
    """A grid of `config/grids`, expanded to its cells.

    Raises:
        ConfigRefusal: when it is not there (lists the grids), or anything in it cannot be meant.
    """
    document = read(root, "grid", name, validate)
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
    refuse_missing(root, "corpus", name, document.where("corpus"))
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
            refuse_missing(self.root, "model", name, self._where(block, "models", index))
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
