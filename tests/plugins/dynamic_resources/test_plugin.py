from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.devices.support import claim, decode, device, exactly, piece, selected
from tests.plugins.dynamic_resources.world import World, allocated, pod_with

from bayplan.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.api.pod import Pod
from bayplan.api.resource import FINALIZER, ResourceClaim
from bayplan.client.errors import ApiError, Conflict
from bayplan.framework.cluster_events import Hint
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.interface import FilterFailure, NodeStatuses
from bayplan.framework.status import SKIP, Code, Status
from bayplan.plugins.dynamic_resources import claim_writes
from bayplan.testing import make_pod

USER = {"resource": "pods", "name": "p", "uid": "pod-uid"}


def one_gpu() -> World:
    """Node n1 has one device, node n2 none."""
    world = World(piece("s", device("a")))
    world.create(claim())
    return world


class Rejected(NodeStatuses):
    """Every node was rejected by the plugin."""

    def status(self, row: int) -> Status:
        return Status.unresolvable("resourceclaim not available on the node").by("DynamicResources")


def failure(world: World) -> FilterFailure:
    return FilterFailure(world.nodes, Rejected(), candidates=None)  # type: ignore[arg-type]


# Without claims


def test_without_claims_filter_is_skipped_and_every_node_scores_0() -> None:
    world, pod, state = one_gpu(), make_pod().obj(), CycleState()
    assert world.plugin.pre_filter(state, pod, world.nodes) is SKIP
    assert world.plugin.score_nodes(state, pod, world.nodes) is None
    assert world.plugin.pre_bind_pre_flight(state, pod, "n1") is SKIP


def test_post_filter_fails_when_another_plugin_ended_the_cycle_before_pre_filter() -> None:
    world = one_gpu()
    result = world.post_filter(CycleState(), make_pod().obj(), failure(world))
    assert result.status == Status.error("not found")


# PreEnqueue


def generated(pod_uid: str = "pod-uid", **meta: Any) -> ResourceClaim:
    owner = {"uid": pod_uid, "kind": "Pod", "controller": True}
    metadata = {"name": "made", "namespace": "ns", "uid": "made", "ownerReferences": [owner]}
    body = json.loads(msgspec.json.encode(claim())) | {"metadata": metadata | meta}
    return RESOURCE_CLAIM.decode(json.dumps(body).encode())


def templated(*made: dict[str, str]) -> Pod:
    entry = {"name": "gpu", "resourceClaimTemplateName": "t"}
    pod = make_pod("p").meta(namespace="ns", uid="pod-uid").spec(resourceClaims=[entry])
    return pod.status(resourceClaimStatuses=list(made)).obj()


MADE = {"name": "gpu", "resourceClaimName": "made"}


@pytest.mark.parametrize(
    ("pod", "claims", "reason"),
    [
        (pod_with("c"), [claim()], None),
        (pod_with("c"), [], 'could not find ResourceClaim "ns/c"'),
        (templated(), [], 'pod "ns/p": ResourceClaim not created yet'),
        (templated(MADE), [], 'could not find ResourceClaim "ns/made"'),
        (templated(MADE), [generated()], None),
        (templated({"name": "gpu"}), [], None),
        (
            templated(MADE),
            [generated("other")],
            "ResourceClaim ns/made was not created for Pod ns/p (Pod is not owner)",
        ),
        (
            templated(MADE),
            [generated(deletionTimestamp="2026-01-01T00:00:00Z")],
            'resourceclaim "made" is being deleted',
        ),
    ],
)
def test_a_pod_waits_until_its_claims_exist(
    pod: Pod, claims: list[ResourceClaim], reason: str | None
) -> None:
    world = World()
    world.create(*claims)
    status = world.plugin.pre_enqueue(pod)
    assert (status.message if status else None) == reason
    assert status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


# PreFilter and Filter


def test_the_pod_fits_where_its_devices_are() -> None:
    assert one_gpu().filter(pod_with("c")) == {"n1": "", "n2": "cannot allocate all claims"}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (exactly(deviceClassName="none"), "request r: device class none does not exist"),
        (
            {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "none"}]},
            "request r/s: device class none does not exist",
        ),
        ({"name": "r"}, "resource claim ns/c, request r: unknown request type"),
    ],
)
def test_a_claim_that_nobody_can_allocate_is_rejected_at_once(
    request_: dict[str, Any], reason: str
) -> None:
    world = World(piece("s", device("a")))
    world.create(claim(request_))
    status = world.plugin.pre_filter(CycleState(), pod_with("c"), world.nodes)
    assert status == Status.unresolvable(reason)


def test_an_error_of_a_selector_ends_the_attempt_and_names_claim_and_device() -> None:
    world = World(piece("s", device("a")))
    world.create(claim(exactly(selectors=selected('device.attributes["x"].y'))))
    reasons = world.filter(pod_with("c"))
    assert reasons["n1"].startswith(
        "claim ns/c: selector #0 on device gpu.example.com/p/a: CEL runtime error: no such key: y"
    )
    assert reasons["n2"] == "cannot allocate all claims"


def test_an_allocated_claim_is_used_where_its_devices_are() -> None:
    world = World(piece("s", device("a")))
    world.create(allocated(claim(), "a", node="n2"))
    unavailable = "resourceclaim not available on the node"
    assert world.filter(pod_with("c")) == {"n1": unavailable, "n2": ""}


def test_devices_of_other_claims_are_not_free() -> None:
    world = one_gpu()
    world.create(allocated(claim(name="d"), "a"))
    assert set(world.filter(pod_with("c")).values()) == {"cannot allocate all claims"}


def test_what_if_tables_get_the_answers_of_their_rows() -> None:
    world, pod, state = one_gpu(), pod_with("c"), CycleState()
    world.filter(pod, state)
    some = world.nodes.take(np.array([1, 0]))
    assert world.plugin.filter_nodes(state, pod, some).tolist() == [1, 0]


# Reserve and Unreserve


def test_reserved_devices_are_in_use_and_the_claim_is_taken() -> None:
    world = one_gpu()
    world.create(claim(name="d"))
    world.reserve(pod_with("c"))
    assert set(world.filter(pod_with("d")).values()) == {"cannot allocate all claims"}
    status = world.plugin.pre_filter(CycleState(), pod_with("c", uid="other"), world.nodes)
    text = "resource claim ns/c is in the process of being allocated"
    assert status == Status.unresolvable(text)


def test_unreserve_gives_the_devices_back() -> None:
    world, pod = one_gpu(), pod_with("c")
    state = world.reserve(pod)
    world.unreserve(state, pod, "n1")
    assert world.filter(pod)["n1"] == ""
    assert world.api.log == []


def test_a_node_without_devices_cannot_be_reserved() -> None:
    world, pod, state = one_gpu(), pod_with("c"), CycleState()
    world.filter(pod, state)
    status = world.plugin.reserve(state, pod, "n2")
    assert status == Status.error("claim allocation not found for node")


def test_a_profile_without_it_at_filter_scores_0_and_reserves_nothing() -> None:
    world, pod, state = one_gpu(), pod_with("c"), CycleState()
    assert world.plugin.pre_filter(state, pod, world.nodes) is None
    assert world.plugin.score_nodes(state, pod, world.nodes) is None
    missing = Status.error("claim allocation not found for node")
    assert world.plugin.reserve(state, pod, "n1") == missing


def test_a_profile_with_nothing_but_its_score_is_an_error() -> None:
    world = one_gpu()
    with pytest.raises(MissingStateError, match="not found"):
        world.plugin.score_nodes(CycleState(), pod_with("c"), world.nodes)


# PreBind

CLAIM_PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"


def test_pre_bind_writes_finalizer_allocation_and_user() -> None:
    world, pod = one_gpu(), pod_with("c")
    state = world.reserve(pod)
    assert world.pre_bind(state, pod) is None
    stored = world.see()
    assert world.api.log == [CLAIM_PATH, f"{CLAIM_PATH}/status"]
    assert stored.metadata.finalizers == (FINALIZER,)
    assert stored.reserved_by("pod-uid")
    assert stored.status.allocation is not None
    assert [r.device for r in stored.status.allocation.devices.results] == ["a"]
    assert stored.status.allocation.allocation_timestamp is not None


def test_an_allocated_claim_gets_its_user_only() -> None:
    world, pod = one_gpu(), pod_with("c")
    world.create(allocated(claim(), "a"))
    state = world.reserve(pod)
    assert world.pre_bind(state, pod) is None
    assert world.api.log == [f"{CLAIM_PATH}/status"]
    assert world.stored().reserved_by("pod-uid")


def test_a_claim_that_is_reserved_for_the_pod_is_not_written() -> None:
    world, pod = one_gpu(), pod_with("c")
    world.create(allocated(claim(), "a", reservedFor=[USER]))
    assert world.pre_bind(world.reserve(pod), pod) is None
    assert world.api.log == []


def test_a_claim_that_an_earlier_attempt_has_left_meanwhile_is_written_again() -> None:
    world, pod = one_gpu(), pod_with("c")
    world.create(allocated(claim(), "a", reservedFor=[USER]))
    # The watch is behind: the claim in the store still has the user.
    world.api.store(allocated(claim(), "a"))
    assert world.pre_bind(world.reserve(pod), pod) is None
    assert world.stored().reserved_by("pod-uid")


def test_a_claim_is_not_used_before_an_earlier_attempt_has_left_it() -> None:
    world, pod = one_gpu(), pod_with("c")
    first = world.reserve(pod)
    assert world.pre_bind(first, pod) is None
    world.see()
    # The binding fails, and so does every request for a while.
    world.api.later = []
    world.unreserve(first, pod, "n1")
    again = world.reserve(pod)
    with ThreadPoolExecutor(1) as worker:
        bound = worker.submit(world.pre_bind, again, pod)
        assert not wait([bound], timeout=0.2).done
        (leave,) = world.api.later
        leave()
        assert bound.result(timeout=60) is None
    assert world.stored().reserved_by("pod-uid")


def test_a_write_of_an_earlier_attempt_without_end_ends_the_binding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_writes, "LEAVE_SECONDS", 0.01)
    world, pod = one_gpu(), pod_with("c")
    world.create(allocated(claim(), "a", reservedFor=[USER]))
    world.api.later = []
    world.unreserve(world.reserve(pod), pod, "n1")
    text = "claim ns/c is still used by an earlier attempt"
    assert world.pre_bind(world.reserve(pod), pod) == Status.error(text)


def test_an_attempt_that_ends_while_an_earlier_one_leaves_a_claim_does_not_leave_it_again() -> None:
    world, pod = one_gpu(), pod_with("c")
    world.create(allocated(claim(), "a", reservedFor=[USER]))
    world.api.later = []
    for _ in range(2):
        world.unreserve(world.reserve(pod), pod, "n1")
    leave, *late = world.api.later
    leave()
    assert world.pre_bind(world.reserve(pod), pod) is None
    for write in late:
        write()
    assert world.stored().reserved_by("pod-uid")


def test_a_claim_that_was_replaced_meanwhile_is_not_used() -> None:
    world, pod = one_gpu(), pod_with("c")
    world.create(allocated(claim(), "a", reservedFor=[USER]))
    other = allocated(generated(name="c", uid="other"), "a", reservedFor=[USER])
    world.api.store(other)
    text = "claim ns/c was replaced in the meantime"
    assert world.pre_bind(world.reserve(pod), pod) == Status.error(text)


def test_a_conflict_is_tried_again_with_the_current_claim() -> None:
    world, pod = one_gpu(), pod_with("c")
    state = world.reserve(pod)
    world.api.failures = [conflict()]
    assert world.pre_bind(state, pod) is None
    assert world.stored().reserved_by("pod-uid")


def conflict() -> ApiError:
    return Conflict("the object has been modified")


@pytest.mark.parametrize(
    ("meanwhile", "text"),
    [
        (allocated(claim(), "z"), "claim ns/c got allocated elsewhere in the meantime"),
        (
            generated(name="c", uid="c", deletionTimestamp="2026-01-01T00:00:00Z"),
            "claim ns/c got deleted in the meantime",
        ),
    ],
)
def test_a_claim_that_others_changed_ends_the_binding(meanwhile: ResourceClaim, text: str) -> None:
    world, pod = one_gpu(), pod_with("c")
    state = world.reserve(pod)
    world.api.store(meanwhile)
    world.api.failures = [conflict()]
    assert world.pre_bind(state, pod) == Status.error(text)


def test_conflicts_without_end_are_an_error() -> None:
    world, pod = one_gpu(), pod_with("c")
    state = world.reserve(pod)
    world.api.failures = [conflict()] * 9
    status = world.pre_bind(state, pod)
    assert status is not None
    assert status.message.startswith("add finalizer to claim ns/c: ")


def test_a_binding_that_failed_after_the_claim_was_written_keeps_the_devices_in_use() -> None:
    world, pod = one_gpu(), pod_with("c")
    world.create(claim(name="d"))
    state = world.reserve(pod)
    world.pre_bind(state, pod)
    world.unreserve(state, pod, "n1")
    assert world.stored().status.reserved_for == ()
    # The watch is behind: the claim in the store still has no allocation.
    assert set(world.filter(pod_with("d")).values()) == {"cannot allocate all claims"}
    assert world.filter(pod_with("c"))["n1"] == ""
    world.see()
    assert set(world.filter(pod_with("d")).values()) == {"cannot allocate all claims"}


# Binding conditions

CONDITIONAL = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def reported(world: World, *conditions: tuple[str, str]) -> None:
    """The driver reports conditions of device a."""
    stored = world.api.stored[CLAIM_PATH]
    listed = [{"type": t, "status": s, "reason": "Why", "message": "what"} for t, s in conditions]
    about = {"driver": "gpu.example.com", "pool": "p", "device": "a", "conditions": listed}
    stored["status"]["devices"] = [about]
    stored["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)
    world.see()


class Driver:
    """Reports conditions once the claim is allocated, as soon as somebody looks at the clock."""

    def __init__(self, world: World, *conditions: tuple[str, str]) -> None:
        self._world, self._conditions = world, conditions
        self.time = 0.0

    def __call__(self) -> float:
        if self._world.stored().status.allocation is not None:
            reported(self._world, *self._conditions)
        self.time += 1000.0
        return self.time


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ([("ready", "True")], None),
        (
            [("broken", "True")],
            'device binding failed: claim=c, reason=Why, message="what"',
        ),
        ([("ready", "False")], "device binding timeout: context deadline exceeded"),
    ],
)
def test_a_pod_is_bound_when_its_devices_are_ready(
    conditions: list[tuple[str, str]], text: str | None
) -> None:
    world, pod = World(piece("s", device("a", **CONDITIONAL))), pod_with("c")
    world.create(claim())
    object.__setattr__(world.handle, "monotonic", Driver(world, *conditions))
    status = world.pre_bind(world.reserve(pod), pod)
    assert (status.message if status else None) == text


def test_a_claim_whose_devices_failed_is_of_no_use_and_loses_them() -> None:
    world, pod, state = World(piece("s", device("a", **CONDITIONAL))), pod_with("c"), CycleState()
    world.create(claim())
    made = allocated(claim(), "a", reservedFor=[USER])
    body = json.loads(msgspec.json.encode(made))
    body["status"]["allocation"]["devices"]["results"][0] |= CONDITIONAL
    world.create(RESOURCE_CLAIM.decode(json.dumps(body).encode()))
    world.api.stored[CLAIM_PATH]["metadata"]["resourceVersion"] = "1"
    reported(world, ("broken", "True"))
    assert set(world.filter(pod, state).values()) == {"resourceclaim not available on the node"}
    result = world.post_filter(state, pod, failure(world))
    assert result.status == Status.unschedulable("deallocation of ResourceClaim completed")
    assert world.stored().status.allocation is None
    world.see()
    assert world.filter(pod)["n1"] == ""


def test_nothing_is_taken_away_while_the_decision_is_not_applied() -> None:
    world, pod, state = one_gpu(), pod_with("c"), CycleState()
    world.create(allocated(claim(), "a", node="gone", reservedFor=[USER]))
    world.filter(pod, state)
    result = world.plugin.post_filter(state, pod, failure(world))
    assert result.status == Status.unschedulable("deallocation of ResourceClaim completed")
    world.plugin.unreserve(state, pod, "n1")
    assert world.api.log == []


def test_a_claim_that_others_use_keeps_its_devices() -> None:
    world, pod, state = one_gpu(), pod_with("c"), CycleState()
    other = {"resource": "pods", "name": "q", "uid": "other"}
    world.create(allocated(claim(), "a", node="gone", reservedFor=[other]))
    world.filter(pod, state)
    assert world.post_filter(state, pod, failure(world)).status == Status.unschedulable()


# Two schedulers


def test_a_device_that_another_claim_got_meanwhile_is_given_back() -> None:
    world, pod = one_gpu(), pod_with("c")
    world.pre_bind(world.reserve(pod), pod)
    world.see()
    world.create(allocated(claim(name="foreign"), "a", reservedFor=[{"uid": "theirs"}]))
    state = CycleState()
    assert set(world.filter(pod, state).values()) == {"resourceclaim not available on the node"}
    world.post_filter(state, pod, failure(world))
    world.see()
    assert set(world.filter(pod).values()) == {"cannot allocate all claims"}


@pytest.mark.parametrize("seen", [False, True], ids=["not seen yet", "seen"])
def test_a_pod_whose_device_another_claim_got_is_called_back(seen: bool) -> None:
    world, pod = one_gpu(), pod_with("c")
    state = world.reserve(pod)
    prepared = world.preparing.begin(pod.uid)
    world.pre_bind(state, pod)
    if seen:
        world.see()
    world.create(allocated(claim(name="foreign"), "a", reservedFor=[{"uid": "theirs"}]))
    text = "device gpu.example.com/p/a was allocated to another claim"
    assert prepared.cancelled == text


# Score


def test_the_first_alternative_scores_most() -> None:
    world = World(
        piece("s1", device("a"), pool="p1"),
        piece("s2", device("a"), device("b"), pool="p2", nodeName="n2"),
    )
    subs = [{"name": f"s{n}", "deviceClassName": "any", "count": 2 - n} for n in range(2)]
    world.create(claim({"name": "r", "firstAvailable": subs}))
    state, pod = CycleState(), pod_with("c")
    world.filter(pod, state)
    scores = world.plugin.score_nodes(state, pod, world.nodes)
    assert scores is not None
    assert scores[:2].tolist() == [7, 8]


# Hints


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, claim(), Hint.QUEUE),
        (None, claim(name="d"), Hint.SKIP),
        (claim(), claim(), Hint.SKIP),
        (claim(), allocated(claim(), "a"), Hint.QUEUE),
        (allocated(claim(name="d"), "a"), claim(name="d"), Hint.QUEUE),
        (claim(name="d"), allocated(claim(name="d"), "a"), Hint.SKIP),
        (claim(name="d"), None, Hint.SKIP),
        (allocated(claim(name="d"), "a"), None, Hint.QUEUE),
    ],
)
def test_a_change_of_a_claim_wakes_whom_it_may_help(
    old: ResourceClaim | None, new: ResourceClaim | None, hint: Hint
) -> None:
    world = one_gpu()
    registered = {r.event.resource: r for r in world.plugin.events_to_register()}
    ask: Any = registered[RESOURCE_CLAIM].hint
    index: Any = registered[RESOURCE_CLAIM].index
    assert ask(pod_with("c"), old, new) is hint
    keys = index.event_keys(old, new)
    concerned = keys is None or not {*keys}.isdisjoint(index.pod_keys(pod_with("c")))
    assert concerned or hint is Hint.SKIP
    assert {DEVICE_CLASS, RESOURCE_SLICE} <= registered.keys()


def test_a_claim_that_is_made_for_a_pod_shares_a_key_with_it() -> None:
    indexes: list[Any] = [r.index for r in one_gpu().plugin.events_to_register() if r.index]
    (index,) = indexes
    owner = {"kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}
    metadata = {"name": "p-gpu-x7", "namespace": "ns", "ownerReferences": [owner]}
    made = decode({"metadata": metadata}, ResourceClaim)
    pod = make_pod("p").meta(namespace="ns", uid="pod-uid").obj()
    keys = index.event_keys(None, made)
    assert keys is not None
    assert not {*keys}.isdisjoint(index.pod_keys(pod))
