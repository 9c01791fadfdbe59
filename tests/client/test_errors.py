"""Which error an answer becomes, and what may be done after it."""

from __future__ import annotations

import json
from typing import Any

import pycurl
import pytest

from bayplan.client import errors
from bayplan.client.errors import ErrorSource, from_curl, from_status

STATUSES = [
    pytest.param(400, "BadRequest", errors.Invalid, ErrorSource.REQUEST, id="bad request"),
    pytest.param(
        401, "Unauthorized", errors.Unauthorized, ErrorSource.CREDENTIALS, id="unauthorized"
    ),
    pytest.param(403, "Forbidden", errors.Forbidden, ErrorSource.CREDENTIALS, id="forbidden"),
    pytest.param(404, "NotFound", errors.NotFound, ErrorSource.STATE, id="not found"),
    pytest.param(409, "Conflict", errors.Conflict, ErrorSource.STATE, id="conflict"),
    pytest.param(
        409, "AlreadyExists", errors.AlreadyExists, ErrorSource.STATE, id="already exists"
    ),
    pytest.param(410, "Expired", errors.Expired, ErrorSource.STATE, id="expired"),
    pytest.param(410, "Gone", errors.Expired, ErrorSource.STATE, id="gone"),
    pytest.param(410, "", errors.Expired, ErrorSource.STATE, id="gone without a reason"),
    pytest.param(422, "Invalid", errors.Invalid, ErrorSource.REQUEST, id="invalid"),
    pytest.param(
        429, "TooManyRequests", errors.TooManyRequests, ErrorSource.SERVER, id="throttled"
    ),
    pytest.param(500, "InternalError", errors.ServerError, ErrorSource.SERVER, id="internal error"),
    pytest.param(504, "Timeout", errors.ServerError, ErrorSource.SERVER, id="gateway timeout"),
]


@pytest.mark.parametrize(("code", "reason", "expected", "fault"), STATUSES)
def test_an_answer_becomes_the_error_of_its_reason(
    code: int, reason: str, expected: type[Any], fault: ErrorSource
) -> None:
    body = json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "why"})
    error = from_status(body.encode(), code)
    assert type(error) is expected
    assert error.fault is fault
    assert str(error) == "why"
    assert (error.status, error.reason) == (code, reason)


def test_the_code_comes_from_the_body_where_there_is_no_http_status() -> None:
    assert isinstance(from_status(b'{"code":410,"message":"too old"}'), errors.Expired)


@pytest.mark.parametrize(
    ("body", "header", "expected"),
    [
        pytest.param(b'{"details":{"retryAfterSeconds":7}}', 0, 7, id="from the body"),
        pytest.param(b'{"details":{"retryAfterSeconds":7}}', 3, 3, id="the header goes first"),
        pytest.param(b"{}", 0, None, id="nowhere"),
    ],
)
def test_the_time_to_wait_is_what_the_server_says(
    body: bytes, header: int, expected: int | None
) -> None:
    assert from_status(body, 429, header).retry_after == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"<html>Bad Gateway</html>", "<html>Bad Gateway</html>", id="a proxy's page"),
        pytest.param(b"", "the server answered with HTTP status 502", id="nothing"),
        pytest.param(b'{"message":null}', "the server answered with HTTP status 502", id="null"),
    ],
)
def test_an_answer_that_is_no_status_still_makes_a_sentence(body: bytes, message: str) -> None:
    error = from_status(body, 502)
    assert isinstance(error, errors.ServerError)
    assert str(error) == message


@pytest.mark.parametrize(
    ("code", "connected", "sent", "expected"),
    [
        pytest.param(pycurl.E_COULDNT_CONNECT, False, False, errors.Unreachable, id="refused"),
        pytest.param(
            pycurl.E_COULDNT_RESOLVE_HOST, False, False, errors.Unreachable, id="no such host"
        ),
        pytest.param(
            pycurl.E_PEER_FAILED_VERIFICATION, False, False, errors.Unreachable, id="wrong CA"
        ),
        pytest.param(
            pycurl.E_OPERATION_TIMEDOUT, False, False, errors.Unreachable, id="connect timeout"
        ),
        pytest.param(pycurl.E_OPERATION_TIMEDOUT, True, True, errors.Timeout, id="no answer"),
        pytest.param(pycurl.E_RECV_ERROR, True, True, errors.ConnectionLost, id="reset"),
        pytest.param(
            pycurl.E_COULDNT_CONNECT, True, True, errors.ConnectionLost, id="sent, then refused"
        ),
        pytest.param(pycurl.E_GOT_NOTHING, True, True, errors.ConnectionLost, id="closed"),
    ],
)
def test_a_broken_transfer_says_whether_the_server_can_have_seen_it(
    code: int, connected: bool, sent: bool, expected: type[Any]
) -> None:
    error = from_curl(code, "what curl says", "https://host:6443", connected=connected, sent=sent)
    assert type(error) is expected
    assert error.never_sent != error.outcome_unknown
    assert "https://host:6443" in str(error)
    assert str(error).endswith("what curl says")
