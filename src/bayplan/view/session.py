"""Session: who may look at the page, and from where.

The page is for one user at one machine, so the server listens on a loopback address. That alone
keeps neither other users of the machine out nor pages of other sites, which a browser lets send
requests to any address. So three things are asked of every request:

- a ``Host`` that names this server: a site that has its name resolve to 127.0.0.1 (DNS rebinding)
  sends its own;
- no ``Origin`` or ``Sec-Fetch-Site`` of another site;
- for everything but the page's own files a cookie. It is given once, in exchange for the token in
  the address that was printed: the part of an address behind ``#`` is never sent by itself, nor
  does it stand in logs. The cookie is HttpOnly and SameSite=Strict, and is named after the port, as
  cookies are the same for all ports.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import threading
from collections.abc import Mapping

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer."""


def is_loopback(address: str) -> bool:
    """Whether nobody but this machine reaches ``address``."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class Session:
    """See the module's docstring. Any thread.

    Attributes:
        token: what the first browser is let in by.
        url: the page, with the token.
        cookie_name: of the cookie that it is given.
    """

    def __init__(self, address: str, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.url = f"http://{_in_url(address)}:{port}/#{self.token}"
        self.cookie_name = f"bayplan-view-{port}"
        self._cookie = secrets.token_urlsafe(32)
        self._used = False
        self._lock = threading.Lock()
        names = {"localhost", _in_url(address)}
        self._hosts = {f"{name}:{port}" for name in names} | (names if port == 80 else set())

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Why a request with these headers (names in lower case) is none of ours; "" if it is."""
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return "the Host is not that of this page"
        if headers.get("origin", f"http://{host}").lower() != f"http://{host}":
            return "the request comes from another site"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "the request comes from another site"
        return ""

    def exchange(self, token: str) -> str | None:
        """The cookie for the token, the first time; None for another token, or a second time."""
        with self._lock:
            if self._used or not _same(token, self.token):
                return None
            self._used = True
            return self._cookie

    def knows(self, cookie: str | None) -> bool:
        """Whether that is the cookie."""
        return cookie is not None and _same(cookie, self._cookie)


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
