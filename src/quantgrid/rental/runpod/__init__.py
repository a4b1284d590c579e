"""RunPod: how machines are rented there.

`QG_RUNPOD_URL` names another address than the vendor's: the double of rehearsal/runpod.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from quantgrid.errors import ConfigRefusal
from quantgrid.rental.port import Limits
from quantgrid.rental.runpod.answers import Body
from quantgrid.rental.runpod.calls import Api, refuse_odd
from quantgrid.rental.runpod.platform import RunPod, Settings

if TYPE_CHECKING:  # a pod that ends itself needs no configuration
    from quantgrid.rental.facts import Facts

KEY = "RUNPOD_API_KEY"
"""Of the account, on the controller; in a pod the platform sets it to a key of that pod alone."""
ACCOUNT_KEY = "QG_RUNPOD_KEY"
"""Of the account, in a pod that rents others: a coordinator, which gets it as a secret."""
URL = "QG_RUNPOD_URL"
VENDOR = "https://api.runpod.io/v2"

_CAP_S = 604_800.0
"""No pod is ended by the platform; a week is our choice where the file names no cap."""
_OPTIONS: Mapping[str, Any] = {
    "boot_s": 1200.0,  # dstack 0.22 waits as long for a pod
    "create_s": 60.0,  # our own deadline of the call
    "visible_s": 60.0,  # not established; a fresh pod has answered 404 for seconds (horizon 372)
    "disk_gb": 20,
    "cloud": "SECURE",
    "registry": "",
    "vcpus": 4,
    "data_centers": [],
    "max_usd_per_h": 0.0,
    "bill_s": 21_600.0,  # charged every five minutes (page: billing); what is final nobody says
}
"""What the file of the platform may say under `options`, and what holds when it does not."""
_NO_LIMITS = Limits(cap_s=0.0, grace_s=0.0, boot_s=0.0, create_s=0.0, visible_s=0.0)

__all__ = ["KEY", "URL", "RunPod", "Settings", "connected", "from_environment", "open_api"]


def connected(facts: "Facts", environ: Mapping[str, str]) -> RunPod:
    """RunPod with the facts of a platform's file.

    Raises:
        ConfigRefusal: for an option that is none, or without a key.
    """
    options = {**_OPTIONS, **_known(facts)}
    limits = Limits(
        cap_s=facts.real_s(_CAP_S if facts.cap_s is None else facts.cap_s),
        grace_s=facts.real_s(facts.grace_s),
        boot_s=facts.real_s(options["boot_s"]),
        create_s=facts.real_s(options["create_s"]),
        visible_s=facts.real_s(options["visible_s"]),
    )
    body = Body(
        disk_gb=options["disk_gb"],
        cloud=options["cloud"],
        registry=options["registry"],
        vcpus=options["vcpus"],
        environment=((URL, environ[URL]),) if environ.get(URL) else (),
    )
    settings = Settings(
        account=facts.account,
        volume=facts.volume,
        limits=limits,
        regions=tuple(options["data_centers"]),
        body=body,
        max_microusd_per_h=round(options["max_usd_per_h"] * 1_000_000),
        bill_s=facts.real_s(options["bill_s"]),
    )
    key = environ.get(ACCOUNT_KEY) or environ.get(KEY, "")
    return RunPod(open_api({**environ, KEY: key}), settings)


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


def _known(facts: "Facts") -> Mapping[str, Any]:
    odd = sorted(
        name
        for name, value in facts.options.items()
        if name not in _OPTIONS or not _is_like(value, _OPTIONS[name])
    )
    if odd:
        raise ConfigRefusal(
            f"options of platform {facts.name} that RunPod does not have",
            expected=", ".join(f"{name} (as {_OPTIONS[name]!r})" for name in sorted(_OPTIONS)),
            seen=", ".join(f"{name}: {facts.options[name]!r}" for name in odd),
            where="section `rented`, `options`, of the platform's file",
        )
    return facts.options


def _is_like(value: object, example: object) -> bool:
    if isinstance(example, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(example)
