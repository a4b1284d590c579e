"""Modal's SDK, imported only where somebody uses Modal, and only in a version that was tried."""

import importlib
import os
import re
from typing import Any

from quantgrid.errors import ConfigRefusal

OLDEST, BEFORE = (1, 5, 4), (1, 7)
"""Tried with 1.5.4 and 1.6.4."""


def load() -> Any:
    """The SDK's module.

    Raises:
        ConfigRefusal: when it is missing, or of a version that nobody tried.
    """
    _refuse_untried(_version())
    # in a container the SDK would ignore the token that a secret gives it (SDK 1.6, client.py)
    if os.environ.get("MODAL_TOKEN_ID"):
        os.environ.pop("MODAL_IS_REMOTE", None)
    os.environ.setdefault("MODAL_MAX_THROTTLE_WAIT", "20")  # unset it waits for ever
    return importlib.import_module("modal")


def find_version() -> tuple[int, ...]:
    """The version that is installed, as numbers; none if there is none."""
    return _numbers(_version() or "")


def _version() -> str | None:
    from importlib import metadata  # costs a job 10 ms that does not use Modal

    try:
        return metadata.version("modal")
    except metadata.PackageNotFoundError:
        return None


def _refuse_untried(version: str | None) -> None:
    if version is None or not OLDEST <= _numbers(version) < BEFORE:
        raise ConfigRefusal(
            "Modal is reached by its SDK, and that is not one that was tried with this version",
            expected=f"modal >= {_dotted(OLDEST)}, < {_dotted(BEFORE)}",
            seen=version or "none",
            do=f"pip install 'modal>={_dotted(OLDEST)},<{_dotted(BEFORE)}' into this environment.",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", version)[:3])


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
