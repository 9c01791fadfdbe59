"""Clusters for CapacityScheduling: namespaces with and without quotas, near their limits.

Few nodes and many running Pods, whose priorities and sizes come from short lists, so that quotas
are borrowed from and nodes are full. No two Pods start at the same time: the order of equally
important ones is kube-scheduler's secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.conformance.generator.dice import without_empty
from e2e.conformance.generator.world import GPU

if TYPE_CHECKING:
    from e2e.conformance.generator.dice import Dice
    from e2e.conformance.generator.world import World

PLUGIN = "CapacityScheduling"
NAMESPACES = ("a", "b", "c", "free", "other")
PRIORITIES = (-10, 0, 0, 5, 100)
CPUS = (100, 250, 500, 1000, 1500)
MEBIBYTES = (0, 0, 64, 256)

CONFIG: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": PLUGIN}],
                    "disabled": [{"name": "DefaultPreemption"}],
                }
            },
        }
    ],
}


class QuotaMaker:
    """Makes one cluster."""

    def __init__(self, dice: Dice, world: World) -> None:
        self.dice = dice
        self.world = world
        self._starts = iter(dice.sample(range(60 * 60 * 24), 60 * 60 * 24))
        self._used: dict[str, int] = dict.fromkeys(NAMESPACES, 0)

    def add_nodes(self, number: int) -> None:
        """Add nodes, a few of them tainted or with GPUs."""
        for index in range(number):
            name = f"node-{index}"
            spec = {}
            if self.dice.has("tainted"):
                spec["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
            capacity = {"cpu": self.dice.choice(("2", "4")), "memory": "8Gi", "pods": "20"}
            if self.dice.has("gpu"):
                capacity[GPU] = "4"
            self.world.add(
                "v1",
                "Node",
                metadata={"name": name, "labels": {"kubernetes.io/hostname": name}},
                spec=spec,
                status={"capacity": capacity, "allocatable": capacity},
            )
            self.world.nodes.append(name)

    def add_running(self, number: int) -> None:
        """Add Pods that are on nodes, some of which are ending or have ended."""
        dice = self.dice
        for index in range(number):
            item = self._pod(f"bound-{index:03}")
            gone = dice.has("nodeGone") and dice.chance(0.2)
            item["spec"]["nodeName"] = "gone" if gone else dice.choice(self.world.nodes)
            second = next(self._starts)
            start = f"2025-12-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
            status = {"phase": "Running", "startTime": start}
            if dice.has("finished"):
                status["phase"] = dice.choice(("Succeeded", "Failed"))
            elif dice.has("terminating"):
                item["metadata"]["deletionTimestamp"] = "2025-12-30T00:00:00Z"
                item["metadata"]["deletionGracePeriodSeconds"] = 30
            item["status"] = status

    def add_pending(self, number: int) -> None:
        """Add Pods that wait, some of them nominated."""
        dice = self.dice
        for index in range(number):
            item = self._pod(f"pod-{index:03}")
            item["status"] = {"phase": "Pending"}
            if dice.has("nominated"):
                item["status"]["nominatedNodeName"] = dice.choice((*self.world.nodes, "gone"))
            if dice.has("never"):
                item["spec"]["preemptionPolicy"] = "Never"

    def add_quotas(self) -> None:
        """Add quotas about as large as what their namespaces use."""
        dice = self.dice
        for namespace in NAMESPACES:
            if not dice.chance(0.75):
                continue
            used = max(self._used[namespace], 500)
            low, high = dice.choice((0.3, 0.6, 0.9, 1.1, 1.5)), dice.choice((1.0, 1.2, 2.0))
            limits = {"min": self._limit(int(used * low)), "max": self._limit(int(used * high))}
            for absent in ("min", "max"):
                if dice.chance(0.15 if absent == "min" else 0.4):
                    del limits[absent]
            self._quota("quota", namespace, limits, day=dice.randint(1, 28))
            if dice.has("secondQuota"):
                limits = {"min": self._limit(used)}
                self._quota("another", namespace, limits, day=dice.randint(1, 28))

    def add_budgets(self) -> None:
        """Add PodDisruptionBudgets; no Pod has two."""
        for namespace in NAMESPACES:
            if self.dice.has("budgets"):
                self.world.add(
                    "policy/v1",
                    "PodDisruptionBudget",
                    metadata={"name": "web", "namespace": namespace},
                    spec={"selector": {"matchLabels": {"app": "web"}}},
                    status={"disruptionsAllowed": self.dice.choice((0, 0, 1, 2))},
                )

    def _quota(self, name: str, namespace: str, limits: dict[str, Any], day: int) -> None:
        created = f"2025-11-{day:02}T00:00:00Z"
        metadata = {"name": name, "namespace": namespace, "creationTimestamp": created}
        version = "scheduling.x-k8s.io/v1alpha1"
        self.world.add(version, "ElasticQuota", metadata=metadata, spec=limits)

    def _limit(self, milli: int) -> dict[str, Any]:
        dice = self.dice
        limit: dict[str, Any] = {"cpu": dice.cpu(milli)}
        if not dice.has("noMemory"):
            limit["memory"] = dice.choice(("1Gi", "4Gi", "16Gi"))
        if dice.has("gpuLimit"):
            limit[GPU] = dice.choice((0, 1, 4))
        if dice.has("oddLimit"):
            limit[dice.choice(("pods", "requests.cpu", "ephemeral-storage"))] = 1
        return limit

    def _pod(self, name: str) -> dict[str, Any]:
        dice = self.dice
        namespace, milli = dice.choice(NAMESPACES), dice.choice(CPUS)
        self._used[namespace] += milli
        spec: dict[str, Any] = {
            "containers": [self._container("main", milli)],
            "priority": dice.choice(PRIORITIES),
        }
        if dice.has("twoContainers"):
            spec["containers"].append(self._container("more", 100))
        if dice.has("initContainers"):
            init = self._container("init", dice.choice(CPUS))
            if dice.chance(0.4):
                init["restartPolicy"] = "Always"
            spec["initContainers"] = [init]
        if dice.has("overhead"):
            spec["overhead"] = {"cpu": "150m"}
        if dice.has("tolerates"):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if dice.has("pinned"):
            spec["nodeSelector"] = {"kubernetes.io/hostname": dice.choice(self.world.nodes)}
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {"app": dice.choice(("web", "db"))},
        }
        return self.world.add("v1", "Pod", metadata=metadata, spec=without_empty(spec))

    def _container(self, name: str, milli: int) -> dict[str, Any]:
        dice = self.dice
        requests: dict[str, Any] = {"cpu": dice.cpu(milli)}
        if mebibytes := dice.choice(MEBIBYTES):
            requests["memory"] = dice.size(mebibytes)
        limits = {}
        if dice.has("gpu") and dice.chance(0.5):
            requests[GPU] = limits[GPU] = dice.choice(("1", "2"))
        resources = without_empty({"requests": requests, "limits": limits})
        return {"name": name, "image": "nginx", "resources": resources}
