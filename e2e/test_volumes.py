"""Volumes: bound where the Pod goes, made for it, held by one Pod alone, and never too many.

The PV controller is the real one, in kube-controller-manager. The provisioner is a few lines of the
test: what it is to make stands in the claim.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import OURS, SOON, Cluster, pod
from e2e.provider import NodeSpec, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("deployed")]

Json = dict[str, Any]
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STATIC, MADE = "static", "made"
DRIVER = "csi.example.com"


class Storage:
    """Makes and shows storage objects."""

    def __init__(self, cluster: Cluster) -> None:
        from kubernetes import client  # noqa: PLC0415

        self.core = cluster.api
        self.namespace = cluster.namespace
        self.api: Any = client.StorageV1Api(cluster.api.api_client)

    def storage_class(self, name: str, provisioner: str, **more: Any) -> None:
        """A class that waits for the first consumer."""
        body = {"metadata": _ours(name), "provisioner": provisioner} | more
        body["volumeBindingMode"] = "WaitForFirstConsumer"
        self.api.create_storage_class(body, _preload_content=False)

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
        self.core.create_namespaced_persistent_volume_claim(
            self.namespace, body, _preload_content=False
        )

    def volume(self, name: str, size: str = "1Gi", node: str = "", **more: Any) -> None:
        """A volume, on one node alone where ``node`` is given."""
        spec: Json = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STATIC,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DRIVER, "volumeHandle": name},
        }
        if node:
            here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            terms = [{"matchExpressions": [here]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        body = {"metadata": _ours(name), "spec": spec | more}
        self.core.create_persistent_volume(body, _preload_content=False)

    def bound_volume(self, name: str) -> Json | None:
        """The claim, once it is bound."""
        claim = self.core.read_namespaced_persistent_volume_claim(
            name, self.namespace, _preload_content=False
        )
        found: Json = json.loads(claim.data)
        return found if found["status"].get("phase") == "Bound" else None

    def wait_bound(self, name: str) -> str:
        """The volume that the claim gets."""
        claim = wait_until(lambda: self.bound_volume(name), SOON, f"claim {name} bound")
        assert claim is not None
        return str(claim["spec"]["volumeName"])

    def csi_node(self, name: str, count: int) -> None:
        """How many volumes of the driver the node takes."""
        driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}
        body = {"metadata": _ours(name), "spec": {"drivers": [driver | {"topologyKeys": []}]}}
        self.api.create_csi_node(body, _preload_content=False)

    def clear(self) -> None:
        """Remove all of it, which takes until no Pod uses it."""
        self.core.delete_collection_namespaced_persistent_volume_claim(
            self.namespace, _preload_content=False
        )
        ours = {"label_selector": OURS, "_preload_content": False}
        self.core.delete_collection_persistent_volume(**ours)
        self.api.delete_collection_storage_class(**ours)
        self.api.delete_collection_csi_node(**ours)
        wait_until(lambda: not self._left(), SOON, "the end of all claims and volumes")

    def _left(self) -> list[Json]:
        claims = self.core.list_namespaced_persistent_volume_claim
        listed = (
            claims(self.namespace, _preload_content=False),
            self.core.list_persistent_volume(label_selector=OURS, _preload_content=False),
        )
        return [item for answer in listed for item in json.loads(answer.data)["items"]]


def _ours(name: str) -> Json:
    return {"name": name, "labels": {OURS: ""}}


@pytest.fixture
def storage(cluster: Cluster) -> Iterator[Storage]:
    """Storage objects for one test, with a class of static volumes."""
    made = Storage(cluster)
    made.storage_class(STATIC, "kubernetes.io/no-provisioner")
    yield made
    cluster.clear()
    made.clear()


def pod_with(name: str, *claims: str, **more: Any) -> Json:
    """A Pod that uses these claims."""
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod(name, volumes=volumes, **more)


def test_a_pod_goes_where_a_volume_fits_and_the_claim_gets_the_smallest_one(cluster, storage):
    cluster.nodes(NodeSpec("empty"), NodeSpec("rich"), NodeSpec("poor"))
    storage.volume("too-small", "1Mi", node="poor")
    storage.volume("large", "10Gi", node="rich")
    storage.volume("fitting", "2Gi", node="rich")
    storage.claim("data")
    cluster.create(pod_with("db", "data"))
    assert cluster.wait_bound("db") == {"db": "rich"}
    assert storage.wait_bound("data") == "fitting"


def test_a_claim_without_a_volume_keeps_its_pod_waiting_until_one_comes(cluster, storage):
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    storage.claim("data")
    cluster.create(pod_with("db", "data"))
    message = cluster.wait_condition("db", text="persistent volumes")
    assert message.startswith(
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. "
    )
    storage.volume("late", node="n2")
    assert cluster.wait_bound("db") == {"db": "n2"}
    assert storage.wait_bound("data") == "late"


def test_two_pods_at_once_get_two_volumes(cluster, storage):
    cluster.nodes(NodeSpec("n1"))
    for i in range(2):
        storage.volume(f"v{i}", node="n1")
        storage.claim(f"c{i}")
    for i in range(2):
        cluster.create(pod_with(f"p{i}", f"c{i}"))
    cluster.wait_bound("p0", "p1")
    assert {storage.wait_bound(f"c{i}") for i in range(2)} == {"v0", "v1"}


@pytest.fixture
def provisioner(storage: Storage) -> Iterator[None]:
    """Makes volumes for claims of the class `MADE` whose node has been selected."""
    storage.storage_class(MADE, DRIVER)
    over = threading.Event()

    def make_all() -> None:
        made: set[str] = set()
        while not over.wait(0.1):
            listed = storage.core.list_namespaced_persistent_volume_claim(
                storage.namespace, _preload_content=False
            )
            for claim in json.loads(listed.data)["items"]:
                meta = claim["metadata"]
                node = meta.get("annotations", {}).get(SELECTED_NODE)
                if claim["spec"]["storageClassName"] != MADE or not node or meta["uid"] in made:
                    continue
                made.add(meta["uid"])
                ref = {"kind": "PersistentVolumeClaim", "namespace": storage.namespace}
                ref |= {"name": meta["name"], "uid": meta["uid"]}
                name = f"made-for-{meta['name']}"
                storage.volume(name, node=node, storageClassName=MADE, claimRef=ref)

    thread = threading.Thread(target=make_all)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("provisioner")
def test_a_volume_is_made_for_the_node_that_was_chosen(cluster, storage):
    cluster.nodes(NodeSpec("small", cpu="1"), NodeSpec("large", cpu="8"))
    storage.claim("data", MADE)
    cluster.create(pod_with("db", "data", cpu="4"))
    assert cluster.wait_bound("db") == {"db": "large"}
    claim = storage.bound_volume("data")
    assert claim is not None
    assert claim["metadata"]["annotations"][SELECTED_NODE] == "large"
    assert claim["spec"]["volumeName"] == "made-for-data"


def test_a_pod_waits_for_a_missing_claim(cluster, storage):
    cluster.nodes(NodeSpec("n1"))
    cluster.create(pod_with("db", "data"))
    message = cluster.wait_condition("db", text="not found")
    assert 'persistentvolumeclaim "data" not found' in message
    storage.volume("v", node="n1")
    storage.claim("data")
    cluster.wait_bound("db")


def test_a_claim_of_one_pod_alone_keeps_others_waiting_until_that_is_gone(cluster, storage):
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    storage.volume("v", accessModes=["ReadWriteOncePod"])
    storage.claim("data", mode="ReadWriteOncePod")
    cluster.create(pod_with("first", "data"))
    cluster.wait_bound("first")
    cluster.create(pod_with("second", "data"))
    message = cluster.wait_condition("second", text="ReadWriteOncePod")
    assert message.startswith(
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with "
        "ReadWriteOncePod access mode already in-use by another pod. "
    )
    cluster.delete("first")
    cluster.wait_bound("second")


def test_a_node_takes_no_more_volumes_than_its_csi_node_says(cluster, storage):
    cluster.nodes(NodeSpec("n1"))
    storage.csi_node("n1", count=1)
    for i in range(2):
        storage.volume(f"v{i}")
        storage.claim(f"c{i}", volumeName=f"v{i}")
        storage.wait_bound(f"c{i}")
    cluster.create(pod_with("first", "c0"))
    cluster.wait_bound("first")
    cluster.create(pod_with("second", "c1"))
    message = cluster.wait_condition("second", text="max volume count")
    assert message.startswith("0/1 nodes are available: 1 node(s) exceed max volume count. ")
    cluster.delete("first")
    cluster.wait_bound("second")
