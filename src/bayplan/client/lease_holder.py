"""LeaseHolder: the Pod of the leader, by the Lease.

The identity in the Lease begins with the name of a Pod, which is in the Lease's namespace, or on a
host's network with the name of the host, after which the kubelet calls a static Pod.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from bayplan.api.kinds import LEASE, POD
from bayplan.client.errors import NotFound, Unreachable
from bayplan.client.http import Http

PORT = 10259
"""Where a Pod listens that names no port ``https``."""
STATIC = "bayplan"
"""The static Pod of deploy/static-pod.yaml, without the name of the node."""
ELSEWHERE = "give --server, or --lease NAMESPACE/NAME"


class LeaseHolder:
    """Whoever holds a Lease.

    Args:
        http: to the API server.
        lease: ``namespace/name``.

    Attributes:
        namespace: of the Lease and of the Pod.
        name: of the Lease.

    Raises:
        Unreachable: that is no name of a Lease.
    """

    def __init__(self, http: Http, lease: str) -> None:
        self._http = http
        self.namespace, _, self.name = lease.partition("/")
        if not self.namespace or not self.name or "/" in self.name:
            raise Unreachable(f"--lease {lease} is not NAMESPACE/NAME")

    def pod(self) -> dict[str, Any]:
        """The Pod that leads now.

        Raises:
            ApiError: nobody leads, or not in a Pod that is there.
        """
        holder = self._identity()
        host = holder.rpartition("_")[0]
        for name in (host, f"{STATIC}-{host}"):
            with suppress(NotFound):
                data = self._http.get(f"{POD.path(self.namespace)}/{name}")
                pod: dict[str, Any] = msgspec.json.decode(data)
                return pod
        where = f"there is no Pod {self.namespace}/{host}"
        text = f"{holder} holds the Lease, and {where}: wait for another leader, or {ELSEWHERE}"
        raise Unreachable(text)

    def _identity(self) -> str:
        lease_name = f"{self.namespace}/{self.name}"
        try:
            lease = msgspec.json.decode(self._http.get(f"{LEASE.path(self.namespace)}/{self.name}"))
        except NotFound:
            raise Unreachable(f"there is no Lease {lease_name}: {ELSEWHERE}") from None
        identity: str = (lease.get("spec") or {}).get("holderIdentity") or ""
        if not identity:
            raise Unreachable(f"nobody holds the Lease {lease_name}, so no scheduler leads")
        return identity


def https_port(pod: dict[str, Any]) -> int:
    """Where the Pod has the scheduler's port."""
    ports = [port for one in pod["spec"]["containers"] for port in one.get("ports") or ()]
    named = (port["containerPort"] for port in ports if port.get("name") == "https")
    return next(named, PORT)
