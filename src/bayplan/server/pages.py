"""Pages: what the port serves, as functions from a request to an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from bayplan.server.users import ANONYMOUS, User

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"


class Attributes(NamedTuple):
    """What somebody wants to do with objects of the API server, as RBAC has it.

    Empty stands for all namespaces, the core group, all names.
    """

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    group: str = ""
    subresource: str = ""


def _everything(_: Attributes) -> bool:
    return True


class PageRequest(NamedTuple):
    """A request that was let through.

    Attributes:
        query: the last value of each parameter.
        may: whether whoever asks may do that at the API server; raises ApiError where that does not
            say.
        user: who asks; of pages that ask.
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    may: Callable[[Attributes], bool] = _everything
    user: User = ANONYMOUS


class Answer(NamedTuple):
    """What is sent back.

    Attributes:
        retry_after: seconds after which to ask again; 0 says nothing.
        headers: more of them.
    """

    status: int
    body: bytes
    content_type: str = TEXT
    retry_after: int = 0
    headers: tuple[tuple[str, str], ...] = ()


class Page(NamedTuple):
    """A page.

    Attributes:
        answer: makes the answer.
        methods: that it answers.
        asks: whether the page itself asks what its reader may see; else the path decides.
    """

    answer: Callable[[PageRequest], Answer]
    methods: tuple[str, ...] = ("GET",)
    asks: bool = False


Pages = Mapping[str, Page]
"""By path."""


class PageSource(Protocol):
    """Where a port finds pages: `Pages`, or what makes these from paths."""

    def get(self, path: str, /) -> Page | None:
        """The page at a path without its query; None where there is none."""


def text(status: int, line: str) -> Answer:
    """An answer of one or more lines."""
    return Answer(status, f"{line}\n".encode())
