"""Storage objects of one test: classes, claims, volumes, and what CSI drivers say of themselves.

Invariant: everything that belongs to no namespace bears the label of these tests, so that nothing
of others is removed with it.
"""

import json
from typing import Any

from e2e.belongings import OURS
from e2e.cluster import SOON, Cluster, pod
from e2e.provider import wait_until

Json = dict[str, Any]
DRIVER = "csi.example.com"
STATIC = "static"
"""The StorageClass of volumes that the test makes by hand."""
HOST = "kubernetes.io/hostname"
_RAW = {"_preload_content": False}


class Storage:
    """Makes and shows storage objects."""

    def __init__(self, cluster: Cluster) -> None:
        from kubernetes import client  # noqa: PLC0415  takes a second, not spent by all

        self.core = cluster.api
        self.namespace = cluster.namespace
        self.api: Any = client.StorageV1Api(cluster.api.api_client)

    def storage_class(self, name: str, provisioner: str = DRIVER, *, waits: bool = True) -> None:
        """A class whose claims wait for their first Pod, or do not."""
        mode = "WaitForFirstConsumer" if waits else "Immediate"
        body = {"metadata": _ours(name), "provisioner": provisioner, "volumeBindingMode": mode}
        self.api.create_storage_class(body, **_RAW)

    def waits(self, storage_class: str) -> bool:
        """Whether claims of the class wait for their first Pod."""
        mode = self.api.read_storage_class(storage_class).volume_binding_mode
        return bool(mode == "WaitForFirstConsumer")

    def claim(
        self, name: str, storage_class: str = STATIC, mode: str = "ReadWriteOnce", **more: Any
    ) -> None:
        """A claim of 1Gi."""
        spec = {
            "accessModes": [mode],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        body = {"metadata": {"name": name}, "spec": spec | more}
        self.core.create_namespaced_persistent_volume_claim(self.namespace, body, **_RAW)

    def volume(self, name: str, size: str = "1Gi", node: str = "", **more: Any) -> None:
        """A volume, on one node alone where ``node`` is given."""
        spec: Json = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STATIC,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DRIVER, "volumeHandle": name},
        } | more
        if "local" in spec:
            del spec["csi"]
        if node:
            here = {"key": HOST, "operator": "In", "values": [node]}
            spec["nodeAffinity"] = {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
            }
        self.core.create_persistent_volume({"metadata": _ours(name), "spec": spec}, **_RAW)

    def claim_now(self, name: str) -> Json:
        """The claim as it is."""
        found = self.core.read_namespaced_persistent_volume_claim(name, self.namespace, **_RAW)
        return json.loads(found.data)  # type: ignore[no-any-return]

    def volume_now(self, name: str) -> Json:
        """The volume as it is."""
        return json.loads(self.core.read_persistent_volume(name, **_RAW).data)  # type: ignore[no-any-return]

    def wait_bound(self, name: str) -> str:
        """Wait until the claim is bound; returns its volume."""
        wait_until(
            lambda: self.claim_now(name)["status"].get("phase") == "Bound",
            SOON,
            f"claim {name} bound",
        )
        return str(self.claim_now(name)["spec"]["volumeName"])

    def csi_node(self, name: str, count: int) -> None:
        """How many volumes of the driver the node takes."""
        driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}
        spec = {"drivers": [driver | {"topologyKeys": [HOST]}]}
        self.api.create_csi_node({"metadata": _ours(name), "spec": spec}, **_RAW)

    def csi_driver(self) -> None:
        """The driver, which tells how much room it has."""
        spec = {"storageCapacity": True, "attachRequired": False}
        self.api.create_csi_driver({"metadata": _ours(DRIVER), "spec": spec}, **_RAW)

    def capacity(self, node: str, storage_class: str, size: str) -> None:
        """How much room the driver has for volumes of that class on the node, new or changed."""
        name = f"{storage_class}-{node}"
        body = {
            "metadata": _ours(name),
            "storageClassName": storage_class,
            "nodeTopology": {"matchLabels": {HOST: node}},
            "capacity": size,
        }
        listed = self.api.list_namespaced_csi_storage_capacity(self.namespace, **_RAW)
        if name in {item["metadata"]["name"] for item in json.loads(listed.data)["items"]}:
            change = {"capacity": size}
            self.api.patch_namespaced_csi_storage_capacity(name, self.namespace, change, **_RAW)
        else:
            self.api.create_namespaced_csi_storage_capacity(self.namespace, body, **_RAW)

    def clear(self) -> None:
        """Remove all of it, which takes until no Pod uses it."""
        where = self.namespace
        self.core.delete_collection_namespaced_persistent_volume_claim(where, **_RAW)
        self.api.delete_collection_namespaced_csi_storage_capacity(where, **_RAW)
        ours = {"label_selector": OURS} | _RAW
        self.core.delete_collection_persistent_volume(**ours)
        self.api.delete_collection_storage_class(**ours)
        self.api.delete_collection_csi_node(**ours)
        self.api.delete_collection_csi_driver(**ours)
        wait_until(lambda: not self._left(), SOON, "the end of all claims and volumes")

    def _left(self) -> list[Json]:
        listed = (
            self.core.list_namespaced_persistent_volume_claim(self.namespace, **_RAW),
            self.core.list_persistent_volume(label_selector=OURS, **_RAW),
        )
        return [item for answer in listed for item in json.loads(answer.data)["items"]]


def _ours(name: str) -> Json:
    return {"name": name, "labels": {OURS: ""}}


def pod_with(name: str, scheduler: str, *claims: str, **more: Any) -> Json:
    """A Pod that uses these claims."""
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod(name, scheduler, volumes=volumes, **more)
