"""Forward: connections to the port of the scheduler that leads, through the API server.

As kubectl port-forward does it, with the user's credentials, but without a port on this machine:
each connection is a stream of the official client, handed to libcurl as a socket. The Lease says
who leads: an identity that begins with the name of a Pod, which is in the Lease's namespace, or on
a host's network with the name of the host, after which the kubelet calls a static Pod.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import msgspec
import pycurl

from bayplan.api.kinds import LEASE, POD
from bayplan.client.errors import ApiError, NotFound, Unreachable, from_status
from bayplan.client.http import Http

PORT = 10259
"""Where a Pod listens that names no port ``https``."""
STATIC = "bayplan"
"""The static Pod of deploy/static-pod.yaml, without the name of the node."""
ELSEWHERE = "give --server, or --lease NAMESPACE/NAME"


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
        self._http, self._lease = http, lease
        self._namespace, _, self._name = lease.partition("/")
        if not self._namespace or not self._name:
            raise Unreachable(f"--lease {lease} is not NAMESPACE/NAME")
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
        pod = self._pod()
        port = _port(pod)
        path = f"{POD.path(self._namespace)}/{pod['metadata']['name']}/portforward"
        return _forwarded(self._http, path, port)

    def _pod(self) -> dict[str, Any]:
        holder = self._holder()
        host = holder.rpartition("_")[0]
        for name in (host, f"{STATIC}-{host}"):
            with suppress(NotFound):
                data = self._http.get(f"{POD.path(self._namespace)}/{name}")
                pod: dict[str, Any] = msgspec.json.decode(data)
                return pod
        where = f"there is no Pod {self._namespace}/{host}"
        text = f"{holder} holds the Lease, and {where}: wait for another leader, or {ELSEWHERE}"
        raise Unreachable(text)

    def _holder(self) -> str:
        try:
            lease = msgspec.json.decode(
                self._http.get(f"{LEASE.path(self._namespace)}/{self._name}")
            )
        except NotFound:
            raise Unreachable(f"there is no Lease {self._lease}: {ELSEWHERE}") from None
        holder: str = (lease.get("spec") or {}).get("holderIdentity") or ""
        if not holder:
            raise Unreachable(f"nobody holds the Lease {self._lease}, so no scheduler leads")
        return holder


def _port(pod: dict[str, Any]) -> int:
    ports = [port for one in pod["spec"]["containers"] for port in one.get("ports") or ()]
    named = (port["containerPort"] for port in ports if port.get("name") == "https")
    return next(named, PORT)


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
