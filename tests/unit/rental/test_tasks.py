"""Tasks of machines: what is written is read again, and keys say what they are."""

import pytest

from quantgrid.errors import DataFault
from quantgrid.rental.bundle import Item
from quantgrid.rental.tasks import (
    Task,
    TaskEnd,
    TaskOrder,
    done_key,
    done_words,
    job_id,
    queue_key,
    queue_prefix,
    queue_words,
    task_key,
    told_key,
)

TASK = Task("ab" * 32, 7)
ORDER = TaskOrder(
    cell="n0/none",
    command="exec python -m quantgrid run '{}'",
    bundle="cd" * 32,
    inputs=(Item("receipts/a.json", "ef" * 32, 3),),
    outputs=("receipts/b.json",),
    log="logs/b.log",
    also=("failures",),
    environment=(("QG_A", "1"), ("QG_B", "two")),
    links=("state/n0/none/weights.link.json",),
)
END = TaskEnd(*TASK, "ab12" * 3, "m1", 70, "fault: it broke.", ORDER.inputs, ("cells/r",), 1.5, 2.5)


def test_an_order_comes_back_as_it_was_written() -> None:
    """What a machine reads is what a controller wrote, in every field."""
    assert TaskOrder.parse(ORDER.to_bytes(), "here") == ORDER


def test_an_end_comes_back_as_it_was_written() -> None:
    """What a controller reads is what a machine wrote, in every field."""
    assert TaskEnd.parse(END.to_bytes(), "here") == END


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", ORDER.to_bytes()[:-9]])
def test_what_is_torn_is_refused_by_name(data: bytes) -> None:
    """A part of a file is no order and no end, and the message says where it lies."""
    for parse in (TaskOrder.parse, TaskEnd.parse):
        with pytest.raises(DataFault, match=r"rental/tasks/x"):
            parse(data, "rental/tasks/x")


def test_keys_say_subject_place_nonce_and_task() -> None:
    """All facts of a queue and of an end are in the names, so one listing tells them."""
    assert queue_words(queue_key("12" * 32, 3, TASK)) == ("12" * 32, 3, TASK)
    assert queue_key("12" * 32, 3, TASK).startswith(f"{queue_prefix('12' * 32)}/")
    assert done_words(done_key("0123456789ab", TASK)) == ("0123456789ab", TASK)
    assert done_words("rental/signs/0123456789ab.start.000001") is None
    assert task_key(TASK) != told_key(TASK)


def test_a_job_is_known_by_its_rule_and_its_outputs_in_any_order() -> None:
    """The same job after a restart has the same id, and two rules never share one."""
    assert job_id((), "base", ["a", "b"]) == job_id((), "base", ["b", "a"])
    assert job_id((), "base", ["a"]) != job_id((), "evaluate", ["a"])
