"""Retry rules: when a failed request may be sent again, and after how long.

| failure                           | sent again                           | after               |
|-----------------------------------|--------------------------------------|---------------------|
| 429                               | always: the server did nothing       | Retry-After         |
| no connection                     | always: the server did not see it    | exponential backoff |
| 5xx                               | if idempotent, or if the next answer | Retry-After/backoff |
|                                   | shows whether the first took effect  |                     |
| connection broken, no answer      | if idempotent                        | exponential backoff |
| 401                               | once, after reading the credentials  | at once             |
| anything else                     | never: the answer would be the same  |                     |

A lookup with `must_know` is retried without limit, also after 403: a server that has just started
answers 403 to everything until it has read its roles.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.client.errors import (
    ApiError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)

FIRST_DELAY = 0.1
LONGEST_DELAY = 10.0
MOST_DOUBLINGS = 10
"""More would not change the delay, and after many tries overflow."""
THROTTLED_TRIES = 10
"""How often a 429 is tried, whatever the caller's own limit: the server only asks for patience."""


def retry_delay(
    error: ApiError,
    tries: int,
    max_tries: int,
    idempotent: bool,
    jitter: Callable[[], float],
    *,
    repeatable: bool = False,
) -> float | None:
    """Seconds until the call is sent again, or None if it is not.

    Args:
        error: how the last try ended.
        tries: how often it was sent so far, at least 1.
        max_tries: how often it may be sent.
        idempotent: whether doing it twice is as good as once.
        jitter: random numbers in [0, 1).
        repeatable: whether the answer to a second try tells whether the first took effect.
    """
    if isinstance(error, Unauthorized):
        return 0.0 if tries == 1 else None
    if isinstance(error, TooManyRequests):
        return _delay(error, tries, jitter) if tries < max(max_tries, THROTTLED_TRIES) else None
    answered = repeatable and isinstance(error, ServerError)
    harmless = error.never_sent or answered or (error.outcome_unknown and idempotent)
    return _delay(error, tries, jitter) if harmless and tries < max_tries else None


def lookup_delay(error: ApiError, tries: int, jitter: Callable[[], float]) -> float | None:
    """Seconds until a lookup is retried, or None if ``error`` is an answer: no such object."""
    return None if isinstance(error, NotFound) else _delay(error, tries, jitter)


def _delay(error: ApiError, tries: int, jitter: Callable[[], float]) -> float:
    if error.retry_after:
        return error.retry_after
    doublings = min(tries - 1, MOST_DOUBLINGS)
    backoff = min(FIRST_DELAY * 2.0**doublings, LONGEST_DELAY)
    return backoff * (1 + jitter())
