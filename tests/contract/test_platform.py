"""What every platform of the port has to do, whoever rents the machines out.

Each adapter runs against its double, whose machines are real processes; `platform_worlds.WORLDS`
has them all.  Nothing costs anything at the end of any of these tests.
"""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from platform_worlds import OWNER, SLEEP, PlatformWorld, fresh, launched, running, until

from quantgrid.rental.errors import CallFault
from quantgrid.rental.port import Ended, MachineState

# -- a machine and its life ------------------------------------------------------------------------


def test_machine_is_the_same_when_found_listed_and_observed(world: PlatformWorld) -> None:
    """One id and one name, whichever way it is looked at."""
    machine, name = launched(world)
    seen = running(world, machine.id)

    found = world.platform.find(str(name))
    listed = [each for each in world.platform.machines(OWNER) if each.id == machine.id]

    assert found is not None
    assert {m.id for m in (machine, seen, found, *listed)} == {machine.id}
    assert {m.name for m in (machine, seen, found, *listed)} == {str(name)}
    assert len(listed) == 1
    assert seen.is_billing
    assert world.billing() == {machine.id}


def test_machine_gets_words_and_values_as_ordered_when_they_are_odd(
    world: PlatformWorld, tmp_path: Path
) -> None:
    """Blanks, quotes, braces, dollars, lines and letters of any alphabet arrive as they were."""
    odd = ("a b", "'q\"", "$HOME ${X} `id`", "{brace}", "two\nlines", "Größe 量", "")
    told = tmp_path / "told.json"
    code = (
        "import json, os, sys, time\n"
        "part = sys.argv[1] + '.part'\n"
        "open(part, 'w').write(json.dumps([sys.argv[2:], os.environ['QG_ODD']]))\n"
        "os.rename(part, sys.argv[1])\n"
        "time.sleep(600)"
    )
    value = "v {1} \"2\" '3' $4"
    launched(world, (sys.executable, "-c", code, str(told), *odd), environment=(("QG_ODD", value),))

    until(told.exists)

    assert json.loads(told.read_text()) == [list(odd), value]


def test_machine_ends_for_ever_when_asked_twice(world: PlatformWorld) -> None:
    """Ending is asked for, confirmed by a look, and may be asked for again."""
    machine, name = launched(world)
    running(world, machine.id)

    world.platform.stop(machine.id)
    until(lambda: world.billing() == set())
    world.platform.stop(machine.id)

    found = world.platform.find(str(name))
    assert found is None or (found.state, found.is_billing) == (MachineState.ENDED, False)
    assert machine.id not in {each.id for each in world.platform.machines(OWNER) if each.is_billing}


def test_processes_are_gone_when_the_machine_is(world: PlatformWorld, tmp_path: Path) -> None:
    """What a machine started ends with it, also what ignores signals in a session of its own."""
    beat = tmp_path / "beat"
    inner = (
        "import os, signal, time\n"
        "os.setsid() if os.fork() == 0 else None\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"while True: open({str(beat)!r}, 'a').write('x'); time.sleep(0.05)"
    )
    machine, _ = launched(world, (sys.executable, "-c", inner))
    until(beat.exists)

    world.platform.stop(machine.id)
    until(lambda: world.billing() == set())
    size = beat.stat().st_size
    time.sleep(0.3)

    assert beat.stat().st_size == size


def test_nothing_is_ended_when_the_id_is_unknown(world: PlatformWorld) -> None:
    """A machine that is not there is no error, and its absence is None, not an error either."""
    machine, _ = launched(world)
    unknown = "0" * len(machine.id)

    world.platform.stop(unknown)

    assert world.platform.observe(unknown) is None
    assert world.platform.find(str(fresh())) is None
    assert world.billing() == {machine.id}


def test_listing_is_whole_when_there_are_many(world: PlatformWorld) -> None:
    """One call lists all machines of an owner, and none of another one."""
    ours = {launched(world)[0].id for _ in range(12)}
    foreign = world.platform.launch(world.order(fresh(owner="deadbeef"), SLEEP))
    for each in (*ours, foreign.id):
        running(world, each)

    listed = {each.id for each in world.platform.machines(OWNER)}

    assert listed >= ours
    assert foreign.id not in {
        each.id for each in world.platform.machines(OWNER) if each.name.startswith(f"qg-{OWNER}-")
    }


def test_log_tells_the_last_lines_when_asked(world: PlatformWorld) -> None:
    """What a machine's process says can be read while it runs."""
    words = ("sh", "-c", "for i in 1 2 3; do echo line $i; done; exec sleep 600")
    machine, _ = launched(world, words)

    until(lambda: "line 3" in world.platform.logs(machine.id, 2))

    assert "line 1" not in world.platform.logs(machine.id, 2)


# -- who pays, and where ---------------------------------------------------------------------------


def test_account_is_the_same_when_asked_twice(world: PlatformWorld) -> None:
    """The pin of an account does not change, and another account has another one."""
    account = world.platform.whoami().id

    assert account
    assert world.platform.whoami().id == account
    other = world.other_account()
    assert other is None or other.whoami().id != account


def test_machines_are_hidden_when_the_account_is_another(world: PlatformWorld) -> None:
    """Another account neither sees nor ends a machine."""
    other = world.other_account()
    if other is None:
        pytest.skip("this double has one account")
    machine, name = launched(world)
    running(world, machine.id)

    assert other.find(str(name)) is None
    assert other.observe(machine.id) is None
    assert machine.id not in {each.id for each in other.machines(OWNER)}
    with suppress(CallFault):  # refused, or "not there"
        other.stop(machine.id)
    world.advance(5)
    assert world.billing() == {machine.id}


def test_volume_is_known_by_its_id_when_names_are_twins(world: PlatformWorld) -> None:
    """Two volumes of one name are two; an unknown id is None and makes none; size is told."""
    facts = {role: world.platform.volume(id_) for role, id_ in world.volumes.items()}

    assert {role: each.id for role, each in facts.items() if each} == dict(world.volumes)
    good, twin, empty = facts["good"], facts["twin"], facts.get("empty")
    assert good is not None
    assert (twin and twin.name) == good.name
    assert good.size_bytes > 0
    assert "empty" not in facts or (empty is not None and empty.size_bytes == 0)
    assert world.platform.volume("v-nobody") is None
    assert world.platform.volume("v-nobody") is None


def test_volume_is_the_same_when_machines_follow_each_other(
    world: PlatformWorld, tmp_path: Path
) -> None:
    """What a machine wrote to the volume and synced, the next machine of that volume reads."""
    mount, told = world.order(fresh(), SLEEP).mount, tmp_path / "told"
    written = tmp_path / "written"
    write = f"echo kept > {mount}/kept && sync && touch {written}; exec sleep 600"
    first, _ = launched(world, ("sh", "-c", write))
    until(written.exists)
    world.platform.stop(first.id)
    until(lambda: world.billing() == set())
    read = f"cat {mount}/kept > {told}; exec sleep 600"

    launched(world, ("sh", "-c", read))

    until(lambda: told.exists() and told.read_text() == "kept\n")


def test_secret_is_there_and_shown_to_nobody_when_ordered_by_name(
    world: PlatformWorld, tmp_path: Path
) -> None:
    """A machine sees the value of a secret; no answer of the platform carries it."""
    told = tmp_path / "told"
    words = ("sh", "-c", f'printf %s "$STORE_KEY" > {told}; exec sleep 600')
    machine, name = launched(world, words, secrets=("STORE_KEY",))

    until(lambda: told.exists() and told.read_text())

    answers = (machine, world.platform.find(str(name)), world.platform.machines(OWNER))
    assert told.read_text() == "s3cr3t-of-the-account"
    assert "s3cr3t" not in repr(answers)


def test_candidates_have_prices_when_asked(world: PlatformWorld) -> None:
    """Each way to get a machine has a price above nothing, with its source and its date."""
    order = world.order(fresh(), SLEEP)

    found = world.platform.candidates(order.candidate.device, 1)

    assert found
    assert all(each.price.microusd_per_h > 0 for each in found)
    assert all(each.price.source and each.price.date for each in found)


def test_bill_is_seconds_times_price_when_a_machine_ran(world: PlatformWorld) -> None:
    """The platform counts from the create to the confirmed end, and nothing after it."""
    order, before = world.order(fresh(), SLEEP), world.bill_microusd()
    begin_s = time.monotonic()
    machine = world.platform.launch(order)
    running(world, machine.id)
    world.platform.stop(machine.id)
    until(lambda: world.billing() == set())
    most = (time.monotonic() - begin_s) * order.candidate.price.microusd_per_h / 3600

    cost = world.bill_microusd() - before
    world.advance(5)

    assert 0 < cost <= most * 1.01 + 1
    assert world.bill_microusd() - before == pytest.approx(cost)


def test_statement_is_the_bill_when_a_machine_ended(world: PlatformWorld) -> None:
    """Nothing is said of a living machine; of an ended one the bill, or nothing (yet)."""
    name, before = fresh(), world.bill_microusd()
    machine = world.platform.launch(world.order(name, SLEEP))
    running(world, machine.id)
    asked = Ended(name, machine.id, 0.0, time.time())
    assert world.platform.statements([asked]) == {}
    world.platform.stop(machine.id)
    until(lambda: world.billing() == set())
    cost = world.bill_microusd() - before
    world.advance(5)

    told = world.platform.statements([asked])

    assert told.keys() <= {str(name)}
    for statement in told.values():
        assert statement.microusd == pytest.approx(cost, abs=1)
        assert statement.begin_s < statement.end_s


def test_statement_is_nothing_when_no_machine_was_made(world: PlatformWorld) -> None:
    """No figure for a machine that never was, or the platform's own word that it cost nothing."""
    name = fresh()

    told = world.platform.statements([Ended(name, "", 0.0, time.time())])

    assert [each.microusd for each in told.values()] in ([], [0])
