"""A checkpoint in the store is whole or not there, and the furthest one is gone on from."""

import json
import threading
from pathlib import Path

import pytest
from test_chain_runs import JOB, STATE, steps, until

from core_parts import CELL, Desk
from quantgrid import layout, links
from quantgrid.errors import HoldRefusal, PlatformFault
from quantgrid.fingerprint import digest, digest_bytes
from quantgrid.mirror import GENERATIONS, Mirror
from quantgrid.mirroring import Mirrored, kept_up
from quantgrid.store.folder import FolderStore

FINGERPRINT = digest("mine")


class Place:
    """A machine: its volume with one state, and the mirror that all machines share."""

    def __init__(self, root: Path, name: str, store: FolderStore | None = None) -> None:
        self.store = store or FolderStore(root / "archive")
        self.state = layout.state_folder(root / name, CELL, "trunk", FINGERPRINT)
        self.mirror = Mirror(self.store, CELL, "trunk", FINGERPRINT, root / "cache")

    def checkpoint(self, tokens: int, *, links_: int = 1, told: bool = True) -> None:
        """Save a checkpoint as a script does, with links so far."""
        name = f"{tokens}.bin"
        self.state.mkdir(parents=True, exist_ok=True)
        (self.state / name).write_bytes(f"state {tokens}".encode())
        if told:
            facts = {"tokens": tokens, "checkpoint": name}
            layout.link_file(self.state).write_text(json.dumps(facts))
        chain = [{"attempt": f"a{number}", "end": "cap"} for number in range(links_)]
        layout.links_file(self.state).write_text(json.dumps(chain))

    def files(self) -> dict[str, str]:
        """What a script finds in its state."""
        paths = (path for path in self.state.rglob("*") if path.is_file())
        return {path.relative_to(self.state).as_posix(): path.read_text() for path in paths}


@pytest.fixture
def here(tmp_path: Path) -> Place:
    """The machine that saves."""
    return Place(tmp_path, "here")


@pytest.fixture
def there(tmp_path: Path) -> Place:
    """The machine that goes on."""
    return Place(tmp_path, "there")


def test_newest_checkpoint_arrives_with_its_links(here: Place, there: Place) -> None:
    """The told file alone, and the chain, so that the record lists every link."""
    here.checkpoint(100)
    here.checkpoint(200, links_=2)

    assert here.mirror.save(here.state)
    assert there.mirror.restore(there.state)

    assert there.files() == {"200.bin": "state 200"}
    assert [each["attempt"] for each in links.peek(there.state)] == ["a0", "a1"]
    assert links.find_told(there.state) == {"tokens": 200, "checkpoint": "200.bin"}


def test_whole_state_arrives_when_no_checkpoint_is_told(here: Place, there: Place) -> None:
    """A script that tells nothing has all its files back."""
    here.checkpoint(100, told=False)
    (here.state / "deep").mkdir()
    (here.state / "deep" / "opt.bin").write_text("moments")

    here.mirror.save(here.state)
    there.mirror.restore(there.state)

    assert there.files() == {"100.bin": "state 100", "deep/opt.bin": "moments"}


@pytest.mark.parametrize(
    ("tokens", "links_", "wins"), [(100, 9, True), (200, 1, True), (200, 2, False), (300, 1, False)]
)
def test_state_is_replaced_only_by_one_that_is_further(
    here: Place, there: Place, tokens: int, links_: int, wins: bool
) -> None:
    """Tokens decide, then links: a cell that came back goes on from what was done elsewhere."""
    here.checkpoint(200, links_=2)
    here.mirror.save(here.state)
    there.checkpoint(tokens, links_=links_)

    key = there.mirror.restore(there.state)

    assert (key is not None) == wins
    assert there.files() == (
        {"200.bin": "state 200"} if wins else {f"{tokens}.bin": f"state {tokens}"}
    )


def test_older_checkpoint_is_taken_when_the_newest_is_damaged(here: Place, there: Place) -> None:
    """A digest tells; nothing half-fetched is left."""
    for tokens in (100, 200):
        here.checkpoint(tokens)
        here.mirror.save(here.state)
    (newest,) = here.store.root.rglob(digest_bytes(b"state 200"))
    newest.write_bytes(b"state 2O0")

    there.mirror.restore(there.state)

    assert there.files() == {"100.bin": "state 100"}
    assert not layout.incoming_state(there.state).exists()


def test_last_generations_are_kept_when_there_are_many(here: Place) -> None:
    """Files of older ones are deleted, and unchanged files are put once."""
    for tokens in range(100, 600, 100):
        here.checkpoint(tokens)
        here.mirror.save(here.state)

    found = here.mirror.all_of()

    assert [each.facts["told"]["tokens"] for each in found] == [500, 400]
    assert len(list(here.store.list(layout.STATE))) == 2 * GENERATIONS
    here.mirror.clear()
    assert list(here.store.list(layout.STATE)) == []


def test_nothing_is_mirrored_torn_when_a_file_changes_meanwhile(here: Place) -> None:
    """What was put under a digest that it no longer has is taken back."""
    here.checkpoint(100)
    path = here.state / "100.bin"

    class Racing(FolderStore):
        def put_file_once(self, key: str, source: Path) -> bool:
            path.write_bytes(b"half of the next")
            return super().put_file_once(key, source)

    racing = here.mirror._replace(store=Racing(here.store.root))

    assert racing.save(here.state) is None
    assert list(here.store.list(layout.STATE)) == []


def test_nothing_is_mirrored_when_the_hold_is_lost(here: Place, there: Place) -> None:
    """Somebody else computes it now, and is perhaps further."""
    here.checkpoint(100)

    def fence() -> None:
        raise HoldRefusal("taken over")

    with pytest.raises(HoldRefusal):
        here.mirror.save(here.state, fence)
    assert Mirrored(here.mirror, here.state, fence).save().startswith("refused: taken over")
    assert there.mirror.restore(there.state) is None


def test_script_is_not_disturbed_when_the_store_is_silent(here: Place, tmp_path: Path) -> None:
    """The trouble is told, and the work goes on."""

    class Silent(FolderStore):
        def list(self, prefix: str) -> None:  # type: ignore[override]
            raise PlatformFault("the store does not answer", where=prefix)

    here.checkpoint(100)
    mirror = here.mirror._replace(store=Silent(tmp_path / "archive"))

    assert "does not answer" in Mirrored(mirror, here.state, lambda: None).save()


def test_checkpoints_are_mirrored_while_a_script_runs(here: Place, there: Place) -> None:
    """Each newer one that was told; what a killed machine leaves is the last of them."""
    listed = threading.Event()

    class Watched(FolderStore):
        def put_once(self, key: str, data: bytes) -> bool:
            done = super().put_once(key, data)
            listed.set()
            return done

    mirror = here.mirror._replace(store=Watched(here.store.root))
    with kept_up([Mirrored(mirror, here.state, lambda: None)], 0.01):
        for tokens in (100, 200):
            here.checkpoint(tokens)
            assert listed.wait(180)
            listed.clear()
    assert there.mirror.restore(there.state)
    assert there.files() == {"200.bin": "state 200"}


# -- machines -------------------------------------------------------------------------------------


def test_cell_goes_on_elsewhere_when_its_machine_is_lost(tmp_path: Path) -> None:
    """Another volume, another working copy, one archive: the record lists the links of both."""
    first = Desk.lay(tmp_path / "first", quantise=steps(40))
    second = Desk.lay(tmp_path / "second", quantise=steps(40))
    archive = str(tmp_path / "archive")
    options = ("--mirrors", "--clock-factor", "600", "--hold-ttl-s", "2")
    runner = first.start(JOB, archive=archive, options=options)
    until(lambda: list((tmp_path / "archive/state").rglob("*.json")))
    runner.kill()
    runner.communicate(timeout=180)

    code, said = second.call(JOB, archive=archive, options=options)

    assert code == 0, said
    assert "going on from state/" in said
    record = json.loads(next((tmp_path / "archive/weights").rglob("record.json")).read_bytes())
    assert [link["end"] for link in record["links"]] == [links.INTERRUPTED, links.DONE]
    assert record["links"][-1]["resumed_tokens"] > 0
    assert record["results"] == {"tokens": 40}
    assert not list((tmp_path / "archive/state").rglob("*.json")), "a result needs no state"


def test_state_stays_where_it_is_when_nobody_asked_for_a_mirror(tmp_path: Path) -> None:
    """A desk pays for no copies."""
    desk = Desk.lay(tmp_path, quantise=steps(130))

    desk.call(JOB, options=("--cap-s", "5", "--grace-s", "0.5"))

    assert (tmp_path / STATE).is_dir()
    assert not (tmp_path / "archive/state").exists()
