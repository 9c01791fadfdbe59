from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.harness import PluginWorld, hint, pre_filtered

from bayplan.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import SKIP, SUCCESS, Status
from bayplan.plugins.volume_restrictions import CLAIM_IN_USE, DISK_CONFLICT, VolumeRestrictions
from bayplan.testing import make_node, make_pod, make_pvc
from bayplan.testing.pods import PodBuilder
from bayplan.testing.storage import ClaimBuilder


def gce(name: str = "d", read_only: bool = False) -> dict[str, dict[str, Any]]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def aws(name: str = "d", read_only: bool = False) -> dict[str, dict[str, Any]]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str = "i", lun: int = 0, read_only: bool = False) -> dict[str, dict[str, Any]]:
    return {"iscsi": {"iqn": iqn, "lun": lun, "targetPortal": "x", "readOnly": read_only}}


def rbd(
    monitors: list[str] | tuple[str, str] = ("a", "b"),
    pool: str = "p",
    image: str = "i",
    read_only: bool = False,
) -> dict[str, dict[str, Any]]:
    fields = {"monitors": list(monitors), "pool": pool, "image": image, "readOnly": read_only}
    return {"rbd": fields}


DISKS = [
    pytest.param(gce(), gce(), True, id="gce-same"),
    pytest.param(gce(), gce("e"), False, id="gce-other"),
    pytest.param(gce(read_only=True), gce(), True, id="gce-one-reads"),
    pytest.param(gce(read_only=True), gce(read_only=True), False, id="gce-both-read"),
    pytest.param(aws(), aws(), True, id="aws-same"),
    pytest.param(aws(), aws("e"), False, id="aws-other"),
    pytest.param(aws(read_only=True), aws(read_only=True), True, id="aws-both-read"),
    pytest.param(iscsi(), iscsi(), True, id="iscsi-same"),
    pytest.param(iscsi(), iscsi(lun=1), True, id="iscsi-other-lun"),
    pytest.param(iscsi(), iscsi("j"), False, id="iscsi-other"),
    pytest.param(iscsi(read_only=True), iscsi(read_only=True), False, id="iscsi-both-read"),
    pytest.param(rbd(), rbd(), True, id="rbd-same"),
    pytest.param(rbd(), rbd(["b", "c"]), True, id="rbd-one-monitor-shared"),
    pytest.param(rbd(), rbd(["c"]), False, id="rbd-no-monitor-shared"),
    pytest.param(rbd(), rbd(pool="q"), False, id="rbd-other-pool"),
    pytest.param(rbd(), rbd(image="j"), False, id="rbd-other-image"),
    pytest.param(rbd(read_only=True), rbd(read_only=True), False, id="rbd-both-read"),
    pytest.param(gce(), aws(), False, id="different-kinds-of-one-name"),
]


@pytest.mark.parametrize("plugin_comes_first", [True, False])
@pytest.mark.parametrize(("mine", "other", "conflict"), DISKS)
def test_a_legacy_disk_keeps_pods_apart(
    mine: dict[str, dict[str, Any]],
    other: dict[str, dict[str, Any]],
    conflict: bool,
    plugin_comes_first: bool,
) -> None:
    world = PluginWorld("used", "free")
    if plugin_comes_first:
        plugin = world.make(VolumeRestrictions)
    world.place(make_pod("other").volume(**other), "used")
    if not plugin_comes_first:
        plugin = world.make(VolumeRestrictions)
    statuses = world.filtered(plugin, make_pod().volume(**mine).obj())
    assert statuses == {"used": DISK_CONFLICT if conflict else SUCCESS, "free": SUCCESS}


def test_a_disk_is_free_again_once_its_pod_is_gone() -> None:
    world = PluginWorld("n")
    plugin = world.make(VolumeRestrictions)
    pods = [world.place(make_pod(name).volume(**gce()), "n") for name in ("a", "b")]
    wanted = make_pod().volume(**gce()).obj()
    for pod in pods:
        assert world.filtered(plugin, wanted) == {"n": DISK_CONFLICT}
        world.nodes.remove_pod(world.row("n"), pod)
    assert world.filtered(plugin, wanted) == {"n": SUCCESS}


def test_evicting_a_disk_s_pod_helps_on_its_node_alone() -> None:
    world = PluginWorld("n1", "n2", "n3")
    plugin = world.make(VolumeRestrictions)
    first = world.place(make_pod("a").volume(**gce()), "n1")
    world.place(make_pod("b").volume(**gce()), "n2")
    rival = make_pod("rival").volume(**gce()).obj()
    wanted = make_pod().volume(**gce()).obj()
    statuses = world.what_if(plugin, wanted, removed={"n1": [first]}, added={"n3": [rival]})
    assert statuses == {"n1": SUCCESS, "n2": DISK_CONFLICT, "n3": DISK_CONFLICT}


@pytest.fixture
def exclusive() -> PluginWorld:
    world = PluginWorld("n1", "n2")
    world.add(make_pvc("c").modes("ReadWriteOncePod"), make_pvc("d").modes("ReadWriteOncePod"))
    world.add(make_pvc("shared"))
    return world


def test_an_exclusive_claim_that_is_in_use_rejects_every_node(exclusive: PluginWorld) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    exclusive.place(make_pod("a").pvc("c"), "n1")
    statuses = exclusive.filtered(plugin, make_pod().pvc("shared").pvc("c").obj())
    assert statuses == {"n1": CLAIM_IN_USE, "n2": CLAIM_IN_USE}


@pytest.mark.parametrize(
    "placed",
    [
        pytest.param(make_pod("a").pvc("shared"), id="shared-claim"),
        pytest.param(make_pod("a").pvc("d"), id="other-claim"),
        pytest.param(make_pod("a").namespace("ns").pvc("c"), id="other-namespace"),
        pytest.param(make_pod("c").volume(ephemeral={}), id="generic-ephemeral"),
    ],
)
def test_an_exclusive_claim_that_is_not_in_use_is_skipped(
    exclusive: PluginWorld, placed: PodBuilder
) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    exclusive.place(placed, "n1")
    pod = make_pod().pvc("c").pvc("shared").obj()
    assert pre_filtered(plugin, pod, exclusive.nodes) == SKIP


def test_evicting_the_user_of_an_exclusive_claim_frees_it_in_that_world_alone(
    exclusive: PluginWorld,
) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    user = exclusive.place(make_pod("a").pvc("c"), "n1")
    other = exclusive.place(make_pod("b").pvc("shared"), "n2")
    statuses = exclusive.what_if(
        plugin, make_pod().pvc("c").obj(), removed={"n1": [user], "n2": [other]}
    )
    assert statuses == {"n1": SUCCESS, "n2": CLAIM_IN_USE}


def test_both_exclusive_claims_must_be_freed(exclusive: PluginWorld) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    users = [exclusive.place(make_pod(f"p-{c}").pvc(c), "n1") for c in "cd"]
    pod = make_pod().pvc("c").pvc("d").obj()
    assert exclusive.what_if(plugin, pod, {"n1": users[:1]})["n1"] == CLAIM_IN_USE
    assert exclusive.what_if(plugin, pod, {"n1": users})["n1"] == SUCCESS


def test_a_pod_added_to_a_world_uses_its_claims_there(exclusive: PluginWorld) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    user = exclusive.place(make_pod("a").pvc("c"), "n1")
    rival = make_pod("rival").pvc("c").obj()
    pod = make_pod().pvc("c").obj()
    statuses = exclusive.what_if(plugin, pod, {"n1": [user]}, {"n1": [rival]})
    assert statuses["n1"] == CLAIM_IN_USE


def test_a_part_of_a_what_if_table_keeps_its_worlds(exclusive: PluginWorld) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    user = exclusive.place(make_pod("a").pvc("c"), "n1")
    pod = make_pod().pvc("c").obj()
    rows = np.array([exclusive.row("n1"), exclusive.row("n2")])
    table, state = exclusive.nodes.take(rows), exclusive.state(plugin, pod).what_if(rows)
    table.remove_pods([0], [user])
    plugin.remove_pod(state, pod, user, table, 0)
    part = np.array([1, 0])
    codes = plugin.filter_nodes(state.what_if(part), pod, table.take(part))
    assert codes.tolist() == [2, 0]


def test_what_if_changes_mean_nothing_to_a_pod_that_was_skipped(exclusive: PluginWorld) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    state, pod = CycleState(), make_pod().obj()
    other = make_pod("other").pvc("c").obj()
    plugin.add_pod(state, pod, other, exclusive.nodes, 0)
    plugin.remove_pod(state, pod, other, exclusive.nodes, 0)
    assert state.get(plugin.name, object) is None


def test_a_missing_claim_is_reported(exclusive: PluginWorld) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    answer = pre_filtered(plugin, make_pod().pvc("gone").obj(), exclusive.nodes)
    assert answer == Status.unresolvable('persistentvolumeclaim "gone" not found')


def test_pods_without_volumes_are_skipped(exclusive: PluginWorld) -> None:
    plugin = exclusive.make(VolumeRestrictions)
    assert pre_filtered(plugin, make_pod().obj(), exclusive.nodes) == SKIP


def test_a_relabelled_node_keeps_its_disks() -> None:
    world = PluginWorld("n")
    plugin = world.make(VolumeRestrictions)
    world.place(make_pod("a").volume(**gce()), "n")
    world.add(make_node("n").label("a", "b"))
    assert world.filtered(plugin, make_pod().volume(**gce()).obj()) == {"n": DISK_CONFLICT}


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(make_pod("o").pvc("c"), Hint.QUEUE, id="same-claim"),
        pytest.param(make_pod("o").pvc("d"), Hint.SKIP, id="other-claim"),
        pytest.param(make_pod("o").namespace("ns").pvc("c"), Hint.SKIP, id="other-namespace"),
        pytest.param(make_pod("o").volume(**gce()), Hint.QUEUE, id="same-disk"),
        pytest.param(make_pod("o").volume(**gce("e")), Hint.SKIP, id="other-disk"),
    ],
)
def test_a_deleted_pod_may_free_a_volume(deleted: PodBuilder, expected: Hint) -> None:
    plugin = PluginWorld("n").make(VolumeRestrictions)
    pod = make_pod().pvc("c").volume(**gce()).obj()
    assert hint(plugin, Resource.ASSIGNED_POD, Action.DELETE, pod, deleted.obj(), None) is expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(make_pvc("c"), Hint.QUEUE, id="own"),
        pytest.param(make_pvc("d"), Hint.SKIP, id="other"),
        pytest.param(make_pvc("c").namespace("ns"), Hint.SKIP, id="other-namespace"),
    ],
)
def test_a_new_claim_may_be_the_missing_one(claim: ClaimBuilder, expected: Hint) -> None:
    plugin = PluginWorld("n").make(VolumeRestrictions)
    resource, pod = PERSISTENT_VOLUME_CLAIM, make_pod().pvc("c").obj()
    assert hint(plugin, resource, Action.ADD, pod, None, claim.obj()) is expected


def test_only_new_nodes_matter() -> None:
    plugin = PluginWorld("n").make(VolumeRestrictions)
    pod, node = make_pod().obj(), make_node().obj()
    assert hint(plugin, NODE, Action.ADD, pod, None, node) is Hint.QUEUE
    assert hint(plugin, NODE, Action.UPDATE_NODE_LABEL, pod, node, node) is None
