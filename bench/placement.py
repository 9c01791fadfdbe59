"""Placement quality: how evenly a scheduler has used the nodes."""

from __future__ import annotations

import statistics
from collections import defaultdict

import msgspec

from bayplan.api.kinds import POD
from bayplan.api.quantity import milli
from bayplan.client.http import Http
from bench.api import HAS_NODE
from bench.objects import MEASURED

TIMEOUT = 120.0


class _Meta(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    requests: dict[str, str] = {}


class _Container(msgspec.Struct):
    resources: _Resources = _Resources()


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str
    containers: list[_Container]


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


class _List(msgspec.Struct):
    items: list[_Pod]


def quality(http: Http, nodes: list[str]) -> tuple[float, int]:
    """The standard deviation of requested milli-CPU per node, and the nodes with measured Pods."""
    body = http.get(f"{POD.path()}?{HAS_NODE}", TIMEOUT)
    requested: dict[str, int] = defaultdict(int)
    used = set()
    for pod in msgspec.json.decode(body, type=_List).items:
        for container in pod.spec.containers:
            requested[pod.spec.node_name] += milli(container.resources.requests.get("cpu", "0"))
        if pod.metadata.name.startswith(MEASURED):
            used.add(pod.spec.node_name)
    return statistics.pstdev(requested[name] for name in nodes), len(used)
