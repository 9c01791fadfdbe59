"""Pods: those that run already, and those that wait for a node."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from e2e.conformance.generator import affinity
from e2e.conformance.generator.containers import ContainerMaker, resize_status
from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import APPS, TIERS, VERSIONS

if TYPE_CHECKING:
    from e2e.conformance.generator.claims import ClaimMaker
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

    def __init__(self, dice: Dice, world: World, storage: StorageMaker, claims: ClaimMaker) -> None:
        self.dice = dice
        self.world = world
        self.storage = storage
        self.claims = claims
        self.crowded = dice.chance(0.5)
        self._moments = [dice.moment(20) for _ in range(8)]
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
        self.claims.give(item)

    def fill(self, node: str, number: int) -> int:
        """Add Pods that use most of a node, fit to be preempted, and return the next number.

        Few sizes, priorities and times of start: many nodes are worth the same to a preemptor.
        """
        dice, used = self.dice, 0.0
        aim = dice.choice((0.6, 0.9, 1.0))
        moments = dice.some(self._moments, len(self._moments))
        while used < aim and moments:
            share = dice.choice((0.2, 0.25, 0.4, 0.5))
            used += share
            request = {"requests": {"cpu": f"{int(self.world.milli[node] * share)}m"}}
            container = {"name": "main", "image": "nginx", "resources": request}
            spec: dict[str, Any] = {"nodeName": node, "containers": [container]}
            if dice.chance(0.7):
                spec["priorityClassName"] = dice.choice(self.world.priority_classes[:3])
            metadata = {
                "name": f"bound-{number:04}",
                "namespace": dice.choice(self.world.namespaces),
                "uid": f"uid-bound-{number:04}",
                "labels": self._labels(),
            }
            status = {"phase": "Running", "startTime": moments.pop()}
            self.world.add("v1", "Pod", metadata=without_empty(metadata), spec=spec, status=status)
            number += 1
        return number

    def add_pending(self, number: int) -> None:
        """Add a Pod that waits: one of its own kind, or a replica of one before."""
        dice = self.dice
        name = f"pod-{number:04}"
        if self._templates and dice.has("replicas"):
            item = self._replica(name)
        elif self.crowded and dice.chance(0.4):
            item = self._preemptor(name)
        elif dice.has("claimants"):
            item = self._claimant(name)
        else:
            item = self._pod(name, bound=False)
            if not item["spec"].get("volumes"):
                self._templates.append(item)
        status: dict[str, Any] = {"phase": "Pending"}
        if dice.has("nominated"):
            status["nominatedNodeName"] = self._node()
        if dice.has("deletingPending") and dice.chance(0.1):
            item["metadata"]["deletionTimestamp"] = "2025-12-30T00:00:00Z"
        item["status"] = status
        if "resourceClaims" not in item["spec"]:
            self.claims.give(item)

    def _preemptor(self, name: str) -> dict[str, Any]:
        """A Pod with few wishes except for room that only preemption makes."""
        dice = self.dice
        labels = self._labels()
        milli = int(self.world.milli[dice.choice(self.world.nodes)] * dice.choice((0.3, 0.5, 0.8)))
        resources = {"requests": {"cpu": f"{milli}m"}}
        spec: dict[str, Any] = {
            "containers": [{"name": "main", "image": "nginx", "resources": resources}],
            "priorityClassName": dice.choice(self.world.priority_classes),
            "tolerations": affinity.tolerations(dice),
            **self._waiting(),
        }
        if dice.chance(0.3):
            spec["affinity"] = self._affinity(labels, 1)
            spec["topologySpreadConstraints"] = affinity.spread_constraints(dice, labels)
        metadata = {
            "name": name,
            "namespace": dice.choice(self.world.namespaces),
            "uid": f"uid-{name}",
            "labels": labels,
        }
        return self.world.add(
            "v1", "Pod", metadata=without_empty(metadata), spec=without_empty(spec)
        )

    def _claimant(self, name: str) -> dict[str, Any]:
        """A Pod with few wishes except for volumes that are to be made where there is room."""
        dice, namespace = self.dice, self.dice.choice(self.world.namespaces)
        spec = {
            "containers": [{"name": "main", "image": "nginx"}],
            "tolerations": affinity.tolerations(dice),
            "volumes": self.storage.to_provision(namespace),
            **self._waiting(),
        }
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
        return self.world.add("v1", "Pod", metadata=metadata, spec=without_empty(spec))

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
        if owners and (dice.has("owned") or dice.chance(0.2)):
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
            "affinity": self._affinity(labels, 0.15 if bound else 1),
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

    def _affinity(self, labels: dict[str, str], required: float) -> dict[str, Any]:
        dice, world = self.dice, self.world
        apart, together = (
            affinity.pod_affinity(dice, world, labels, use, required)
            for use in ("podAntiAffinity", "podAffinity")
        )
        return without_empty(
            {
                "nodeAffinity": affinity.node_affinity(dice, world),
                "podAffinity": together,
                "podAntiAffinity": apart,
            }
        )

    def _priority(self, bound: bool) -> dict[str, Any]:
        dice = self.dice
        important = not bound and self.crowded and dice.chance(0.5)
        if not important and not dice.has("boundPriority" if bound else "pendingPriority"):
            return {}
        if dice.chance(0.02):
            return {"priorityClassName": "system-node-critical"}
        return {"priorityClassName": dice.choice(self.world.priority_classes)}

    def _waiting(self) -> dict[str, Any]:
        """What only matters to a Pod without a node."""
        dice = self.dice
        spec: dict[str, Any] = {}
        if dice.has("gates") and dice.chance(0.3):
            spec["schedulingGates"] = [{"name": "example.com/ready"}, {"name": "example.com/paid"}]
        if dice.chance(0.9):
            spec["schedulerName"] = dice.choice(self.world.profiles)
        elif dice.has("foreignScheduler"):
            spec["schedulerName"] = "somebody-else"
        return spec
