"""Modal's SDK is loaded in a version that was tried, and set up for where it runs."""

import os

import pytest

from quantgrid import modal_sdk
from quantgrid.errors import ConfigRefusal


@pytest.mark.parametrize("version", [None, "1.5.3", "1.7.0", "2.0", "0.77.1.dev0"])
def test_sdk_is_refused_when_missing_or_untried(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence names what is expected, what is there and what to type."""
    monkeypatch.setattr(modal_sdk, "_version", lambda: version)

    with pytest.raises(ConfigRefusal, match=r"modal >= 1\.5\.4, < 1\.7") as caught:
        modal_sdk.load()

    assert (version or "none") in str(caught.value)
    assert "pip install" in str(caught.value)


def test_token_of_a_secret_counts_in_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK ignores tokens where MODAL_IS_REMOTE is set; a coordinator there needs its own."""
    for name in ("MODAL_IS_REMOTE", "MODAL_MAX_THROTTLE_WAIT", "MODAL_TOKEN_ID"):
        monkeypatch.setenv(name, "1")
    del os.environ["MODAL_MAX_THROTTLE_WAIT"]

    modal_sdk.load()

    assert "MODAL_IS_REMOTE" not in os.environ
    assert os.environ["MODAL_MAX_THROTTLE_WAIT"] == "20"
