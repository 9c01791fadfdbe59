"""ApiRequest: what the dispatcher sends, the lane, and the callback for the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from bayplan.client.connection import JSON
from bayplan.client.errors import ApiError

ApiOutcome = bytes | ApiError
"""The body of the answer, or why there is none."""


class Lane(IntEnum):
    """Order of precedence."""

    BIND = 0
    STATUS = 1
    EVENT = 2


@dataclass(slots=True, eq=False)
class ApiRequest:
    """A write, or a read that belongs to one.

    Attributes:
        path: from the server's root, query included.
        on_done: gets the answer's body or the error; must be quick and must not raise.
        timeout: seconds per try.
        idempotent: doing it twice is as good as once, so it may be sent again in doubt.
        repeatable: the answer to a second try tells whether the first took effect, so it may be
            sent again after an answer of 5xx.
        max_tries: how often it is sent at most, see `bayplan.client.retry`.
        must_know: a lookup that is retried without limit, until the object or its absence is known.
        tries: how often it was sent so far.
        in_doubt: whether a try before the last one may have taken effect.
        superseded: whether a later request has made it pointless. It is not sent then, and ends as
            if the answer were empty. Any thread may set it.
    """

    method: str
    path: str
    on_done: Callable[[ApiOutcome], None]
    body: bytes | None = None
    lane: Lane = Lane.STATUS
    content_type: str = JSON
    timeout: float = 30.0
    idempotent: bool = False
    repeatable: bool = False
    max_tries: int = 5
    must_know: bool = False
    tries: int = 0
    in_doubt: bool = False
    superseded: bool = False
