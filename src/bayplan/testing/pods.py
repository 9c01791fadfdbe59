"""Pods for tests: ``make_pod("p").req(cpu="1").label("app", "web").obj()``."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.testing.builder import Builder, Json

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PodBuilder(Builder[Pod]):
    """Builds a `Pod`; containers are added one by one and are named c1, c2, ..., i1, i2, ..."""

    # Metadata and status

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

    def pod_group(self, name: str) -> PodBuilder:
        """Set spec.schedulingGroup: the PodGroup of Kubernetes that the Pod is placed with."""
        return self.spec(schedulingGroup={"podGroupName": name})

    def phase(self, phase: str) -> PodBuilder:
        """Set status.phase."""
        return self.status(phase=phase)

    def start_time(self, timestamp: str) -> PodBuilder:
        """Set status.startTime."""
        return self.status(startTime=timestamp)

    def nominated(self, node_name: str) -> PodBuilder:
        """Set status.nominatedNodeName."""
        return self.status(nominatedNodeName=node_name)

    def condition(self, type_: str, status: str, **fields: object) -> PodBuilder:
        """Add a condition."""
        condition = {"type": type_, "status": status} | fields
        self._status.setdefault("conditions", []).append(condition)
        return self

    # Containers

    def container(self, **fields: object) -> PodBuilder:
        """Add a container with these API fields."""
        containers = self._spec.setdefault("containers", [])
        containers.append({"name": f"c{len(containers) + 1}"} | fields)
        return self

    def init_container(self, **fields: object) -> PodBuilder:
        """Add an init container with these API fields."""
        containers = self._spec.setdefault("initContainers", [])
        containers.append({"name": f"i{len(containers) + 1}"} | fields)
        return self

    def req(self, amounts: Mapping[str, object] | None = None, /, **more: object) -> PodBuilder:
        """Add a container with these requests: ``req(cpu="1")``, ``req({"nvidia.com/gpu": 1})``."""
        return self.container(resources={"requests": {**(amounts or {}), **more}})

    def init_req(
        self, amounts: Mapping[str, object] | None = None, /, **more: object
    ) -> PodBuilder:
        """Add an init container with these requests."""
        return self.init_container(resources={"requests": {**(amounts or {}), **more}})

    def sidecar_req(
        self, amounts: Mapping[str, object] | None = None, /, **more: object
    ) -> PodBuilder:
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

    def overhead(
        self, amounts: Mapping[str, object] | None = None, /, **more: object
    ) -> PodBuilder:
        """Set spec.overhead."""
        return self.spec(overhead={**(amounts or {}), **more})

    def pod_level(
        self, amounts: Mapping[str, object] | None = None, /, **more: object
    ) -> PodBuilder:
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

    def toleration(self, **fields: object) -> PodBuilder:
        """Add a toleration with these API fields."""
        self._spec.setdefault("tolerations", []).append(fields)
        return self

    def node_affinity(self, *terms: Json) -> PodBuilder:
        """Set required node affinity: any of these terms, see `expressions` and `fields`."""
        self._affinity("nodeAffinity")[_REQUIRED] = {"nodeSelectorTerms": list(terms)}
        return self

    def preferred_node_affinity(self, weight: int, term: Json) -> PodBuilder:
        """Add a node preference."""
        return self._term("nodeAffinity", _PREFERRED, {"weight": weight, "preference": term})

    def pod_affinity(
        self, topology_key: str, selector: Json | None, **fields: object
    ) -> PodBuilder:
        """Add a required Pod affinity term; see `labels_are` for the selector."""
        return self._term("podAffinity", _REQUIRED, _pod_term(topology_key, selector, fields))

    def pod_anti_affinity(
        self, topology_key: str, selector: Json | None, **fields: object
    ) -> PodBuilder:
        """Add a required Pod anti-affinity term."""
        return self._term("podAntiAffinity", _REQUIRED, _pod_term(topology_key, selector, fields))

    def preferred_pod_affinity(
        self, weight: int, topology_key: str, selector: Json | None, **fields: object
    ) -> PodBuilder:
        """Add a preferred Pod affinity term."""
        term = _pod_term(topology_key, selector, fields)
        return self._term("podAffinity", _PREFERRED, {"weight": weight, "podAffinityTerm": term})

    def preferred_pod_anti_affinity(
        self, weight: int, topology_key: str, selector: Json | None, **fields: object
    ) -> PodBuilder:
        """Add a preferred Pod anti-affinity term."""
        term = _pod_term(topology_key, selector, fields)
        return self._term(
            "podAntiAffinity", _PREFERRED, {"weight": weight, "podAffinityTerm": term}
        )

    def spread(
        self,
        topology_key: str,
        selector: Json | None,
        max_skew: int = 1,
        when: str = "DoNotSchedule",
        **fields: object,
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

    def volume(self, **source: object) -> PodBuilder:
        """Add a volume with this source: ``volume(csi={"driver": "d"})``."""
        volumes = self._spec.setdefault("volumes", [])
        volumes.append({"name": f"v{len(volumes) + 1}"} | source)
        return self

    def _affinity(self, kind: str) -> Json:
        affinity: Json = self._spec.setdefault("affinity", {}).setdefault(kind, {})
        return affinity

    def _term(self, kind: str, field: str, term: Json) -> PodBuilder:
        self._affinity(kind).setdefault(field, []).append(term)
        return self


def make_pod(name: str = "p") -> PodBuilder:
    """A builder of a Pod in the namespace ``default``."""
    return PodBuilder(POD, name).namespace("default")


def _pod_term(topology_key: str, selector: Json | None, more: Mapping[str, object]) -> Json:
    term: Json = {"topologyKey": topology_key}
    if selector is not None:
        term["labelSelector"] = selector
    return term | dict(more)
