"""NodeResourceTopologies for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.api.kinds import NODE_RESOURCE_TOPOLOGY
from bayplan.api.numa import NodeResourceTopology
from bayplan.plugins.node_resource_topology_match.fingerprint import fingerprint
from bayplan.testing import Builder, PodBuilder, make_object

OVER_RESERVING = {"cacheResyncPeriodSeconds": 1}


def amounts(**resources: object) -> list[dict[str, object]]:
    """What a zone has of each resource: all of it is available."""
    return [{"name": n, "available": a, "allocatable": a} for n, a in resources.items()]


def zone(
    id_: object, costs: Mapping[int, int] | None = None, **available: object
) -> dict[str, Any]:
    """A zone."""
    listed = [{"name": f"node-{to}", "value": cost} for to, cost in (costs or {}).items()]
    return {
        "name": f"node-{id_}",
        "type": "Node",
        "costs": listed,
        "resources": amounts(**available),
    }


def topology(
    node: str,
    *zones: Mapping[str, Any],
    scope: str = "container",
    policy: str = "single-numa-node",
    shows: Iterable[PodBuilder] | None = None,
    **attributes: str,
) -> Builder[NodeResourceTopology]:
    """The object of a node, with the fingerprint of the Pods that it shows."""
    given = {"topologyManagerPolicy": policy, "topologyManagerScope": scope} | attributes
    if shows is not None:
        names = [pod.key.split("/") for pod in shows]
        given["nodeTopologyPodsFingerprint"] = fingerprint([(ns, name) for ns, name in names])
    listed = [{"name": name, "value": value} for name, value in given.items()]
    builder = make_object(NODE_RESOURCE_TOPOLOGY, node).new_version()
    return builder.top(zones=list(zones), attributes=listed)
