"""Objects: the API objects of a workload, as JSON bodies, in the order in which they are created.

The same bodies go to a real API server and into the core's cache, so both see the same cluster.
"""

from __future__ import annotations

import copy
import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bench.workloads import Catalog, NodeGroup, PodBatch, Workload

COLLECTIONS = {
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "DeviceTaintRule": "/apis/resource.k8s.io/v1/devicetaintrules",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "Pod": "/api/v1/pods",
    "PodGroup.scheduling.k8s.io": "/apis/scheduling.k8s.io/v1beta1/podgroups",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "Service": "/api/v1/services",
}
"""Paths of the kinds that workloads are made of."""
NAMESPACED = frozenset(
    {
        "PersistentVolumeClaim",
        "Pod",
        "PodGroup.scheduling.k8s.io",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "Service",
    }
)
MEASURED = "measured-"
PLACED = "placed-"
RACK = "topology.kubernetes.io/rack"
ZONE = "topology.kubernetes.io/zone"
SEED = 1
APP = "bench"
"""What $APP stands for in objects that belong to no Pod."""


@dataclass(frozen=True)
class Item:
    """An object to be created: ``path`` is that of its collection."""

    kind: str
    path: str
    name: str
    body: bytes


class Template:
    """A manifest whose $-words are filled in by text, which costs a microsecond."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.kind = _kind(manifest)
        self._namespace = manifest["metadata"].get("namespace", "")
        self._text = json.dumps(manifest)

    def item(self, name: str, namespace: str = "default", **words: str | int) -> Item:
        """The object of that name; ``words`` are what other $-words stand for.

        A number replaces the word together with its quotes.
        """
        text = self._text.replace("$NAMESPACE", namespace).replace("$NAME", name)
        for word, value in words.items():
            if isinstance(value, int):
                text = text.replace(f'"${word}"', str(value))
            else:
                text = text.replace(f"${word}", value)
        if "$SIZE" in text:
            text = text.replace("$SIZE", str(_size(name)))
        place = self._namespace.replace("$NAMESPACE", namespace)
        return Item(self.kind, collection(self.kind, place), name, text.encode())


class Objects:
    """The objects of one workload."""

    def __init__(self, catalog: Catalog, workload: Workload) -> None:
        self._catalog = catalog
        self._workload = workload

    def surroundings(self) -> Iterator[Item]:
        """Namespaces, nodes, and what is beside them."""
        for group in self._workload.namespaces:
            for name in group.names():
                yield _namespace(name, group.labels)
        for template in self._workload.objects:
            yield self._template(template).item("bench", APP=APP)
        for nodes in self._workload.nodes:
            yield from self._nodes(nodes)

    def placed(self) -> Iterator[Item]:
        """Pods that have a node from the start, with what is beside them."""
        names = self.node_names()
        index = 0
        for group in self._workload.placed:
            yield from self._pods(group, PLACED, index, names)
            index += group.count

    def gated(self) -> Iterator[Item]:
        """Pods that wait all the time."""
        for number, group in enumerate(self._workload.gated):
            yield from self._pods(group, f"gated-{number}-", 0)

    def measured(self, prefix: str = MEASURED) -> Iterator[Item]:
        """The Pods to be placed, with what is beside them."""
        yield from self._pods(self._workload.measured, prefix, 0)

    def fresh(self, number: int) -> Iterator[Item]:
        """One more Pod to be placed, of an application and so of a signature of its own."""
        name = f"fresh-{number}"
        group = msgspec.structs.replace(self._workload.measured.resized(1), app=name)
        label = {"metadata": {"labels": {"bench.example/fresh": str(number)}}}
        yield from self._pods(group, f"{name}-", 0, change=label)

    def churned(self, template: str, name: str) -> Item:
        """An object that comes and goes beside the measured Pods."""
        return self._template(template).item(name, APP=APP)

    def node_names(self) -> list[str]:
        """Nodes that placed Pods are dealt out to."""
        many = [g for g in self._workload.nodes if not g.name]
        return [name for group in many or self._workload.nodes for name in _names(group)]

    def _nodes(self, group: NodeGroup) -> Iterator[Item]:
        zones = group.zones or ("",)
        templates = [self._template(group.template, _zone(zone)) for zone in zones]
        beside = [self._template(name) for name in group.beside]
        for i, name in enumerate(_names(group)):
            rack = f"rack-{i // group.rack}" if group.rack else ""
            yield templates[i % len(zones)].item(name, RACK=rack)
            for other in beside:
                yield other.item(name)

    def _pods(
        self,
        batch: PodBatch,
        prefix: str,
        first: int,
        nodes: list[str] | None = None,
        change: dict[str, Any] | None = None,
    ) -> Iterator[Item]:
        bound = {"spec": {"nodeName": "$NODE"}} if nodes else {}
        templates = self._variants(batch.template, change or bound)
        beside = [self._template(name) for name in batch.beside]
        pod_group = self._template(batch.group) if batch.group else None
        order = random.Random(SEED)
        for i in range(first, first + batch.count):
            name, namespace = f"{prefix}{i}", batch.namespace_of(i)
            node = nodes[i % len(nodes)] if nodes else ""
            number, member = divmod(i - first, batch.members)
            group = f"{prefix}group-{first}-{number}"
            if pod_group is not None and member == 0:
                yield pod_group.item(group, namespace, MEMBERS=batch.members)
            for other in beside:
                yield other.item(name, namespace)
            template = templates[0] if len(templates) == 1 else order.choice(templates)
            yield template.item(name, namespace, NODE=node, APP=batch.app, GROUP=group)

    def _variants(self, name: str, change: dict[str, Any]) -> list[Template]:
        """One template, or all of a mix."""
        mix = self._catalog.mixes.get(name)
        if mix is None:
            return [self._template(name, change)]
        chosen: dict[str, dict[str, Any]] = {}
        dice = random.Random(SEED)
        base = self._catalog.templates[mix.base]
        while len(chosen) < mix.variants:
            manifest = base
            for choices in mix.aspects.values():
                manifest = merged(manifest, dice.choice(choices))
            chosen[json.dumps(manifest)] = manifest
        return [Template(merged(manifest, change)) for manifest in chosen.values()]

    def _template(self, name: str, change: dict[str, Any] | None = None) -> Template:
        return Template(merged(self._catalog.templates[name], change or {}))


def collection(kind: str, namespace: str = "") -> str:
    """The API path of the objects of a kind (in a namespace, where the kind has them)."""
    path = COLLECTIONS[kind]
    if kind not in NAMESPACED:
        return path
    version, _, resource = path.rpartition("/")
    return f"{version}/namespaces/{namespace}/{resource}"


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A copy of ``base`` with ``change`` laid over it; lists are replaced as a whole."""
    result = copy.deepcopy(base)
    for key, value in change.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = merged(below, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _kind(manifest: dict[str, Any]) -> str:
    """The kind, with its API group where there is another kind of that name."""
    group, _, _ = manifest["apiVersion"].rpartition("/")
    qualified = f"{manifest['kind']}.{group}"
    return qualified if qualified in COLLECTIONS else manifest["kind"]


def _size(name: str) -> int:
    return 50 + zlib.crc32(name.encode()) % 950


def _names(group: NodeGroup) -> list[str]:
    return [group.name] if group.name else [f"{group.prefix}{i}" for i in range(group.count)]


def _zone(zone: str) -> dict[str, Any]:
    return {"metadata": {"labels": {ZONE: zone}}} if zone else {}


def _namespace(name: str, labels: dict[str, str]) -> Item:
    metadata = {"name": name, "labels": labels}
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return Item("Namespace", collection("Namespace"), name, body.encode())
