"""Which task goes to which machine."""

from quantgrid.rental.packing import Kind, Load, placed

ONE, OTHER = Kind("one", 1), Kind("other", 1)


def _placed(kinds: list[Kind], loads: list[Load], machines: int = 2, ahead: int = 2) -> list[str]:
    waiting = [(str(number), kind) for number, kind in enumerate(kinds)]
    return [
        f"{task} {subject or 'new'}" for task, subject in placed(waiting, loads, machines, ahead)
    ]


def test_an_idle_machine_comes_before_a_new_one() -> None:
    """What is there and has nothing to do costs already."""
    assert _placed([ONE], [Load("a", ONE, 1, takes=True), Load("b", ONE, 0, takes=True)]) == ["0 b"]


def test_new_machines_come_before_a_second_task_of_one() -> None:
    """While more are allowed, nobody waits behind somebody else."""
    loads = [Load("a", ONE, 1, takes=True)]

    assert _placed([ONE, ONE, ONE], loads) == ["0 new", "1 a"]


def test_a_machine_gets_no_more_tasks_than_allowed() -> None:
    """What would wait behind two others waits here, where it can still go anywhere."""
    loads = [Load("a", ONE, 2, takes=True), Load("b", ONE, 1, takes=True)]

    assert _placed([ONE, ONE], loads) == ["0 b"]


def test_a_lease_that_ends_counts_and_takes_nothing() -> None:
    """Its machine may still cost, so it fills its place; nothing is given to it."""
    assert _placed([ONE], [Load("a", ONE, 0, takes=False)], machines=1) == []


def test_kinds_do_not_mix_and_do_not_count_together() -> None:
    """A machine of another kind is as good as none."""
    loads = [Load("a", OTHER, 0, takes=True)]

    assert _placed([ONE, OTHER], loads, machines=1) == ["0 new", "1 a"]


def test_a_machine_of_its_own_serves_one_task() -> None:
    """Even while it is idle, the machine of one job is not for a second."""
    alone = ONE._replace(alone="seal")

    assert _placed([alone], [Load("a", alone, 0, takes=True)], machines=2) == ["0 new"]
