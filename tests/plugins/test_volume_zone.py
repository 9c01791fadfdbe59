from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.harness import PluginWorld, hint, pre_filtered

from bayplan.api.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, Kind
from bayplan.framework.cluster_events import Action, Hint
from bayplan.framework.status import SKIP, SUCCESS, Status
from bayplan.plugins.volume_zone import CONFLICT, VolumeZone
from bayplan.testing import make_node, make_pod, make_pv, make_pvc, make_storage_class
from bayplan.testing.pods import PodBuilder
from bayplan.testing.storage import ClaimBuilder, ClassBuilder, VolumeBuilder

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"


@pytest.mark.parametrize(
    ("volume", "node", "fits"),
    [
        pytest.param({ZONE: "a"}, {}, True, id="node-without-zone-labels"),
        pytest.param({ZONE: "a"}, {"other": "a"}, True, id="node-with-other-labels"),
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="same-zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="other-zone"),
        pytest.param({REGION: "r"}, {REGION: "r"}, True, id="same-region"),
        pytest.param({REGION: "r"}, {REGION: "s"}, False, id="other-region"),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, True, id="same-beta-zone"),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "b"}, False, id="other-beta-zone"),
        pytest.param({BETA_REGION: "r"}, {BETA_REGION: "r"}, True, id="same-beta-region"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "a"}, True, id="beta-volume-on-stable-node"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "b"}, False, id="beta-volume-on-other-stable-node"),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False, id="beta-label-first"),
        pytest.param({ZONE: "a"}, {BETA_ZONE: "a"}, False, id="stable-volume-on-beta-node"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a"}, False, id="node-lacks-region"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one-of-two-zones"),
        pytest.param({ZONE: "a__b"}, {ZONE: "c"}, False, id="none-of-two-zones"),
        pytest.param({ZONE: "c__ a "}, {ZONE: "a"}, True, id="zones-are-trimmed"),
    ],
)
def test_a_pod_goes_where_the_labels_of_its_volume_say(
    volume: dict[str, str], node: dict[str, str], fits: bool
) -> None:
    world = PluginWorld(make_node("n").labels(node))
    world.add(make_pvc("c").bound_to("pv"), make_pv("pv").labels(volume))
    plugin = world.make(VolumeZone)
    assert world.filtered(plugin, make_pod().pvc("c").obj()) == {"n": SUCCESS if fits else CONFLICT}


def test_every_volume_has_its_say() -> None:
    world = PluginWorld(*(make_node(z).label(ZONE, z) for z in "abc"))
    world.add(make_pvc("c1").bound_to("pv1"), make_pv("pv1").label(ZONE, "a__b"))
    world.add(make_pvc("c2").bound_to("pv2"), make_pv("pv2").label(ZONE, "b__c"))
    statuses = world.filtered(world.make(VolumeZone), make_pod().pvc("c1").pvc("c2").obj())
    assert statuses == {"a": CONFLICT, "b": SUCCESS, "c": CONFLICT}


NO_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(None, 'persistentvolumeclaim "c" not found', id="no-claim"),
        pytest.param(make_pvc().bound_to("pv"), None, id="volume-without-labels"),
        pytest.param(make_pvc().bound_to("bad"), None, id="label-with-an-empty-zone"),
        pytest.param(
            make_pvc().bound_to("gone"), 'persistentvolume "gone" not found', id="no-volume"
        ),
        pytest.param(make_pvc(), NO_CLASS, id="unbound-without-class"),
        pytest.param(
            make_pvc().storage_class("gone"),
            'storageclass.storage.k8s.io "gone" not found',
            id="class-is-missing",
        ),
        pytest.param(
            make_pvc().storage_class("modeless"),
            'VolumeBindingMode not set for StorageClass "modeless"',
            id="class-without-mode",
        ),
        pytest.param(
            make_pvc().storage_class("now"), "PersistentVolume had no name", id="immediate-unbound"
        ),
        pytest.param(make_pvc().storage_class("wait"), None, id="waits-for-consumer"),
        pytest.param(
            make_pvc()
            .annotation("volume.beta.kubernetes.io/storage-class", "wait")
            .storage_class("now"),
            None,
            id="class-by-annotation",
        ),
    ],
)
def test_pre_filter_skips_what_has_no_say_and_rejects_what_must_wait(
    claim: ClaimBuilder | None, expected: str | None
) -> None:
    world = PluginWorld("n")
    world.add(
        make_storage_class("wait"),
        make_storage_class("now").mode("Immediate"),
        make_storage_class("modeless"),
    )
    world.add(
        make_storage_class("modeless").mode(None), make_pv("pv"), make_pv("bad").label(ZONE, "a__")
    )
    if claim is not None:
        world.add(claim)
    answer = pre_filtered(world.make(VolumeZone), make_pod().pvc("c").obj(), world.nodes)
    assert answer == (SKIP if expected is None else Status.unresolvable(expected))


def test_a_claim_without_a_name_is_rejected() -> None:
    plugin = PluginWorld("n").make(VolumeZone)
    answer = pre_filtered(plugin, make_pod().pvc("").obj(), plugin.handle.nodes)
    assert answer == Status.unresolvable("PersistentVolumeClaim had no name")


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod(), id="no-volumes"),
        pytest.param(make_pod().volume(csi={"driver": "d"}), id="no-claims"),
        pytest.param(make_pod().volume(ephemeral={}), id="generic-ephemeral"),
    ],
)
def test_pods_without_named_claims_are_skipped(pod: PodBuilder) -> None:
    plugin = PluginWorld("n").make(VolumeZone)
    assert pre_filtered(plugin, pod.obj(), plugin.handle.nodes) == SKIP


ADD, UPDATE = Action.ADD, Action.UPDATE_OTHER
CLAIM, VOLUME = PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "expected"),
    [
        pytest.param(
            STORAGE_CLASS, ADD, None, make_storage_class(), Hint.QUEUE, id="class-that-waits"
        ),
        pytest.param(
            STORAGE_CLASS,
            ADD,
            None,
            make_storage_class().mode("Immediate"),
            Hint.SKIP,
            id="immediate-class",
        ),
        pytest.param(
            STORAGE_CLASS,
            UPDATE,
            make_storage_class(),
            make_storage_class(),
            None,
            id="class-update",
        ),
        pytest.param(CLAIM, ADD, None, make_pvc("c"), Hint.QUEUE, id="own-claim"),
        pytest.param(CLAIM, UPDATE, make_pvc("c"), make_pvc("c"), Hint.QUEUE, id="own-updated"),
        pytest.param(CLAIM, ADD, None, make_pvc("d"), Hint.SKIP, id="other-claim"),
        pytest.param(
            CLAIM, ADD, None, make_pvc("c").namespace("ns"), Hint.SKIP, id="other-namespace"
        ),
        pytest.param(VOLUME, ADD, None, make_pv(), Hint.QUEUE, id="new-volume"),
        pytest.param(
            VOLUME, UPDATE, make_pv(), make_pv().label(ZONE, "a"), Hint.QUEUE, id="zone-changed"
        ),
        pytest.param(
            VOLUME, UPDATE, make_pv(), make_pv().label("x", "a"), Hint.SKIP, id="other-label"
        ),
    ],
)
def test_hints(
    resource: Kind[Any],
    action: Action,
    old: ClaimBuilder | ClassBuilder | VolumeBuilder | None,
    new: ClaimBuilder | ClassBuilder | VolumeBuilder,
    expected: Hint | None,
) -> None:
    plugin = PluginWorld("n").make(VolumeZone)
    pod = make_pod().pvc("c").obj()
    answer = hint(plugin, resource, action, pod, old and old.obj(), new.obj())
    assert answer is expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        pytest.param(Action.ADD, Hint.QUEUE, id="new-node"),
        pytest.param(Action.UPDATE_NODE_LABEL, Hint.QUEUE, id="labels"),
        pytest.param(Action.UPDATE_NODE_TAINT, None, id="taints"),
    ],
)
def test_node_hints(action: Action, expected: Hint | None) -> None:
    plugin = PluginWorld("n").make(VolumeZone)
    pod = make_pod().pvc("c").obj()
    assert hint(plugin, NODE, action, pod, None, make_node().obj()) is expected
