"""NodeZones: what a NodeResourceTopology says, in numbers, and what is wrong with it.

Nothing wrong makes a node better: what cannot be read is not there, or takes the worst value.

====================================  ==========================================================
zone not called node-N, N up to 63     is no zone; nor is the second one of that name
available: none, no quantity, < 0,     0; a resource without a name is left out
or 2**53 and more
available more than allocatable       as much as is allocatable
cost: negative or more than 255       255, as where there is none
policy, scope or number unknown       as if the attribute were not there
====================================  ==========================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bayplan.api import quantity
from bayplan.api.numa import NodeResourceTopology, Zone, ZoneAttribute

SINGLE = "single-numa-node"
POD_SCOPE = "pod"
FARTHEST = 255
"""The distance between zones that is not known; no distance is greater."""
NOT_LISTED = -1

_POLICIES = ("none", "best-effort", "restricted", SINGLE)
_SCOPES = ("container", POD_SCOPE)
_DEPRECATED = {
    f"{name}{level}Level": (policy, level.lower())
    for name, policy in (
        ("SingleNUMANode", SINGLE),
        ("BestEffort", "best-effort"),
        ("Restricted", "restricted"),
    )
    for level in ("Pod", "Container")
}
_MOST_ZONES = 1024
_NAME = re.compile(r"node-(\d{1,2})", re.ASCII)
_HIGHEST_ID = 63
_ABSURD = 1 << 53
_METADATA = "topology.node.k8s.io/numaplacement-metadata"
_VECTOR = "topology.node.k8s.io/numaplacement-vector"


class KubeletConfig(NamedTuple):
    """The topology manager of a node's kubelet.

    Attributes:
        policy: ``single-numa-node`` is the one that rejects Pods.
        scope: whether containers or whole Pods are aligned.
        most_zones: how many zones there may be.
    """

    policy: str = "none"
    scope: str = "container"
    most_zones: int = 8


@dataclass(frozen=True)
class NodeZones:
    """The zones of a node; see the module's docstring.

    Attributes:
        ids: the numbers of the zones, ascending.
        available: by resource, per zone: milli-CPU, bytes or counts; `NOT_LISTED` where absent.
        allocatable: likewise; `NOT_LISTED` where it is not known.
        distances: from zone to zone.
        fingerprint: of the Pods that the object shows; empty if it does not say.
        exclusive_only: whether that is of Pods with resources of their own only.
        metadata: where containers run, see `fingerprint.placement`; empty if it does not say.
        vectors: likewise, by number of the zone.
        faults: what is wrong, with the path of each field.
    """

    config: KubeletConfig
    ids: tuple[int, ...]
    available: Mapping[str, tuple[int, ...]]
    allocatable: Mapping[str, tuple[int, ...]]
    distances: tuple[tuple[int, ...], ...]
    fingerprint: str
    exclusive_only: bool
    metadata: str
    vectors: Mapping[int, str]
    faults: tuple[str, ...]


def node_zones(topology: NodeResourceTopology) -> NodeZones:
    """What ``topology`` says."""
    faults: list[str] = []
    zones = dict(sorted(_numbered(topology.zones, faults)))
    ids = tuple(zones)
    amounts = {id_: dict(_amounts(zone, path, faults)) for id_, (path, zone) in zones.items()}
    names = dict.fromkeys(name for by_name in amounts.values() for name in by_name)
    nothing = (NOT_LISTED, NOT_LISTED)
    table = {name: [amounts[id_].get(name, nothing) for id_ in ids] for name in names}
    attributes = _by_name(topology.attributes)
    legacy = topology.metadata.annotations.get("topology.node.k8s.io/fingerprint", "")
    method = attributes.get("nodeTopologyPodsFingerprintMethod")
    vectors = {id_: _by_name(zone.attributes).get(_VECTOR, "") for id_, (_, zone) in zones.items()}
    return NodeZones(
        config=_config(topology, faults),
        ids=ids,
        available={name: tuple(a for a, _ in row) for name, row in table.items()},
        allocatable={name: tuple(a for _, a in row) for name, row in table.items()},
        distances=tuple(_distances(zone, path, ids, faults) for path, zone in zones.values()),
        fingerprint=attributes.get("nodeTopologyPodsFingerprint", legacy),
        exclusive_only=method == "with-exclusive-resources",
        metadata=attributes.get(_METADATA, ""),
        vectors={id_: vector for id_, vector in vectors.items() if vector},
        faults=tuple(faults),
    )


def _by_name(attributes: Iterable[ZoneAttribute]) -> dict[str, str]:
    """The first one of a name counts."""
    return {a.name: a.value for a in reversed(tuple(attributes))}


def _config(topology: NodeResourceTopology, faults: list[str]) -> KubeletConfig:
    policy, scope, most_zones = KubeletConfig()
    if topology.topology_policies:
        name = topology.topology_policies[0]
        if name in _DEPRECATED:
            policy, scope = _DEPRECATED[name]
        elif name not in ("None", ""):
            faults.append(f"topologyPolicies[0]: {name!r} is unknown")
    for i, (name, value) in enumerate((a.name, a.value) for a in topology.attributes):
        known = True
        if name == "topologyManagerPolicy":
            policy, known = (value, True) if value in _POLICIES else (policy, False)
        elif name == "topologyManagerScope":
            scope, known = (value, True) if value in _SCOPES else (scope, False)
        elif name == "topologyManagerMaxNUMANodes":
            known = value.isascii() and value.isdigit() and len(value) < 10 and int(value) > 1
            most_zones = min(int(value), _MOST_ZONES) if known else most_zones
        if not known:
            faults.append(f"attributes[{i}]: {name} {value!r} is unknown")
    return KubeletConfig(policy, scope, most_zones)


def _numbered(zones: Iterable[Zone], faults: list[str]) -> Iterable[tuple[int, tuple[str, Zone]]]:
    seen: set[int] = set()
    for i, zone in enumerate(zones):
        if zone.type != "Node":
            continue
        id_ = _id(zone.name)
        if id_ is None or id_ in seen:
            why = "is there already" if id_ in seen else f"is not node-0 to node-{_HIGHEST_ID}"
            faults.append(f"zones[{i}].name: {zone.name!r} {why}")
            continue
        seen.add(id_)
        yield id_, (f"zones[{i}]", zone)


def _id(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match and int(match[1]) <= _HIGHEST_ID else None


def _amounts(zone: Zone, path: str, faults: list[str]) -> Iterable[tuple[str, tuple[int, int]]]:
    for i, resource in enumerate(zone.resources):
        where = f"{path}.resources[{i}]"
        if not resource.name:
            faults.append(f"{where}.name: missing")
            continue
        available = _amount(resource.name, resource.available, f"{where}.available", faults)
        allocatable = NOT_LISTED
        if resource.allocatable is not None:
            name = f"{where}.allocatable"
            allocatable = _amount(resource.name, resource.allocatable, name, faults)
            if available > allocatable:
                faults.append(f"{where}.available: more {resource.name} than is allocatable")
                available = allocatable
        yield resource.name, (available, allocatable)


def _amount(resource: str, given: quantity.Amount | None, path: str, faults: list[str]) -> int:
    """Rounded down: what is there of it for sure."""
    if given is None:
        faults.append(f"{path}: missing")
        return 0
    try:
        amount = math.floor(quantity.parse(given) * (1000 if resource == "cpu" else 1))
    except quantity.QuantityError as error:
        faults.append(f"{path}: {error}")
        return 0
    if not 0 <= amount < _ABSURD:
        faults.append(f"{path}: there cannot be {str(given)[:20]} {resource}")
        return 0
    return amount


def _distances(zone: Zone, path: str, ids: tuple[int, ...], faults: list[str]) -> tuple[int, ...]:
    by_id: dict[int | None, int] = {}
    for i, cost in enumerate(zone.costs):
        if 0 <= cost.value <= FARTHEST:
            by_id[_id(cost.name)] = cost.value
        else:
            faults.append(f"{path}.costs[{i}]: {cost.value} is not from 0 to {FARTHEST}")
    missing = [f"node-{id_}" for id_ in ids if id_ not in by_id]
    if zone.costs and missing:
        faults.append(f"{path}.costs: none for {', '.join(missing)}")
    return tuple(by_id.get(id_, FARTHEST) for id_ in ids)
