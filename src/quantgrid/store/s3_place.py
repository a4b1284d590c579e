"""The address of a store in a bucket, as a person types it."""

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from quantgrid.errors import ConfigRefusal


class Place(NamedTuple):
    """A prefix of a bucket at an endpoint."""

    bucket: str
    prefix: str
    endpoint_url: str | None

    @property
    def address(self) -> str:
        """What a person would type."""
        path = f"s3://{self.bucket}/{self.prefix}".rstrip("/")
        if not self.endpoint_url:
            return path
        return f"{path}?{urlencode({'endpoint_url': self.endpoint_url}, safe=':/')}"

    def key(self, key: str) -> str:
        """The name of an object."""
        return f"{self.prefix}/{key}" if self.prefix else key


def parse_place(address: str) -> Place:
    """The place that an address `s3://bucket/prefix[?endpoint_url=...]` names.

    Raises:
        ConfigRefusal: when it is not such an address, or holds a password.
    """
    parts = urlsplit(address)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix = parts.path.strip("/")
    endpoint = query.pop("endpoint_url", None) or None
    is_odd = query or parts.fragment or "//" in prefix or ".." in prefix.split("/")
    if "@" in parts.netloc or not parts.netloc or is_odd:
        raise ConfigRefusal(
            "this is not the address of a store",
            expected="s3://bucket/prefix or s3://bucket/prefix?endpoint_url=https://host",
            seen=address.replace(parts.netloc, "...") if "@" in parts.netloc else address,
            do="Credentials come from the environment or the AWS profile, never from an address.",
        )
    return Place(parts.netloc, prefix, endpoint)
