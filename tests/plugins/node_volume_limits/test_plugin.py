from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from tests.plugins.harness import PluginWorld, hint, pre_filtered

from bayplan.api.kinds import CSI_NODE, KINDS, PERSISTENT_VOLUME_CLAIM, VOLUME_ATTACHMENT
from bayplan.api.pod import Pod
from bayplan.api.storage import CSINode
from bayplan.cache.objects import ObjectStore
from bayplan.config.feature_gates import VOLUME_LIMIT_SCALING, FeatureGates
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import SKIP, SUCCESS, Status
from bayplan.plugins.node_volume_limits import LIMIT_EXCEEDED, NodeVolumeLimits
from bayplan.plugins.node_volume_limits.attached_volumes import AttachedVolumes
from bayplan.testing import (
    make_csi_driver,
    make_csi_node,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    make_volume_attachment,
)
from bayplan.testing.pods import PodBuilder
from bayplan.testing.storage import AttachmentBuilder, ClaimBuilder

EBS, GCE, AZURE = "ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com"


def aws(volume_id: str) -> dict[str, dict[str, str]]:
    return {"awsElasticBlockStore": {"volumeID": volume_id}}


def limited(driver: str = EBS, count: int | None = 2) -> PluginWorld:
    """A node ``n`` that takes ``count`` volumes of ``driver``."""
    return PluginWorld("n").add(make_csi_node("n").driver(driver, count))


def bound(world: PluginWorld, *names: str, driver: str = EBS) -> PluginWorld:
    """Claims with a CSI volume of the same name each."""
    for name in names:
        world.add(make_pvc(name).bound_to(name), make_pv(name).csi(driver))
    return world


def used(world: PluginWorld, *names: str) -> list[Pod]:
    """A placed Pod per claim."""
    return [world.place(make_pod(f"user-of-{name}").pvc(name), "n") for name in names]


def answer(world: PluginWorld, pod: PodBuilder) -> Status:
    """The Filter status of node n."""
    return world.filtered(world.make(NodeVolumeLimits), pod.obj())["n"]


def pod_of(*claims: str) -> PodBuilder:
    pod = make_pod("new")
    for claim in claims:
        pod.pvc(claim)
    return pod


@pytest.mark.parametrize("plugin_comes_first", [True, False])
@pytest.mark.parametrize(
    ("count", "placed", "wanted", "fits"),
    [
        pytest.param(2, ["a"], ["x"], True, id="room-for-one-more"),
        pytest.param(2, ["a", "b"], ["x"], False, id="full"),
        pytest.param(2, ["a"], ["x", "y"], False, id="two-do-not-fit"),
        pytest.param(2, ["a", "b"], ["a"], True, id="there-already"),
        pytest.param(2, ["a", "b"], ["a", "x"], False, id="only-one-is-there-already"),
        pytest.param(2, ["a", "a", "a"], ["x"], True, id="shared-volumes-count-once"),
        pytest.param(1, [], ["x", "x"], True, id="twice-in-one-pod-counts-once"),
        pytest.param(0, [], ["x"], False, id="limit-of-zero"),
        pytest.param(None, ["a", "b"], ["x"], True, id="driver-without-limit"),
    ],
)
def test_a_node_takes_no_more_than_its_limit(
    count: int | None, placed: list[str], wanted: list[str], fits: bool, plugin_comes_first: bool
) -> None:
    world = bound(limited(count=count), *"abxy")
    if plugin_comes_first:
        world.make(NodeVolumeLimits)
    for i, name in enumerate(placed):
        world.place(make_pod(f"p{i}").pvc(name), "n")
    assert answer(world, pod_of(*wanted)) == (SUCCESS if fits else LIMIT_EXCEEDED)


def test_drivers_are_counted_apart() -> None:
    world = bound(limited(EBS, 1).add(make_csi_node("n").driver(EBS, 1).driver(GCE, 1)), "a")
    bound(bound(world, "x"), "y", driver=GCE)
    used(world, "a")
    assert answer(world, pod_of("y")) == SUCCESS
    assert answer(world, pod_of("y", "x")) == LIMIT_EXCEEDED


def test_a_node_without_csi_node_takes_everything() -> None:
    world = bound(limited(count=0), "x").add(make_node("free"))
    plugin = world.make(NodeVolumeLimits)
    statuses = world.filtered(plugin, pod_of("x").obj())
    assert statuses == {"n": LIMIT_EXCEEDED, "free": SUCCESS}


def test_a_removed_csi_node_limits_no_more() -> None:
    world = bound(limited(count=0), "x")
    plugin = world.make(NodeVolumeLimits)
    world.remove(make_csi_node("n"))
    assert world.filtered(plugin, pod_of("x").obj()) == {"n": SUCCESS}


def test_a_row_that_is_used_again_forgets_the_old_node() -> None:
    world = bound(limited(count=0), "x")
    plugin = world.make(NodeVolumeLimits)
    world.nodes.remove_node("n")
    world.add(make_node("m"))
    assert world.filtered(plugin, pod_of("x").obj()) == {"m": SUCCESS}


def test_a_csi_node_may_come_before_its_node() -> None:
    world = bound(PluginWorld("m").add(make_csi_node("n").driver(EBS, 0)), "x")
    plugin = world.make(NodeVolumeLimits)
    for i in range(70):
        world.add(make_node(f"more-{i}"))
    world.add(make_node("n"))
    statuses = world.filtered(plugin, pod_of("x").obj())
    assert [node for node, status in statuses.items() if not status.ok] == ["n"]


# What counts

UNCOUNTED = [
    pytest.param({}, make_pvc("x"), id="claim-without-class"),
    pytest.param({}, make_pvc("x").storage_class("gone"), id="missing-class"),
    pytest.param({"provisioner": ""}, make_pvc("x").storage_class("k"), id="no-provisioner"),
    pytest.param(
        {"provisioner": "kubernetes.io/vsphere-volume"},
        make_pvc("x").storage_class("k"),
        id="provisioner-that-is-not-migrated",
    ),
    pytest.param({}, make_pvc("x").bound_to("local"), id="local-volume"),
    pytest.param({}, make_pvc("x").bound_to("handleless"), id="volume-without-handle"),
    pytest.param({}, make_pvc("x").bound_to("unmanaged"), id="volume-that-cannot-be-translated"),
]


@pytest.mark.parametrize(("fields", "claim"), UNCOUNTED)
def test_what_is_no_csi_volume_does_not_count(fields: dict[str, str], claim: ClaimBuilder) -> None:
    world = PluginWorld("n").add(claim)
    node = make_csi_node("n")
    for driver in (EBS, AZURE, "", "kubernetes.io/vsphere-volume"):
        node.driver(driver, 0)
    world.add(node, make_storage_class("k").top(**fields))
    world.add(make_pv("local").spec(local={"path": "/mnt"}), make_pv("handleless").csi(EBS, ""))
    disk = {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}
    world.add(make_pv("unmanaged").spec(azureDisk=disk))
    assert answer(world, pod_of("x")) == SUCCESS


COUNTED = [
    pytest.param("csi.example.com", make_pvc("x").storage_class("k"), id="to-be-provisioned"),
    pytest.param(
        "csi.example.com",
        make_pvc("x").storage_class("k").bound_to("gone"),
        id="bound-to-a-missing-volume",
    ),
    pytest.param(EBS, make_pvc("x").storage_class("in-tree"), id="in-tree-provisioner"),
    pytest.param(EBS, make_pvc("x").bound_to("ebs"), id="in-tree-volume"),
    pytest.param(AZURE, make_pvc("x").bound_to("azure"), id="managed-azure-disk"),
    pytest.param(GCE, make_pvc("x").bound_to("gce"), id="gce-disk"),
    pytest.param("cinder.csi.openstack.org", make_pvc("x").bound_to("cinder"), id="cinder"),
    pytest.param("pxd.portworx.com", make_pvc("x").bound_to("portworx"), id="portworx"),
]


@pytest.mark.parametrize(("driver", "claim"), COUNTED)
def test_volumes_to_be_made_and_migrated_ones_count(driver: str, claim: ClaimBuilder) -> None:
    world = limited(driver, 0).add(claim, make_storage_class("k"))
    world.add(make_storage_class("in-tree").provisioner("kubernetes.io/aws-ebs"))
    world.add(make_pv("ebs").spec(**aws("aws://zone/vol-1")))
    disk = {"diskName": "d", "diskURI": "u", "kind": "Managed"}
    world.add(make_pv("azure").spec(azureDisk=disk))
    world.add(make_pv("gce").spec(gcePersistentDisk={"pdName": "d"}))
    world.add(make_pv("cinder").spec(cinder={"volumeID": "v"}))
    world.add(make_pv("portworx").spec(portworxVolume={"volumeID": "v"}))
    assert answer(world, pod_of("x")) == LIMIT_EXCEEDED


def test_an_unbound_claim_counts_once_for_all_its_pods() -> None:
    world = limited("csi.example.com", 1).add(
        make_storage_class("k"), make_pvc("x").storage_class("k")
    )
    used(world, "x")
    assert answer(world, pod_of("x")) == SUCCESS


def test_inline_and_bound_uses_of_one_migrated_disk_are_one_volume() -> None:
    world = limited(EBS, 1).add(make_pvc("x").bound_to("pv"))
    world.add(make_pv("pv").spec(**aws("aws://zone/vol-1")))
    used(world, "x")
    assert answer(world, make_pod().volume(**aws("vol-1"))) == SUCCESS
    assert answer(world, make_pod().volume(**aws("vol-2"))) == LIMIT_EXCEEDED


def test_generic_ephemeral_volumes_count() -> None:
    world = limited(count=0).add(make_pv("pv").csi(EBS))
    world.add(make_pvc("new-v1").bound_to("pv").owned_by("me"))
    pod = make_pod("new").uid("me").volume(ephemeral={})
    assert answer(world, pod) == LIMIT_EXCEEDED


# What is wrong

NOT_OWNER = "PVC default/new-v1 was not created for pod default/new (pod is not owner)"
SHARED_DISK = {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}}
SHARED_ERROR = (
    "converting volume(v1) from inline to csi: kind(Shared) is not supported in csi migration"
)


@pytest.mark.parametrize(
    ("pod", "on_csi_node", "elsewhere"),
    [
        pytest.param(
            pod_of("gone"),
            Status.unresolvable(
                'looking up PVC default/gone: persistentvolumeclaim "gone" not found'
            ),
            None,
            id="missing-claim",
        ),
        pytest.param(
            pod_of(""), Status.error("PersistentVolumeClaim had no name"), None, id="no-name"
        ),
        pytest.param(
            make_pod("new").volume(ephemeral={}), Status.error(NOT_OWNER), None, id="not-owner"
        ),
        pytest.param(
            make_pod("new").volume(**SHARED_DISK),
            Status.error(SHARED_ERROR),
            SUCCESS,
            id="inline-volume-without-csi-counterpart",
        ),
        pytest.param(
            make_pod("new").volume(**SHARED_DISK).pvc("gone"),
            Status.error(SHARED_ERROR),
            Status.unresolvable(
                'looking up PVC default/gone: persistentvolumeclaim "gone" not found'
            ),
            id="both",
        ),
        pytest.param(
            make_pod("new").volume(**aws("aws://zone/disk")),
            Status.error(
                "converting volume(v1) from inline to csi: failed to translate Kubernetes ID to "
                "EBS Volume ID Invalid format for AWS volume (aws://zone/disk)"
            ),
            SUCCESS,
            id="malformed-ebs-id",
        ),
    ],
)
def test_what_is_wrong_with_the_pod_s_own_volumes(
    pod: PodBuilder, on_csi_node: Status, elsewhere: Status | None
) -> None:
    world = PluginWorld("n", "other").add(make_csi_node("n"), make_pvc("new-v1"))
    statuses = world.filtered(world.make(NodeVolumeLimits), pod.obj())
    assert statuses == {"n": on_csi_node, "other": elsewhere or on_csi_node}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        pytest.param(
            make_pod("new").volume(ephemeral={}), Status.error(NOT_OWNER), id="ephemeral-volume"
        ),
        pytest.param(
            make_pod("b").volume(**SHARED_DISK), Status.error(SHARED_ERROR), id="inline-volume"
        ),
    ],
)
def test_a_placed_pod_whose_volumes_cannot_be_told_is_an_error_on_its_node(
    broken: PodBuilder, message: Status
) -> None:
    world = bound(limited(), "x").add(make_pvc("new-v1"))
    world.add(make_node("m")).add(make_csi_node("m").driver(EBS, 2))
    world.add(make_node("unlimited")).add(make_csi_node("unlimited").driver(EBS))
    world.place(broken, "unlimited")
    plugin = world.make(NodeVolumeLimits)
    pod = world.place(broken.uid("again"), "n")
    statuses = world.filtered(plugin, pod_of("x").obj())
    assert statuses == {"n": message, "m": SUCCESS, "unlimited": SUCCESS}
    assert world.what_if(plugin, pod_of("x").obj(), {"n": [pod]}, {"m": [pod]}) == {
        "n": SUCCESS,
        "m": message,
        "unlimited": SUCCESS,
    }
    world.nodes.remove_pod(world.row("n"), pod)
    assert world.filtered(plugin, pod_of("x").obj())["n"] == SUCCESS


def test_the_first_of_several_such_pods_is_named_whenever_its_claim_came() -> None:
    world = bound(limited(), "x")
    plugin = world.make(NodeVolumeLimits)
    for name in ("first", "second"):
        world.place(make_pod(name).volume(ephemeral={}), "n")
    for name in ("second", "first"):
        world.add(make_pvc(f"{name}-v1"))
    assert "PVC default/first-v1" in world.messages(plugin, pod_of("x").obj())["n"]


def test_a_pod_without_csi_volumes_does_not_care_what_others_have() -> None:
    world = limited().add(make_pvc("plain").bound_to("local"), make_pv("local"))
    world.place(make_pod("b").volume(**SHARED_DISK), "n")
    assert answer(world, pod_of("plain")) == SUCCESS


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod(), id="no-volumes"),
        pytest.param(make_pod().volume(csi={"driver": EBS}), id="inline-csi"),
        pytest.param(make_pod().volume(iscsi={"iqn": "i"}), id="volume-without-csi-counterpart"),
    ],
)
def test_pods_whose_volumes_never_count_are_skipped(pod: PodBuilder) -> None:
    world = limited(count=0)
    assert pre_filtered(world.make(NodeVolumeLimits), pod.obj(), world.nodes) == SKIP


# VolumeAttachments


def attached(
    name: str = "va", volume: str | None = "a", attacher: str = EBS, node: str = "n"
) -> AttachmentBuilder:
    return make_volume_attachment(name).of(attacher, volume, node)


@pytest.mark.parametrize(
    ("attachment", "placed", "wanted", "fits"),
    [
        pytest.param(attached(), [], "x", False, id="attached-without-a-pod"),
        pytest.param(attached(), ["a"], "x", False, id="attached-and-used-counts-once"),
        pytest.param(attached(), [], "a", False, id="attached-but-unused-counts-again"),
        pytest.param(attached(), ["a"], "a", True, id="attached-used-and-wanted"),
        pytest.param(attached(node="m"), [], "x", True, id="on-another-node"),
        pytest.param(attached(attacher=""), [], "x", True, id="no-attacher"),
        pytest.param(attached(volume=None), [], "x", True, id="no-volume-name"),
        pytest.param(attached(volume="gone"), [], "x", True, id="missing-volume"),
        pytest.param(attached(volume="local"), [], "x", True, id="no-csi-volume"),
    ],
)
@pytest.mark.parametrize("plugin_comes_first", [True, False])
def test_attached_volumes_count(
    attachment: AttachmentBuilder,
    placed: list[str],
    wanted: str,
    fits: bool,
    plugin_comes_first: bool,
) -> None:
    world = bound(limited(count=1), "a", "x").add(make_pv("local"))
    if plugin_comes_first:
        world.make(NodeVolumeLimits)
    world.add(attachment)
    used(world, *placed)
    assert answer(world, pod_of(wanted)) == (SUCCESS if fits else LIMIT_EXCEEDED)
    world.remove(attachment)
    full = bool(placed) and wanted not in placed
    assert answer(world, pod_of(wanted)) == (LIMIT_EXCEEDED if full else SUCCESS)


# Counts follow changes


def test_counts_follow_what_becomes_of_a_claim() -> None:
    world = limited("csi.example.com", 1).add(
        make_storage_class("k"), make_pvc("a").storage_class("k")
    )
    bound(world, "x", driver="csi.example.com")
    plugin = world.make(NodeVolumeLimits)
    used(world, "a")
    assert answer(world, pod_of("x")) == LIMIT_EXCEEDED
    world.add(make_pvc("a").storage_class("k").bound_to("x"))
    assert answer(world, pod_of("x")) == SUCCESS
    world.add(make_pvc("a").storage_class("k").bound_to("local"), make_pv("local"))
    assert plugin._attached.count("csi.example.com").sum() == 0
    world.remove(make_pv("local"))
    assert answer(world, pod_of("x")) == LIMIT_EXCEEDED
    world.remove(make_storage_class("k"))
    assert answer(world, pod_of("x")) == SUCCESS
    world.add(make_storage_class("k"))
    world.remove(make_pvc("a"))
    assert answer(world, pod_of("x")) == SUCCESS


def test_incremental_counts_equal_a_recount() -> None:
    rng = random.Random(7)
    world = PluginWorld(*(make_node(f"n{i}") for i in range(4)))
    kept = world.make(NodeVolumeLimits)._attached
    placed = []
    world.add(make_storage_class("k"), make_storage_class("l").provisioner("kubernetes.io/aws-ebs"))
    for step in range(400):
        name, node = f"c{rng.randrange(6)}", f"n{rng.randrange(4)}"
        volume = f"pv{rng.randrange(4)}"
        match rng.randrange(10):
            case 0 | 1 | 2:
                builder = make_pod(f"p{step}").pvc(name).pvc(f"c{rng.randrange(6)}")
                placed.append((node, world.place(builder, node)))
            case 3 | 4 if placed:
                node, pod = placed.pop(rng.randrange(len(placed)))
                world.nodes.remove_pod(world.row(node), pod)
            case 5:
                world.add(rng.choice([make_pvc(name).bound_to(volume), make_pvc(name)]))
            case 6:
                world.add(make_pv(volume).csi(rng.choice([EBS, GCE]), rng.choice("hij")))
            case 7:
                world.remove(rng.choice([make_pv(volume), make_pvc(name)]))
            case 8:
                world.add(attached(f"va{rng.randrange(3)}", volume, EBS, node))
            case 9:
                world.add(make_node(node).label("step", str(step)))
        fresh = AttachedVolumes(world.nodes, copy_of(world.objects))
        for driver in (EBS, GCE, "csi.example.com"):
            assert kept.count(driver).tolist() == fresh.count(driver).tolist(), step


def copy_of(objects: ObjectStore) -> ObjectStore:
    copy = ObjectStore()
    for kind in KINDS.values():
        for obj in objects.all(kind):
            copy.set(kind, obj)
    return copy


# What if


def test_evicting_pods_frees_their_volumes_in_that_world_alone() -> None:
    world = bound(limited(count=2), *"abx")
    world.add(make_node("m")).add(make_csi_node("m").driver(EBS, 1))
    plugin = world.make(NodeVolumeLimits)
    first, _ = used(world, "a", "b")
    plain = world.place(make_pod("plain"), "m")
    elsewhere = world.place(make_pod("elsewhere").pvc("a"), "m")
    pod = pod_of("x").obj()
    assert world.what_if(plugin, pod) == {"n": LIMIT_EXCEEDED, "m": LIMIT_EXCEEDED}
    removed = {"n": [first], "m": [plain]}
    assert world.what_if(plugin, pod, removed) == {"n": SUCCESS, "m": LIMIT_EXCEEDED}
    removed = {"m": [elsewhere, plain]}
    assert world.what_if(plugin, pod, removed) == {"n": LIMIT_EXCEEDED, "m": SUCCESS}


def test_a_pod_added_to_a_world_brings_its_volumes() -> None:
    world = bound(limited(count=1), *"ax")
    plugin = world.make(NodeVolumeLimits)
    rival = pod_of("a").obj()
    assert world.what_if(plugin, pod_of("x").obj(), added={"n": [rival]}) == {"n": LIMIT_EXCEEDED}
    assert world.what_if(plugin, pod_of("a").obj(), added={"n": [rival]}) == {"n": SUCCESS}


def test_a_part_of_a_what_if_table_keeps_its_worlds() -> None:
    world = bound(limited(count=1), *"ax").add(make_node("m"))
    plugin = world.make(NodeVolumeLimits)
    (user,) = used(world, "a")
    pod = pod_of("x").obj()
    rows = np.array([world.row("m"), world.row("n")])
    table, state = world.nodes.take(rows), world.state(plugin, pod).what_if(rows)
    table.remove_pods([1], [user])
    plugin.remove_pod(state, pod, user, table, 1)
    part = np.array([1])
    smaller = state.what_if(part)
    assert plugin.filter_nodes(smaller, pod, table.take(part)).tolist() == [0]
    plugin.add_pod(smaller, pod, user, table.take(part), 0)
    assert plugin.filter_nodes(smaller, pod, table.take(part)).tolist() == [1]
    assert plugin.filter_nodes(state, pod, table).tolist() == [0, 0]


def test_what_is_wrong_stays_wrong_in_every_world() -> None:
    world = limited()
    status = world.what_if(world.make(NodeVolumeLimits), pod_of("gone").obj())["n"]
    assert "not found" in status.message


def test_what_if_changes_mean_nothing_to_a_pod_that_was_skipped() -> None:
    world = bound(limited(), "a")
    plugin = world.make(NodeVolumeLimits)
    state = CycleState()
    plugin.add_pod(state, make_pod().obj(), pod_of("a").obj(), world.nodes, 0)
    assert state.get(plugin.name, object) is None


# Drivers that have to be there


MISSING = Status.unschedulable(f"{EBS} CSI driver is not installed on the node")


@pytest.mark.parametrize(
    ("required", "claim", "expected"),
    [
        pytest.param(True, "csi", {"with": SUCCESS, "without": MISSING, "bare": MISSING}, id="csi"),
        pytest.param(
            True, "in-tree", {"with": SUCCESS, "without": MISSING, "bare": SUCCESS}, id="in-tree"
        ),
        pytest.param(
            True, "wanted", {"with": SUCCESS, "without": MISSING, "bare": MISSING}, id="to-be-made"
        ),
        pytest.param(
            True,
            "in-tree-wanted",
            {"with": SUCCESS, "without": MISSING, "bare": SUCCESS},
            id="to-be-made-by-a-migrated-plugin",
        ),
        pytest.param(
            True, "other", dict.fromkeys(("with", "without", "bare"), SUCCESS), id="other"
        ),
        pytest.param(
            False, "csi", dict.fromkeys(("with", "without", "bare"), SUCCESS), id="may-be"
        ),
        pytest.param(None, "csi", dict.fromkeys(("with", "without", "bare"), SUCCESS), id="unsaid"),
    ],
)
def test_a_driver_may_have_to_be_on_the_node(
    required: bool | None, claim: str, expected: dict[str, Status]
) -> None:
    world = PluginWorld("with", "without", "bare").add(
        make_csi_node("with").driver(EBS),
        make_csi_node("without").driver(GCE, 1),
        make_csi_driver(EBS).must_be_there(required),
        make_storage_class("ebs").provisioner(EBS),
        make_storage_class("aws").provisioner("kubernetes.io/aws-ebs"),
        make_pvc("wanted").storage_class("ebs"),
        make_pvc("in-tree-wanted").storage_class("aws"),
        make_pvc("in-tree").bound_to("in-tree"),
        make_pv("in-tree").spec(**aws("vol-1")),
    )
    bound(bound(world, "csi"), "other", driver=GCE)
    assert world.filtered(world.make(NodeVolumeLimits), pod_of(claim).obj()) == expected


def test_without_its_feature_gate_no_driver_has_to_be_there() -> None:
    world = PluginWorld("n").add(make_csi_node("n"), make_csi_driver(EBS).must_be_there(True))
    bound(world, "a")
    assert answer(world, pod_of("a")) == MISSING
    world.handle = replace(world.handle, gates=FeatureGates({VOLUME_LIMIT_SCALING: False}))
    assert answer(world, pod_of("a")) == SUCCESS


def test_a_missing_driver_is_told_before_limits_and_trouble_of_other_pods() -> None:
    world = bound(limited(driver=GCE, count=0), "a")
    world.add(make_csi_driver(EBS).must_be_there())
    world.place(make_pod("odd").volume(gcePersistentDisk={"pdName": ""}), "n")
    assert answer(world, pod_of("a")) == MISSING


def test_trouble_with_the_pods_own_volumes_is_told_before_a_missing_driver() -> None:
    world = bound(limited(driver=GCE), "a")
    world.add(make_csi_driver(EBS).must_be_there())
    gone = answer(world, pod_of("a", "gone"))
    assert gone.reasons == ('looking up PVC default/gone: persistentvolumeclaim "gone" not found',)


def test_evicting_pods_installs_no_driver() -> None:
    world = bound(limited(driver=GCE), "a")
    world.add(make_csi_driver(EBS).must_be_there())
    plugin, pod, state = world.make(NodeVolumeLimits), pod_of("a").obj(), CycleState()
    assert plugin.pre_filter(state, pod, world.nodes) is None
    table = world.nodes.take(np.array([0]))
    changed = state.what_if(np.array([0]))
    plugin.remove_pod(changed, pod, pod_of("a").obj(), table, 0)
    code = int(plugin.filter_nodes(changed, pod, table)[0])
    assert plugin.reasons(changed, pod, code) == MISSING


# Hints

NODE, CLAIM, ATTACHMENT = (
    CSI_NODE,
    PERSISTENT_VOLUME_CLAIM,
    VOLUME_ATTACHMENT,
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({EBS: 1}, {EBS: 2}, Hint.QUEUE, id="raised"),
        pytest.param({EBS: 2}, {EBS: 1}, Hint.SKIP, id="lowered"),
        pytest.param({}, {EBS: 1}, Hint.QUEUE, id="new-driver"),
        pytest.param({EBS: 1}, {EBS: None}, Hint.SKIP, id="limit-gone"),
        pytest.param({EBS: 1}, {EBS: 1, GCE: None}, Hint.QUEUE, id="driver-without-limit"),
        pytest.param({EBS: 1, GCE: 1}, {EBS: 0, GCE: 2}, Hint.QUEUE, id="one-of-two-raised"),
    ],
)
def test_a_csi_node_with_higher_limits_may_help(
    old: dict[str, int], new: dict[str, int | None], expected: Hint
) -> None:
    def csi_node(limits: Mapping[str, int | None]) -> CSINode:
        node = make_csi_node()
        for driver, count in limits.items():
            node.driver(driver, count)
        return node.obj()

    plugin = limited().make(NodeVolumeLimits)
    args = (NODE, Action.UPDATE_OTHER, pod_of("x").obj(), csi_node(old), csi_node(new))
    assert hint(plugin, *args) is expected
    assert hint(plugin, NODE, Action.ADD, pod_of("x").obj(), None, csi_node(new)) is Hint.QUEUE


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        (pod_of("c").node("n"), Hint.QUEUE),
        (make_pod().volume(ephemeral={}).node("n"), Hint.QUEUE),
        (make_pod().volume(**aws("v")).node("n"), Hint.QUEUE),
        (make_pod().node("n"), Hint.SKIP),
        (make_pod().volume(iscsi={}).node("n"), Hint.SKIP),
        (pod_of("c"), Hint.SKIP),
        (pod_of("c").nominated("n"), Hint.QUEUE),
    ],
    ids=["claim", "ephemeral", "inline", "no-volumes", "other-volume", "nowhere", "nominated"],
)
def test_a_deleted_pod_may_free_volumes(deleted: PodBuilder, expected: Hint) -> None:
    plugin, pod = limited().make(NodeVolumeLimits), pod_of("x").obj()
    answer = hint(plugin, Resource.ASSIGNED_POD, Action.DELETE, pod, deleted.obj(), None)
    assert answer is expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (make_pvc("x"), Hint.QUEUE),
        (make_pvc("new-v2"), Hint.QUEUE),
        (make_pvc("y"), Hint.SKIP),
        (make_pvc("x").namespace("ns"), Hint.SKIP),
    ],
    ids=["own", "ephemeral", "other", "other-namespace"],
)
def test_a_new_claim_may_be_the_missing_one(claim: ClaimBuilder, expected: Hint) -> None:
    plugin, pod = limited().make(NodeVolumeLimits), pod_of("x").volume(ephemeral={})
    assert hint(plugin, CLAIM, Action.ADD, pod.obj(), None, claim.obj()) is expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (pod_of("x"), Hint.QUEUE),
        (make_pod().volume(**aws("v")), Hint.QUEUE),
        (make_pod().volume(gcePersistentDisk={"pdName": "d"}), Hint.SKIP),
        (make_pod().volume(**SHARED_DISK), Hint.QUEUE),
        (make_pod().volume(iscsi={}), Hint.SKIP),
    ],
    ids=["claim", "inline-of-driver", "inline-of-other-driver", "inline-unknown", "other"],
)
def test_a_deleted_attachment_may_make_room(pod: PodBuilder, expected: Hint) -> None:
    plugin = limited().make(NodeVolumeLimits)
    assert hint(plugin, ATTACHMENT, Action.DELETE, pod.obj(), attached().obj(), None) is expected


def test_counting_is_shared_by_all_profiles() -> None:
    world = limited()
    plugins = [world.make(NodeVolumeLimits) for _ in range(2)]
    assert Counter(map(id, (p._attached for p in plugins))).most_common()[0][1] == 2
