"""What can go wrong with a call to the API server, and whose fault it is.

Every failed call ends in one `ApiError` subtype. Two properties decide what may be done next:
`outcome_unknown` (the server may have done it all the same) and `never_sent` (it cannot have). The
text is the server's own message where there is one, so that it can stand in events and conditions.
"""

# ruff: noqa: N818 - named after the reasons of metav1.Status, which people look for.

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec
import pycurl


class ErrorSource(StrEnum):
    """Who has to act before the same call can succeed."""

    REQUEST = "request"
    """We asked for something that makes no sense to the server."""
    STATE = "state"
    """The object is not, or no longer, what the request presumes."""
    CREDENTIALS = "credentials"
    """The administrator: who we are, or what we may do."""
    SERVER = "server"
    """The API server, or what stands behind it."""
    NETWORK = "network"
    """Whatever lies between us and the API server."""
    US = "us"
    """This process is ending."""


class ApiError(Exception):
    """A call failed.

    Attributes:
        message: one sentence, the server's own where it sent one.
        status: HTTP status, 0 when there was no answer.
        reason: the ``reason`` of metav1.Status, such as AlreadyExists; may be empty.
        retry_after: seconds that the server asked us to wait, or None.
    """

    fault: ClassVar[ErrorSource] = ErrorSource.SERVER
    outcome_unknown: ClassVar[bool] = False
    never_sent: ClassVar[bool] = False

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class Invalid(ApiError):
    """The server understood that this request can never work (400, 405, 406, 413, 415, 422)."""

    fault = ErrorSource.REQUEST


class Unauthorized(ApiError):
    """The credentials are missing, wrong or expired (401)."""

    fault = ErrorSource.CREDENTIALS


class Forbidden(ApiError):
    """RBAC or admission says no; the message names verb and resource (403)."""

    fault = ErrorSource.CREDENTIALS


class NotFound(ApiError):
    """No such object, or no such API (404)."""

    fault = ErrorSource.STATE


class Conflict(ApiError):
    """The object is in a state that the request does not allow (409)."""

    fault = ErrorSource.STATE


class AlreadyExists(Conflict):
    """An object of that name is there already (409)."""


class Expired(ApiError):
    """The resource version or continue token is too old; list again (410)."""

    fault = ErrorSource.STATE


class TooManyRequests(ApiError):
    """The server refused before it did anything; `retry_after` says when to come back (429)."""


class ServerError(ApiError):
    """The server failed (5xx)."""

    outcome_unknown = True


class Unreachable(ApiError):
    """No connection came about, so the server has not seen the request."""

    fault = ErrorSource.NETWORK
    never_sent = True


class ConnectionLost(ApiError):
    """The connection broke before the answer was complete."""

    fault = ErrorSource.NETWORK
    outcome_unknown = True


class Timeout(ConnectionLost):
    """A request timed out."""


class Closed(ApiError):
    """The client was closed before the request was sent."""

    fault = ErrorSource.US
    never_sent = True


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    429: TooManyRequests,
}
_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Expired,
    "Gone": Expired,
}


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None


class _Status(msgspec.Struct):
    """metav1.Status; ``error`` is what Prometheus says in place of a message."""

    message: str | None = None
    error: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


def from_status(
    body: bytes | msgspec.Raw, http_status: int = 0, retry_after: float = 0
) -> ApiError:
    """The error for an answer with a metav1.Status, or with whatever a proxy put in its place.

    Args:
        body: the answer's body.
        http_status: 0 takes the code from the body (an ERROR event inside a watch).
        retry_after: seconds of the Retry-After header, 0 without one.
    """
    try:
        answer = _decode_status(body)
    except msgspec.DecodeError:
        answer = _Status(message=bytes(body)[:200].decode("utf-8", "replace").strip())
    status = http_status or answer.code or 500
    reason = answer.reason or ""
    wait = retry_after or (answer.details.retry_after_seconds if answer.details else None)
    by_status = _BY_STATUS.get(status) or (ServerError if status >= 500 else Invalid)
    return _BY_REASON.get(reason, by_status)(
        answer.message or answer.error or f"the server answered with HTTP status {status}",
        status=status,
        reason=reason,
        retry_after=wait,
    )


_NEVER_SENT = frozenset(
    {
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_COULDNT_RESOLVE_PROXY,
        pycurl.E_SSL_CONNECT_ERROR,
        pycurl.E_PEER_FAILED_VERIFICATION,
        pycurl.E_SSL_CACERT_BADFILE,
        pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_ISSUER_ERROR,
    }
)


def from_curl(
    code: int,
    text: str,
    server: str,
    *,
    connected: bool,
    sent: bool = False,
    peer: str = "the API server",
) -> ApiError:
    """The error for a transfer that libcurl gave up.

    When a connection that was used before breaks under a request, libcurl sends the request again
    by itself. If it gets no other connection then, it reports that alone, but ``sent`` tells that
    the server may have seen the first try.

    Args:
        code: CURLE number.
        text: what libcurl says about it.
        server: URL, for the message.
        connected: whether a connection stood, so that the request may have gone out.
        sent: whether any byte of the request went out, on any connection.
        peer: who was asked, for the message.
    """
    what = text or f"libcurl error {code}"
    if not sent and (code in _NEVER_SENT or not connected):
        return Unreachable(f"cannot reach {peer} at {server}: {what}")
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return Timeout(f"{peer} at {server} did not answer in time: {what}")
    return ConnectionLost(f"the connection to {peer} at {server} broke: {what}")
