"""Whole objects for extenders: fetched when they are needed, and when they changed."""

from __future__ import annotations

import msgspec
from tests.client.fault_server import Exchange, FaultServer

from bayplan.api.node import Node
from bayplan.client.http import Http
from bayplan.extenders.full_objects import FullObjects
from bayplan.testing import make_node, make_pod


def node(name: str, version: str) -> Node:
    return make_node(name).meta(resourceVersion=version).obj()


class Nodes:
    """Serves nodes as they are now."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}

    def __call__(self, exchange: Exchange) -> None:
        items = [
            {"metadata": {"name": name, "resourceVersion": version}, "status": {"whole": True}}
            for name, version in self.versions.items()
        ]
        exchange.answer(200, {"metadata": {}, "items": items})


def test_nodes_are_listed_once_as_long_as_they_stay_the_same(server: FaultServer) -> None:
    server.script = nodes = Nodes()
    nodes.versions = {"a": "1", "b": "1"}
    objects = FullObjects(Http(server.connection()))
    for _ in range(2):
        found = objects.nodes([node("b", "1"), node("a", "1")])
        decoded = [msgspec.json.decode(raw) for raw in found]
        assert [d["metadata"]["name"] for d in decoded] == ["b", "a"]
        assert decoded[0]["status"] == {"whole": True}
    assert len(server.requests) == 1
    nodes.versions["a"] = "2"
    (changed,) = objects.nodes([node("a", "2")])
    assert msgspec.json.decode(changed)["metadata"]["resourceVersion"] == "2"
    assert len(server.requests) == 2
    assert objects.nodes([node("gone", "1"), node("a", "2")]) == [changed]


def test_a_pod_is_fetched_each_time(server: FaultServer) -> None:
    server.script = lambda exchange: exchange.answer(200, {"metadata": {"name": "p"}})
    objects = FullObjects(Http(server.connection()))
    pod = make_pod("p").namespace("shop").obj()
    assert msgspec.json.decode(objects.pod(pod)) == {"metadata": {"name": "p"}}
    objects.pod(pod)
    assert [r.path for r in server.requests] == ["/api/v1/namespaces/shop/pods/p"] * 2
