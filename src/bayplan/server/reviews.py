"""Reviews: the API server says who a token belongs to, and what a user may read here.

Answers are cached for ten seconds, as in kube-scheduler, also those that say no. Of equal questions
at the same time one is sent. Different ones are limited in number, so that nobody can use this port
to flood the API server.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from bayplan.api.kinds import Kind
from bayplan.client.errors import ApiError, TooManyRequests
from bayplan.client.http import Http
from bayplan.server.pages import Attributes
from bayplan.server.users import User

T = TypeVar("T")

TTL_SECONDS = 10.0
MOST_ANSWERS = 1024
AT_ONCE = 8
"""Questions that are open at the API server."""
TIMEOUT_SECONDS = 5.0

TOKEN_REVIEW = Kind.generic(
    "authentication.k8s.io/v1", "TokenReview", "tokenreviews", namespaced=False
)
ACCESS_REVIEW = Kind.generic(
    "authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)


class Verdict(NamedTuple):
    """Whether access is allowed; ``reason`` may be empty."""

    allowed: bool
    reason: str


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo | None = None


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _Review(msgspec.Struct, Generic[T]):
    status: T


class ReviewCache(Generic[T]):
    """Answers by question, each cached for a while. Any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open = threading.BoundedSemaphore(AT_ONCE)
        self._futures: dict[object, tuple[float, Future[T]]] = {}

    def get(self, question: object, ask: Callable[[], T]) -> T:
        """The cached answer, or that of ``ask``.

        Raises:
            ApiError: ``ask`` failed, which is not cached, or too many others ask.
        """
        with self._lock:
            until, future = self._futures.get(question, (0.0, Future[T]()))
            mine = until <= self._clock()
            if mine:
                future = Future()
                self._put(question, future)
        if mine:
            self._settle(question, future, ask)
        return future.result(TIMEOUT_SECONDS * 2)

    def _put(self, question: object, future: Future[T]) -> None:
        self._futures.pop(question, None)
        if len(self._futures) >= MOST_ANSWERS:
            del self._futures[next(iter(self._futures))]
        self._futures[question] = self._clock() + TTL_SECONDS, future

    def _settle(self, question: object, future: Future[T], ask: Callable[[], T]) -> None:
        try:
            future.set_result(self._ask(ask))
        except Exception as error:  # noqa: BLE001 - raised by all who wait for the answer
            with self._lock:
                self._futures.pop(question, None)
            future.set_exception(error)

    def _ask(self, ask: Callable[[], T]) -> T:
        if not self._open.acquire(timeout=TIMEOUT_SECONDS):
            raise TooManyRequests("too many requests wait for a review by the API server")
        try:
            return ask()
        finally:
            self._open.release()


class TokenReviews:
    """Who a bearer token belongs to."""

    def __init__(self, http: Http, clock: Callable[[], float] = time.monotonic) -> None:
        self._http = http
        self._answers = ReviewCache[User | None](clock)
        # So that nobody who reads our memory finds the tokens of others.
        self._secret = secrets.token_bytes(32)

    def user_of(self, token: str) -> User | None:
        """The user, or None for a token that is not good.

        Raises:
            ApiError: the API server did not say.
        """
        key = hashlib.blake2b(token.encode(), key=self._secret).digest()
        return self._answers.get(key, lambda: self._ask(token))

    def _ask(self, token: str) -> User | None:
        status = _reviewed(self._http, TOKEN_REVIEW, {"token": token}, _Review[_TokenStatus])
        if not status.authenticated or status.user is None:
            return None
        user = status.user
        extra = tuple(sorted((user.extra or {}).items()))
        return User(user.username, user.uid, user.groups or (), extra)


class PathAttributes(NamedTuple):
    """What somebody wants to do with a path of ours."""

    verb: str
    path: str


class AccessReviews:
    """What a user may do: with a path of ours, or with objects of the API server."""

    def __init__(self, http: Http, clock: Callable[[], float] = time.monotonic) -> None:
        self._http = http
        self._answers = ReviewCache[Verdict](clock)

    def verdict(self, user: User, wanted: PathAttributes | Attributes) -> Verdict:
        """Whether ``user`` may, by the API server's authorization.

        Raises:
            ApiError: the API server did not say.
        """
        return self._answers.get((user, wanted), lambda: self._ask(user, wanted))

    def _ask(self, user: User, wanted: PathAttributes | Attributes) -> Verdict:
        kind = (
            "nonResourceAttributes" if isinstance(wanted, PathAttributes) else "resourceAttributes"
        )
        about = {name: value for name, value in wanted._asdict().items() if value}
        spec: dict[str, Any] = {"user": user.name, "groups": user.groups, kind: about}
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = dict(user.extra)
        status = _reviewed(self._http, ACCESS_REVIEW, spec, _Review[_AccessStatus])
        return Verdict(status.allowed and not status.denied, status.reason)


def _reviewed(http: Http, kind: Kind[object], spec: dict[str, Any], review: type[_Review[T]]) -> T:
    """The status that the API server gives to a review with this spec."""
    body = {"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
    answer = http.post(kind.path(), msgspec.json.encode(body), TIMEOUT_SECONDS)
    try:
        return msgspec.json.decode(answer, type=review).status
    except msgspec.DecodeError as error:
        raise ApiError(f"the API server's review cannot be read: {error}") from error
