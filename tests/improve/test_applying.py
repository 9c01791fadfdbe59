"""Plans are applied: rooms are held, and at the first deviation it stops with nothing held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
import structlog
from tests.improve.applied import Applied, outcome
from tests.improve.test_improve import GROUPS, node, runs, waits
from tests.queues import queue, queues_profile

from bayplan.api.kinds import POD_GROUP
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.client.errors import ConnectionLost, Forbidden, TooManyRequests
from bayplan.improve.applying import Application, RefusedError, StoppedError
from bayplan.improve.goals import empty, fitting
from bayplan.improve.movable import MOVABLE
from bayplan.improve.orders import ANSWER, Answer, written
from bayplan.testing import Builder, NodeBuilder, PodBuilder, make_object
from bayplan.testing import make_pod as pod_of


def world(*more: Builder[Any], config: Any = None) -> Applied:
    """Nodes of 4 and 2 CPUs; a Pod in the way of one of 4, which waits."""
    return Applied(node("n1"), node("n2", 2), runs("a", "n1"), waits(), *more, config=config)


def planned(made: Applied, name: str = "waits") -> dict[str, Any]:
    """What has to move for the Pod."""
    return made.plan(fitting(made.cluster.core, name, "default"))


def applying(made: Applied) -> Application:
    """The application of that plan."""
    return made.application(planned(made))


def stopped(made: Applied, why: str) -> None:
    """Applying stops for this reason, with one Pod evicted and nothing held."""
    application = applying(made)
    with pytest.raises(StoppedError, match=why):
        application.run()
    assert not made.held
    assert made.evicted == ["default/a"]
    assert application.standing() == ["evicted, and not on n2: default/a"]


def refused(made: Applied, plan: dict[str, Any], why: str) -> None:
    """Applying is refused for this reason, with nobody evicted and nothing held."""
    with pytest.raises(RefusedError, match=why):
        made.application(plan).run()
    assert not made.held
    assert not made.evicted


def then(action: Callable[[Applied], None]) -> Callable[[Applied, PodBuilder], bool]:
    """After the eviction, this happens while the process waits."""

    def evicted(world: Applied, _again: PodBuilder) -> bool:
        world.on_sleep = action
        return True

    return evicted


def test_a_plan_is_applied() -> None:
    made = world()
    assert applying(made).run() == "1 move made, and Pod default/waits fits."
    assert made.evicted == ["default/a"]
    assert made.cluster.node_of("a-again") == "n2"
    assert made.cluster.node_of("waits") == "n1"
    assert not made.held


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_planned_can_be_applied(seed: int) -> None:
    assert outcome(seed)[1]


def test_the_pod_goes_to_its_room_where_it_would_go_elsewhere_by_itself() -> None:
    big = [node("n3", 4), runs("c", "n3", 2, movable="")]
    made = Applied(node("n1"), node("n2", 2), *big, runs("a", "n1"), waits())
    plan = planned(made)
    for move in plan["moves"]:
        move["to"] = "n2" if move["to"] == "n3" else "n3"
    made.application(plan).run()
    assert made.cluster.node_of("a-again") == plan["moves"][0]["to"]


def test_others_are_kept_off_the_rooms() -> None:
    made = world()

    def others_come(world: Applied, _again: PodBuilder) -> bool:
        world.add(*(pod_of(f"thief-{cpu}").req(cpu=cpu) for cpu in (1, 2, 3)))
        world.cluster.run()
        return True

    made.on_evicted = others_come
    applying(made).run()
    assert made.cluster.node_of("waits") == "n1"
    assert made.cluster.node_of("thief-1") == "n2", "what is left beside the room"
    assert not made.cluster.node_of("thief-2")


def test_the_room_is_taken_by_a_higher_priority() -> None:
    made = Applied(node("n1"), node("n2", 2, here="yes"), runs("a", "n1"), waits())

    def taken(world: Applied, _again: PodBuilder) -> bool:
        world.add(pod_of("boss").req(cpu=2).priority(100).node_selector({"here": "yes"}))
        world.cluster.run()
        return True

    made.on_evicted = taken
    stopped(made, "default/a-again is not bound to its room on n2")


def test_the_node_dies() -> None:
    made = world()

    def dies(world: Applied, _again: PodBuilder) -> bool:
        world.remove(world.builders["/api/v1/nodes/n2"])
        return True

    made.on_evicted = dies
    stopped(made, "node n2, where default/a is to go, is gone")


def test_the_node_is_not_ready() -> None:
    made = world(node("n3", 1))

    def sick(world: Applied, _again: PodBuilder) -> bool:
        sick = world.builders["/api/v1/nodes/n2"]
        assert isinstance(sick, NodeBuilder)
        world.add(sick.taint("node.kubernetes.io/unreachable"))
        return True

    made.on_evicted = sick
    stopped(made, "a-again, made again for default/a, was bound to n3, and not to its room on n2")


@pytest.mark.parametrize(
    "change",
    [lambda pod: pod.req(memory="1Gi"), lambda pod: pod.node_selector({"disk": "ssd"})],
    ids=["requests", "constraints"],
)
def test_the_pod_is_made_again_with_another_shape(
    change: Callable[[PodBuilder], object],
) -> None:
    made = world()

    def other(_world: Applied, again: PodBuilder) -> bool:
        change(again)
        return True

    made.on_evicted = other
    stopped(made, "a-again, made again for default/a, is not like that one")


def test_nobody_makes_the_pod_again() -> None:
    made = world()
    made.on_evicted = lambda _world, _again: False
    stopped(made, "nothing was made again for default/a")


def test_the_pod_that_was_made_again_goes() -> None:
    made = world()

    def goes(world: Applied, again: PodBuilder) -> bool:
        world.add(again)
        world.remove(again)
        return False

    made.on_evicted = goes
    stopped(made, "a-again, made again for default/a, is gone without a node")


def test_what_the_moves_are_for_goes() -> None:
    made = world()

    def gone(world: Applied, _again: PodBuilder) -> bool:
        world.remove(world.builders["/api/v1/namespaces/default/pods/waits"])
        return True

    made.on_evicted = gone
    stopped(made, "default/waits, which is to go to n1, is gone")


def test_another_scheduler_leads() -> None:
    made = world()

    def leads(world: Applied) -> None:
        assert world.lease is not None
        said = msgspec.json.decode(world.lease["metadata"]["annotations"][ANSWER], type=Answer)
        other = msgspec.structs.replace(said, by="scheduler-0")
        world.lease["metadata"]["annotations"][ANSWER] = written(other)
        world.improvement._end()
        world.on_sleep = lambda _: None

    made.on_evicted = then(leads)
    stopped(made, "scheduler scheduler-0, which held the rooms, does not lead any more")


def test_the_process_is_killed() -> None:
    made = world()
    application = applying(made)

    def killed(world: Applied) -> None:
        assert world.held
        world.lease = None
        raise SystemExit

    made.on_sleep = killed
    with pytest.raises((SystemExit, AssertionError)):
        application.run()
    assert made.held
    made.cluster.wait(16)
    assert not made.held


def test_it_is_interrupted() -> None:
    made = world()

    def interrupted(_world: Applied) -> None:
        raise KeyboardInterrupt

    made.on_evicted = then(interrupted)
    stopped(made, "it was interrupted")


def test_the_lease_is_taken_away() -> None:
    made = world()

    def deleted(world: Applied, _again: PodBuilder) -> bool:
        world.delete_lease()
        return True

    made.on_evicted = deleted
    stopped(made, "the Lease was lost")


def test_the_rest_is_proven_again_before_each_step() -> None:
    made = Applied(
        *(node("big", 8), node("mid", 4), node("low", 2)),
        *(runs("a", "big", 4), runs("x", "big", 1, movable=""), runs("b", "mid", 1)),
        waits(cpu=7),
    )

    def takes(world: Applied) -> None:
        if world.cluster.node_of("b-again"):
            world.on_sleep = lambda _: None
            mid = world.builders["/api/v1/nodes/mid"]
            assert isinstance(mid, NodeBuilder)
            world.add(mid.capacity(cpu=3, pods=10))

    made.on_sleep = takes
    application = applying(made)
    with pytest.raises(StoppedError, match="default/a does not fit on mid: Insufficient cpu"):
        application.run()
    assert made.evicted == ["default/b"]
    assert not made.held
    moved = "moved: default/b, now default/b-again"
    assert application.standing() == [moved, "not touched: default/a"]


def test_members_of_a_group_move_together() -> None:
    group = make_object(POD_GROUP, "g").spec(minMember=2)
    pods = [runs(f"g{i}", "n1").label(POD_GROUP_LABEL, "g") for i in range(2)]
    objects = [node("n1"), node("n2", 2), group, *pods, waits()]
    made = Applied(*objects, config=GROUPS)
    applying(made).run()
    assert [made.cluster.node_of(f"g{i}-again") for i in range(2)] == ["n2", "n2"]
    assert made.cluster.node_of("waits") == "n1"


def test_a_group_gets_the_room() -> None:
    group = make_object(POD_GROUP, "g").spec(minMember=2)
    pods = [waits(f"g{i}", 3).label(POD_GROUP_LABEL, "g") for i in range(2)]
    nodes = [node("n1"), node("n2"), node("n3", 2)]
    running = [runs("a", "n1", 2), runs("b", "n2", 1, movable="")]
    made = Applied(*nodes, group, *pods, *running, config=GROUPS)
    made.application(planned(made, "podgroup/g")).run()
    assert sorted(made.cluster.node_of(f"g{i}") for i in range(2)) == ["n1", "n2"]


def test_a_node_is_emptied_and_stays_empty() -> None:
    cordoned = node("n1").unschedulable()
    made = Applied(cordoned, node("n2", 2), runs("a", "n1"), runs("b", "n1"))
    plan = made.plan(empty(made.cluster.core, "n1"))
    assert made.application(plan).run() == "2 moves made, and node n1 is empty."
    assert [made.cluster.node_of(f"{name}-again") for name in "ab"] == ["n2", "n2"]


def test_a_node_to_be_emptied_has_to_be_cordoned() -> None:
    made = Applied(node("n1"), node("n2", 2), runs("a", "n1"))
    plan = made.plan(empty(made.cluster.core, "n1"))
    refused(made, plan, "others would come to node n1: kubectl cordon n1, and plan again")


def test_moves_are_no_more_for_a_limit() -> None:
    """The queue is at its limit: a Pod that moves does not count twice."""
    team = queue("team", limit={"cpu": 2}).spec(namespaceSelector={}).label(MOVABLE, "true")
    pods = [runs("a", "n1"), runs("b", "n1")]
    other = pod_of("other").req(cpu=1).namespace("default")
    made = Applied(
        *(node("n1").unschedulable(), node("n2", 2), team, *pods, other),
        config={"profiles": [queues_profile()]},
    )
    plan = made.plan(empty(made.cluster.core, "n1"))
    made.application(plan).run()
    assert [made.cluster.node_of(f"{name}-again") for name in "ab"] == ["n2", "n2"]
    assert not made.cluster.node_of("other")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cluster": "another"}, "of another cluster"),
        ({"cluster": ""}, "it was made from files"),
        ({"kind": "Plan"}, "but of kind Plan"),
        ({"reached": False, "sentence": "Up to 3 moves do not help."}, "do not help"),
        ({"nodes": {"n2": "other"}}, "node n2 has changed since the plan was made"),
        ({"nodes": {"n9": "other"}}, "node n9 is gone since the plan was made"),
        ({"waiting": {"default/waits": "other"}}, "Pod default/waits is gone since"),
        ({"waiting": {"default/other": "other"}}, "`waiting` and `placed` differ"),
        ({"moves": 3}, "this is no plan of bayplan improve"),
    ],
)
def test_a_plan_that_is_not_for_now_is_refused(change: dict[str, Any], why: str) -> None:
    made = world()
    refused(made, planned(made) | change, why)


def test_a_pod_that_has_changed_is_not_evicted() -> None:
    made = world()
    plan = planned(made)
    pod = made.builders["/api/v1/namespaces/default/pods/a"]
    made.add(pod.label("x", "y"))
    refused(made, plan, "Pod default/a has changed since the plan was made")
    made.remove(pod)
    refused(made, plan, "Pod default/a is gone since the plan was made")


def test_what_has_a_node_by_now_needs_no_moves() -> None:
    made = world()
    plan = planned(made)
    pod = made.builders["/api/v1/namespaces/default/pods/waits"]
    assert isinstance(pod, PodBuilder)
    made.add(pod.node("n1"))
    refused(made, plan, "Pod default/waits has a node already: n1")


def test_a_plan_that_does_not_stand_any_more_is_refused() -> None:
    made = world()
    plan = planned(made)
    made.add(runs("b", "n2", 2))
    refused(made, plan, "default/a does not fit on n2: Insufficient cpu")


def test_who_does_not_say_so_any_more_stays() -> None:
    team = queue("team").spec(namespaceSelector={}).label(MOVABLE, "true")
    made = Applied(
        *(node("n1"), node("n2", 2), runs("a", "n1", movable=""), waits(), team),
        config={"profiles": [queues_profile()]},
    )
    plan = planned(made)
    made.add(team.label(MOVABLE, "false"))
    refused(made, plan, "default/a stays: nothing says bayplan.dev/movable=true")


def test_what_a_budget_forbids_is_refused_before_anything_is_touched() -> None:
    made = world()
    budget = "Cannot evict pod as it would violate the pod's disruption budget."
    made.refused["default/a"] = TooManyRequests(budget, status=429)
    refused(made, planned(made), f"default/a cannot be evicted: {budget}")


def test_without_a_scheduler_that_leads_nothing_is_touched() -> None:
    made = world()
    made.cluster.scheduler.active = False
    why = "no scheduler answers in the Lease kube-system/bayplan-improve: "
    refused(made, planned(made), why)


def test_an_eviction_of_unknown_outcome_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    application, acquire = applying(made), made.acquire

    def acquired(annotations: Mapping[str, str]) -> None:
        acquire(annotations)
        made.refused["default/a"] = ConnectionLost("the connection broke")

    monkeypatch.setattr(made, "acquire", acquired)
    with pytest.raises(StoppedError, match="default/a cannot be evicted: the connection broke"):
        application.run()
    assert application.evicted == ["default/a"]


def test_a_scheduler_that_may_not_watch_the_lease_says_so_once() -> None:
    improvement = world().improvement
    forbidden = Forbidden("leases is forbidden", status=403)
    with structlog.testing.capture_logs() as logs:
        for error in (forbidden, forbidden, ConnectionLost("no"), None, forbidden):
            improvement.unwatched(improvement.kind, error)
    assert [(line["lease"], line["namespace"]) for line in logs] == [
        ("bayplan-improve", "kube-system")
    ] * 2
