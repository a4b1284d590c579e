"""What ended a script is told from its exit code, its last words and what the runner saw."""

import signal

import pytest

from quantgrid.diagnosis import KINDS, Facts, diagnose
from quantgrid.errors import FailureClass

TRACEBACK = "Traceback (most recent call last):\n  File 'a.py', line 1, in f\n    g()\n"
NOTHING = Facts()

GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 4, in f
  |     g()
  | ExceptionGroup: two workers died (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "b.py", line 1, in work
    | ValueError: a shard is short
    +---------------- 2 ----------------
    | MemoryError
    +------------------------------------"""

CASES = [
    # exit code, last words, facts -> kind, class, a part of the message
    (70, TRACEBACK + "KeyError: 'lost'", NOTHING, "code", "code", "KeyError: 'lost'"),
    (
        1,
        GROUP,
        NOTHING,
        "host memory",
        "platform",
        "ExceptionGroup: two workers died (2 sub-exceptions); ValueError: a shard is short; Mem",
    ),
    (1, TRACEBACK + "MemoryError", NOTHING, "host memory", "platform", "MemoryError"),
    (-9, "step 3", Facts(oom_kills=1), "host memory", "platform", "killed it for memory"),
    (137, "step 3", Facts(oom_kills=2), "host memory", "platform", "killed it for memory"),
    (-6, "terminate called\n  what():  std::bad_alloc", NOTHING, "host memory", "platform", ""),
    (
        70,
        TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        NOTHING,
        "device memory",
        "device",
        "Tried to allocate 2.00 GiB",
    ),
    (69, "failed: the device is lost.", NOTHING, "device", "device", "the device is lost"),
    (1, TRACEBACK + "RuntimeError: CUDA error: an Xid fell", NOTHING, "device", "device", "Xid"),
    (1, TRACEBACK + "RuntimeError: CUDA error: device-side assert", NOTHING, "code", "code", ""),
    (70, TRACEBACK + "ModuleNotFoundError: No module named 'x'", NOTHING, "import", "code", "'x'"),
    (127, "sh: 1: octave: not found", NOTHING, "import", "code", "octave: not found"),
    (126, "", NOTHING, "import", "code", "not executable"),
    (
        70,
        TRACEBACK + "OSError: [Errno 28] No space left on device: '/v/state/x.part'",
        NOTHING,
        "disk full",
        "platform",
        "/v/state/x.part",
    ),
    (
        70,
        TRACEBACK + "OSError: [Errno 28] No space left on device",
        Facts(full=("/v",)),
        "disk full",
        "platform",
        "no room in /v",
    ),
    (
        70,
        TRACEBACK + "OSError: [Errno 28] No space left on device: 'a'\n\nThe above exception was "
        "the direct cause of the following exception:\n\n" + TRACEBACK + "RuntimeError: save died",
        NOTHING,
        "disk full",
        "platform",
        "RuntimeError: save died; caused by OSError",
    ),
    (-int(signal.SIGXFSZ), "", NOTHING, "disk full", "platform", "SIGXFSZ"),
    (-int(signal.SIGBUS), "", NOTHING, "platform", "platform", "SIGBUS"),
    (-int(signal.SIGSEGV), "step 7", NOTHING, "signal", "code", "SIGSEGV; it said last: step 7"),
    (134, "", NOTHING, "signal", "code", "SIGABRT"),
    (
        70,
        TRACEBACK + "quantlm.loop.NonFiniteLossError: the loss of step 3 is nan",
        NOTHING,
        "non-finite",
        "code",
        "step 3 is nan",
    ),
    (65, "failed: a shard is short; expected 9.", NOTHING, "bad data", "data", "shard is short"),
    (1, TRACEBACK + "json.decoder.JSONDecodeError: Extra data", NOTHING, "bad data", "data", ""),
    (1, TRACEBACK + "TimeoutError: [Errno 110]", NOTHING, "time-out", "platform", "Errno 110"),
    (71, "failed: the store did not answer.", NOTHING, "platform", "platform", "store"),
    (78, "refused: no; seen 3.", NOTHING, "refusal", "refusal", "refused: no; seen 3."),
    (76, "alarm: loss rose.", NOTHING, "alarm", "science", "loss rose"),
    (75, "checkpointed: at 3.", NOTHING, "checkpointed", "preemption", "at 3"),
    (-9, "", NOTHING, "interrupted", "preemption", "SIGKILL"),
    (-15, "", Facts(received=signal.SIGTERM), "interrupted", "preemption", "SIGTERM"),
    (130, "", Facts(received=signal.SIGINT), "interrupted", "preemption", "SIGINT"),
    (-9, "", Facts(is_over=True), "interrupted", "preemption", "SIGKILL"),
    (
        1,
        TRACEBACK + "KeyboardInterrupt",
        Facts(received=signal.SIGINT),
        "interrupted",
        "preemption",
        "",
    ),
    # a script that failed while it was stopped has failed
    (
        1,
        TRACEBACK + "KeyError: 'state'",
        Facts(received=signal.SIGTERM),
        "code",
        "code",
        "KeyError",
    ),
    (3, "", NOTHING, "code", "code", "exit code 3 in silence"),
    (2, "Error: argument --lr is odd", NOTHING, "code", "code", "argument --lr"),
]


@pytest.mark.parametrize(("code", "tail", "facts", "kind", "of", "part"), CASES)
def test_diagnosis_names_kind_and_class_when_a_script_ends(
    code: int, tail: str, facts: Facts, kind: str, of: str, part: str
) -> None:
    """Each way to end has its kind, its class and the script's own words."""
    seen = diagnose(code, tail, facts)

    assert (seen.kind, seen.failure_class.value) == (kind, of)
    assert part in seen.message


def test_diagnosis_covers_every_kind_that_shows_in_words() -> None:
    """Each kind of the table is played by a case above."""
    assert {each.name for each in KINDS} <= {case[3] for case in CASES}


def test_diagnosis_keeps_the_last_words_when_there_are_many() -> None:
    """A person sees the end, in order."""
    seen = diagnose(1, "\n".join(f"line {n}" for n in range(50)), NOTHING)

    assert seen.lines[-1] == "line 49"
    assert len(seen.lines) == 20


@pytest.mark.parametrize(
    ("code", "tail", "is_told"),
    [(78, "refused: no.", True), (78, "no", False), (70, "failed: no.", True), (75, "", False)],
)
def test_diagnosis_says_whether_the_script_told_a_sentence(
    code: int, tail: str, is_told: bool
) -> None:
    """What was told is not told twice."""
    assert diagnose(code, tail, NOTHING).is_told is is_told


def test_diagnosis_takes_the_last_error_when_an_earlier_one_was_survived() -> None:
    """A traceback that the script printed and survived is not why it ended."""
    tail = TRACEBACK + "MemoryError\nwent on\n" + TRACEBACK + "KeyError: 'x'"
    seen = diagnose(70, tail, NOTHING)

    assert seen.message.startswith("KeyError")
    assert seen.failure_class is FailureClass.CODE
