"""Pods: those that run already, and those that wait for a node."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from e2e.conformance.generator import affinity
from e2e.conformance.generator.containers import ContainerMaker, resize_status
from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import APPS, TIERS, VERSIONS

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.storage import StorageMaker
    from e2e.conformance.generator.world import World

PREEMPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
}


class PodMaker:
    """Makes the Pods of one cluster."""

    def __init__(self, dice: Dice, world: World, storage: StorageMaker) -> None:
        self.dice = dice
        self.world = world
        self.storage = storage
        self._templates: list[dict[str, Any]] = []
        self._starts: set[tuple[str, str]] = set()

    def add_bound(self, number: int) -> None:
        """Add a Pod that has a node: most of them run, some end, some are gone."""
        dice = self.dice
        name, node = f"bound-{number:04}", self._node()
        item = self._pod(name, bound=True)
        item["spec"]["nodeName"] = node
        status: dict[str, Any] = {"phase": "Running"}
        start = dice.moment(20)
        if (node, start) not in self._starts:
            self._starts.add((node, start))
            status["startTime"] = start
        if dice.has("resized"):
            status.update(resize_status(dice, item["spec"]))
        if dice.has("finished"):
            status["phase"] = dice.choice(("Succeeded", "Failed"))
        if dice.has("terminating"):
            item["metadata"]["deletionTimestamp"] = "2025-12-30T00:00:00Z"
            item["metadata"]["deletionGracePeriodSeconds"] = 30
            if dice.chance(0.5):
                status["conditions"] = [*status.get("conditions", []), PREEMPTED]
        item["status"] = status

    def add_pending(self, number: int) -> None:
        """Add a Pod that waits: one of its own kind, or a replica of one before."""
        dice = self.dice
        name = f"pod-{number:04}"
        item = self._replica(name) if self._templates and dice.has("replicas") else None
        if item is None:
            item = self._pod(name, bound=False)
            if not item["spec"].get("volumes"):
                self._templates.append(item)
        status: dict[str, Any] = {"phase": "Pending"}
        if dice.has("nominated"):
            status["nominatedNodeName"] = self._node()
        if dice.has("deletingPending"):
            item["metadata"]["deletionTimestamp"] = "2025-12-30T00:00:00Z"
        item["status"] = status

    def _node(self) -> str:
        if self.dice.has("missingNode"):
            return "no-such-node"
        return self.dice.choice(self.world.nodes)

    def _replica(self, name: str) -> dict[str, Any]:
        first = self.dice.choice(self._templates)
        copied = copy.deepcopy({key: first[key] for key in ("metadata", "spec")})
        copied["metadata"].update(name=name, uid=f"uid-{name}")
        copied["metadata"].pop("deletionTimestamp", None)
        return self.world.add("v1", "Pod", **copied)

    def _pod(self, name: str, bound: bool) -> dict[str, Any]:
        dice = self.dice
        namespace, uid = dice.choice(self.world.namespaces), f"uid-{name}"
        labels = self._labels()
        metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid}
        owners = self.world.owners.get(namespace)
        if owners and dice.has("owned"):
            owner = dice.choice(owners)
            labels.update(owner["labels"])
            metadata["ownerReferences"] = [{**owner["reference"], "controller": True}]
        metadata["labels"] = labels
        if dice.chance(0.7):
            metadata["creationTimestamp"] = dice.moment()
        spec = self._spec(labels, bound)
        spec["volumes"] = self.storage.volumes(name, uid, namespace, bound)
        return self.world.add(
            "v1", "Pod", metadata=without_empty(metadata), spec=without_empty(spec)
        )

    def _labels(self) -> dict[str, str]:
        dice = self.dice
        if dice.has("unlabelled"):
            return {}
        labels = {"app": dice.choice(APPS), "version": dice.choice(VERSIONS)}
        if dice.chance(0.6):
            labels["tier"] = dice.choice(TIERS)
        return labels

    def _spec(self, labels: dict[str, str], bound: bool) -> dict[str, Any]:
        dice = self.dice
        host_network = dice.has("hostNetwork")
        maker = ContainerMaker(dice, host_network)
        # Pod-level resources depend on what the containers ask for: those come first.
        containers, init = maker.regular(), maker.init()
        spec: dict[str, Any] = {
            "containers": containers,
            "initContainers": init,
            "resources": maker.pod_level(),
            "hostNetwork": host_network or None,
            "affinity": self._affinity(labels),
            "tolerations": affinity.tolerations(dice),
            "nodeSelector": affinity.node_selector(dice),
            "topologySpreadConstraints": affinity.spread_constraints(dice, labels),
        }
        if dice.has("restartAllContainers"):
            rule = {
                "action": "RestartAllContainers",
                "exitCodes": {"operator": "In", "values": [7]},
            }
            containers[0].update(restartPolicy="Never", restartPolicyRules=[rule])
        if dice.has("runtimeClass"):
            spec["runtimeClassName"] = dice.choice(self.world.runtime_classes)
        spec.update(self._priority(bound))
        if not bound:
            spec.update(self._waiting())
        return spec

    def _affinity(self, labels: dict[str, str]) -> dict[str, Any]:
        dice, world = self.dice, self.world
        return without_empty(
            {
                "nodeAffinity": affinity.node_affinity(dice, world),
                "podAffinity": affinity.pod_affinity(dice, world, labels, "podAffinity"),
                "podAntiAffinity": affinity.pod_affinity(dice, world, labels, "podAntiAffinity"),
            }
        )

    def _priority(self, bound: bool) -> dict[str, Any]:
        dice = self.dice
        if not dice.has("boundPriority" if bound else "pendingPriority"):
            return {}
        if dice.chance(0.02):
            return {"priorityClassName": "system-node-critical"}
        return {"priorityClassName": dice.choice(self.world.priority_classes)}

    def _waiting(self) -> dict[str, Any]:
        """What only matters to a Pod without a node."""
        dice = self.dice
        spec: dict[str, Any] = {}
        if dice.has("gates"):
            spec["schedulingGates"] = [{"name": "example.com/ready"}, {"name": "example.com/paid"}]
        if dice.chance(0.9):
            spec["schedulerName"] = dice.choice(self.world.profiles)
        elif dice.has("foreignScheduler"):
            spec["schedulerName"] = "somebody-else"
        return spec
