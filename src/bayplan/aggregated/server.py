"""Server: the pages of the aggregated API, and their process.

The API server authenticates a user, asks its authorization, and hands the request on; this process
believes nobody else (`bayplan.server.front_proxy`), asks the authorization again for the same
resource, as every aggregated API does, and then the scheduler, which asks what the user may see.
"""

from __future__ import annotations

import gzip
import math
import signal
import threading
from typing import Any
from urllib.parse import urlencode

import msgspec
import structlog

from bayplan.aggregated.discovery import documents
from bayplan.aggregated.page import PageFiles
from bayplan.aggregated.resources import EXPLANATION, PLAN, WHOLE, Question, question
from bayplan.aggregated.scheduler import Scheduler, is_older
from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.server.access import Access
from bayplan.server.front_proxy import FrontProxy
from bayplan.server.options import PROBES, PortOptions
from bayplan.server.pages import JSON, Answer, Attributes, Page, PageRequest, Pages, text
from bayplan.server.reviews import AccessReviews
from bayplan.server.secure_port import SecurePort

log = structlog.get_logger("api")

MOST_BYTES = 2**20
"""Of a request: a plan that is not gzipped."""
GZIP = b"\x1f\x8b"
_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}
"""Kubernetes' reasons. The scheduler's own answers are passed on; with any other code it cannot be
asked, which is the last one."""


class Api:
    """The pages by path, as `bayplan.server.pages.PageSource`."""

    def __init__(self, scheduler: Scheduler, front_proxy: FrontProxy) -> None:
        self._scheduler, self._front_proxy = scheduler, front_proxy
        self._files = PageFiles()
        fixed: dict[str, Page] = {path: Page(self._probe) for path in PROBES}
        for path, document in documents().items():
            fixed[path] = _document(msgspec.json.encode(document))
        self._fixed: Pages = fixed

    def get(self, path: str, /) -> Page | None:
        """See `bayplan.server.pages.PageSource`."""
        page = self._fixed.get(path) or self._files.get(path)
        asked = question(path) if page is None else None
        if asked is None:
            return page

        def answer(request: PageRequest) -> Answer:
            return self._answer(asked, request)

        return Page(answer, (asked.method,), asks=True)

    def _probe(self, request: PageRequest) -> Answer:
        problem = self._front_proxy.problem if request.path == "/readyz" else ""
        return text(503, problem) if problem else Answer(200, b"ok")

    def _answer(self, asked: Question, request: PageRequest) -> Answer:
        try:
            if not request.may(asked.wanted):
                return status(403, _forbidden(asked.wanted, request.user.name))
        except ApiError as error:
            return status(503, f"access cannot be checked: {error}")
        body = request.body if asked.method == "POST" else None
        if body and asked.wanted.subresource == PLAN and not body.startswith(GZIP):
            body = gzip.compress(body, mtime=0)
        page = asked.page
        if WHOLE in request.query and asked.wanted.subresource == EXPLANATION:
            page += f"&{urlencode({WHOLE: request.query[WHOLE]})}"
        try:
            answer = self._scheduler.ask(asked.method, page, body, request.user)
        except ApiError as error:
            if is_older(error, asked.page):
                name = page.partition("?")[0]
                return status(503, f"the scheduler is older than this API: it has no page {name}")
            if error.status in _REASONS:
                seconds = math.ceil(error.retry_after or 0)
                return status(error.status, str(error))._replace(retry_after=seconds)
            return status(503, f"the scheduler cannot be asked: {error}")
        return Answer(200, answer, JSON)


def _document(body: bytes) -> Page:
    return Page(lambda _: Answer(200, body, JSON), asks=True)


def _forbidden(wanted: Attributes, user: str) -> str:
    where = f' in the namespace "{wanted.namespace}"' if wanted.namespace else ""
    what = f'{wanted.verb} resource "{wanted.resource}/{wanted.subresource}"'
    return (
        f'{wanted.resource}.{wanted.group} "{wanted.name}" is forbidden: '
        f'User "{user}" cannot {what} in API group "{wanted.group}"{where}'
    )


def status(code: int, message: str) -> Answer:
    """An error in Kubernetes' form: kubectl prints ``message``."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    body |= {"status": "Failure", "message": message, "reason": _REASONS[code], "code": code}
    return Answer(code, msgspec.json.encode(body), JSON)


class ApiProcess:
    """Serves the API until a signal ends it.

    Args:
        http: to the API server.

    Raises:
        PortError: the port, a certificate or an option cannot be used.
    """

    def __init__(self, options: PortOptions, http: Http, scheduler: Scheduler) -> None:
        front_proxy = FrontProxy(http)
        access = Access(front_proxy.user, AccessReviews(http), PROBES)
        pages = Api(scheduler, front_proxy)
        self._port = SecurePort(options, pages, front_proxy.authority, access, MOST_BYTES)
        self._ending = threading.Event()

    def run(self) -> None:
        """Serve."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ending.set())
        self._port.start()
        log.info("Starting", port=self._port.port)
        self._ending.wait()
        log.info("Ending")
        self._port.stop()
