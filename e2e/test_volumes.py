"""Volumes: bound where the Pod goes, made for it, held by one Pod alone, and never too many.

The PV controller is the real one, in kube-controller-manager; the provisioner is the test's. Each
scenario runs under bayplan and under kube-scheduler: what is expected holds for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import SOON, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provisioner import SELECTED_NODE, Provisioner
from e2e.storage import STATIC, Storage, pod_with

pytestmark = pytest.mark.e2e

MADE, AT_ONCE = "made", "at-once"
HELD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)


@pytest.fixture
def storage(cluster: Cluster) -> Iterator[Storage]:
    """Storage objects for one test, with a class of static volumes."""
    made = Storage(cluster)
    made.storage_class(STATIC, "kubernetes.io/no-provisioner")
    yield made
    cluster.clear()
    made.clear()


@pytest.fixture
def provisioner(storage: Storage) -> Iterator[Provisioner]:
    storage.storage_class(MADE)
    with Provisioner(storage) as running:
        yield running


# Volumes that are there


def test_a_pod_goes_where_a_volume_fits_and_the_claim_gets_the_smallest_one(
    cluster: Cluster, storage: Storage, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("empty"), NodeSpec("rich"), NodeSpec("poor"))
    storage.volume("too-small", "1Mi", node="poor")
    # A scheduler that has seen "large" has seen what came before; by name "large" would be first.
    storage.volume("small", "2Gi", node="rich")
    storage.volume("large", "10Gi", node="rich")
    storage.claim("data")
    cluster.create(pod_with("db", scheduler, "data"))
    assert cluster.wait_bound("db") == {"db": "rich"}
    assert storage.wait_bound("data") == "small"


def test_a_pod_stays_with_its_local_disk(
    cluster: Cluster, storage: Storage, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2", cpu="1"))
    storage.volume("disk", node="n2", local={"path": "/mnt/disk"})
    storage.claim("data")
    cluster.create(pod_with("db", scheduler, "data", cpu="1"))
    assert cluster.wait_bound("db") == {"db": "n2"}
    assert storage.wait_bound("data") == "disk"
    ref = storage.volume_now("disk")["spec"]["claimRef"]
    assert ref["uid"] == storage.claim_now("data")["metadata"]["uid"]
    cluster.create(pod_with("second", scheduler, "data", cpu="1"))
    cluster.wait_condition(
        "second",
        text=(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match "
            "PersistentVolume's node affinity. "
        ),
    )
    cluster.delete("db")
    assert cluster.wait_bound("second") == {"second": "n2"}, "the data is there"


def test_a_claim_without_a_volume_keeps_its_pod_waiting_until_one_comes(
    cluster: Cluster, storage: Storage, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    storage.claim("data")
    cluster.create(pod_with("db", scheduler, "data"))
    cluster.wait_condition(
        "db",
        text=(
            "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. "
            "preemption: 0/2 nodes are available: "
            "2 Preemption is not helpful for scheduling."
        ),
    )
    storage.volume("late", node="n2")
    assert cluster.wait_bound("db") == {"db": "n2"}
    assert storage.wait_bound("data") == "late"


def test_two_pods_at_once_get_two_volumes(
    cluster: Cluster, storage: Storage, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"))
    for i in range(2):
        storage.volume(f"v{i}", node="n1")
        storage.claim(f"c{i}")
    cluster.create(*(pod_with(f"p{i}", scheduler, f"c{i}") for i in range(2)))
    cluster.wait_bound("p0", "p1")
    assert {storage.wait_bound(f"c{i}") for i in range(2)} == {"v0", "v1"}


def test_a_pod_waits_for_a_missing_claim(
    cluster: Cluster, storage: Storage, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"))
    cluster.create(pod_with("db", scheduler, "data"))
    cluster.wait_condition(
        "db", text='0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
    )
    storage.volume("v", node="n1")
    storage.claim("data")
    cluster.wait_bound("db")


# Volumes that are made


def test_a_volume_is_made_for_the_node_that_was_chosen(
    cluster: Cluster, storage: Storage, scheduler: str, provisioner: Provisioner
) -> None:
    cluster.nodes(NodeSpec("small", cpu="1"), NodeSpec("large", cpu="8"))
    provisioner.pause()
    storage.claim("data", MADE)
    cluster.create(pod_with("db", scheduler, "data", cpu="4"))

    def selected() -> Any:
        return storage.claim_now("data")["metadata"].get("annotations", {}).get(SELECTED_NODE)

    assert wait_until(selected, SOON, "a node selected") == "large"
    assert cluster.node_of("db") == "", "it is bound when its volume is"
    provisioner.proceed()
    assert cluster.wait_bound("db") == {"db": "large"}
    assert storage.wait_bound("data") == "made-for-data"


def test_a_node_on_which_no_volume_can_be_made_is_given_up(
    cluster: Cluster, storage: Storage, scheduler: str
) -> None:
    storage.storage_class(MADE)
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    storage.claim("data", MADE)
    with Provisioner(storage, refusals=1) as provisioner:
        cluster.create(pod_with("db", scheduler, "data"))
        text = (
            'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC '
        )
        cluster.wait_event("db", "FailedScheduling", f'{text}"data"')
        node = cluster.wait_bound("db")["db"]
    assert len(provisioner.refused) == 1
    assert storage.claim_now("data")["metadata"]["annotations"][SELECTED_NODE] == node


def test_a_claim_that_does_not_wait_for_its_pod_has_to_be_bound_first(
    cluster: Cluster, storage: Storage, scheduler: str, provisioner: Provisioner
) -> None:
    storage.storage_class(AT_ONCE, waits=False)
    provisioner.pause()
    storage.claim("data", AT_ONCE)
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    cluster.create(pod_with("db", scheduler, "data"))
    cluster.wait_condition(
        "db",
        text="0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
    )
    provisioner.proceed()
    assert storage.wait_bound("data") == "made-for-data"
    cluster.wait_bound("db")
    assert SELECTED_NODE not in storage.claim_now("data")["metadata"]["annotations"]


@pytest.mark.usefixtures("classes")
def test_a_pod_whose_volume_is_being_made_only_loses_its_place_to_a_more_important_one(
    cluster: Cluster, storage: Storage, scheduler: str, provisioner: Provisioner
) -> None:
    cluster.nodes(NodeSpec("only", cpu="1"))
    provisioner.pause()
    storage.claim("data", MADE)
    cluster.create(pod_with("db", scheduler, "data", cpu="1"))
    wait_until(
        lambda: cluster.pod("db")["status"].get("nominatedNodeName"), SOON, "db in preparation"
    )
    before = cluster.pod("db")
    cluster.create(pod("vip", scheduler, cpu="1", priorityClassName="e2e-vip"))
    cluster.wait_bound("vip")
    note = f"Preempted by pod {cluster.pod('vip')['metadata']['uid']} on node only"
    cluster.wait_event("db", "Preempted", f"{note} (in kube-scheduler memory).")
    cluster.wait_condition("db", text="1 Insufficient cpu")
    assert cluster.pod("db")["metadata"]["uid"] == before["metadata"]["uid"]
    provisioner.proceed()
    cluster.delete("vip")
    assert cluster.wait_bound("db") == {"db": "only"}


@pytest.mark.usefixtures("provisioner")
def test_a_volume_is_made_only_where_the_driver_has_room_for_it(
    cluster: Cluster, storage: Storage, scheduler: str
) -> None:
    storage.csi_driver()
    for node in ("n1", "n2"):
        storage.csi_node(node, count=10)
        storage.capacity(node, MADE, "100Mi")
    storage.claim("data", MADE)
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    cluster.create(pod_with("db", scheduler, "data"))
    cluster.wait_condition(
        "db", text="0/2 nodes are available: 2 node(s) did not have enough free storage. "
    )
    storage.capacity("n2", MADE, "1Gi")
    assert cluster.wait_bound("db") == {"db": "n2"}


# Volumes that are in use


@pytest.fixture
def exclusive(storage: Storage) -> None:
    """A claim of one Pod alone, and its volume."""
    storage.volume("v", accessModes=["ReadWriteOncePod"])
    storage.claim("data", mode="ReadWriteOncePod")


@pytest.mark.usefixtures("exclusive")
def test_a_claim_of_one_pod_alone_keeps_others_waiting_until_that_is_gone(
    cluster: Cluster, scheduler: str
) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    cluster.create(pod_with("first", scheduler, "data"))
    cluster.wait_bound("first")
    cluster.create(pod_with("second", scheduler, "data"))
    cluster.wait_condition("second", text=f"0/2 nodes are available: 2 {HELD}. ")
    cluster.delete("first")
    cluster.wait_bound("second")


@pytest.mark.usefixtures("classes", "exclusive")
def test_a_pod_of_higher_priority_takes_such_a_claim_over(cluster: Cluster, scheduler: str) -> None:
    cluster.nodes(NodeSpec("n1"), NodeSpec("n2"))
    cluster.create(pod_with("first", scheduler, "data"))
    cluster.wait_bound("first")
    cluster.create(pod_with("vip", scheduler, "data", priorityClassName="e2e-vip"))
    # On which node is open: both schedulers may see the victim gone before the nomination is there.
    cluster.wait_bound("vip")
    assert "first" not in cluster.pods()
    cluster.wait_event("vip", "FailedScheduling", f"0/2 nodes are available: 2 {HELD}.")


def test_a_node_takes_no_more_volumes_than_its_csi_node_says(
    cluster: Cluster, storage: Storage, scheduler: str
) -> None:
    storage.csi_node("n1", count=1)
    cluster.nodes(NodeSpec("n1"))
    for i in range(2):
        storage.volume(f"v{i}")
        storage.claim(f"c{i}", volumeName=f"v{i}")
        storage.wait_bound(f"c{i}")
    cluster.create(pod_with("first", scheduler, "c0"))
    cluster.wait_bound("first")
    cluster.create(pod_with("second", scheduler, "c1"))
    cluster.wait_condition(
        "second", text="0/1 nodes are available: 1 node(s) exceed max volume count. "
    )
    cluster.delete("first")
    cluster.wait_bound("second")
