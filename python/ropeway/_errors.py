"""One exception for each kind of failure (StatusCode in include/ropeway/status.h)."""

from __future__ import annotations


class RopewayError(Exception):
    """A failure, said in one sentence.

    Attributes:
        field: the option or field of the request at fault; "" if there is none.
        code: the name that the HTTP API has for the error, such as
            "context_length_exceeded"; "" if it has none.
        retry_after: seconds after which trying again may succeed; 0 if that is not known.
    """

    def __init__(self, message: str, field: str = "", code: str = "", retry_after: int = 0):
        super().__init__(message)
        self.field = field
        self.code = code
        self.retry_after = retry_after


class InvalidArgumentError(RopewayError, ValueError):
    """The caller's input is wrong; the message names the field and what was expected."""


class NotFoundError(RopewayError, LookupError):
    """There is no such model, request, session or file."""


class ResourceExhaustedError(RopewayError):
    """A queue or a bound is full; trying again later may succeed."""


class UnavailableError(RopewayError):
    """The engine is closed, or stopping."""


class DeadlineExceededError(RopewayError, TimeoutError):
    """The given time was up."""


class CancelledError(RopewayError):
    """The request was cancelled."""


class DataLossError(RopewayError):
    """A file or a stored record is truncated or damaged."""


class UnimplementedError(RopewayError, NotImplementedError):
    """Understood, but not supported; the message names what."""


class InternalError(RopewayError):
    """A bug in Ropeway."""


# By StatusCode's numbers, from 1.
BY_CODE = (
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
    DeadlineExceededError,
    CancelledError,
    DataLossError,
    UnimplementedError,
    InternalError,
)


def of_status(status_code: int, message: str, field: str, code: str, retry_after: int) -> RopewayError:
    """The exception of a status that is not OK."""
    return BY_CODE[status_code - 1](message, field, code, retry_after)
