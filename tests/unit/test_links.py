"""The links of a chain survive every death, and tell how far each of them came."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from quantgrid import atomic, layout, links
from quantgrid.errors import Fault
from quantgrid.links import CAP, CHECKPOINTED, DONE, FAILED, INTERRUPTED, Chain

LINK = {"attempt": "a1", "started": "2026-11-30T12:00:00Z", "wall_s": 9.0, "host": "h"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where a stage keeps its state."""
    return layout.state_folder(tmp_path, "n0-s0/800k", "trunk", "a" * 64)


def tell(state: Path, **facts: Any) -> None:
    """What a script tells of its newest checkpoint."""
    atomic.publish_json(layout.link_file(state), facts)


def run_link(state: Path, end: str, tokens: int | None, attempt: str = "a1") -> Chain:
    """One whole link; it saved at `tokens` if that is not None."""
    link = {**LINK, "attempt": attempt}
    Chain.read(state).open(link)
    if tokens is not None:
        tell(state, tokens=tokens, checkpoint=f"c{tokens}", saves=1, save_s=0.1, stall_s=0.0)
    chain = Chain.read_closing(state, attempt).closed(link, end)
    chain.save()
    return chain


def test_chain_lists_every_link_when_links_follow(state: Path) -> None:
    """Links of several attempts stand in order, each with what its script told."""
    run_link(state, CAP, 100, "a1")
    run_link(state, INTERRUPTED, None, "a2")
    chain = run_link(state, DONE, 300, "a3")

    assert [link["attempt"] for link in chain.links] == ["a1", "a2", "a3"]
    assert [link["is_newer"] for link in chain.links] == [True, False, True]
    assert chain.links[2]["tokens"] == 300
    assert chain.counters() == {"links": 2, "interruptions": 1, "failures": 0}


def test_link_is_interrupted_when_its_attempt_was_killed(state: Path) -> None:
    """The next attempt closes what the killed one could not, with its newest checkpoint."""
    Chain.read(state).open(LINK)
    tell(state, tokens=40, checkpoint="c40")

    chain = Chain.read(state)

    assert [link["end"] for link in chain.links] == [INTERRUPTED]
    assert (chain.links[0]["tokens"], chain.links[0]["is_newer"]) == (40, True)
    assert chain.links[0]["wall_s"] is None
    assert chain.newest == "c40 at 40 tokens"


@pytest.mark.parametrize("damage", ["", "{", "7", "[1]", '[{"end": 3}]'])
def test_chain_begins_again_when_its_file_is_damaged(state: Path, damage: str) -> None:
    """A torn list of links costs its history and nothing else."""
    state.parent.mkdir(parents=True)
    layout.links_file(state).write_text(damage)

    chain = run_link(state, DONE, 10)

    assert chain.links[-1]["end"] == DONE


@pytest.mark.parametrize("told", [b"", b"{", b'{"tokens": "many"}', b'{"tokens": true}', b"[]"])
def test_link_tells_nothing_when_the_script_wrote_nonsense(state: Path, told: bytes) -> None:
    """A script in any language wrote that file."""
    state.parent.mkdir(parents=True)
    layout.link_file(state).write_bytes(told)

    assert links.find_told(state) == {}
    assert links.newest_checkpoint(state) == ""


def test_chain_stands_still_when_two_links_saved_nothing(state: Path) -> None:
    """A third link would not help; the fault names the times and what was expected."""
    run_link(state, CAP, None, "a1").refuse_standstill("n0")
    chain = run_link(state, CAP, None, "a2")

    with pytest.raises(Fault, match=r"two links .* links of 9 s and 9 s, newest checkpoint none"):
        chain.refuse_standstill("n0")


@pytest.mark.parametrize(
    ("ends", "tokens"),
    [
        ((CAP, CAP), (None, 10)),
        ((CAP, CAP), (10, None)),
        ((INTERRUPTED, INTERRUPTED), (None, None)),
        ((CAP, INTERRUPTED), (None, None)),
        ((FAILED, CHECKPOINTED), (None, None)),
    ],
)
def test_chain_goes_on_when_one_of_two_links_saved_or_was_stopped(
    state: Path, ends: tuple[str, str], tokens: tuple[int | None, int | None]
) -> None:
    """Whoever was interrupted had no time to save, and says nothing about the script."""
    for number, (end, saved) in enumerate(zip(ends, tokens, strict=True)):
        chain = run_link(state, end, saved, f"a{number}")

    chain.refuse_standstill("n0")


def test_chain_stands_still_when_an_interruption_lies_between(state: Path) -> None:
    """An interruption is no progress, and does not hide that there is none."""
    for number, end in enumerate((CAP, INTERRUPTED, CAP)):
        chain = run_link(state, end, None, f"a{number}")

    with pytest.raises(Fault, match="no newer checkpoint"):
        chain.refuse_standstill("n0")


def test_newest_file_changes_when_any_file_does(tmp_path: Path) -> None:
    """Of a script that tells nothing, the newest file counts; debris of a dead writer does not."""
    state, own = tmp_path / "state", tmp_path / "own"
    assert links.newest_file(state, own) == ""
    seen = [""]
    for folder, name, text in [(state, "a", "1"), (own, "b", "2"), (state, "a", "333")]:
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        os.utime(folder / name, ns=(len(seen), len(seen)))
        seen.append(links.newest_file(state, own))
    (state / "a.qgpart-h@1@00").write_text("half")

    assert len(set(seen)) == 4
    assert links.newest_file(state, own) == seen[-1]


def test_clear_leaves_nothing_when_a_stage_is_done(state: Path, tmp_path: Path) -> None:
    """State, links and empty folders go; the state of a neighbour stays."""
    neighbour = layout.state_folder(tmp_path, "n0-s0/400k", "trunk", "b" * 64)
    for each in (state, neighbour):
        each.mkdir(parents=True)
        (each / "checkpoint").write_text("x")
        run_link(each, CAP, 10)
    for half in (layout.link_file(state), layout.links_file(state)):  # of a script that was killed
        half.with_name(f"{half.name}.qgpart-h@1.2@00").write_text("half")

    links.clear(state)

    assert not state.parent.exists()
    assert (neighbour / "checkpoint").exists()
    links.clear(neighbour)
    links.clear(neighbour)
    assert not any((tmp_path / layout.STATE).iterdir())


def test_links_are_planned_from_speed_and_cap() -> None:
    """Six days at a cap of one day, with an hour lost in each, are seven links."""
    day_s = 86_400.0

    assert links.planned_links(6 * 86_400, tokens_per_s=1, link_s=day_s, save_s=3_600) == 7
    assert links.planned_links(86_400, tokens_per_s=1, link_s=day_s) == 1
    assert links.planned_links(1, tokens_per_s=0, link_s=day_s) == 0


def test_speed_is_that_of_the_links_so_far() -> None:
    """Tokens of each link over its seconds; a link that does not tell counts neither way."""
    told = [{"tokens": 100, "wall_s": 10}, {"wall_s": 99}, {"tokens": 300, "wall_s": 10}]

    assert links.tokens_per_s(told) == 15
    assert links.tokens_per_s([{"wall_s": 3}]) is None


def test_links_file_is_readable_json_when_open(state: Path) -> None:
    """Whoever looks at a running cell sees its open link."""
    Chain.read(state).open(LINK)

    open_link = json.loads(layout.links_file(state).read_bytes())[-1]

    assert (open_link["attempt"], open_link["end"]) == ("a1", None)
