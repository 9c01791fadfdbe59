"""Forward: connections to the port of the scheduler that leads, through the API server.

As kubectl port-forward does it, with the user's credentials, but without a port on this machine:
each connection is a stream of the official client, handed to libcurl as a socket.
"""

from __future__ import annotations

import socket
from http import HTTPStatus
from urllib.parse import urlencode

import pycurl

from bayplan.api.kinds import POD
from bayplan.client.errors import ApiError, Unreachable, from_status
from bayplan.client.http import Http
from bayplan.client.lease_holder import PORT, LeaseHolder, https_port


class Leader:
    """Whoever holds a Lease.

    Every connection goes to whoever holds it then. The first one is made here, so that what is
    wrong is said before it is used.

    Args:
        http: to the API server.
        lease: ``namespace/name``.

    Attributes:
        server: the URL that libcurl is to be given; the socket decides where it leads.

    Raises:
        ApiError: nobody leads, or not in a Pod that a port can be forwarded to.
    """

    def __init__(self, http: Http, lease: str) -> None:
        self._http, self._holder = http, LeaseHolder(http, lease)
        self.server = f"https://localhost:{PORT}"
        self._first: socket.socket | None = self._connected()

    def open_socket(self) -> socket.socket | int:
        """A connection to the port; ``pycurl.SOCKET_BAD`` where none comes about."""
        first, self._first = self._first, None
        if first is not None:
            return first
        try:
            return self._connected()
        except ApiError:
            return int(pycurl.SOCKET_BAD)

    def _connected(self) -> socket.socket:
        pod = self._holder.pod()
        path = f"{POD.path(self._holder.namespace)}/{pod['metadata']['name']}/portforward"
        return _forwarded(self._http, path, https_port(pod))


def _forwarded(http: Http, path: str, port: int) -> socket.socket:
    from kubernetes.client import ApiException  # noqa: PLC0415 - takes most of a second
    from kubernetes.stream.ws_client import portforward_call  # noqa: PLC0415

    connection = http.connection
    headers = dict(header.split(": ", 1) for header in connection.headers() if ": " in header)
    authorization = (
        {"authorization": headers["Authorization"]} if "Authorization" in headers else {}
    )
    url = f"{connection.server}{path}?{urlencode({'ports': port})}"
    try:
        forward = portforward_call(  # type: ignore[no-untyped-call]
            connection.configuration, "GET", url, headers=authorization
        )
    except ApiException as error:
        refused = error.__context__
        status = getattr(refused, "status_code", 0)
        if status in (0, HTTPStatus.SWITCHING_PROTOCOLS):
            raise Unreachable(f"cannot forward a port: {error.reason}") from error
        raise from_status(getattr(refused, "resp_body", b"") or b"", status) from error
    # libcurl gets a duplicate, and closes that alone.
    ours = forward.socket(port)
    duplicate: socket.socket = ours.dup()
    ours.close()
    return duplicate
