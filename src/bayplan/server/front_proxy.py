"""FrontProxy: an API server that has authenticated a user, and says whom by headers.

Kubernetes' request-header authentication, as of an aggregated API: the ConfigMap
``extension-apiserver-authentication`` says who signs the certificate that the API server shows, for
which names that is good, and in which headers the user stands. Nobody else is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from bayplan.client.http import Http
from bayplan.server.client_ca import ConfigMapCA
from bayplan.server.users import Client, User, UserHeaders, authenticated, common_name

CA = "requestheader-client-ca-file"
ALLOWED = "requestheader-allowed-names"
HEADERS = (
    "requestheader-username-headers",
    "requestheader-uid-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
)
_names = msgspec.json.Decoder(tuple[str, ...]).decode


class FrontProxy:
    """See the module's docstring. Any thread.

    Attributes:
        authority: who signs the certificate that the API server shows as a proxy.
    """

    def __init__(self, http: Http, clock: Callable[[], float] = time.monotonic) -> None:
        self.authority = ConfigMapCA(http, clock, CA)

    @property
    def problem(self) -> str:
        """Why nobody can be believed now; "" where somebody can."""
        try:
            _, headers = self._read()
        except msgspec.DecodeError as error:
            return f"the ConfigMap extension-apiserver-authentication cannot be read: {error}"
        if self.authority() and headers.names:
            return ""
        return f"the ConfigMap extension-apiserver-authentication has no {CA}"

    def user(self, client: Client) -> User | None:
        """Whom the API server has authenticated; None if anybody else asks.

        The certificate of ``client`` was verified by `authority`, and by nothing else.
        """
        try:
            allowed, headers = self._read()
        except msgspec.DecodeError:
            return None
        name = common_name(client.certificate)
        if not self.authority() or not name or (allowed and name not in allowed):
            return None
        user = headers.user(client.headers)
        return None if user is None else authenticated(user)

    def _read(self) -> tuple[tuple[str, ...], UserHeaders]:
        """For which names the certificate is good, none for all; and the headers."""
        data = self.authority.data
        allowed, *headers = (_names(data.get(key) or "[]") for key in (ALLOWED, *HEADERS))
        return allowed, UserHeaders(*headers)
