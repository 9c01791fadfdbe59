"""Reserve, Unreserve and PreBind of VolumeBinding: what is assumed, written and waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.handles import RefusingWriter
from tests.plugins.harness import PluginWorld

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from bayplan.api.pod import Pod
from bayplan.client.errors import Conflict
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import SKIP, SUCCESS, Status
from bayplan.plugins.volume_binding import VolumeBinding
from bayplan.testing import (
    make_csi_node,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
)
from bayplan.testing.storage import ClaimBuilder, CsiNodeBuilder, VolumeBuilder

NODE = "n"


def unbound(version: int = 1) -> ClaimBuilder:
    return make_pvc("c").uid("c-uid").storage_class("wait").version(version)


def available(version: int = 1) -> VolumeBuilder:
    return make_pv("v").storage_class("wait").version(version)


class Server(RefusingWriter):
    """Stands in for the API server: applies merge patches, in a way the test decides on."""

    def __init__(self, world: PluginWorld, error: Conflict | None = None) -> None:
        self._world = world
        self._error = error
        self.patches: list[tuple[str, Any]] = []
        self.written = threading.Semaphore(0)

    def patch(self, path: str, body: bytes, content_type: str) -> bytes:
        assert content_type == "application/merge-patch+json"
        self.patches.append((path, msgspec.json.decode(body)))
        if self._error is not None:
            raise self._error
        kind = PERSISTENT_VOLUME if "persistentvolumes/" in path else PERSISTENT_VOLUME_CLAIM
        key = path.rpartition("/")[2]
        key = f"default/{key}" if kind.namespaced else key
        stored = msgspec.to_builtins(self._world.objects.get(kind, key))
        merged = merge(stored, msgspec.json.decode(body))
        merged["metadata"]["resourceVersion"] = "10"
        self.written.release()
        return msgspec.json.encode(merged)


def merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    for key, value in patch.items():
        target[key] = merge(target.get(key, {}), value) if isinstance(value, dict) else value
    return target


@pytest.fixture
def world() -> PluginWorld:
    return PluginWorld(make_node(NODE).label("zone", "a"), make_node("m").label("zone", "b")).add(
        make_storage_class("wait")
    )


@pytest.fixture
def plugin(world: PluginWorld) -> VolumeBinding:
    made: VolumeBinding = world.make(VolumeBinding)
    return made


POD = make_pod("p").pvc("c").obj()


def reserved(
    world: PluginWorld, plugin: VolumeBinding, pod: Pod = POD, node: str = NODE
) -> CycleState:
    """The state of ``pod`` after Reserve on ``node``."""
    state = world.state(plugin, pod)
    assert plugin.filter_nodes(state, pod, world.nodes)[world.row(node)] == 0
    assert plugin.reserve(state, pod, node) is None
    return state


# Reserve


def test_nothing_is_to_be_done_for_bound_claims(world: PluginWorld, plugin: VolumeBinding) -> None:
    world.add(make_pvc("c").bound_to("v"), available())
    state = reserved(world, plugin)
    assert plugin.pre_bind_pre_flight(state, POD, NODE) == SKIP
    assert plugin.pre_bind(state, POD, NODE) is None
    plugin.unreserve(state, POD, NODE)


def test_nothing_is_to_be_done_for_a_pod_without_claims(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    state, pod = CycleState(), make_pod().obj()
    assert plugin.pre_filter(state, pod, world.nodes) == SKIP
    assert plugin.reserve(state, pod, NODE) is None
    assert plugin.pre_bind_pre_flight(state, pod, NODE) == SKIP
    assert plugin.pre_bind(state, pod, NODE) is None
    plugin.unreserve(state, pod, NODE)


def test_a_reserved_volume_is_taken_for_other_pods_until_unreserved(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(make_storage_class("wait").provisioner(""), unbound(), available())
    world.add(make_pvc("d").storage_class("wait"))
    other = make_pod("q").pvc("d").obj()
    state = reserved(world, plugin)
    assert not any(s.ok for s in world.filtered(plugin, other).values())
    profile_of_its_own = world.make(VolumeBinding)
    assert not any(s.ok for s in world.filtered(profile_of_its_own, other).values())
    plugin.unreserve(state, POD, NODE)
    assert all(s.ok for s in world.filtered(plugin, other).values())


def test_the_smallest_volume_is_reserved_for_the_smallest_claim(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound().size("3Gi"), make_pvc("d").storage_class("wait").size("1Gi"))
    for size in ("9Gi", "4Gi", "2Gi"):
        world.add(make_pv(f"v-{size}".lower()).storage_class("wait").capacity(size))
    pod = make_pod("p").pvc("c").pvc("d").obj()
    mine: Any = reserved(world, plugin, pod).read(plugin.name, object)
    assert {c.name: v.name for c, v, _ in mine.task.static} == {"c": "v-4gi", "d": "v-2gi"}


def test_equal_volumes_are_taken_in_the_order_in_which_they_came(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound().size("1Gi"), *(make_pv(n).storage_class("wait") for n in "zab"))
    mine: Any = reserved(world, plugin).read(plugin.name, object)
    assert [v.name for v in mine.task.volumes] == ["z"]


def test_a_reserved_claim_is_provisioned_for_its_node_alone(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound())
    state = reserved(world, plugin)
    statuses = world.filtered(plugin, make_pod("q").pvc("c").obj())
    assert statuses[NODE] == SUCCESS
    assert not statuses["m"].ok
    plugin.unreserve(state, POD, NODE)
    assert world.filtered(plugin, POD)["m"] == SUCCESS


@pytest.mark.parametrize(
    ("change", "still_assumed"),
    [
        pytest.param(lambda w: w.add(unbound(1)), True, id="seen-again"),
        pytest.param(lambda w: w.add(unbound(2)), False, id="changed"),
        pytest.param(lambda w: w.add(make_pvc("other")), True, id="other-claim"),
        pytest.param(lambda w: w.remove(unbound()).add(unbound(1)), False, id="deleted-and-made"),
    ],
)
def test_what_is_assumed_holds_until_the_object_changes(
    world: PluginWorld, plugin: VolumeBinding, change: Callable[..., Any], still_assumed: bool
) -> None:
    world.add(unbound(1))
    reserved(world, plugin)
    change(world)
    assert world.filtered(plugin, POD)["m"].ok is not still_assumed


def test_unreserve_leaves_alone_what_another_pod_assumed_since(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound())
    first = reserved(world, plugin)
    world.add(unbound(2))
    reserved(world, plugin, make_pod("q").pvc("c").obj(), "m")
    plugin.unreserve(first, POD, NODE)
    assert not world.filtered(plugin, POD)[NODE].ok


def test_reserve_refuses_a_node_that_does_not_fit(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(make_storage_class("wait").topology(zone=["b"]), unbound())
    state = world.state(plugin, POD)
    plugin.filter_nodes(state, POD, world.nodes)
    status = plugin.reserve(state, POD, NODE)
    assert status == Status.unresolvable("node(s) didn't find available persistent volumes to bind")
    assert plugin.pre_bind_pre_flight(state, POD, NODE) == SKIP


def test_nothing_is_reserved_where_the_profile_has_no_volume_binding_at_filter(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound())
    state = world.state(plugin, POD)
    assert plugin.reserve(state, POD, NODE) is None
    assert plugin.pre_bind_pre_flight(state, POD, NODE) == SKIP


# PreBind


class PreBind:
    """Runs PreBind in a thread, as a binding worker does."""

    def __init__(
        self,
        world: PluginWorld,
        plugin: VolumeBinding,
        error: Conflict | None = None,
        timeout: float = 60,
    ) -> None:
        self.world, self.plugin = world, plugin
        self.server = Server(world, error)
        plugin.handle = replace(plugin.handle, writer=self.server)
        args: Any = SimpleNamespace(bind_timeout_seconds=timeout)
        plugin.args = args
        self.state = reserved(world, plugin)
        assert plugin.pre_bind_pre_flight(self.state, POD, NODE) == SUCCESS
        self._answers: list[Status | None] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._answers.append(self.plugin.pre_bind(self.state, POD, NODE))

    def wait_written(self) -> PreBind:
        """Until the patch has been sent."""
        assert self.server.written.acquire(timeout=30)
        return self

    def status(self) -> Status | None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        assert len(self.plugin._tasks) == 0
        return self._answers[0]


def bound_claim(version: int = 11) -> ClaimBuilder:
    return make_pvc("c").uid("c-uid").storage_class("wait").bound_to("v").version(version)


def bound_volume(version: int = 10) -> VolumeBuilder:
    volume = make_pv("v").storage_class("wait").version(version)
    return volume.claimed_by("c", "c-uid").status(phase="Bound")


def failed(message: str) -> Status:
    return Status.error(f"binding volumes: {message}")


def static(world: PluginWorld, plugin: VolumeBinding, **args: Any) -> PreBind:
    world.add(unbound(), available())
    return PreBind(world, plugin, **args)


def dynamic(world: PluginWorld, plugin: VolumeBinding, **args: Any) -> PreBind:
    world.add(unbound())
    return PreBind(world, plugin, **args)


def test_the_claim_is_written_into_the_chosen_volume(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    binding = static(world, plugin).wait_written()
    world.add(bound_volume(), bound_claim())
    assert binding.status() is None
    claim_ref = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "c",
        "uid": "c-uid",
        "resourceVersion": "1",
    }
    annotations = {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert binding.server.patches == [
        (
            "/api/v1/persistentvolumes/v",
            {
                "metadata": {"resourceVersion": "1", "annotations": annotations},
                "spec": {"claimRef": claim_ref},
            },
        )
    ]


def test_the_chosen_node_is_written_into_the_claim(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    binding = dynamic(world, plugin).wait_written()
    world.add(bound_volume(), bound_claim().selected(NODE))
    assert binding.status() is None
    annotations = {"volume.kubernetes.io/selected-node": NODE}
    assert binding.server.patches == [
        (
            "/api/v1/namespaces/default/persistentvolumeclaims/c",
            {"metadata": {"resourceVersion": "1", "annotations": annotations}},
        )
    ]


def test_a_volume_promised_by_its_owner_is_not_marked_as_bound_by_us(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound(), make_pv("v").storage_class("wait").claimed_by("c"))
    binding = PreBind(world, plugin).wait_written()
    world.add(bound_volume(), bound_claim())
    assert binding.status() is None
    ((_, patch),) = binding.server.patches
    assert patch["metadata"] == {"resourceVersion": "1"}
    assert patch["spec"]["claimRef"]["uid"] == "c-uid"


def test_a_volume_that_names_the_claim_already_is_not_written(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound(), bound_volume(version=1))
    binding = PreBind(world, plugin)
    world.add(bound_claim())
    assert binding.status() is None
    assert binding.server.patches == []


def test_changes_that_arrive_before_our_own_answer_are_not_missed(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound(), available())
    server = Server(world)
    plugin.handle = replace(plugin.handle, writer=server)
    original = server.patch

    def answered_late(path: str, body: bytes, content_type: str) -> bytes:
        answer = original(path, body, content_type)
        world.add(bound_volume(), bound_claim())
        return answer

    server.patch = answered_late  # type: ignore[method-assign]
    state = reserved(world, plugin)
    assert plugin.pre_bind(state, POD, NODE) is None


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([bound_volume(9), bound_claim()], id="volume-older-than-our-write"),
        pytest.param([bound_volume()], id="claim-not-bound-yet"),
        pytest.param([make_pv("unrelated"), make_pvc("unrelated")], id="other-objects"),
        pytest.param([make_csi_node(NODE), make_csi_node("m")], id="csi-nodes"),
    ],
)
def test_static_binding_waits_for_the_pv_controller(
    world: PluginWorld,
    plugin: VolumeBinding,
    seen: list[ClaimBuilder | CsiNodeBuilder | VolumeBuilder],
) -> None:
    binding = static(world, plugin, timeout=0.05).wait_written()
    world.add(*seen)
    assert binding.status() == failed("context deadline exceeded")


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([bound_volume(), bound_claim(9).selected(NODE)], id="claim-is-older"),
        pytest.param([bound_claim().selected(NODE)], id="volume-not-seen-yet"),
        pytest.param([unbound(11).selected(NODE)], id="not-provisioned-yet"),
    ],
)
def test_provisioning_waits_for_the_provisioner(
    world: PluginWorld, plugin: VolumeBinding, seen: list[ClaimBuilder | VolumeBuilder]
) -> None:
    binding = dynamic(world, plugin, timeout=0.05).wait_written()
    world.add(*seen)
    assert binding.status() == failed("context deadline exceeded")


AFFINITY = 'pv "v" node affinity doesn\'t match node "n": no matching NodeSelectorTerms'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda w: w.add(available(11)), 'ClaimRef got reset for pv "v"', id="unbound"),
        pytest.param(
            lambda w: w.add(available(11).claimed_by("c")),
            'ClaimRef got reset for pv "v"',
            id="claim-uid-taken-away",
        ),
        pytest.param(lambda w: w.add(bound_volume().on("zone", "b")), AFFINITY, id="out-of-reach"),
        pytest.param(
            lambda w: w.remove(available()),
            'failed to check binding: persistentvolumes "v" not found',
            id="volume-deleted",
        ),
        pytest.param(
            lambda w: w.remove(unbound()),
            'failed to check binding: persistentvolumeclaims "default/c" not found',
            id="claim-deleted",
        ),
        pytest.param(
            lambda w: w.nodes.remove_node(NODE),
            'failed to get node "n": node "n" not found',
            id="node-deleted",
        ),
    ],
)
def test_static_binding_fails(
    world: PluginWorld, plugin: VolumeBinding, change: Callable[..., Any], message: str
) -> None:
    binding = static(world, plugin).wait_written()
    change(world)
    assert binding.status() == failed(message)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(
            [make_pvc("c").uid("c-uid").version(11)],
            'selectedNode annotation reset for PVC "c"',
            id="annotations-gone",
        ),
        pytest.param(
            [make_pvc("c").uid("c-uid").version(11).annotation("a", "b")],
            'provisioning failed for PVC "c"',
            id="node-taken-away",
        ),
        pytest.param(
            [bound_claim().selected("m")], 'provisioning failed for PVC "c"', id="other-node"
        ),
        pytest.param(
            [bound_volume().on("zone", "b"), bound_claim().selected(NODE)],
            AFFINITY,
            id="out-of-reach",
        ),
    ],
)
def test_provisioning_fails(
    world: PluginWorld,
    plugin: VolumeBinding,
    changed: list[ClaimBuilder | VolumeBuilder],
    message: str,
) -> None:
    binding = dynamic(world, plugin).wait_written()
    world.add(*changed)
    assert binding.status() == failed(message)


def test_a_claim_that_is_deleted_while_it_is_provisioned_fails(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    binding = dynamic(world, plugin).wait_written()
    world.remove(unbound())
    missing = 'persistentvolumeclaims "default/c" not found'
    assert binding.status() == failed(f"failed to check provisioning pvc: {missing}")


def test_a_relabelled_node_may_get_out_of_reach(world: PluginWorld, plugin: VolumeBinding) -> None:
    world.add(unbound(), make_pv("v").storage_class("wait").on("zone", "a"))
    binding = PreBind(world, plugin).wait_written()
    world.add(make_node("m").label("zone", "c"))
    world.add(make_node(NODE).label("zone", "b"))
    world.add(bound_volume().on("zone", "a"), bound_claim())
    assert binding.status() == failed(AFFINITY)


def test_a_pod_that_is_gone_waits_no_longer(world: PluginWorld, plugin: VolumeBinding) -> None:
    binding = dynamic(world, plugin).wait_written()
    assumed = POD.on_node(NODE)
    world.nodes.add_pod(world.row(NODE), assumed)
    world.add(make_node(NODE).label("zone", "c"))
    world.nodes.remove_pod(world.row(NODE), assumed)
    missing = 'pod "p" not found'
    assert binding.status() == failed(f"pod does not exist any more: {missing}")


def test_a_pod_that_is_only_tried_out_as_gone_waits_on(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    binding = dynamic(world, plugin).wait_written()
    assumed = POD.on_node(NODE)
    world.nodes.add_pod(world.row(NODE), assumed)
    world.nodes.tentative = True
    world.nodes.remove_pod(world.row(NODE), assumed)
    world.nodes.add_pod(world.row(NODE), assumed)
    world.nodes.tentative = False
    world.add(bound_volume(), bound_claim().selected(NODE))
    assert binding.status() is None


@pytest.mark.parametrize("early", [True, False], ids=["before it writes", "while it waits"])
def test_a_pod_that_is_called_back_waits_no_longer(
    world: PluginWorld, plugin: VolumeBinding, early: bool
) -> None:
    preparing = world.preparing.begin(POD.uid)
    if early:
        preparing.cancel("preempted")
    binding = dynamic(world, plugin).wait_written()
    preparing.cancel("preempted")
    assert binding.status() == failed("context canceled")


def test_a_pod_that_is_called_back_when_its_volumes_are_bound_has_them(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    preparing = world.preparing.begin(POD.uid)
    binding = static(world, plugin).wait_written()
    world.add(bound_volume(), bound_claim())
    assert binding.status() is None
    assert preparing.cancel("preempted")


def test_a_fault_of_the_server_is_told_and_nothing_stays_assumed(
    world: PluginWorld, plugin: VolumeBinding
) -> None:
    world.add(unbound())
    server = Server(world, Conflict("the object has been modified"))
    plugin.handle = replace(plugin.handle, writer=server)
    state = reserved(world, plugin)
    assert plugin.pre_bind(state, POD, NODE) == Status.error("the object has been modified")
    plugin.unreserve(state, POD, NODE)
    assert all(s.ok for s in world.filtered(plugin, POD).values())


@pytest.mark.parametrize("start", [static, dynamic])
def test_what_has_been_written_stays_assumed_until_it_is_seen(
    world: PluginWorld, plugin: VolumeBinding, start: Callable[..., Any]
) -> None:
    world.add(make_pvc("d").storage_class("wait"))
    binding = start(world, plugin, timeout=0.01).wait_written()
    assert not binding.status().ok
    before: dict[str, Any] = dict(plugin._volumes.claims._assumed)
    before |= plugin._volumes.volumes._assumed
    plugin.unreserve(binding.state, POD, NODE)
    assert plugin._volumes.claims._assumed | plugin._volumes.volumes._assumed == before
    assert len(before) == 1


EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        pytest.param(bound_volume().spec(**EBS), None, id="reachable"),
        pytest.param(
            bound_volume().spec(**EBS).label("topology.kubernetes.io/zone", "b"),
            AFFINITY,
            id="zone-of-the-csi-driver",
        ),
        pytest.param(
            bound_volume().spec(awsElasticBlockStore={"volumeID": "aws://x/y"}),
            "failed to translate pv to csi: could not translate pv: failed to translate Kubernetes "
            "ID to EBS Volume ID Invalid format for AWS volume (aws://x/y)",
            id="no-csi-volume",
        ),
    ],
)
def test_a_migrated_volume_must_be_reachable_as_a_csi_volume(
    world: PluginWorld, plugin: VolumeBinding, volume: VolumeBuilder, message: str | None
) -> None:
    world.add(unbound())
    binding = PreBind(world, plugin).wait_written()
    world.add(make_csi_node("m"), make_csi_node(NODE).migrated("kubernetes.io/aws-ebs"))
    world.add(volume, bound_claim().selected(NODE))
    assert binding.status() == (failed(message) if message else None)
