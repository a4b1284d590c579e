"""The edge of every program: errors become one message and an exit code, nowhere else."""

import sys
from collections.abc import Callable

from quantgrid.errors import QuantgridError


def run(main: Callable[[], int | None]) -> None:
    """Run a program and exit with its code; a refusal or fault prints its sentence, no traceback.

    An error that is not ours keeps its traceback: it is a defect, and the traceback is evidence.
    """
    sys.exit(code_of(main))


def code_of(main: Callable[[], int | None]) -> int:
    """The exit code of a program, after its error was told to standard error."""
    try:
        return main() or 0
    except QuantgridError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    except BrokenPipeError:
        return 141
