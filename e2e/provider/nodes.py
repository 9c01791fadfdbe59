"""kwok nodes: made from short specifications, and awaited until Pods can be placed on them."""

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.provider.waiting import wait_until

NOT_READY = "node.kubernetes.io/not-ready"


@dataclass(frozen=True)
class Taint:
    """A taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class NodeSpec:
    """A node to be made.

    Args:
        name: also its label kubernetes.io/hostname.
        cpu: a quantity, as are `memory`, `storage` (ephemeral) and the values of `resources`.
        pods: how many Pods it takes.
        zone: its label topology.kubernetes.io/zone; none when empty.
        gpus: how many nvidia.com/gpu it has.
        resources: further resources.
        labels: further labels.
        taints: beside not-ready, which every new node has until kwok reports it Ready.
        unschedulable: cordoned.
        images: size in bytes by name of image.
    """

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    storage: str = "100Gi"
    pods: int = 110
    zone: str = ""
    gpus: int = 0
    resources: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    images: Mapping[str, int] = field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        """Return the Node as the API server takes it."""
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": self._labels(),
            },
            "spec": {
                "unschedulable": self.unschedulable,
                "taints": [
                    {"key": taint.key, "value": taint.value, "effect": taint.effect}
                    for taint in self.taints
                ],
            },
            "status": {
                "capacity": self._capacity(),
                "allocatable": self._capacity(),
                "images": [
                    {"names": [name], "sizeBytes": size} for name, size in self.images.items()
                ],
            },
        }

    def _labels(self) -> dict[str, str]:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "type": "kwok",
        }
        if self.zone:
            labels["topology.kubernetes.io/zone"] = self.zone
        return labels | dict(self.labels)

    def _capacity(self) -> dict[str, str]:
        capacity = {
            "cpu": self.cpu,
            "memory": self.memory,
            "ephemeral-storage": self.storage,
            "pods": str(self.pods),
        }
        if self.gpus:
            capacity["nvidia.com/gpu"] = str(self.gpus)
        return capacity | dict(self.resources)


def create_nodes(kubeconfig: Path, specs: Iterable[NodeSpec], timeout: float = 60.0) -> None:
    """Create the nodes and wait until all are Ready and free of the not-ready taint.

    kwok and kube-controller-manager must be running: one reports the nodes Ready, the other takes
    the taint away.

    Raises:
        TimeoutError: not all of them are Ready within `timeout` seconds.
        kubernetes.client.ApiException: the API server refuses one.
    """
    from kubernetes import client, config  # noqa: PLC0415  takes a second, not spent by all

    connect: Callable[[str], Any] = config.new_client_from_config
    api = client.CoreV1Api(connect(str(kubeconfig)))
    wanted = {spec.name: spec for spec in specs}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda spec: api.create_node(spec.manifest()), wanted.values()))
    wait_until(
        lambda: wanted.keys() <= _ready(api), timeout, f"{len(wanted)} nodes Ready", interval=0.2
    )


def _ready(api: Any) -> set[str]:
    # As JSON: the client's models would cost more than all else here for thousands of nodes.
    nodes = json.loads(api.list_node(resource_version="0", _preload_content=False).data)["items"]
    return {node["metadata"]["name"] for node in nodes if _is_ready(node)}


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}
    tainted = any(taint["key"] == NOT_READY for taint in node["spec"].get("taints", ()))
    return conditions.get("Ready") == "True" and not tainted
