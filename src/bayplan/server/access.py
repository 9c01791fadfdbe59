"""Access: who asks, and whether they may read a path.

As kube-scheduler does it: a client certificate or a bearer token says who asks; without either it
is ``system:anonymous``; and the API server's authorization (RBAC: ``nonResourceURLs``) says what
they may read. Paths that are always allowed need none of this, not even a token that is good: a
probe must not wait for the API server.

The aggregated API asks in the name of its users, by the headers of Kubernetes' impersonation. That
takes the verb ``impersonate`` on `IMPERSONATED`, a resource that exists for this alone, and counts
for pages that ask what their reader may see; such a page then asks about that user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.client.errors import ApiError
from bayplan.server.options import PortError
from bayplan.server.pages import Answer, Attributes, text
from bayplan.server.reviews import AccessReviews, PathAttributes, TokenReviews
from bayplan.server.users import (
    ADMINISTRATORS,
    ANONYMOUS,
    IMPERSONATION,
    Client,
    User,
    authenticated,
    user_of_certificate,
)

IMPERSONATED = Attributes("impersonate", "users", group="view.bayplan.dev")
Authenticate = Callable[[Client], User | None]
"""Who a client is; None for credentials that are not good. Raises ApiError, TimeoutError."""


class Access:
    """Lets requests through, or says why not.

    Args:
        always_allow_paths: see `bayplan.server.options.PortOptions`.

    Raises:
        PortError: a path has a * that is not its end.
    """

    def __init__(
        self, authenticate: Authenticate, reviews: AccessReviews, always_allow_paths: Sequence[str]
    ) -> None:
        bad = [path for path in always_allow_paths if "*" in path[:-1]]
        if bad:
            raise PortError(f"--authorization-always-allow-paths: only a trailing * in {bad[0]}")
        self._authenticate, self._reviews = authenticate, reviews
        paths = ["/" + path.removeprefix("/") for path in always_allow_paths]
        self._open = frozenset(path for path in paths if not path.endswith("*"))
        self._open_prefixes = tuple(path[:-1] for path in paths if path.endswith("*"))

    def user(self, client: Client, path: str) -> User | Answer:
        """The user behind a request for ``path``, or what to answer where there is none."""
        if self._is_open(path):
            return ANONYMOUS
        try:
            return self._authenticate(client) or text(401, "Unauthorized")
        except (ApiError, TimeoutError) as error:
            return text(503, f"access cannot be checked: {error}")

    def acting(self, user: User, client: Client) -> User | Answer:
        """The user for whom ``user`` asks, or what to answer if they may not."""
        other = IMPERSONATION.user(client.headers)
        if other is None:
            return user
        try:
            may = self.may(user, IMPERSONATED)
        except ApiError as error:
            return text(503, f"access cannot be checked: {error}")
        if may:
            return authenticated(other)
        what = f"{IMPERSONATED.verb} {IMPERSONATED.resource}.{IMPERSONATED.group}"
        return text(403, f'forbidden: User "{user.name}" cannot {what}')

    def refusal(self, user: User, method: str, path: str) -> Answer | None:
        """None if the user may read the path; else what to answer."""
        if self._is_open(path) or ADMINISTRATORS in user.groups:
            return None
        try:
            verdict = self._reviews.verdict(user, PathAttributes(method.lower(), path))
        except (ApiError, TimeoutError) as error:
            return text(503, f"access cannot be checked: {error}")
        if verdict.allowed:
            return None
        why = f": {verdict.reason}" if verdict.reason else ""
        what = f'User "{user.name}" cannot {method.lower()} path "{path}"'
        return text(403, f"forbidden: {what}{why}")

    def may(self, user: User, attributes: Attributes) -> bool:
        """Whether the user may do that with objects of the API server.

        Raises:
            ApiError: the API server did not say.
        """
        if ADMINISTRATORS in user.groups:
            return True
        try:
            return self._reviews.verdict(user, attributes).allowed
        except TimeoutError as error:
            raise ApiError(str(error)) from error

    def _is_open(self, path: str) -> bool:
        return path in self._open or path.startswith(self._open_prefixes)


class Credentials:
    """A client certificate, or else a bearer token, says who asks."""

    def __init__(self, tokens: TokenReviews) -> None:
        self._tokens = tokens

    def user(self, client: Client) -> User | None:
        """See `Authenticate`."""
        by_certificate = user_of_certificate(client.certificate)
        if by_certificate is not None:
            return by_certificate
        authorization = client.headers.get("Authorization") or ""
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self._tokens.user_of(token.strip())
        return None if user is None else authenticated(user)
