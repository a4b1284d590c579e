"""What is told of an attempt that did not finish says what the next one does."""

import signal
from pathlib import Path
from typing import Any

import pytest

from quantgrid import atomic, layout
from quantgrid.diagnosis import Facts
from quantgrid.ending import Ending
from quantgrid.errors import Checkpointed, Interrupted
from quantgrid.links import Chain
from quantgrid.remembered import Remembered
from quantgrid.store.folder import FolderStore
from quantgrid.watching import Ended

CELL = "n0-s0/16384"
AGAIN = "Run the same command again; it "
LINK: dict[str, Any] = {"attempt": "a1", "started": "2026", "wall_s": 9.0, "host": "h"}


def sentence(root: Path, facts: Facts, exit_code: int, *, told: dict[str, Any]) -> str:
    """What a person reads of an attempt whose script told this of its checkpoints."""
    state = layout.state_folder(root, CELL, "trunk", "a" * 64)
    chain = Chain.read(state)
    chain.open(LINK)
    if told:
        atomic.publish_json(layout.link_file(state), told)
    memory = Remembered(root, FolderStore(root / "archive"))
    ended = Ended("a1", "2026", 9.0, 1.0, exit_code, "", None, facts)
    ending = Ending(memory, CELL, "trunk", "a" * 64, chain, LINK, ended, (), "2026")
    with pytest.raises((Interrupted, Checkpointed)) as caught:
        ending.conclude(False)
    return str(caught.value)


@pytest.mark.parametrize(
    ("facts", "exit_code"),
    [
        (Facts(received=signal.SIGTERM), -signal.SIGTERM),
        (Facts(), -signal.SIGKILL),
        (Facts(is_over=True), -signal.SIGTERM),
        (Facts(), Checkpointed.exit_code),
    ],
)
def test_attempt_that_saved_nothing_is_not_said_to_go_on(
    tmp_path: Path, facts: Facts, exit_code: int
) -> None:
    """Stopped, killed, over its cap or by its own will: the next one begins the stage anew."""
    said = sentence(tmp_path / "none", facts, exit_code, told={})
    assert said.endswith("no checkpoint was saved yet. " + AGAIN + "begins this stage anew.")

    told = {"tokens": 8192, "checkpoint": "c"}
    said = sentence(tmp_path / "some", facts, exit_code, told=told)
    assert said.endswith("state kept at 8,192 tokens. " + AGAIN + "goes on from there.")
