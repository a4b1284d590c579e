"""`snakemake --logger quantgrid`: what each job does, and how many cells of the grid are done.

Snakemake imports this package at every start, so everything is imported on use.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from logging import WARNING, Handler, LogRecord
from typing import TYPE_CHECKING, TextIO

from snakemake_interface_logger_plugins.base import LogHandlerBase

if TYPE_CHECKING:
    from snakemake_logger_plugin_quantgrid.board import Board
    from snakemake_logger_plugin_quantgrid.listing import Listing
    from snakemake_logger_plugin_quantgrid.told import Teller

REDRAW_S = 0.25
TELL_S = 1.0


class LogHandler(LogHandlerBase):
    """Shows the jobs of a call that computes, and ends a dry run after its table of many jobs.

    Every other call keeps Snakemake's own output.
    """

    def __post_init__(self) -> None:
        """Take the stream, or leave it to Snakemake's own handler."""
        self._board: Board | None = None
        self._teller: Teller | None = None
        self._listing: Listing | None = None
        self._stream: TextIO = sys.stderr
        self._is_live = False
        self._plain: Handler | None = None
        self._acting = threading.RLock()
        self._stopped = threading.Event()
        self._hasten()
        if self._shows_jobs():
            self._set_up(self._stream)
        elif self._only_plans():
            self._set_up_listing()

    @property
    def writes_to_stream(self) -> bool:
        """True replaces Snakemake's own stream handler; False leaves it in charge."""
        return self._plain is not None

    @property
    def writes_to_file(self) -> bool:
        """Snakemake's own log file is complete."""
        return False

    @property
    def has_filter(self) -> bool:
        """The board sees every event; the default handler inside filters what it prints."""
        return True

    @property
    def has_formatter(self) -> bool:
        """The default handler inside formats."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """No rule graph is drawn."""
        return False

    def _shows_jobs(self) -> bool:
        """Whether jobs may run and nobody asked for silence or for Snakemake's own words."""
        settings = self.common_settings
        quiet = {each.name for each in settings.quiet or ()}
        touches = not {"-t", "--touch"}.isdisjoint(sys.argv)
        return not (settings.dryrun or touches or quiet & {"ALL", "PROGRESS", "RULES"})

    @staticmethod
    def _hasten() -> None:
        """Spare what a Snakefile comes too late for: this is set up before Snakemake opens it."""
        from quantgrid import pace

        pace.open_own_files_plainly()

    def _only_plans(self) -> bool:
        """Whether this is a dry run, and nobody asked to see what it thinks of each job."""
        settings = self.common_settings
        sees_each = settings.printshellcmds or settings.verbose or settings.debug_dag
        return bool(settings.dryrun and not sees_each)

    def _set_up_listing(self) -> None:
        from snakemake_logger_plugin_quantgrid.listing import Listing

        stream = sys.stdout if self.common_settings.stdout else self._stream
        self._listing = Listing(self.common_settings, stream)

    def _set_up(self, stream: TextIO) -> None:
        from quantgrid.clock import SystemClock
        from quantgrid.screen import Screen
        from quantgrid.wording import call
        from snakemake_logger_plugin_quantgrid.board import Board
        from snakemake_logger_plugin_quantgrid.faces import Lines, Live
        from snakemake_logger_plugin_quantgrid.plain import is_colourless, plain_handler
        from snakemake_logger_plugin_quantgrid.told import Teller

        command = call(sys.argv)
        clock, self._plain = SystemClock(), plain_handler(self.common_settings, stream)
        self._teller = Teller(clock)
        if not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
            self._board = Board(Lines(stream), self._plain, clock, command)
        else:
            screen, self._is_live = Screen(stream), True
            face = Live(screen, is_coloured=not is_colourless(self.common_settings))
            default = plain_handler(self.common_settings, screen)
            self._board = Board(face, default, clock, command)
        every_s = REDRAW_S if self._is_live else TELL_S
        arguments = (weakref.ref(self), self._stopped, every_s)
        threading.Thread(target=_tick, args=arguments, name="quantgrid", daemon=True).start()

    def emit(self, record: LogRecord) -> None:
        """Show a record; without a board it is the plain handler's, where this plugin has one."""
        if not self._try(lambda board: board.take(record)):
            self._print(record)

    def close(self) -> None:
        """Leave a clean terminal; called by Snakemake at its end and by logging at exit."""
        self._stopped.set()
        self._tell(is_over=True)
        self._try(lambda board: board.close())
        self._board = None
        if self._listing is not None:
            self._listing.close()
        super().close()

    def beat(self) -> None:
        """Show and tell how far it is; called all the time by a thread of its own."""
        if self._is_live:
            self._try(lambda board: board.tick())
        self._tell()

    def _tell(self, *, is_over: bool = False) -> None:
        teller = self._teller
        if teller is not None:
            self._try(lambda board: board.tell(teller, is_over=is_over))

    def _leave_terminal(self, board: "Board") -> None:
        """The terminal is gone, and the controller goes on with a log in its place."""
        from snakemake_logger_plugin_quantgrid.faces import Lines

        assert self._plain is not None  # noqa: S101 - a board has a plain handler beside it
        board.move(Lines(self._stream), self._plain)
        self._is_live = False

    def _try(self, act: Callable[["Board"], None]) -> bool:
        """Let the board act; one that breaks gives way to the plain handler for good."""
        with self._acting:
            if self._board is None:
                return False
            try:
                if self._is_live and not self._stream.isatty():
                    self._leave_terminal(self._board)
                act(self._board)
            except OSError:
                return True  # nobody is there to read it; see `quantgrid.controller`
            except Exception as error:  # noqa: BLE001 - a display must never cost a line or a run
                self._give_way(self._board, error)
                self._board = None
                return False
            return True

    def _give_way(self, board: "Board", error: Exception) -> None:
        why = f"quantgrid's display broke ({type(error).__name__}: {error}); plain output follows."
        with suppress(Exception):
            board.clear()
        self._print(LogRecord("quantgrid", WARNING, __file__, 0, why, None, None))
        for record in board.held():
            self._print(record)

    def _print(self, record: LogRecord) -> None:
        if self._plain is not None:
            with suppress(OSError):
                self._plain.handle(record)


def _tick(handler: "weakref.ref[LogHandler]", stopped: threading.Event, every_s: float) -> None:
    """Let a handler act until it is closed or forgotten."""
    while not stopped.wait(every_s):
        found = handler()
        if found is None:
            return
        found.beat()
