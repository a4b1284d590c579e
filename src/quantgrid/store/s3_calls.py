"""Calls to an S3 service: bounded repeats with jitter, and every error as one of four outcomes.

A call is done, not done because of something that a repeat cannot mend (a fault with its sentence),
absent or there already (answers, not errors), or open: it may have taken effect.  Open calls are
repeated; whoever repeats a write finds out afterwards whether its first attempt had succeeded.
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from quantgrid.errors import PlatformFault, Unanswered

T = TypeVar("T")


class Patience(NamedTuple):
    """How long a call is repeated and waited for.

    Args:
        attempts: Calls at most.
        first_s: Longest pause before the second attempt; it doubles from then on.
        longest_s: Longest pause of all.
        connect_s: Seconds for a connection.
        read_s: Seconds without a byte.
    """

    attempts: int = 7
    first_s: float = 0.1
    longest_s: float = 5.0
    connect_s: float = 5.0
    read_s: float = 30.0


PATIENCE = Patience()


class Absent(Exception):
    """Nothing is there."""


class There(Exception):
    """Something was there already, so a conditional write did nothing."""


class Ignored(Exception):
    """The service does not know the call or its condition."""


class Open(Exception):
    """The service did not answer in a way that tells whether the call took effect."""


_ABSENT = {"NoSuchKey", "NoSuchUpload"}
_OPEN = {
    "InternalError",
    "OperationAborted",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
}
_CONFLICT = {"ConditionalRequestConflict"}
_CREDENTIALS = "Renew the credentials (AWS_PROFILE or AWS_ACCESS_KEY_ID), then run again."
_TOLD: Mapping[str, tuple[str, str]] = {
    "NoSuchBucket": (
        "the bucket does not exist at this endpoint",
        "Check bucket and endpoint_url, or make the bucket yourself: quantgrid never makes one.",
    ),
    "AccessDenied": (
        "the store denies access to these credentials",
        "They need to get, put, delete and list objects in this bucket.",
    ),
    "InvalidAccessKeyId": ("the store does not know these credentials", _CREDENTIALS),
    "SignatureDoesNotMatch": ("the store does not accept this secret key", _CREDENTIALS),
    "ExpiredToken": ("the credentials have expired", _CREDENTIALS),
    "ExpiredTokenException": ("the credentials have expired", _CREDENTIALS),
    "InvalidToken": ("the store does not accept this temporary token", _CREDENTIALS),
    "TokenRefreshRequired": ("the credentials have expired", _CREDENTIALS),
    "RequestTimeTooSkewed": (
        "the clock of this machine is too far from the store's",
        "Set the clock (NTP) and run again.",
    ),
    "RequestExpired": (
        "the clock of this machine is too far from the store's",
        "Set the clock (NTP) and run again.",
    ),
    "PermanentRedirect": ("the bucket is in another region", "Set AWS_REGION to it."),
    "AuthorizationHeaderMalformed": ("the bucket is in another region", "Set AWS_REGION to it."),
    "IllegalLocationConstraintException": (
        "the bucket is in another region",
        "Set AWS_REGION to it.",
    ),
    "QuotaExceeded": ("the store has no room left", "Make room in the bucket and run again."),
    "InsufficientCapacity": ("the store has no room left", "Make room and run again."),
    "BadDigest": ("the store got other bytes than were sent", "Run again; nothing was stored."),
}
_LOCAL: tuple[tuple[set[str], str, str], ...] = (
    (
        {"NoCredentialsError", "PartialCredentialsError"},
        "no credentials were found",
        "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    ),
    (
        {
            "CredentialRetrievalError",
            "SSOTokenLoadError",
            "TokenRetrievalError",
            "UnauthorizedSSOTokenError",
        },
        "the credentials cannot be renewed",
        _CREDENTIALS,
    ),
    (
        {"InvalidRegionError", "NoRegionError", "ParamValidationError", "ProfileNotFound"},
        "the address or the AWS profile cannot be meant",
        "Mend it and run again.",
    ),
    ({"ValueError"}, "endpoint_url cannot be meant", "Write it like https://host:port."),
)
"""Errors of botocore before any request, by the names of their classes."""
_STATUS = {301: "PermanentRedirect", 307: "PermanentRedirect", 403: "AccessDenied"}


@cache
def _loader(path: str | None) -> Any:
    """What reads botocore's descriptions of AWS: nine tenths of what a client costs, and equal."""
    from botocore.loaders import create_loader

    return create_loader(path)


class Calls:
    """The S3 service of one bucket.

    Args:
        address: What a person calls the store, for errors.
        endpoint_url: Where the service is; AWS's own place when None.
        patience: How long calls are repeated.
    """

    def __init__(self, address: str, endpoint_url: str | None, patience: Patience) -> None:
        self.address, self.endpoint_url, self.patience = address, endpoint_url, patience
        self.num_requests = 0
        self._client: Any = None

    @property
    def client(self) -> Any:
        """The client of botocore, made at the first call."""
        if self._client is None:
            self._client = self._made()
        return self._client

    def _made(self) -> Any:
        # boto3 is a sheet around this that costs every job a sixth more to import
        from botocore.config import Config
        from botocore.session import Session

        patience = self.patience
        config = Config(
            connect_timeout=patience.connect_s,
            read_timeout=patience.read_s,
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=32,
            signature_version="s3v4",
            s3={
                "addressing_style": "path" if self.endpoint_url else "auto",
                "payload_signing_enabled": True,
            },
            # Content-MD5 and the signed sha256 of the payload do the same everywhere; the newer
            # checksum trailers are unknown to several services
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        with self._telling("open the store"):
            session = Session()
            path = session.get_config_variable("data_path")
            session.register_component("data_loader", _loader(path))
            client = session.create_client(
                "s3",
                # botocore alone of all SDKs of AWS does not know this variable
                region_name=os.environ.get("AWS_REGION"),
                endpoint_url=self.endpoint_url,
                config=config,
            )
            client.meta.events.register("before-send.s3", self._count)
            return client

    def _count(self, **_: Any) -> None:
        self.num_requests += 1

    # -- repeats ----------------------------------------------------------------------------------

    def repeat(self, act: str, call: Callable[[Any], T]) -> T:
        """Call until it is answered: for calls that may be done twice.

        Raises:
            Absent: when nothing is there.
            PlatformFault: when it cannot be done, or the patience is at its end.
        """
        for attempt in self.attempts(act):
            with attempt:
                return call(self.client)
        raise AssertionError("attempts end with a fault")

    def attempts(self, act: str) -> Iterator["Attempt"]:
        """Attempts with pauses between them; the last one that stays open ends as a fault."""
        for number in range(self.patience.attempts):
            if number:
                limit_s = self.patience.first_s * 2 ** (number - 1)
                time.sleep(random.uniform(0, min(limit_s, self.patience.longest_s)))
            yield Attempt(self, act, is_last=number + 1 == self.patience.attempts)

    def _telling(self, act: str) -> "Attempt":
        return Attempt(self, act, is_last=True)

    # -- errors -----------------------------------------------------------------------------------

    def outcome(self, act: str, error: Exception) -> Exception:
        """What an error of botocore means."""
        response = getattr(error, "response", None)
        if isinstance(response, dict) and "Error" in response:
            return self._answered(act, response)
        kinds = {kind.__name__ for kind in type(error).__mro__}
        for names, what, do in _LOCAL:
            if kinds & names:
                return self.fault(act, what, seen=str(error).rstrip("."), do=do)
        is_silence = kinds & {"BotoCoreError", "HTTPClientError", "ConnectionError", "TimeoutError"}
        return Open(f"{type(error).__name__}: {error}") if is_silence else error

    def _answered(self, act: str, response: Mapping[str, Any]) -> Exception:
        told, status = response["Error"], response["ResponseMetadata"].get("HTTPStatusCode", 0)
        code = str(told.get("Code", ""))
        if code in _ABSENT:
            return Absent()
        if code == "PreconditionFailed" or status == 412:
            return There()
        if code == "NotImplemented" or status == 501:
            return Ignored(code)
        if code in _OPEN or code in _CONFLICT or status in {409, 429} or status >= 500:
            return Open(f"{code} (HTTP {status})")
        code = code if code in _TOLD else _STATUS.get(status, code)
        if code == "404" or (status == 404 and code not in _TOLD):
            return Absent()
        headers = response["ResponseMetadata"].get("HTTPHeaders", {})
        what, do = _TOLD.get(code, ("the store answers with an error", "See its documentation."))
        region = headers.get("x-amz-bucket-region") if "region" in what else None
        seen = f"{code} (HTTP {status}) {told.get('Message', '')}".rstrip(" .")
        return self.fault(act, what, expected=region, seen=seen, do=do)

    def fault(
        self, act: str, what: str, *, expected: object = None, seen: object = None, do: str
    ) -> PlatformFault:
        """The sentence of a call that failed for good."""
        return PlatformFault(
            f"cannot {act}: {what}", expected=expected, seen=seen, where=self.address, do=do
        )

    def silence(self, act: str, last: Open) -> Unanswered:
        """The sentence of a call that was never answered."""
        return Unanswered(
            f"cannot {act}: the store does not answer",
            expected=f"an answer within {self.patience.attempts} attempts",
            seen=last,
            where=self.address,
            do="Nothing is taken for missing; see that the endpoint can be reached, run again.",
        )


class Attempt:
    """One attempt at a call: an open one is swallowed for the next attempt, unless it is the last.

    What is no error of the service, such as a full disk at this end, passes as it is.
    """

    __slots__ = ("_act", "_calls", "_is_last")

    def __init__(self, calls: Calls, act: str, *, is_last: bool) -> None:
        self._calls, self._act, self._is_last = calls, act, is_last

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, Exception):
            return False
        outcome = self._calls.outcome(self._act, error)
        if outcome is error:
            return False
        if not isinstance(outcome, Open):
            raise outcome from error
        if self._is_last:
            raise self._calls.silence(self._act, outcome) from error
        return True
