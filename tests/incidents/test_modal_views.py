"""Sandboxes that were mounted while a corpus was being written, and never looked again.

Incident: consumers were started on Modal while the producer still wrote; a sandbox goes on seeing
what was committed when it started, so they trained on a part of the corpus; and a reload fails
while a file is open (modal-labs/modal-client#1669).

Guards: `quantgrid.corpus.view.View.open` compares what is seen with what the seal vouches for, and
`quantgrid.reload.renew_sandbox` asks for a fresh view or says that there is none.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import modal_parts as parts
from quantgrid.rental.modal import Modal
from quantgrid.rental.port import MachineState
from rehearsal.modal.double import Double, until
from small_corpus import REPOSITORY, SmallCorpus, declare

FACTOR = 100.0
MOUNT = "/grid"

# In a sandbox; its words are: role, folder of the configuration, mount.  Files of the test's own
# folder say when to go on, as Snakemake would by starting the next job.
SCRIPT = """
import sys, time
from pathlib import Path
from quantgrid.errors import QuantgridError
from quantgrid.load import load_corpus
from quantgrid.reload import reloader
from small_corpus import SmallCorpus

role, root, mount = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
corpus = SmallCorpus(root, load_corpus(root, "small"), mount, root / "prepared", root / "sentinel")

def await_file(name):
    while not (root / name).exists():
        time.sleep(0.02)

def halting():
    for number, piece in enumerate(corpus.stream()):
        if number == 5:
            (root / "half").touch()
            await_file("go-on")
        yield piece

def consume(reload):
    (root / f"{role}-started").touch()
    await_file("sentinel")
    reload(corpus.folder)
    print("tokens", sum(corpus.view().shard_tokens.values()), flush=True)

def hold_open():
    with next(corpus.folder.iterdir()).open():
        consume(reloader("modal"))

try:
    {
        "produce": lambda: corpus.produce(stream=halting()),
        "seal": corpus.seal,
        "reader": lambda: consume(reloader("none")),
        "other": lambda: consume(reloader("none")),
        "reloading": lambda: consume(reloader("modal")),
        "holding": hold_open,
    }[role]()
except QuantgridError as error:
    print(error, flush=True)
    sys.exit(error.exit_code)
"""


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """One double, in which nothing is left running."""
    with parts.doubled(tmp_path_factory.mktemp("modal"), FACTOR) as double:
        token, secret = double.token("lab")
        values = {
            "MODAL_TOKEN_ID": token,
            "MODAL_TOKEN_SECRET": secret,
            "MODAL_SERVER_URL": double.url,
        }
        double.put("secrets", {"lab/main/modal": values})
        yield double
        assert double.living() == []


class Cast:
    """Sandboxes that play one role each, on one volume."""

    def __init__(self, double: Double, root: Path) -> None:
        self.double, self.root = double, root
        self.platform: Modal = parts.connected(double)
        self.volume = parts.made_volume(self.platform, f"corpus-{root.name}")
        self.corpus: SmallCorpus = declare(root)
        self.boxes: dict[str, str] = {}

    def start(self, role: str, secrets: tuple[str, ...] = ()) -> None:
        order = parts.order(
            self.platform,
            *(sys.executable, "-c", SCRIPT, role, str(self.root), MOUNT),
            nonce=f"{len(self.double.boxes()):012x}",
            volume=self.volume,
            secrets=secrets,
            environment=(("PYTHONPATH", f"{REPOSITORY / 'tests'}:{REPOSITORY / 'src'}"),),
            deadline_s=self.platform.now() + 600,
        )
        self.boxes[role] = self.platform.launch(order).id

    def ended(self, role: str) -> tuple[int | None, str]:
        """The exit code of a role and what it said."""
        box = self.boxes[role]

        def is_over() -> bool:
            seen = self.platform.observe(box)
            return seen is None or seen.state is MachineState.ENDED

        until(is_over, role, lambda: self.platform.logs(box, 20))
        seen = self.platform.observe(box)
        return seen.exit_code if seen else None, self.platform.logs(box, 20)

    def await_file(self, name: str) -> None:
        until((self.root / name).exists, name)

    def seal(self) -> None:
        """The producer goes on to its end, and another sandbox seals what it wrote."""
        (self.root / "go-on").touch()
        assert self.ended("produce") == (0, "")
        self.start("seal")
        code, said = self.ended("seal")
        assert code == 0, said


@pytest.fixture
def cast(double: Double, tmp_path: Path) -> Cast:
    """A producer that stopped in the middle, and committed what it had."""
    cast = Cast(double, tmp_path)
    cast.start("produce")
    cast.await_file("half")
    seen = replace(cast.corpus, volume=double.committed(cast.volume)).folder
    until(lambda: seen.is_dir() and len(list(seen.glob("shard-*"))) >= 2, "half is committed")
    return cast


def test_consumers_are_refused_when_started_while_the_producer_writes(cast: Cast) -> None:
    """Neither sees more after the seal than at its start; those started afterwards see it all."""
    for role in ("reader", "other"):
        cast.start(role)
        cast.await_file(f"{role}-started")

    cast.seal()

    for role in ("reader", "other"):
        code, said = cast.ended(role)
        assert code == 78, said
        assert "expected state written; seen state writing" in said
        assert "this view of the volume is old" in said
    for role in ("reader", "other"):
        cast.start(role)
        assert cast.ended(role) == (0, "tokens 585\n")


def test_view_is_fresh_after_a_reload_and_none_is_had_with_an_open_file(cast: Cast) -> None:
    """CP 4.25: a fresh view with a token; with an open file it is told why it gets none."""
    for role in ("reloading", "holding"):
        cast.start(role, secrets=("modal",))
        cast.await_file(f"{role}-started")

    cast.seal()

    assert cast.ended("reloading") == (0, "tokens 585\n")
    code, said = cast.ended("holding")
    assert code == 71, said
    assert "open files preventing the operation" in said
    assert "a new sandbox has a fresh view" in said
