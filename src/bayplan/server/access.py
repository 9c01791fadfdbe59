"""Access: who asks, and whether they may read a path.

As kube-scheduler does it: a client certificate or a bearer token says who asks; without either it
is ``system:anonymous``; and the API server's authorization (RBAC: ``nonResourceURLs``) says what
they may read. Paths that are always allowed need none of this, not even a token that is good: a
probe must not wait for the API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bayplan.client.errors import ApiError
from bayplan.server.options import PortError
from bayplan.server.pages import Answer, Attributes, text
from bayplan.server.reviews import AccessReviews, PathAttributes, TokenReviews, User

ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED = "system:authenticated"
ADMINISTRATORS = "system:masters"
"""May do everything at any API server, so no review is needed."""


class Client(NamedTuple):
    """What a client says about itself.

    Attributes:
        authorization: the header of that name, or empty.
        certificate: as `ssl.SSLSocket.getpeercert` has it after verification; empty without one.
    """

    authorization: str
    certificate: Mapping[str, Any]


class Access:
    """Lets requests through, or says why not.

    Args:
        always_allow_paths: see `bayplan.server.options.PortOptions`.

    Raises:
        PortError: a path has a * that is not its end.
    """

    def __init__(
        self, tokens: TokenReviews, reviews: AccessReviews, always_allow_paths: Sequence[str]
    ) -> None:
        bad = [path for path in always_allow_paths if "*" in path[:-1]]
        if bad:
            raise PortError(f"--authorization-always-allow-paths: only a trailing * in {bad[0]}")
        self._tokens, self._reviews = tokens, reviews
        paths = ["/" + path.removeprefix("/") for path in always_allow_paths]
        self._open = frozenset(path for path in paths if not path.endswith("*"))
        self._open_prefixes = tuple(path[:-1] for path in paths if path.endswith("*"))

    def user(self, client: Client, path: str) -> User | Answer:
        """The user behind a request for ``path``, or what to answer where there is none."""
        if self._is_open(path):
            return ANONYMOUS
        try:
            return self._user(client) or text(401, "Unauthorized")
        except (ApiError, TimeoutError) as error:
            return text(503, f"access cannot be checked: {error}")

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

    def _user(self, client: Client) -> User | None:
        """None for a token that is not good."""
        by_certificate = user_of_certificate(client.certificate)
        if by_certificate is not None:
            return by_certificate
        scheme, _, token = client.authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self._tokens.user_of(token.strip())
        if user is None or AUTHENTICATED in user.groups:
            return user
        return user._replace(groups=(*user.groups, AUTHENTICATED))


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The common name is the user, the organizations are the groups; None without a name."""
    subject = [attribute for names in certificate.get("subject", ()) for attribute in names]
    name = next((value for key, value in subject if key == "commonName"), "")
    if not name:
        return None
    groups = [value for key, value in subject if key == "organizationName"]
    return User(name, groups=(*groups, AUTHENTICATED))
