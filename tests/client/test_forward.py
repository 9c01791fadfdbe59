"""Who leads, and where a port is forwarded to; that a real one is, e2e/test_status.py shows."""

from __future__ import annotations

import socket
from typing import Any

import pycurl
import pytest
from tests.client.fault_server import Exchange, FaultServer

from bayplan.client import forward
from bayplan.client.errors import Forbidden, Unreachable
from bayplan.client.forward import Leader
from bayplan.client.http import Http
from bayplan.client.lease_holder import PORT

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/bayplan"
PODS = "/api/v1/namespaces/kube-system/pods"
LEASE = {"spec": {"holderIdentity": "bayplan-1_ab"}}


class Cluster:
    """What the API server has, by path."""

    def __init__(self, server: FaultServer) -> None:
        self.objects: dict[str, Any] = {LEASES: LEASE, f"{PODS}/bayplan-1": pod(10259, "https")}
        self.http = Http(server.connection())
        self._server = server
        server.script = self.serve

    def serve(self, exchange: Exchange) -> None:
        path = exchange.bare_path
        if path in self.objects:
            exchange.answer(200, self.objects[path])
        elif path.endswith("/portforward"):
            exchange.error(403, "Forbidden", "cannot get resource pods/portforward")
        else:
            exchange.error(404, "NotFound", "not found")

    def asked(self) -> str:
        """The path and query of the last request."""
        return self._server.requests[-1].path


def pod(port: int, port_name: str, name: str = "bayplan-1") -> dict[str, Any]:
    container = {"name": "c", "ports": [{"name": port_name, "containerPort": port}]}
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "o"}, container]}}


@pytest.fixture
def cluster(server: FaultServer) -> Cluster:
    return Cluster(server)


@pytest.mark.parametrize(
    ("path", "found", "why"),
    [
        (LEASES, None, "there is no Lease kube-system/bayplan: give --server"),
        (LEASES, {"spec": {}}, "nobody holds the Lease kube-system/bayplan"),
        (
            f"{PODS}/bayplan-1",
            None,
            "there is no Pod kube-system/bayplan-1: wait for another leader, or give --server",
        ),
    ],
    ids=["no Lease", "no holder", "no Pod"],
)
def test_where_nobody_is_found_it_is_said_what_to_give(
    cluster: Cluster, path: str, found: Any, why: str
) -> None:
    del cluster.objects[path]
    if found is not None:
        cluster.objects[path] = found
    with pytest.raises(Unreachable) as raised:
        Leader(cluster.http, "kube-system/bayplan")
    assert why in str(raised.value)


@pytest.mark.parametrize("lease", ["bayplan", "/bayplan", "kube-system/", ""])
def test_a_lease_is_named_with_its_namespace(cluster: Cluster, lease: str) -> None:
    with pytest.raises(Unreachable, match="is not NAMESPACE/NAME"):
        Leader(cluster.http, lease)


@pytest.mark.parametrize(
    ("port", "name", "asked"), [(7000, "https", 7000), (9090, "metrics", PORT)], ids=str
)
def test_a_user_who_may_not_forward_a_port_is_told_so(
    cluster: Cluster, port: int, name: str, asked: int
) -> None:
    cluster.objects[f"{PODS}/bayplan-1"] = pod(port, name)
    with pytest.raises(Forbidden, match="pods/portforward"):
        Leader(cluster.http, "kube-system/bayplan")
    assert cluster.asked() == f"{PODS}/bayplan-1/portforward?ports={asked}"


def test_a_static_pod_is_called_after_the_host_that_the_lease_names(cluster: Cluster) -> None:
    cluster.objects[LEASES] = {"spec": {"holderIdentity": "node-1_ab"}}
    cluster.objects[f"{PODS}/bayplan-node-1"] = pod(10259, "https", "bayplan-node-1")
    with pytest.raises(Forbidden):
        Leader(cluster.http, "kube-system/bayplan")
    assert cluster.asked() == f"{PODS}/bayplan-node-1/portforward?ports=10259"


def test_each_connection_goes_to_whoever_leads_then(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    led: list[str] = []

    def forwarded(http: Http, path: str, port: int) -> socket.socket:
        del http, port
        led.append(path.split("/")[-2])
        return socket.socket()

    monkeypatch.setattr(forward, "_forwarded", forwarded)
    leader = Leader(cluster.http, "kube-system/bayplan")
    cluster.objects[LEASES] = {"spec": {"holderIdentity": "bayplan-2_cd"}}
    cluster.objects[f"{PODS}/bayplan-2"] = pod(10259, "https", "bayplan-2")
    for _ in range(2):
        opened = leader.open_socket()
        assert isinstance(opened, socket.socket)
        opened.close()
    assert led == ["bayplan-1", "bayplan-2"]
    del cluster.objects[LEASES]
    assert leader.open_socket() == pycurl.SOCKET_BAD
