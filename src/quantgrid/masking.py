"""Secrets are masked wherever a person or a file is told what a script said."""

import re
from collections.abc import Mapping

_NAMED_SECRET = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(?:_|$)", re.IGNORECASE
)
_SHORTEST = 6
"""A shorter value would mask ordinary words."""

_SHAPES = re.compile(
    r"\b(?:"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}"  # AWS access key ids
    r"|hf_[A-Za-z0-9]{20,}"  # Hugging Face
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"  # GitHub
    r"|glpat-[\w-]{20,}"  # GitLab
    r"|sk-[\w-]{20,}"  # several model providers
    r"|xox[abprs]-[\w-]{10,}"  # Slack
    r"|rpa_[A-Z0-9]{20,}"  # RunPod
    r"|a[ks]-[A-Za-z0-9]{20,}"  # Modal
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+"  # JSON web tokens
    r")"
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")


def masked(text: str, environment: Mapping[str, str]) -> str:
    """The text without secrets.

    Masked are values of variables whose names look secret, tokens of well-known shapes, and
    passwords in addresses.

    Args:
        text: What a script said.
        environment: The variables that it could see.
    """
    parts = [(part, name) for name, value in secrets(environment).items() for part in _parts(value)]
    for part, name in sorted(parts, key=lambda each: -len(each[0])):
        text = text.replace(part, f"[{name}]")
    text = _IN_ADDRESS.sub("[masked]", text)
    return _BEARER.sub(r"\1 [masked]", _SHAPES.sub("[masked]", text))


def secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names look secret: all of an environment that `masked` needs."""
    return {
        name: value
        for name, value in environment.items()
        if len(value) >= _SHORTEST and _NAMED_SECRET.search(name)
    }


def _parts(value: str) -> list[str]:
    """A secret and, where it has several lines, each of them: a log may hold only some."""
    lines = [line for line in value.splitlines() if len(line) >= _SHORTEST]
    return [value, *lines] if len(lines) > 1 else [value]
