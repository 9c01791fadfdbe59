"""Users: who asks, as a certificate, the headers of a trusted proxy, or a token says."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from email.message import Message
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ADMINISTRATORS = "system:masters"
"""May do everything at any API server, so no review is needed."""
_NO_LINE = re.compile(r"[\x00-\x1f\x7f]")


class User(NamedTuple):
    """Who asks, as the API server knows them. ``extra`` is sorted by key."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))


class Client(NamedTuple):
    """What a client says about itself.

    Attributes:
        headers: of the request.
        certificate: as `ssl.SSLSocket.getpeercert` has it after verification; empty without one.
    """

    headers: Message
    certificate: Mapping[str, Any]


class UserHeaders(NamedTuple):
    """Names of headers that say who a user is, the first one with a value first."""

    names: Sequence[str]
    uids: Sequence[str]
    groups: Sequence[str]
    extra: Sequence[str]
    """What names of headers begin with; the rest of such a name is the key, %-encoded."""

    def user(self, headers: Message) -> User | None:
        """The user whom the headers name; None for nobody."""
        name = self._first(headers, self.names)
        if not name:
            return None
        extra: dict[str, list[str]] = defaultdict(list)
        for prefix in self.extra:
            for header, value in headers.items():
                if header.lower().startswith(prefix.lower()):
                    extra[unquote(header[len(prefix) :].lower())].append(_text(value))
        groups = [_text(v) for h in self.groups for v in headers.get_all(h, ()) if v]
        return User(
            name,
            self._first(headers, self.uids),
            tuple(groups),
            tuple(sorted((key, tuple(values)) for key, values in extra.items())),
        )

    def lines(self, user: User) -> list[str]:
        """The headers that name ``user``.

        Raises:
            ValueError: something of the user does not fit into a header.
        """
        pairs = [(self.names[0], user.name)]
        pairs += [(self.uids[0], user.uid)] if user.uid else []
        pairs += [(self.groups[0], group) for group in user.groups]
        for key, values in user.extra:
            header = self.extra[0] + quote(key, safe="")
            pairs += [(header, value) for value in values]
        if any(_NO_LINE.search(value) for _, value in pairs):
            raise ValueError("the user has a control character")
        return [f"{header}: {value}" for header, value in pairs]

    @staticmethod
    def _first(headers: Message, names: Sequence[str]) -> str:
        return next((_text(value) for name in names if (value := headers.get(name))), "")


def _text(value: str) -> str:
    """What was sent as UTF-8; `http.client` reads headers as Latin-1."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


IMPERSONATION = UserHeaders(
    ("Impersonate-User",), ("Impersonate-Uid",), ("Impersonate-Group",), ("Impersonate-Extra-",)
)
"""Kubernetes' own: whoever asks does so for this user."""


def authenticated(user: User) -> User:
    """``user`` with the group of all whom somebody has authenticated."""
    if not {AUTHENTICATED, UNAUTHENTICATED}.isdisjoint(user.groups):
        return user
    return user._replace(groups=(*user.groups, AUTHENTICATED))


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The common name is the user, the organizations are the groups; None without a name."""
    name = common_name(certificate)
    if not name:
        return None
    groups = _values(certificate, "organizationName")
    return User(name, groups=(*groups, AUTHENTICATED))


def common_name(certificate: Mapping[str, Any]) -> str:
    """Whom a certificate, as `Client` has it, is for; "" without a name."""
    return next(iter(_values(certificate, "commonName")), "")


def _values(certificate: Mapping[str, Any], key: str) -> list[str]:
    subject = [attribute for names in certificate.get("subject", ()) for attribute in names]
    return [value for name, value in subject if name == key]
