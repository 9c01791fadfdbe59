"""The table of retry rules."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from bayplan.client import errors
from bayplan.client.errors import Conflict, ConnectionLost, ServerError
from bayplan.client.retry import retry_delay

RULES = [
    pytest.param(errors.TooManyRequests("", retry_after=3), 1, False, 3, id="429 says when"),
    pytest.param(errors.TooManyRequests(""), 1, False, 0.1, id="429 does not say when"),
    pytest.param(errors.TooManyRequests(""), 9, False, 10, id="429 is patient, up to 10 s"),
    pytest.param(errors.TooManyRequests(""), 10, False, None, id="429 ten times"),
    pytest.param(errors.Unreachable(""), 1, False, 0.1, id="never sent"),
    pytest.param(errors.Unreachable(""), 3, False, 0.4, id="never sent, third time"),
    pytest.param(errors.Unreachable(""), 5, False, None, id="never sent, too often"),
    pytest.param(errors.ServerError("", retry_after=2), 1, True, 2, id="5xx says when"),
    pytest.param(errors.ServerError(""), 1, True, 0.1, id="5xx, idempotent"),
    pytest.param(errors.ServerError(""), 1, False, None, id="5xx, not idempotent"),
    pytest.param(errors.ConnectionLost(""), 1, True, 0.1, id="broken, idempotent"),
    pytest.param(errors.ConnectionLost(""), 1, False, None, id="broken, not idempotent"),
    pytest.param(errors.Timeout(""), 1, False, None, id="no answer, not idempotent"),
    pytest.param(errors.Unauthorized(""), 1, False, 0, id="401 at first"),
    pytest.param(errors.Unauthorized(""), 2, False, None, id="401 again"),
    pytest.param(errors.Conflict(""), 1, True, None, id="conflict"),
    pytest.param(errors.Forbidden(""), 1, True, None, id="forbidden"),
    pytest.param(errors.Invalid(""), 1, True, None, id="invalid"),
]


@pytest.mark.parametrize(("error", "tries", "idempotent", "delay"), RULES)
def test_a_call_is_sent_again_only_where_that_is_safe_and_useful(
    error: Any, tries: int, idempotent: bool, delay: float | None
) -> None:
    assert retry_delay(error, tries, 5, idempotent, lambda: 0.0) == delay


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        pytest.param(errors.ServerError(""), 0.1, id="5xx"),
        pytest.param(errors.ConnectionLost(""), None, id="broken"),
        pytest.param(errors.Conflict(""), None, id="conflict"),
    ],
)
def test_what_a_second_answer_tells_about_is_sent_again_after_an_answer(
    error: Conflict | ConnectionLost | ServerError, delay: float | None
) -> None:
    assert retry_delay(error, 1, 5, False, lambda: 0.0, repeatable=True) == delay
    assert retry_delay(error, 5, 5, False, lambda: 0.0, repeatable=True) is None


def test_the_delay_is_spread_so_that_many_clients_do_not_come_back_together() -> None:
    assert retry_delay(errors.Unreachable(""), 1, 5, False, lambda: 0.5) == pytest.approx(0.15)


def test_there_is_no_end_to_tries_where_there_is_to_be_none() -> None:
    assert retry_delay(errors.Unreachable(""), 100_000, sys.maxsize, False, lambda: 0.0) == 10
