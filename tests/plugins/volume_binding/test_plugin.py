from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.harness import PluginWorld, hint, pre_filtered

from bayplan.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    Kind,
)
from bayplan.api.pod import Pod
from bayplan.framework.cluster_events import Action, Hint
from bayplan.framework.status import SKIP, SUCCESS, Status
from bayplan.plugins.volume_binding import UNBOUND_IMMEDIATE, VolumeBinding
from bayplan.plugins.volume_binding.assume import Volumes
from bayplan.testing import (
    expressions,
    fields,
    labels_are,
    make_csi_driver,
    make_csi_node,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_capacity,
    make_storage_class,
    requirement,
)
from bayplan.testing.pods import PodBuilder
from bayplan.testing.storage import (
    CapacityBuilder,
    ClaimBuilder,
    ClassBuilder,
    DriverBuilder,
    VolumeBuilder,
)

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_SUCH_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def pod_of(*claims: str) -> PodBuilder:
    pod = make_pod("p").uid("me")
    for claim in claims:
        pod.pvc(claim)
    return pod


def zones(*names: str) -> PluginWorld:
    """A world with a node in each of these zones, named after it."""
    world = PluginWorld(*(make_node(name).label("zone", name) for name in names))
    return world.add(make_storage_class("wait"), make_storage_class("now").mode("Immediate"))


def delayed(name: str = "c") -> ClaimBuilder:
    """A claim of a class that waits for the first consumer."""
    return make_pvc(name).storage_class("wait")


def local(name: str, zone: str | None = None) -> VolumeBuilder:
    """A volume for such claims, in one zone."""
    volume = make_pv(name).storage_class("wait")
    return volume.on("zone", zone) if zone else volume


def verdicts(world: PluginWorld, pod: PodBuilder) -> dict[str, str]:
    """Filter messages by node, and all of them unresolvable."""
    statuses = world.filtered(world.make(VolumeBinding), pod.obj())
    assert all(s == SUCCESS or s == Status.unresolvable(*s.reasons) for s in statuses.values())
    return {node: status.message for node, status in statuses.items()}


def static_only(world: PluginWorld) -> PluginWorld:
    """Let the class make no volumes, so that only existing ones are found."""
    return world.add(make_storage_class("wait").provisioner("kubernetes.io/no-provisioner"))


# PreFilter


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod(), id="no-volumes"),
        pytest.param(make_pod().volume(csi={"driver": "d"}), id="no-claims"),
    ],
)
def test_pods_without_claims_are_skipped(pod: PodBuilder) -> None:
    world = zones("a")
    assert pre_filtered(world.make(VolumeBinding), pod.obj(), world.nodes) == SKIP


EPHEMERAL = make_pod("p").uid("me").volume(ephemeral={}).obj()


@pytest.mark.parametrize(
    ("pod", "claim", "expected"),
    [
        pytest.param(pod_of("c").obj(), None, 'persistentvolumeclaim "c" not found', id="missing"),
        pytest.param(
            EPHEMERAL,
            None,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v1"',
            id="missing-ephemeral",
        ),
        pytest.param(
            EPHEMERAL,
            delayed("p-v1").owned_by("other"),
            "PVC default/p-v1 was not created for pod default/p (pod is not owner)",
            id="ephemeral-of-another",
        ),
        pytest.param(
            EPHEMERAL,
            delayed("p-v1"),
            "PVC default/p-v1 was not created for pod default/p (pod is not owner)",
            id="ephemeral-without-owner",
        ),
        pytest.param(EPHEMERAL, delayed("p-v1").owned_by("me"), None, id="own-ephemeral"),
        pytest.param(
            pod_of("c").obj(),
            make_pvc().bound_to("pv").status(phase="Lost"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"',
            id="lost",
        ),
        pytest.param(
            pod_of("c").obj(),
            delayed().meta(deletionTimestamp="2026-01-01T00:00:00Z"),
            'persistentvolumeclaim "c" is being deleted',
            id="being-deleted",
        ),
        pytest.param(pod_of("c").obj(), make_pvc().bound_to("pv"), None, id="bound"),
        pytest.param(pod_of("c").obj(), delayed(), None, id="delayed"),
        pytest.param(
            pod_of("c").obj(), make_pvc(), UNBOUND_IMMEDIATE.message, id="unbound-without-class"
        ),
        pytest.param(
            pod_of("c").obj(),
            make_pvc().storage_class("gone"),
            UNBOUND_IMMEDIATE.message,
            id="missing-class-binds-at-once",
        ),
        pytest.param(
            pod_of("c").obj(),
            make_pvc().storage_class("now"),
            UNBOUND_IMMEDIATE.message,
            id="unbound-immediate",
        ),
        pytest.param(
            pod_of("c").obj(),
            delayed().spec(volumeName="pv"),
            UNBOUND_IMMEDIATE.message,
            id="pre-bound-to-a-volume",
        ),
        pytest.param(
            pod_of("c").obj(),
            make_pvc().bound_to("").spec(volumeName=""),
            UNBOUND_IMMEDIATE.message,
            id="bind-completed-without-volume",
        ),
    ],
)
def test_all_claims_must_be_ready(
    pod: Pod, claim: ClaimBuilder | None, expected: str | None
) -> None:
    world = zones("a")
    if claim is not None:
        world.add(claim)
    answer = pre_filtered(world.make(VolumeBinding), pod, world.nodes)
    assert answer == (None if expected is None else Status.unresolvable(expected))


def test_a_class_without_a_mode_is_an_error() -> None:
    world = zones("a").add(delayed(), make_storage_class("wait").mode(None))
    answer = pre_filtered(world.make(VolumeBinding), pod_of("c").obj(), world.nodes)
    assert answer == Status.error('VolumeBindingMode not set for StorageClass "wait"')


# Bound claims


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param([make_pv("v1"), make_pv("v2")], {"a": "", "b": ""}, id="anywhere"),
        pytest.param(
            [make_pv("v1").on("zone", "a"), make_pv("v2")],
            {"a": "", "b": NODE_CONFLICT},
            id="one-is-in-a-zone",
        ),
        pytest.param(
            [make_pv("v1").on("zone", "a"), make_pv("v2").on("zone", "b")],
            {"a": NODE_CONFLICT, "b": NODE_CONFLICT},
            id="in-different-zones",
        ),
        pytest.param(
            [make_pv("v1").on("zone", "a")],
            {"a": NO_SUCH_VOLUME, "b": NODE_CONFLICT},
            id="the-first-obstacle-counts",
        ),
        pytest.param(
            [make_pv("v2").on("zone", "a")],
            {"a": NO_SUCH_VOLUME, "b": NO_SUCH_VOLUME},
            id="missing-volume-first",
        ),
    ],
)
def test_bound_volumes_must_exist_and_be_reachable(
    volumes: list[VolumeBuilder], expected: dict[str, str]
) -> None:
    world = zones("a", "b").add(make_pvc("c1").bound_to("v1"), make_pvc("c2").bound_to("v2"))
    world.add(*volumes)
    assert verdicts(world, pod_of("c1", "c2")) == expected


ZONE = "topology.kubernetes.io/zone"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def migrating() -> PluginWorld:
    """Node ``csi`` has moved EBS volumes to the CSI driver, ``old`` has not."""
    world = PluginWorld(make_node("csi").label(EBS_ZONE, "a"), make_node("old").label(ZONE, "a"))
    return world.add(
        make_csi_node("csi").migrated("kubernetes.io/aws-ebs"), make_csi_node("old")
    ).add(make_pvc("c").bound_to("v"))


def ebs(volume_id: str = "vol-1") -> VolumeBuilder:
    return make_pv("v").spec(awsElasticBlockStore={"volumeID": volume_id})


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param(ebs().on(ZONE, "a"), {"csi": "", "old": ""}, id="each-by-its-own-label"),
        pytest.param(
            ebs().on(ZONE, "b"), {"csi": NODE_CONFLICT, "old": NODE_CONFLICT}, id="other-zone"
        ),
        pytest.param(
            ebs().label(ZONE, "b"), {"csi": NODE_CONFLICT, "old": ""}, id="zone-from-label"
        ),
        pytest.param(
            ebs("aws://a/x").on(ZONE, "a"),
            {
                "csi": "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID "
                "Invalid format for AWS volume (aws://a/x)",
                "old": "",
            },
            id="error-where-it-must-be-translated",
        ),
    ],
)
def test_in_tree_volumes_are_reached_as_csi_volumes_where_the_node_says_so(
    volume: VolumeBuilder, expected: dict[str, str]
) -> None:
    world = migrating().add(volume)
    statuses = world.filtered(world.make(VolumeBinding), pod_of("c").obj())
    assert {node: status.message for node, status in statuses.items()} == expected
    broken = {node for node, s in statuses.items() if s == Status.error(*s.reasons)}
    assert broken == {node for node, message in expected.items() if "translate" in message}


def test_an_error_outweighs_other_reasons() -> None:
    world = migrating().add(ebs("aws://a/x"), delayed("d"))
    static_only(world)
    plugin = world.make(VolumeBinding)
    statuses = world.filtered(plugin, pod_of("c", "d").obj())
    assert statuses["csi"].message.startswith("could not translate pv")
    assert statuses["old"] == Status.unresolvable(BIND_CONFLICT)
    assert world.what_if(plugin, pod_of("c", "d").obj()) == statuses


# Existing volumes for unbound claims


def test_an_unbound_claim_gets_a_volume_that_the_node_can_reach() -> None:
    world = static_only(zones("a", "b", "c")).add(delayed())
    world.add(local("va", "a"), local("vb", "b"))
    assert verdicts(world, pod_of("c")) == {"a": "", "b": "", "c": BIND_CONFLICT}


def test_two_claims_need_two_volumes() -> None:
    world = static_only(zones("a", "b", "c")).add(delayed("c1"), delayed("c2"))
    world.add(local("va1", "a"), local("va2", "a"), local("vb", "b"))
    assert verdicts(world, pod_of("c1", "c2")) == {"a": "", "b": BIND_CONFLICT, "c": BIND_CONFLICT}


def test_a_volume_anywhere_serves_where_there_is_no_local_one() -> None:
    world = static_only(zones("a", "b")).add(delayed("c1"), delayed("c2"))
    world.add(local("va", "a"), local("anywhere"))
    assert verdicts(world, pod_of("c1", "c2")) == {"a": "", "b": BIND_CONFLICT}


def test_two_claims_take_turns_among_volumes_of_every_kind() -> None:
    world = static_only(zones("a", "b")).add(*(delayed(f"c{i}") for i in range(3)))
    not_b = expressions(requirement("zone", "NotIn", "b"))
    world.add(local("va", "a"), local("anywhere"), local("not-b").terms(not_b))
    assert verdicts(world, pod_of("c0", "c1", "c2")) == {"a": "", "b": BIND_CONFLICT}


@pytest.mark.parametrize(
    ("claim", "volume", "fits"),
    [
        pytest.param(delayed(), local("v"), True, id="as-it-is"),
        pytest.param(delayed().size("2Gi"), local("v"), False, id="too-small"),
        pytest.param(delayed().size(None), local("v"), True, id="no-size-wanted"),
        pytest.param(delayed(), local("v").capacity("1024Mi"), True, id="same-size"),
        pytest.param(delayed().modes("ReadWriteMany"), local("v"), False, id="access-mode"),
        pytest.param(
            delayed(),
            local("v").modes("ReadWriteMany", "ReadWriteOnce"),
            True,
            id="more-access-modes",
        ),
        pytest.param(delayed().spec(volumeMode="Block"), local("v"), False, id="volume-mode"),
        pytest.param(
            delayed().spec(volumeMode="Filesystem"), local("v"), True, id="default-volume-mode"
        ),
        pytest.param(
            delayed().spec(volumeAttributesClassName="gold"),
            local("v"),
            False,
            id="attributes-class-wanted",
        ),
        pytest.param(
            delayed().spec(volumeAttributesClassName="gold"),
            local("v").spec(volumeAttributesClassName="gold"),
            True,
            id="same-attributes-class",
        ),
        pytest.param(
            delayed(),
            local("v").meta(deletionTimestamp="2026-01-01T00:00:00Z"),
            False,
            id="being-deleted",
        ),
        pytest.param(delayed(), local("v").status(phase="Released"), False, id="released"),
        pytest.param(
            delayed().spec(selector=labels_are({"tier": "fast"})), local("v"), False, id="selector"
        ),
        pytest.param(
            delayed().spec(selector=labels_are({"tier": "fast"})),
            local("v").label("tier", "fast"),
            True,
            id="selected",
        ),
        pytest.param(delayed(), make_pv("v"), False, id="other-class"),
        pytest.param(
            delayed(),
            make_pv("v").annotation("volume.beta.kubernetes.io/storage-class", "wait"),
            True,
            id="class-by-annotation",
        ),
        pytest.param(delayed(), local("v").claimed_by("d"), False, id="promised-to-another"),
        pytest.param(
            delayed().uid("u"), local("v").claimed_by("c", "old"), False, id="of-an-older-claim"
        ),
        pytest.param(
            delayed().uid("u"),
            local("v").claimed_by("c", "u").status(phase="Bound"),
            True,
            id="promised-to-it",
        ),
        pytest.param(
            delayed(), local("v").claimed_by("c").capacity("1Mi"), False, id="promised-too-small"
        ),
    ],
)
def test_a_volume_must_offer_what_the_claim_asks_for(
    claim: ClaimBuilder, volume: VolumeBuilder, fits: bool
) -> None:
    world = static_only(zones("a")).add(claim, volume)
    assert verdicts(world, pod_of("c")) == {"a": "" if fits else BIND_CONFLICT}


@pytest.mark.parametrize(
    ("now", "fits"),
    [
        pytest.param(local("v").claimed_by("d"), False, id="becomes-another-s"),
        pytest.param(local("v").claimed_by("c"), True, id="is-promised"),
        pytest.param(local("v").storage_class("other"), False, id="changes-its-class"),
        pytest.param(local("v").label("x", "y"), True, id="changes-otherwise"),
        pytest.param(None, False, id="is-removed"),
    ],
)
def test_volumes_are_known_as_they_are_now(now: VolumeBuilder | None, fits: bool) -> None:
    world = static_only(zones("a")).add(delayed(), local("v"))
    plugin = world.make(VolumeBinding)
    if now is None:
        world.remove(local("v"))
    else:
        world.add(now)
    changed = {"a": "" if fits else BIND_CONFLICT}
    assert world.messages(plugin, pod_of("c").obj()) == changed
    world.add(local("v"))
    assert world.messages(plugin, pod_of("c").obj()) == {"a": ""}


def test_volumes_that_others_have_are_not_even_looked_at() -> None:
    world = static_only(zones("a")).add(delayed())
    world.add(*(local(f"v{i}").claimed_by(f"other{i}") for i in range(3)))
    volumes = Volumes(world.objects)
    world.add(local("free"), local("mine").claimed_by("c"), local("other").claimed_by("c2"))
    world.add(local("elsewhere").claimed_by("c", namespace="ns"))
    found = volumes.candidates("wait", [delayed().obj()])
    assert [volume.name for volume in found] == ["free", "mine"]


def test_a_volume_promised_to_the_claim_is_the_only_choice() -> None:
    world = zones("a", "b").add(delayed(), local("other", "b"))
    world.add(local("own", "a").claimed_by("c"))
    static_only(world)
    assert verdicts(world, pod_of("c")) == {"a": "", "b": BIND_CONFLICT}


def test_a_promised_volume_that_another_volume_of_the_pod_has_is_no_choice() -> None:
    world = static_only(zones("a")).add(delayed(), local("own").claimed_by("c"))
    assert verdicts(world, pod_of("c", "c")) == {"a": BIND_CONFLICT}
    world.add(local("more"))
    assert verdicts(world, pod_of("c", "c")) == {"a": ""}


TERMS = [
    pytest.param([], "", id="no-term"),
    pytest.param([{}], "", id="empty-term"),
    pytest.param([expressions(requirement("zone", "In", "b", "c"))], "bc", id="in"),
    pytest.param([expressions(requirement("zone", "In", "z"))], "", id="in-unknown-value"),
    pytest.param([expressions(requirement("zone", "NotIn", "b"))], "ac", id="not-in"),
    pytest.param([expressions(requirement("zone", "Exists"))], "abc", id="exists"),
    pytest.param([expressions(requirement("zone", "DoesNotExist"))], "", id="does-not-exist"),
    pytest.param([expressions(requirement("n", "Gt", "1"))], "bc", id="greater"),
    pytest.param([expressions(requirement("n", "Lt", "2"))], "a", id="less"),
    pytest.param([expressions(requirement("n", "Lt", "x"))], "", id="less-than-no-number"),
    pytest.param([expressions(requirement("zone", "In"))], "", id="in-without-values"),
    pytest.param([expressions(requirement("zone", "Exists", "a"))], "", id="exists-with-values"),
    pytest.param([expressions(requirement("zone", "Like", "a"))], "", id="unknown-operator"),
    pytest.param(
        [expressions(requirement("zone", "In", "a", "b"), requirement("n", "Gt", "1"))],
        "b",
        id="both-requirements",
    ),
    pytest.param(
        [expressions(requirement("zone", "In", "a")), expressions(requirement("n", "Gt", "2"))],
        "ac",
        id="either-term",
    ),
    pytest.param(
        [fields(requirement("metadata.name", "In", "x"))], "abc", id="fields-do-not-matter"
    ),
    pytest.param(
        [fields(requirement("metadata.name", "In", "x", "y"))], "", id="faulty-field-voids-term"
    ),
]


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize(("terms", "expected"), TERMS)
def test_node_affinity_of_volumes(terms: list[dict[str, Any]], expected: str, bound: bool) -> None:
    nodes = (make_node(z).label("zone", z).label("n", str(i + 1)) for i, z in enumerate("abc"))
    world = static_only(PluginWorld(*nodes))
    world.add(delayed().bound_to("v") if bound else delayed(), local("v").terms(*terms))
    fits = {node for node, message in verdicts(world, pod_of("c")).items() if not message}
    assert fits == set(expected)


# Provisioning


@pytest.mark.parametrize(
    ("storage_class", "expected"),
    [
        pytest.param(make_storage_class(), {"a": "", "b": ""}, id="anywhere"),
        pytest.param(
            make_storage_class().provisioner(""),
            {"a": BIND_CONFLICT, "b": BIND_CONFLICT},
            id="nobody",
        ),
        pytest.param(
            make_storage_class().provisioner("kubernetes.io/no-provisioner"),
            {"a": BIND_CONFLICT, "b": BIND_CONFLICT},
            id="no-provisioner",
        ),
        pytest.param(
            make_storage_class().topology(zone=["a"]),
            {"a": "", "b": BIND_CONFLICT},
            id="allowed-topology",
        ),
        pytest.param(
            make_storage_class().topology(zone=["a"]).topology(zone=["b"]),
            {"a": "", "b": ""},
            id="either",
        ),
        pytest.param(
            make_storage_class().topology(zone=["a"], rack=["1"]),
            {"a": BIND_CONFLICT, "b": BIND_CONFLICT},
            id="both-labels",
        ),
        pytest.param(
            make_storage_class().topology(),
            {"a": BIND_CONFLICT, "b": BIND_CONFLICT},
            id="empty-term",
        ),
        pytest.param(
            make_storage_class().topology(zone=[]),
            {"a": BIND_CONFLICT, "b": BIND_CONFLICT},
            id="no-values",
        ),
    ],
)
def test_volumes_are_made_where_the_class_allows(
    storage_class: ClassBuilder, expected: dict[str, str]
) -> None:
    world = zones("a", "b").add(delayed(), storage_class)
    assert verdicts(world, pod_of("c")) == expected


def test_only_claims_without_a_volume_need_provisioning() -> None:
    world = zones("a", "b", "c").add(make_storage_class().topology(zone=["b"]), delayed())
    world.add(local("va", "a"))
    assert verdicts(world, pod_of("c")) == {"a": "", "b": "", "c": BIND_CONFLICT}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(["a"], {"a": "", "b": BIND_CONFLICT}, id="one"),
        pytest.param(["a", "b"], {"a": BIND_CONFLICT, "b": BIND_CONFLICT}, id="two-nodes"),
        pytest.param(["gone"], {"a": BIND_CONFLICT, "b": BIND_CONFLICT}, id="missing-node"),
    ],
)
def test_a_volume_that_is_being_made_fixes_the_node(
    nodes: list[str], expected: dict[str, str]
) -> None:
    world = zones("a", "b")
    for i, node in enumerate(nodes):
        world.add(delayed(f"c{i}").selected(node))
    world.add(local("v"), delayed("free"))
    assert verdicts(world, pod_of(*(f"c{i}" for i in range(len(nodes))), "free")) == expected


def test_a_selected_claim_must_still_be_provisionable() -> None:
    world = zones("a", "b").add(delayed().selected("a"), make_storage_class().topology(zone=["b"]))
    assert verdicts(world, pod_of("c")) == {"a": BIND_CONFLICT, "b": BIND_CONFLICT}


def test_all_reasons_of_a_node_are_told_in_order() -> None:
    world = static_only(zones("a", "b")).add(delayed("d"), make_pvc("c").bound_to("v"))
    world.add(make_pv("v").on("zone", "b"))
    both = f"{NODE_CONFLICT}, {BIND_CONFLICT}"
    assert verdicts(world, pod_of("c", "d")) == {"a": both, "b": BIND_CONFLICT}


# Capacity


def capacity(value: str | None = None, **more: str) -> CapacityBuilder:
    return make_storage_capacity().of("wait", value, **more)


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [
        pytest.param([], {"a": NO_SPACE, "b": NO_SPACE}, id="nothing-published"),
        pytest.param([capacity("1Gi").on(zone="a")], {"a": "", "b": NO_SPACE}, id="in-one-zone"),
        pytest.param([capacity("1Gi").on()], {"a": "", "b": ""}, id="everywhere"),
        pytest.param([capacity("1Gi")], {"a": NO_SPACE, "b": NO_SPACE}, id="out-of-reach"),
        pytest.param([capacity("1Mi").on()], {"a": NO_SPACE, "b": NO_SPACE}, id="too-little"),
        pytest.param(
            [capacity("9Gi", maximumVolumeSize="1Mi").on()],
            {"a": NO_SPACE, "b": NO_SPACE},
            id="maximum-volume-size",
        ),
        pytest.param(
            [capacity("1Mi", maximumVolumeSize="1Gi").on()],
            {"a": "", "b": ""},
            id="maximum-volume-size-goes-first",
        ),
        pytest.param([capacity().on()], {"a": NO_SPACE, "b": NO_SPACE}, id="nothing-said"),
        pytest.param(
            [make_storage_capacity().of("other", "9Gi").on()],
            {"a": NO_SPACE, "b": NO_SPACE},
            id="other-class",
        ),
        pytest.param(
            [
                capacity("1Gi").on(zone="a"),
                make_storage_capacity("2").of("wait", "1Gi").on(zone="b"),
            ],
            {"a": "", "b": ""},
            id="two-zones",
        ),
        pytest.param(
            [capacity("1Gi").top(nodeTopology=labels_are(None, requirement("zone", "NotIn", "a")))],
            {"a": NO_SPACE, "b": ""},
            id="by-expression",
        ),
        pytest.param(
            [capacity("1Gi").top(nodeTopology=labels_are(None, requirement("zone", "Gt", "1")))],
            {"a": NO_SPACE, "b": NO_SPACE},
            id="faulty-selector",
        ),
    ],
)
def test_a_driver_that_publishes_capacity_must_have_enough(
    capacities: list[CapacityBuilder], expected: dict[str, str]
) -> None:
    world = zones("a", "b").add(delayed(), make_csi_driver().storage_capacity())
    world.add(*capacities)
    assert verdicts(world, pod_of("c")) == expected


@pytest.mark.parametrize(
    ("driver", "claim"),
    [
        pytest.param(None, delayed(), id="unknown-driver"),
        pytest.param(make_csi_driver(), delayed(), id="nothing-said"),
        pytest.param(make_csi_driver().storage_capacity(False), delayed(), id="not-published"),
        pytest.param(make_csi_driver().storage_capacity(), delayed().size(None), id="no-size"),
    ],
)
def test_other_drivers_are_trusted_to_have_enough(
    driver: DriverBuilder | None, claim: ClaimBuilder
) -> None:
    world = zones("a").add(claim)
    if driver is not None:
        world.add(driver)
    assert verdicts(world, pod_of("c")) == {"a": ""}


def test_capacity_follows_its_objects() -> None:
    world = zones("a").add(delayed(), make_csi_driver().storage_capacity(), capacity("1Gi").on())
    plugin = world.make(VolumeBinding)
    world.add(capacity("1Mi").on())
    assert world.messages(plugin, pod_of("c").obj()) == {"a": NO_SPACE}
    world.add(capacity("2Gi").on())
    assert world.messages(plugin, pod_of("c").obj()) == {"a": ""}
    world.remove(capacity())
    assert world.messages(plugin, pod_of("c").obj()) == {"a": NO_SPACE}


def test_volumes_follow_their_objects() -> None:
    world = static_only(zones("a")).add(delayed(), local("v"))
    plugin = world.make(VolumeBinding)
    assert world.messages(plugin, pod_of("c").obj()) == {"a": ""}
    world.add(make_pv("v").storage_class("other"))
    assert world.messages(plugin, pod_of("c").obj()) == {"a": BIND_CONFLICT}
    world.add(local("v"))
    assert world.messages(plugin, pod_of("c").obj()) == {"a": ""}
    world.remove(local("v"))
    assert world.messages(plugin, pod_of("c").obj()) == {"a": BIND_CONFLICT}


# Hints

ADD, UPDATE = Action.ADD, Action.UPDATE_OTHER
CLAIM, CLASS = PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
DRIVER = CSI_DRIVER
CAPACITY = CSI_STORAGE_CAPACITY
OFF = make_csi_driver("d").storage_capacity(False)
ON = make_csi_driver("d").storage_capacity()


@pytest.mark.parametrize(
    ("resource", "old", "new", "expected"),
    [
        pytest.param(CLASS, None, make_storage_class(), Hint.QUEUE, id="class"),
        pytest.param(
            CLASS,
            make_storage_class(),
            make_storage_class().label("a"),
            Hint.SKIP,
            id="class-label",
        ),
        pytest.param(
            CLASS,
            make_storage_class(),
            make_storage_class().topology(z=["a"]),
            Hint.QUEUE,
            id="class-topology",
        ),
        pytest.param(CLAIM, None, make_pvc("c"), Hint.QUEUE, id="own-claim"),
        pytest.param(CLAIM, make_pvc("c"), make_pvc("c"), Hint.QUEUE, id="own-claim-updated"),
        pytest.param(CLAIM, None, make_pvc("p-v3"), Hint.QUEUE, id="own-ephemeral-claim"),
        pytest.param(CLAIM, None, make_pvc("d"), Hint.SKIP, id="other-claim"),
        pytest.param(CLAIM, None, make_pvc("c").namespace("x"), Hint.SKIP, id="other-namespace"),
        pytest.param(PERSISTENT_VOLUME, make_pv(), make_pv(), Hint.QUEUE, id="any-volume"),
        pytest.param(CSI_NODE, None, make_csi_node(), Hint.QUEUE, id="csi-node"),
        pytest.param(
            CSI_NODE, make_csi_node(), make_csi_node().migrated("x"), Hint.QUEUE, id="migrated"
        ),
        pytest.param(
            CSI_NODE, make_csi_node(), make_csi_node().driver("x"), Hint.SKIP, id="csi-node-driver"
        ),
        pytest.param(DRIVER, ON, OFF, Hint.QUEUE, id="capacity-no-longer-checked"),
        pytest.param(DRIVER, ON, make_csi_driver("d"), Hint.QUEUE, id="capacity-unset"),
        pytest.param(DRIVER, OFF, ON, Hint.SKIP, id="capacity-checked"),
        pytest.param(
            DRIVER,
            make_csi_driver("e").storage_capacity(),
            make_csi_driver("e"),
            Hint.SKIP,
            id="other-driver",
        ),
        pytest.param(DRIVER, None, ON, None, id="new-driver"),
        pytest.param(CAPACITY, None, capacity("1"), Hint.QUEUE, id="new-capacity"),
        pytest.param(CAPACITY, capacity("1"), capacity("2"), Hint.QUEUE, id="more"),
        pytest.param(CAPACITY, capacity("2"), capacity("1"), Hint.SKIP, id="less"),
        pytest.param(CAPACITY, capacity(), capacity("1"), Hint.QUEUE, id="now-known"),
        pytest.param(CAPACITY, capacity("1"), capacity(), Hint.SKIP, id="no-longer-known"),
    ],
)
def test_hints(resource: Kind[Any], old: Any, new: Any, expected: Hint | None) -> None:
    pod = pod_of("c").volume(csi={"driver": "d"}).volume(ephemeral={}).obj()
    plugin = zones("a").make(VolumeBinding)
    action = UPDATE if old is not None else ADD
    assert hint(plugin, resource, action, pod, old and old.obj(), new.obj()) is expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [(ADD, Hint.QUEUE), (Action.UPDATE_NODE_LABEL, Hint.QUEUE), (Action.UPDATE_NODE_TAINT, None)],
    ids=["new", "labels", "taints"],
)
def test_node_hints(action: Action, expected: Hint | None) -> None:
    plugin = zones("a").make(VolumeBinding)
    assert hint(plugin, NODE, action, pod_of().obj(), None, make_node().obj()) is expected
