"""The edge of every program: errors become one message and an exit code, nowhere else."""

import errno
import os
import sys
from collections.abc import Callable

from quantgrid.errors import PlatformFault, QuantgridError

_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE}
"""Errors that no program is to blame for: no room, no disk, nothing to write on."""


def run(main: Callable[[], int | None]) -> None:
    """Run a program and exit with its code; a refusal or fault prints its sentence, no traceback.

    An error that is not ours keeps its traceback: it is a defect, and the traceback is evidence.
    """
    sys.exit(code_of(main))


def code_of(main: Callable[[], int | None]) -> int:
    """The exit code of a program, after its error was told to standard error."""
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
        if error.errno not in _OF_THE_MACHINE:
            raise
        fault = PlatformFault(
            "the machine could not write or read a file",
            seen=error.strerror,
            where=error.filename,
            do="Nothing half-written was published; make room or mend the disk, and run again.",
        )
        print(fault, file=sys.stderr, flush=True)
        return fault.exit_code
