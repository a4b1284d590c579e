"""RunPod: how machines are rented there.

`QG_RUNPOD_URL` names another address than the vendor's: the double of rehearsal/runpod.
"""

from collections.abc import Mapping

from quantgrid.errors import ConfigRefusal
from quantgrid.rental.port import Limits
from quantgrid.rental.runpod.calls import Api, refuse_odd
from quantgrid.rental.runpod.platform import RunPod, Settings

KEY = "RUNPOD_API_KEY"
"""Of the account, on the controller; in a pod the platform sets it to a key of that pod alone."""
URL = "QG_RUNPOD_URL"
VENDOR = "https://api.runpod.io/v2"
_NO_LIMITS = Limits(cap_s=0.0, grace_s=0.0, boot_s=0.0, create_s=0.0, visible_s=0.0)

__all__ = ["KEY", "URL", "RunPod", "Settings", "from_environment", "open_api"]


def open_api(environ: Mapping[str, str]) -> Api:
    """The interface of the account whose key is in an environment.

    Raises:
        ConfigRefusal: when there is no key, or the address would show it.
    """
    key = environ.get(KEY, "").strip()
    if not key:
        raise ConfigRefusal(
            "no key of RunPod is known, so nothing was rented",
            expected=f"a key in the environment variable {KEY}",
            seen="none",
            do=f"export {KEY}=... (Settings, API Keys in RunPod's console); it is kept nowhere.",
        )
    return Api(refuse_odd(environ.get(URL) or VENDOR), key)


def from_environment(environ: Mapping[str, str]) -> RunPod:
    """What a pod needs to end itself: the key that the platform gave it."""
    return RunPod(open_api(environ), Settings("", "", _NO_LIMITS))
