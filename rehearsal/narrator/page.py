"""The rehearsal as one page that needs no network."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from rehearsal.narrator import told
from rehearsal.narrator.told import Act, Play

_TEMPLATE = Path(__file__).with_name("page.j2")


def publish(path: Path, grids: Mapping[str, Play], acts: Sequence[Act], wall_s: float) -> None:
    """Write the page beside its place, then put it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(html(grids, acts, wall_s), encoding="utf-8")
    beside.replace(path)


def html(grids: Mapping[str, Play], acts: Sequence[Act], wall_s: float) -> str:
    """The page.

    Args:
        grids: How a grid went on each platform.
        acts: All incidents, with what was played of them.
        wall_s: How long all took.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(prose=_prose, span=told.span, money=told.money)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        grids=grids,
        acts=acts,
        wall_s=wall_s,
        counts={
            word: sum(act.outcome == word for act in acts)
            for word in ("stopped", "NOT STOPPED", "not played")
        },
        billing=[play.test for act in acts for play in act.plays if play.billing],
        cost=told.cost,
        when=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _prose(text: str) -> Markup:
    """A text of a docstring, with its code as code."""
    parts = re.split(r"`([^`]+)`", text)
    found = Markup()
    for number, part in enumerate(parts):
        found += Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
    return found
