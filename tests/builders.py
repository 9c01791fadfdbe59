"""Builders of Pods and Nodes for tests.

>>> make_pod("p").req(cpu="1").label("app", "web").obj()
>>> make_node("n").capacity(cpu="4", memory="8Gi").label("zone", "a").obj()

Every builder collects the object as JSON and decodes it as if the API server had sent it, so a test
sees what the scheduler would see. What has no method of its own goes through `meta`, `spec` and
`status` under the API's field names.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, TypeVar

import msgspec

from bayplan.api.node import Node
from bayplan.api.pod import Pod, decode_pod

Json = dict[str, Any]
SelfT = TypeVar("SelfT", bound="_Builder")

_uids = count(1)


class _Builder:
    def __init__(self, name: str) -> None:
        self.json: Json = {"metadata": {"name": name, "uid": f"uid-{next(_uids)}"}}
        self._meta: Json = self.json["metadata"]
        self._spec: Json = self.json.setdefault("spec", {})
        self._status: Json = self.json.setdefault("status", {})

    def meta(self: SelfT, **fields: Any) -> SelfT:
        """Set fields of metadata."""
        self._meta.update(fields)
        return self

    def spec(self: SelfT, **fields: Any) -> SelfT:
        """Set fields of spec."""
        self._spec.update(fields)
        return self

    def status(self: SelfT, **fields: Any) -> SelfT:
        """Set fields of status."""
        self._status.update(fields)
        return self

    def uid(self: SelfT, uid: str) -> SelfT:
        """Set metadata.uid; every builder has one of its own otherwise."""
        return self.meta(uid=uid)

    def label(self: SelfT, key: str, value: str = "") -> SelfT:
        """Add a label."""
        self._meta.setdefault("labels", {})[key] = value
        return self

    def labels(self: SelfT, labels: Mapping[str, str]) -> SelfT:
        """Add labels."""
        self._meta.setdefault("labels", {}).update(labels)
        return self

    def annotation(self: SelfT, key: str, value: str) -> SelfT:
        """Add an annotation."""
        self._meta.setdefault("annotations", {})[key] = value
        return self


class PodBuilder(_Builder):
    """Builds a `Pod`; containers are added one by one and are named c1, c2, ..., i1, i2, ..."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._meta["namespace"] = "default"

    def obj(self) -> Pod:
        """The Pod."""
        return decode_pod(msgspec.json.encode(self.json))

    # Metadata and status

    def namespace(self, namespace: str) -> PodBuilder:
        """Set the namespace; ``default`` otherwise."""
        return self.meta(namespace=namespace)

    def created(self, timestamp: str) -> PodBuilder:
        """Set creationTimestamp, e.g. ``2026-01-01T00:00:00Z``."""
        return self.meta(creationTimestamp=timestamp)

    def terminating(self, timestamp: str = "2026-01-01T00:00:00Z") -> PodBuilder:
        """Set deletionTimestamp."""
        return self.meta(deletionTimestamp=timestamp)

    def owner(self, kind: str, name: str, api_version: str = "apps/v1") -> PodBuilder:
        """Add the controlling owner."""
        owner = {"kind": kind, "name": name, "uid": f"{kind}-{name}", "apiVersion": api_version}
        return self.meta(ownerReferences=[owner | {"controller": True}])

    def phase(self, phase: str) -> PodBuilder:
        """Set status.phase."""
        return self.status(phase=phase)

    def start_time(self, timestamp: str) -> PodBuilder:
        """Set status.startTime."""
        return self.status(startTime=timestamp)

    def nominated(self, node_name: str) -> PodBuilder:
        """Set status.nominatedNodeName."""
        return self.status(nominatedNodeName=node_name)

    def condition(self, type_: str, status: str, **fields: Any) -> PodBuilder:
        """Add a condition."""
        condition = {"type": type_, "status": status} | fields
        self._status.setdefault("conditions", []).append(condition)
        return self

    # Containers

    def container(self, **fields: Any) -> PodBuilder:
        """Add a container with these API fields."""
        containers = self._spec.setdefault("containers", [])
        containers.append({"name": f"c{len(containers) + 1}"} | fields)
        return self

    def init_container(self, **fields: Any) -> PodBuilder:
        """Add an init container with these API fields."""
        containers = self._spec.setdefault("initContainers", [])
        containers.append({"name": f"i{len(containers) + 1}"} | fields)
        return self

    def req(self, amounts: Mapping[str, Any] | None = None, /, **more: Any) -> PodBuilder:
        """Add a container with these requests: ``req(cpu="1")``, ``req({"nvidia.com/gpu": 1})``."""
        return self.container(resources={"requests": {**(amounts or {}), **more}})

    def init_req(self, amounts: Mapping[str, Any] | None = None, /, **more: Any) -> PodBuilder:
        """Add an init container with these requests."""
        return self.init_container(resources={"requests": {**(amounts or {}), **more}})

    def sidecar_req(self, amounts: Mapping[str, Any] | None = None, /, **more: Any) -> PodBuilder:
        """Add a sidecar (restartable init container) with these requests."""
        requests = {**(amounts or {}), **more}
        return self.init_container(resources={"requests": requests}, restartPolicy="Always")

    def image(self, *images: str) -> PodBuilder:
        """Add a container for each image."""
        for image in images:
            self.container(image=image)
        return self

    def host_port(self, port: int, protocol: str = "TCP", ip: str = "") -> PodBuilder:
        """Add a container with this host port."""
        entry = {"containerPort": port, "hostPort": port, "protocol": protocol}
        return self.container(ports=[entry | ({"hostIP": ip} if ip else {})])

    def overhead(self, amounts: Mapping[str, Any] | None = None, /, **more: Any) -> PodBuilder:
        """Set spec.overhead."""
        return self.spec(overhead={**(amounts or {}), **more})

    def pod_level(self, amounts: Mapping[str, Any] | None = None, /, **more: Any) -> PodBuilder:
        """Set spec.resources.requests."""
        return self.spec(resources={"requests": {**(amounts or {}), **more}})

    # Placement

    def node(self, name: str) -> PodBuilder:
        """Set spec.nodeName."""
        return self.spec(nodeName=name)

    def priority(self, priority: int) -> PodBuilder:
        """Set spec.priority."""
        return self.spec(priority=priority)

    def gate(self, *names: str) -> PodBuilder:
        """Add scheduling gates."""
        self._spec.setdefault("schedulingGates", []).extend({"name": n} for n in names)
        return self

    def node_selector(self, labels: Mapping[str, str]) -> PodBuilder:
        """Set spec.nodeSelector."""
        return self.spec(nodeSelector=dict(labels))

    def toleration(self, **fields: Any) -> PodBuilder:
        """Add a toleration with these API fields."""
        self._spec.setdefault("tolerations", []).append(fields)
        return self

    def node_affinity(self, *terms: Json) -> PodBuilder:
        """Set required node affinity: any of these terms, see `expressions` and `fields`."""
        affinity = self._affinity("nodeAffinity")
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": list(terms)
        }
        return self

    def preferred_node_affinity(self, weight: int, term: Json) -> PodBuilder:
        """Add a node preference."""
        affinity = self._affinity("nodeAffinity")
        preferred = affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
        preferred.append({"weight": weight, "preference": term})
        return self

    def pod_affinity(self, topology_key: str, selector: Json | None, **fields: Any) -> PodBuilder:
        """Add a required Pod affinity term; see `labels_are` for the selector."""
        return self._pod_term("podAffinity", topology_key, selector, fields)

    def pod_anti_affinity(
        self, topology_key: str, selector: Json | None, **fields: Any
    ) -> PodBuilder:
        """Add a required Pod anti-affinity term."""
        return self._pod_term("podAntiAffinity", topology_key, selector, fields)

    def preferred_pod_affinity(
        self, weight: int, topology_key: str, selector: Json | None, **fields: Any
    ) -> PodBuilder:
        """Add a preferred Pod affinity term."""
        return self._pod_preference("podAffinity", weight, topology_key, selector, fields)

    def preferred_pod_anti_affinity(
        self, weight: int, topology_key: str, selector: Json | None, **fields: Any
    ) -> PodBuilder:
        """Add a preferred Pod anti-affinity term."""
        return self._pod_preference("podAntiAffinity", weight, topology_key, selector, fields)

    def spread(
        self,
        topology_key: str,
        selector: Json | None,
        max_skew: int = 1,
        when: str = "DoNotSchedule",
        **fields: Any,
    ) -> PodBuilder:
        """Add a topology spread constraint."""
        constraint = {
            "topologyKey": topology_key,
            "maxSkew": max_skew,
            "whenUnsatisfiable": when,
        }
        if selector is not None:
            constraint["labelSelector"] = selector
        constraints = self._spec.setdefault("topologySpreadConstraints", [])
        constraints.append(constraint | fields)
        return self

    def pvc(self, claim_name: str, read_only: bool = False) -> PodBuilder:
        """Add a volume with this claim."""
        source = {"claimName": claim_name, "readOnly": read_only}
        return self.volume(persistentVolumeClaim=source)

    def volume(self, **source: Any) -> PodBuilder:
        """Add a volume with this source: ``volume(csi={"driver": "d"})``."""
        volumes = self._spec.setdefault("volumes", [])
        volumes.append({"name": f"v{len(volumes) + 1}"} | source)
        return self

    def _affinity(self, kind: str) -> Json:
        affinity: Json = self._spec.setdefault("affinity", {}).setdefault(kind, {})
        return affinity

    def _pod_term(
        self, kind: str, topology_key: str, selector: Json | None, fields: Json
    ) -> PodBuilder:
        terms = self._affinity(kind).setdefault(
            "requiredDuringSchedulingIgnoredDuringExecution", []
        )
        terms.append(_pod_term(topology_key, selector, fields))
        return self

    def _pod_preference(
        self, kind: str, weight: int, topology_key: str, selector: Json | None, fields: Json
    ) -> PodBuilder:
        terms = self._affinity(kind).setdefault(
            "preferredDuringSchedulingIgnoredDuringExecution", []
        )
        term = _pod_term(topology_key, selector, fields)
        terms.append({"weight": weight, "podAffinityTerm": term})
        return self


class NodeBuilder(_Builder):
    """Builds a `Node`."""

    def obj(self) -> Node:
        """The node."""
        return msgspec.json.decode(msgspec.json.encode(self.json), type=Node)

    def capacity(self, amounts: Mapping[str, Any] | None = None, /, **more: Any) -> NodeBuilder:
        """Add allocatable amounts: ``capacity(cpu="4", pods=110)``, ``capacity({"gpu": 1})``."""
        allocatable = self._status.setdefault("allocatable", {})
        allocatable.update({**(amounts or {}), **more})
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> NodeBuilder:
        """Add a taint."""
        taint = {"key": key, "value": value, "effect": effect}
        self._spec.setdefault("taints", []).append(taint)
        return self

    def unschedulable(self) -> NodeBuilder:
        """Cordon the node."""
        return self.spec(unschedulable=True)

    def image(self, size_bytes: int, *names: str) -> NodeBuilder:
        """Add an image under these names."""
        entry = {"names": list(names), "sizeBytes": size_bytes}
        self._status.setdefault("images", []).append(entry)
        return self

    def features(self, *names: str) -> NodeBuilder:
        """Set status.declaredFeatures."""
        return self.status(declaredFeatures=list(names))

    def condition(self, type_: str, status: str) -> NodeBuilder:
        """Add a condition."""
        conditions = self._status.setdefault("conditions", [])
        conditions.append({"type": type_, "status": status})
        return self


def make_pod(name: str = "p") -> PodBuilder:
    """A builder of a Pod in the namespace ``default``."""
    return PodBuilder(name)


def make_node(name: str = "n") -> NodeBuilder:
    """A builder of a node without allocatable amounts."""
    return NodeBuilder(name)


def requirement(key: str, operator: str, *values: str) -> Json:
    """One expression of a selector."""
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def labels_are(labels: Mapping[str, str] | None = None, *requirements: Json) -> Json:
    """A LabelSelector; empty without arguments (which matches everything)."""
    selector: Json = {"matchLabels": dict(labels)} if labels else {}
    return selector | ({"matchExpressions": list(requirements)} if requirements else {})


def expressions(*requirements: Json) -> Json:
    """A NodeSelectorTerm on labels."""
    return {"matchExpressions": list(requirements)}


def fields(*requirements: Json) -> Json:
    """A NodeSelectorTerm on fields (metadata.name)."""
    return {"matchFields": list(requirements)}


def _pod_term(topology_key: str, selector: Json | None, more: Mapping[str, Any]) -> Json:
    term: Json = {"topologyKey": topology_key}
    if selector is not None:
        term["labelSelector"] = selector
    return term | dict(more)
