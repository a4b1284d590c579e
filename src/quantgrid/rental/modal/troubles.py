"""What an error of Modal's SDK means, by the names of its classes: pure, and without the SDK.

Which remote status raises which class: SDK 1.6, docstring of `modal/exception.py`.
"""

from collections.abc import Iterable

from quantgrid.rental.errors import Trouble

_ON_CREATE = {
    "AlreadyExistsError": Trouble.ALREADY,
    "ResourceExhaustedError": Trouble.CAPACITY,
    # raised as well when the sandbox ended before the SDK had looked at it once; an InvalidError
    "ConflictError": Trouble.AMBIGUOUS,
}
_ANYWHERE = {
    "ResourceExhaustedError": Trouble.RETRY,
    "ConflictError": Trouble.RETRY,
    "AuthError": Trouble.ACCOUNT,
    "PermissionDeniedError": Trouble.ACCOUNT,
    "NotFoundError": Trouble.FATAL,
    "InvalidError": Trouble.FATAL,
    "UnimplementedError": Trouble.FATAL,
    "RemoteError": Trouble.FATAL,  # an image that cannot be built
    "RequestSizeError": Trouble.FATAL,
}


def trouble(kinds: Iterable[str], *, is_create: bool) -> Trouble:
    """The class of an error.

    Args:
        kinds: Names of its classes, the most special first.
        is_create: Whether the call would have made a machine; one without a reply may have.
    """
    table = _ANYWHERE | _ON_CREATE if is_create else _ANYWHERE
    found = (table[kind] for kind in kinds if kind in table)
    return next(found, Trouble.AMBIGUOUS if is_create else Trouble.RETRY)
