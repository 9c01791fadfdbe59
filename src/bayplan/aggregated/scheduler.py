"""Scheduler: the port of the scheduler that leads, asked in the name of a user.

The request carries this process's own token and, in the headers of impersonation, the user whom the
API server has authenticated. The scheduler believes that of whoever may ``impersonate``
``users.view.bayplan.dev``, and asks the API server itself what this user may see
(`bayplan.server.access`): this process can ask for nothing that the user may not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bayplan.client import kubeconfig as credentials
from bayplan.client.connection import JSON, Connection
from bayplan.client.errors import ApiError, Forbidden, NotFound, Unreachable
from bayplan.client.http import Http
from bayplan.client.lease_holder import LeaseHolder, https_port
from bayplan.server.users import IMPERSONATION, User

AGE_SECONDS = 2.0
"""How long the address of the leader is good."""
SECONDS = 20.0
"""For an answer: the scheduler gives up after ten."""


class Scheduler:
    """See the module's docstring. Any thread.

    Args:
        http: to the API server.
        lease: ``namespace/name``: its holder leads.
        kubeconfig: the credentials of this process, which the scheduler is shown.
        server: URL of the scheduler's port, where that is no Pod; else the leader is looked up.
        authority: who has signed the certificate of the port, which is for ``server``, or for
            ``NAME.NAMESPACE.svc`` of the Lease; None: it is not checked.

    Raises:
        KubeconfigError: there are no usable credentials.
        Unreachable: ``lease`` is no name of a Lease.
    """

    def __init__(
        self,
        http: Http,
        lease: str,
        kubeconfig: str | None,
        server: str | None = None,
        authority: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._holder = LeaseHolder(http, lease)
        self._kubeconfig, self._server, self._authority = kubeconfig, server, authority
        self._clock, self._lock = clock, threading.Lock()
        self._found: tuple[float, str, Http] | None = None
        credentials.load(kubeconfig)

    def ask(self, method: str, page: str, body: bytes | None, user: User) -> bytes:
        """The answer of a page to ``user``.

        Raises:
            ApiError: there is none; the text says why.
        """
        try:
            headers = IMPERSONATION.lines(user)
        except ValueError as error:
            raise Forbidden(str(error), status=HTTPStatus.FORBIDDEN) from None
        try:
            return self._leader().once(method, page, body, JSON, SECONDS, headers)
        except Unreachable:
            # It may be another one by now.
            self._found = None
            return self._leader().once(method, page, body, JSON, SECONDS, headers)

    def _leader(self) -> Http:
        with self._lock:
            found = self._found
            if found is None or found[0] <= self._clock():
                url = self._server or _url(self._holder.pod())
                http = found[2] if found is not None and found[1] == url else self._http(url)
                found = self._found = self._clock() + AGE_SECONDS, url, http
            return found[2]

    def _http(self, url: str) -> Http:
        configuration, token_file = credentials.load(self._kubeconfig)
        configuration.host, configuration.proxy = url, None
        configuration.verify_ssl = self._authority is not None
        configuration.ssl_ca_cert = None if self._authority is None else str(self._authority)
        configuration.tls_server_name = None
        if self._authority is not None and self._server is None:
            configuration.tls_server_name = f"{self._holder.name}.{self._holder.namespace}.svc"
        return Http(Connection(configuration, token_file, peer="the scheduler"))


def _url(pod: dict[str, Any]) -> str:
    address: str = pod.get("status", {}).get("podIP", "")
    if not address:
        raise Unreachable(f"the Pod {pod['metadata']['name']}, which leads, has no address")
    host = f"[{address}]" if ":" in address else address
    return f"https://{host}:{https_port(pod)}"


def is_older(error: ApiError, page: str) -> bool:
    """Whether a scheduler has refused ``page`` because it has no such page."""
    path = page.partition("?")[0]
    unknown = isinstance(error, NotFound) and error.message == "not found"
    # Who may not read every path is refused before the path is looked up.
    return unknown or (isinstance(error, Forbidden) and f'path "{path}"' in error.message)
