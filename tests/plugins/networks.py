"""AppGroups, NetworkTopologies and their Pods for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.api.kinds import APP_GROUP, NETWORK_TOPOLOGY
from bayplan.api.network import AppGroup, NetworkTopology
from bayplan.testing import Builder, NodeBuilder, PodBuilder, make_node, make_object, make_pod

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
Pairs = Mapping[tuple[str, str], int]


def node(name: str, region: str = "", zone: str = "") -> NodeBuilder:
    """A node of a region and a zone; no label where one is empty."""
    made = make_node(name).capacity(cpu="8", memory="32Gi", pods=110)
    for key, value in ((REGION, region), (ZONE, zone)):
        made = made.label(key, value) if value else made
    return made


def member(name: str, workload: str, group: str = "shop") -> PodBuilder:
    """A Pod of an AppGroup."""
    made = make_pod(name).label("appgroup.diktyo.x-k8s.io", group)
    return made.label("appgroup.diktyo.x-k8s.io.workload", workload)


def app_group(
    dependencies: Mapping[str, Sequence[tuple[str, int]]],
    order: Sequence[str] = (),
    name: str = "shop",
) -> Builder[AppGroup]:
    """By selector of a workload, the selectors and highest costs of those it depends on."""
    workloads = [
        {
            "workload": _workload(selector),
            "dependencies": [
                {"workload": _workload(other), "maxNetworkCost": most} for other, most in needs
            ],
        }
        for selector, needs in dependencies.items()
    ]
    places = [{"workload": _workload(each), "index": i} for i, each in enumerate(order)]
    made = make_object(APP_GROUP, name).new_version()
    return made.top(spec={"workloads": workloads}, status={"topologyOrder": places})


def _workload(selector: str) -> dict[str, Any]:
    return {"kind": "Deployment", "name": selector, "selector": selector}


def topology(
    regions: Pairs | None = None, zones: Pairs | None = None, name: str = "nt-default"
) -> Builder[NetworkTopology]:
    """What is said from region to region and from zone to zone."""
    listed = [
        {
            "topologyKey": key,
            "originList": [
                {
                    "origin": origin,
                    "costList": [
                        {"destination": to, "networkCost": cost}
                        for (from_, to), cost in (pairs or {}).items()
                        if from_ == origin
                    ],
                }
                for origin in sorted({pair[0] for pair in pairs or {}})
            ],
        }
        for key, pairs in ((REGION, regions), (ZONE, zones))
    ]
    weights = [{"name": "UserDefined", "topologyList": listed}]
    return make_object(NETWORK_TOPOLOGY, name).new_version().top(spec={"weights": weights})
