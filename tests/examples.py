"""As many examples of a property as a run has time for."""

from hypothesis import settings

NIGHTLY = "nightly"
"""The profile of hypothesis that `--nightly` loads, before any test is collected."""


def examples(usual: int, nightly: int) -> settings:
    """Settings of a property with few examples in every run, and many in `make nightly`."""
    is_nightly = settings.get_current_profile_name() == NIGHTLY
    return settings(max_examples=nightly if is_nightly else usual, deadline=None)
