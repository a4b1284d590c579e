"""What ended a script: a pure function of exit code, last words and facts, for any language.

The table of `docs/formats/failures.md` is made from `KINDS`.  A script that keeps the exit codes of
the contract has said its class itself; all others are read by what they said last.
"""

import re
import signal
from collections.abc import Sequence
from typing import NamedTuple

from quantgrid.errors import (
    Alarm,
    Checkpointed,
    DataFault,
    DeviceFault,
    FailureClass,
    Fault,
    Interrupted,
    PlatformFault,
    QuantgridError,
    Refusal,
)

WORDS = ("refused:", "failed:", "alarm:", "checkpointed:", "interrupted:")
"""How a sentence of `quantgrid.errors` begins."""

NUM_LINES = 20
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?::|$)")
_GROUPED = re.compile(r"\s+\| ((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?::.*|$))")
"""An error in the drawn tree of an exception group; frames and code are indented or have blanks."""

_NO_ROOM_IN = re.compile(r"(?:No space left on device|Disk quota exceeded)[^'\"]*['\"]([^'\"]+)")


class Facts(NamedTuple):
    """What the runner knows beside exit code and words.

    `oom_kills` counts processes that the kernel killed for memory while the script ran; `received`
    is the signal that the runner itself got; `is_over` says that the runner's own clock ended it;
    `full` names folders of the cell without room.
    """

    oom_kills: int = 0
    received: int | None = None
    is_over: bool = False
    full: tuple[str, ...] = ()


class Kind(NamedTuple):
    """A kind of trouble, its class and how it shows in words."""

    name: str
    failure_class: FailureClass
    pattern: str
    meaning: str


KINDS = (
    Kind(
        "device memory",
        FailureClass.DEVICE,
        r"torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP) out of memory|CUDA_ERROR_OUT_OF_MEMORY"
        r"|(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED|hipErrorOutOfMemory|RESOURCE_EXHAUSTED",
        "the accelerator's memory did not suffice",
    ),
    Kind(
        "host memory",
        FailureClass.PLATFORM,
        r"\bMemoryError\b|std::bad_alloc|[Cc]an(?:no|')t allocate memory|\bENOMEM\b"
        r"|java\.lang\.OutOfMemoryError|out of memory",
        "the machine's memory did not suffice",
    ),
    Kind(
        "disk full",
        FailureClass.PLATFORM,
        r"No space left on device|Disk quota exceeded|File too large|\bENOSPC\b|\bEDQUOT\b",
        "no room was left to write",
    ),
    Kind(
        "code",
        FailureClass.CODE,
        r"device-side assert",
        "a kernel refused its arguments: a defect of the code, not of the device",
    ),
    Kind(
        "device",
        FailureClass.DEVICE,
        r"CUDA error|CUDA driver|cudaError|\bNCCL\b|\bXid\b|uncorrectable ECC|HIP error"
        r"|no CUDA-capable device|No CUDA GPUs are available",
        "the accelerator is lost, absent or faulty",
    ),
    Kind(
        "import",
        FailureClass.CODE,
        r"\bModuleNotFoundError\b|\bImportError\b|cannot open shared object file"
        r"|command not found|there is no package called",
        "something that the script needs is not installed",
    ),
    Kind(
        "non-finite",
        FailureClass.CODE,
        r"\bNonFinite\w*|\b(?:loss|gradient)\b.{0,40}\b(?:is|was|became|=) ?[-+]?(?:nan|inf)\b"
        r"|non-finite",
        "a number became infinite or not a number",
    ),
    Kind(
        "bad data",
        FailureClass.DATA,
        r"\bUnicodeDecodeError\b|\bJSONDecodeError\b|\bSafetensorError\b|\bBadZipFile\b"
        r"|\bBadGzipFile\b|\bDataFault\b",
        "bytes are not what their format says",
    ),
    Kind(
        "time-out",
        FailureClass.PLATFORM,
        r"\b\w*Timeout\w*\b|timed out|\bETIMEDOUT\b",
        "something did not answer in time",
    ),
)
"""Kinds that show in words; the first that matches counts."""

_BY_CODE: dict[int, tuple[str, FailureClass]] = {
    78: ("refusal", FailureClass.REFUSAL),
    75: ("checkpointed", FailureClass.PREEMPTION),
    76: ("alarm", FailureClass.SCIENCE),
    65: ("bad data", FailureClass.DATA),
    69: ("device", FailureClass.DEVICE),
    71: ("platform", FailureClass.PLATFORM),
}
_BY_SHELL = {126: "the program is not executable", 127: "the program was not found"}
_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
"""Signals that nobody sends to itself by a defect: somebody ended the script."""

_OF_PLATFORM = {
    signal.SIGBUS: "platform",
    signal.SIGXFSZ: "disk full",
    signal.SIGXCPU: "time-out",
}
_ERRORS: dict[FailureClass, type[QuantgridError]] = {
    FailureClass.CODE: Fault,
    FailureClass.DATA: DataFault,
    FailureClass.DEVICE: DeviceFault,
    FailureClass.PLATFORM: PlatformFault,
    FailureClass.PREEMPTION: Interrupted,
    FailureClass.BUDGET: Refusal,
    FailureClass.REFUSAL: Refusal,
    FailureClass.SCIENCE: Alarm,
}


class Diagnosis(NamedTuple):
    """What ended a script: `message` is its own error, `lines` its last words, in order."""

    kind: str
    failure_class: FailureClass
    error_type: str
    message: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, error: QuantgridError, kind: str = "") -> "Diagnosis":
        """The diagnosis that an error of ours is; its kind is its class unless told."""
        name = error.failure_class.value
        named = {FailureClass.DATA: "bad data"}.get(error.failure_class, name)
        return cls(kind or named, error.failure_class, type(error).__name__, str(error), ())

    @property
    def error(self) -> type[QuantgridError]:
        """The class of errors that stands for it."""
        return Checkpointed if self.kind == "checkpointed" else _ERRORS[self.failure_class]

    @property
    def is_told(self) -> bool:
        """Whether the script said a whole sentence itself, with the word that belongs to it."""
        return self.message.startswith(f"{self.error.word}:")


def diagnose(exit_code: int, tail: str, facts: Facts) -> Diagnosis:
    """What ended a script.

    Args:
        exit_code: Its exit code; negative for a signal.  A shell's 128 + n is signal n.
        tail: The end of what it said.
        facts: What the runner saw.
    """
    lines = [line.rstrip() for line in tail.splitlines()]
    said = last_words(lines)
    number = -exit_code if exit_code < 0 else exit_code - 128 if exit_code > 128 else 0
    if _is_interruption(number, said, facts):
        name = _signal_name(facts.received or number)
        return _made("interrupted", FailureClass.PREEMPTION, name, f"it was ended by {name}", lines)
    if number:
        return _of_signal(number, said, lines, facts)
    if exit_code in _BY_CODE:
        kind, failure_class = _BY_CODE[exit_code]
        word = _kind_in_words(said, failure_class)
        return _made(word or kind, failure_class, _type_of(said), _with_place(said, facts), lines)
    if exit_code in _BY_SHELL:
        message = f"{_BY_SHELL[exit_code]}: {said}"
        return _made("import", FailureClass.CODE, "", message, lines)
    return _of_words(said or f"it ended with exit code {exit_code} in silence", lines, facts)


def _is_interruption(number: int, said: str, facts: Facts) -> bool:
    """Whether it ended because somebody, or the runner's own clock, wanted it to end."""
    if facts.received is not None or facts.is_over:
        return bool(number) or not said or _type_of(said) == "KeyboardInterrupt"
    return number in _OUTSIDE and not (number == signal.SIGKILL and facts.oom_kills)


def _of_signal(number: int, said: str, lines: Sequence[str], facts: Facts) -> Diagnosis:
    name = _signal_name(number)
    if number == signal.SIGKILL:
        message = f"the kernel killed it for memory ({name}, {facts.oom_kills} oom_kill)"
        return _made("host memory", FailureClass.PLATFORM, name, message, lines)
    kind = _OF_PLATFORM.get(signal.Signals(number)) if number in _OF_PLATFORM else None
    by_words = _find_kind("\n".join(lines[-NUM_LINES:]))
    message = f"it was ended by {name}" + (f"; it said last: {said}" if said else "")
    if kind:
        return _made(kind, FailureClass.PLATFORM, name, _with_place(message, facts), lines)
    if by_words:
        return _made(by_words.name, by_words.failure_class, name, message, lines)
    return _made("signal", FailureClass.CODE, name, message, lines)


def _of_words(said: str, lines: Sequence[str], facts: Facts) -> Diagnosis:
    """The kind of an error that the script raised or told, its causes included."""
    causes = raised(lines) or ([said] if _is_spoken(said) else lines[-NUM_LINES:])
    for line in (said, *reversed(causes)):
        kind = _find_kind(line)
        if kind:
            told = said if kind.name == "code" or line == said else f"{said}; caused by {line}"
            told = _with_place(told, facts) if kind.name == "disk full" else told
            return _made(kind.name, kind.failure_class, _type_of(line), told, lines)
    return _made("code", FailureClass.CODE, _type_of(said), said, lines)


def _kind_in_words(said: str, failure_class: FailureClass) -> str | None:
    kind = _find_kind(said)
    return kind.name if kind and kind.failure_class is failure_class else None


def _find_kind(text: str) -> Kind | None:
    return next((kind for kind in KINDS if re.search(kind.pattern, text)), None)


def _with_place(said: str, facts: Facts) -> str:
    """A full disk is named: by the message itself, or by the folders that have no room."""
    if not re.search(KINDS[2].pattern, said) or _NO_ROOM_IN.search(said) or "/" in said:
        return said
    return f"{said} (no room in {', '.join(facts.full)})" if facts.full else said


def _made(
    kind: str, failure_class: FailureClass, name: str, message: str, lines: Sequence[str]
) -> Diagnosis:
    return Diagnosis(kind, failure_class, name, message, tuple(lines[-NUM_LINES:]))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# -- words ----------------------------------------------------------------------------------------


def last_words(lines: Sequence[str]) -> str:
    """The error in the end of a log.

    The last sentence of `quantgrid.errors`, else the `Type: message` of the last traceback, else
    the last line of whatever it was.
    """
    spoken = next((line.strip() for line in reversed(lines) if _is_spoken(line)), "")
    if spoken:
        return spoken
    errors = raised(lines)
    return errors[-1] if errors else next((line.strip() for line in reversed(lines) if line), "")


def raised(lines: Sequence[str]) -> list[str]:
    """The `Type: message` of Python's last traceback and of its causes, which come first.

    An exception group is one error, followed by those that it holds.
    """
    found: list[str] = []
    inside, before, is_group = False, "", False
    for line in lines:
        starts = line.endswith(_TRACEBACK) and not line.lstrip().startswith("|")
        if starts:
            inside, is_group = True, False
            if before not in _CHAINED:  # an earlier error that the script survived
                found.clear()
        before = line or before
        held = _GROUPED.match(line) if inside else None
        if held:
            found.append(f"{found.pop()}; {held[1]}" if is_group else held[1])
            is_group = True
        elif inside and line and not starts and not line.startswith((" ", "\t", "|", "+")):
            inside = False
            found.append(line)
    return found


def _is_spoken(line: str) -> bool:
    return line.lstrip().startswith(WORDS)


def _type_of(said: str) -> str:
    """The name of the exception before the first colon; empty when there is none."""
    if _is_spoken(said):
        return ""
    name = said.partition(":")[0]
    return name.rpartition(".")[2] if _RAISED.match(said) and " " not in name else ""
