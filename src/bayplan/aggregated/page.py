"""Page: the page of `bayplan view` below the aggregated API, for browsers behind ``kubectl proxy``.

The API server has authenticated whoever comes, and the page asks for nothing but resources of the
API: so each user sees what they may. Only its files are served here, to those with the right to
``schedulers/page``.
"""

from __future__ import annotations

import re

from bayplan.aggregated.resources import GROUP, LEADER, PAGE, PREFIX, SCHEDULERS
from bayplan.client.errors import ApiError
from bayplan.server.pages import Answer, Attributes, Page, PageRequest, text
from bayplan.view.files import INDEX, TYPES, files
from bayplan.view.session import HEADERS

_PATH = re.compile(
    rf"{re.escape(PREFIX)}(?:/namespaces/([^/]+))?/{SCHEDULERS}/{LEADER}/{PAGE}/(?:static/([^/]+))?"
)


class PageFiles:
    """The files by path, as `bayplan.server.pages.PageSource`."""

    def __init__(self) -> None:
        self._files = files()

    def get(self, path: str, /) -> Page | None:
        """See `bayplan.server.pages.PageSource`."""
        match = _PATH.fullmatch(path)
        file = None if match is None else self._files.get(match[2] or INDEX)
        if match is None or file is None:
            return None
        wanted = Attributes("get", SCHEDULERS, match[1] or "", LEADER, GROUP, PAGE)
        answer = Answer(200, file.read_bytes(), TYPES[file.suffix], headers=tuple(HEADERS.items()))

        def answered(request: PageRequest) -> Answer:
            try:
                allowed = request.may(wanted)
            except ApiError as error:
                return text(503, f"access cannot be checked: {error}")
            return answer if allowed else text(403, f"forbidden: may not get {SCHEDULERS}/{PAGE}")

        return Page(answered, asks=True)
