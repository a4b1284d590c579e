"""Snakemake's own stream handler, set up as `snakemake.logging.LoggerManager` does it."""

import os
from logging import Handler
from typing import TextIO

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.settings import OutputSettingsLoggerInterface

from quantgrid.screen import Screen


def is_colourless(settings: OutputSettingsLoggerInterface) -> bool:
    """Whether the person asked for no colours, by `--nocolor` or by NO_COLOR (no-color.org)."""
    return settings.nocolor or bool(os.environ.get("NO_COLOR"))


def plain_handler(settings: OutputSettingsLoggerInterface, stream: TextIO | Screen) -> Handler:
    """The handler that prints what a call without `--logger` would print."""
    handler: Handler = ColorizingTextHandler(is_colourless(settings), stream)
    handler.setFormatter(DefaultFormatter(settings.quiet, settings.show_failed_logs))
    handler.addFilter(
        DefaultFilter(
            settings.quiet,
            settings.debug_dag,
            settings.verbose,
            settings.dryrun,
            settings.printshellcmds,
        )
    )
    return handler
