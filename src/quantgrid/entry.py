"""The edge of every program: errors become one message and an exit code, nowhere else."""

import errno
import io
import os
import sys
from collections.abc import Callable, Set

from quantgrid.errors import PlatformFault, QuantgridError

_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE}
"""Errors that no program is to blame for: no room, no disk, nothing to write on."""

_OF_A_PERSON = {
    errno.EACCES,
    errno.EPERM,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
"""Errors of a command that was typed in the wrong place, by somebody else or of the wrong thing;
in a script of a cell the same are its defect."""


def run(main: Callable[[], int | None]) -> None:
    """Run a program and exit with its code; a refusal or fault prints its sentence, no traceback.

    An error that is not ours keeps its traceback: it is a defect, and the traceback is evidence.
    """
    _ready_streams()
    sys.exit(code_of(main, _OF_A_PERSON))


def _ready_streams() -> None:
    """Let a program say what it has to say: a closed output and a poor alphabet are no defects.

    A standard stream that is closed would become the next file that is opened, and what a child
    prints would go into that.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)  # noqa: FBT003
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def code_of(main: Callable[[], int | None], no_defects: Set[int] = frozenset()) -> int:
    """The exit code of a program, after its error was told to standard error.

    Args:
        main: The program.
        no_defects: Numbers of errors of the system that are told without a traceback as well.
    """
    try:
        code = main() or 0
        sys.stdout.flush()  # here, where an error has a place to go
        return code
    except QuantgridError as error:
        from quantgrid.masking import masked  # who ends well does not pay for it

        print(masked(str(error), os.environ), file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        told = "interrupted: nothing half-written was published. Run the same command again."
        print(told, file=sys.stderr, flush=True)
        return 130
    except BrokenPipeError:
        # nobody reads any more; Python must not find that out again while it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        is_lost = error.errno == errno.ENOENT and error.filename is None  # of os.getcwd alone
        is_ours = error.errno in no_defects or (is_lost and bool(no_defects))
        if not is_ours and error.errno not in _OF_THE_MACHINE:
            raise
        mend = "look who owns it and what it is" if is_ours else "make room or mend the disk"
        fault = PlatformFault(
            "the machine could not write or read a file",
            seen=error.strerror,
            where="the current folder" if is_lost else error.filename,
            do=f"Nothing half-written was published; {mend}, and run again.",
        )
        print(fault, file=sys.stderr, flush=True)
        return fault.exit_code
