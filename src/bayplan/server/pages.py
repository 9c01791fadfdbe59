"""Pages: what the port serves, as functions from a request to an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"


class PageRequest(NamedTuple):
    """A request that was let through. ``query`` has the last value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes
    content_type: str = TEXT


class Page(NamedTuple):
    """A page, and the methods that the page answers."""

    answer: Callable[[PageRequest], Answer]
    methods: tuple[str, ...] = ("GET",)


Pages = Mapping[str, Page]
"""By path."""


def text(status: int, line: str) -> Answer:
    """An answer of one or more lines."""
    return Answer(status, f"{line}\n".encode())
