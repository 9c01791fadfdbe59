"""Who may preempt, on how many nodes it is tried, what extenders say, and the messages."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.preemption.world import (
    NOW,
    PREEMPTED,
    World,
    as_preemptor,
    candidates,
    node,
    preemptor,
    tied,
    victim,
)

from bayplan.api.pod import Pod
from bayplan.engine.extenders import ExtenderError
from bayplan.extenders.wire import MetaVictims
from bayplan.framework import Plugin, Status
from bayplan.framework.effects import CountSearch, Evict
from bayplan.framework.status import Code
from bayplan.preemption.plugin import Remember
from bayplan.testing import NodeBuilder, PodBuilder, labels_are, make_pod

NOT_ELIGIBLE = "preemption: not eligible due to "

# Eligibility


def nominated() -> PodBuilder:
    return preemptor().nominated("n1")


def leaving(name: str = "leaving", **kwargs: Any) -> PodBuilder:
    return victim(name, 2, **kwargs).terminating()


@pytest.mark.parametrize(
    ("pod", "on_node", "message"),
    [
        pytest.param(
            preemptor().spec(preemptionPolicy="Never"),
            victim("v", 2),
            "preemptionPolicy=Never.",
            id="policy Never",
        ),
        pytest.param(
            nominated(),
            leaving().condition("DisruptionTarget", "True", **PREEMPTED),
            "a terminating pod on the nominated node.",
            id="a victim of a preemption is still leaving",
        ),
    ],
)
def test_some_pods_must_not_preempt(pod: PodBuilder, on_node: PodBuilder, message: str) -> None:
    world = World(node("n1"))
    world.put("n1", victim("v"), on_node)
    result = world.preempt(pod)
    assert result.status == Status.unschedulable(NOT_ELIGIBLE + message)
    assert result.nominated_node is None, "the nomination stays as it is"
    assert world.client.calls == []


@pytest.mark.parametrize(
    ("pod", "on_node"),
    [
        pytest.param(
            preemptor().spec(preemptionPolicy="PreemptLowerPriority"), victim("x"), id="the policy"
        ),
        pytest.param(
            preemptor(),
            leaving().condition("DisruptionTarget", "True", **PREEMPTED),
            id="not nominated",
        ),
        pytest.param(nominated(), victim("x"), id="nobody is leaving"),
        pytest.param(nominated(), leaving(), id="leaving without a reason"),
        pytest.param(
            nominated(),
            leaving().condition("DisruptionTarget", "True", reason="EvictionByEvictionAPI"),
            id="leaving for another reason",
        ),
        pytest.param(
            nominated(),
            leaving().condition("DisruptionTarget", "False", **PREEMPTED),
            id="leaving with a condition that does not hold",
        ),
        pytest.param(
            preemptor().nominated("gone"),
            leaving().condition("DisruptionTarget", "True", **PREEMPTED),
            id="nominated to a node that is gone",
        ),
        pytest.param(
            nominated().node_selector({"zone": "b"}),
            leaving().condition("DisruptionTarget", "True", **PREEMPTED),
            id="the nominated node will never do",
        ),
    ],
)
def test_all_others_may_preempt(pod: PodBuilder, on_node: PodBuilder) -> None:
    world = World(node("n1"), node("n2").label("zone", "b"))
    world.put("n1", on_node)
    world.put("n1", victim("rest", 3, priority=1))
    world.put("n2", victim("v2", 4))
    assert world.preempt(pod).status.ok


def test_victims_of_the_own_preemption_of_equal_priority_are_not_waited_for() -> None:
    world = World(node("n1"))
    equal = leaving(priority=1000).condition("DisruptionTarget", "True", **PREEMPTED)
    world.put("n1", equal, victim("v", 2))
    assert world.preempt(preemptor(2).nominated("n1")).status.ok


def test_a_nomination_that_the_api_server_does_not_know_yet_counts() -> None:
    world = World(node("n1"))
    world.put("n1", leaving().condition("DisruptionTarget", "True", **PREEMPTED), victim("v", 2))
    pod = preemptor().spec(schedulerName="bayplan").obj()
    world.world.nominator.nominate(pod, "n1")
    assert world.preempt(pod).status.message.startswith(NOT_ELIGIBLE)


# Messages


def taint(name: str) -> NodeBuilder:
    return node(name).taint("dedicated")


def test_the_message_counts_what_the_dry_runs_met() -> None:
    world = World(*(node(f"n{i}") for i in range(3)), *(taint(f"t{i}") for i in range(11)))
    world.put("n0", victim("big", 3, priority=2000), victim("small"))
    world.put("n1", victim("n1-big", 3, priority=2000), victim("n1-small"))
    world.put("n2", victim("n2-big", 4, priority=2000))
    result = world.preempt(preemptor())
    assert result.status == Status.unschedulable(
        "preemption: 0/14 nodes are available: 1 No preemption victims found for incoming pod, "
        "11 Preemption is not helpful for scheduling, 2 Insufficient cpu."
    )
    assert result.nominated_node == "", "a nomination that leads nowhere is given up"
    assert world.client.calls == []


def test_the_message_of_a_pod_that_no_eviction_helps() -> None:
    world = World(taint("t1"), taint("t2"))
    assert world.preempt(preemptor()).status.message == (
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


class Silent(Plugin):
    """Rejects without a reason."""

    def filter(self, state: Any, pod: Pod, node: Any) -> Status | None:
        return Status.unschedulable()


def test_a_rejection_without_a_reason_is_not_counted() -> None:
    world = World(node("n1", 8), plugin=Silent)
    world.put("n1", victim("v"))
    message = world.preempt(preemptor(1)).status.message
    assert message == "preemption: 0/1 nodes are available:"


def test_a_success_says_where_and_how_many_have_to_leave() -> None:
    world = World(node("n1"))
    world.put("n1", victim("v", 4))
    result = world.preempt(preemptor())
    found = "found a potential placement for pod on node n1"
    assert result.status == Status(reasons=(f"preemption: {found}, preempting 1 victims",))
    assert result.nominated_node == "n1"


class Picky(Plugin):
    """Lets nobody in beside ``v``; where ``broken`` is, it cannot tell without ``v``."""

    def filter(self, state: Any, pod: Pod, node: Any) -> Status | None:
        names = {p.name for p in node.pods}
        if "v" in names:
            return Status.unschedulable("no")
        return Status.error(f"{node.name} is broken") if "broken" in names else None


def test_errors_are_told_where_there_is_no_candidate() -> None:
    world = World(node("n1", 8), node("n2", 8), plugin=Picky)
    for name in ("n1", "n2"):
        world.put(name, victim("broken", priority=2000), victim("v"))
    status = world.preempt(preemptor(1)).status
    assert status.code is Code.ERROR
    errors = (f'running "Picky" filter plugin: {name} is broken' for name in ("n1", "n2"))
    assert status.message == f"preemption: [{', '.join(errors)}]"


def test_errors_do_not_matter_where_there_is_a_candidate() -> None:
    world = World(node("n1", 8), node("n2", 8), plugin=Picky)
    world.put("n1", victim("broken", priority=2000), victim("v"))
    world.put("n2", victim("v"))
    assert world.preempt(preemptor(1)).nominated_node == "n2"


class Moody(Plugin):
    """Rejects every node once, then takes them all."""

    def __init__(self, args: object, handle: Any) -> None:
        super().__init__(args, handle)
        self.asked = 0

    def filter_nodes(self, state: Any, pod: Pod, nodes: Any) -> Any:
        self.asked += 1
        return (nodes.exists * (nodes.origin is None)).astype(int)

    def reasons(self, state: Any, pod: Pod, code: int) -> Status:
        return Status.unschedulable("not today")


def test_a_node_on_which_everybody_could_stay_is_an_error() -> None:
    world = World(node("n1", 8), plugin=Moody)
    world.put("n1", victim("v"))
    result = world.preempt(preemptor(1))
    expected = 'preemption: expected at least one victim pod on node "n1"'
    assert result.status == Status.error(expected)
    assert result.nominated_node is None


# How many nodes are looked at


def many(count: int, **kwargs: Any) -> World:
    world = World(*(node(f"n{i:02}") for i in range(count)), **kwargs)
    for i in range(count):
        world.put(f"n{i:02}", victim(f"v{i}", 4, priority=count - i))
    return world


def limits(percentage: int, absolute: int) -> dict[str, int]:
    return {
        "minCandidateNodesPercentage": percentage,
        "minCandidateNodesAbsolute": absolute,
    }


@pytest.mark.parametrize(
    ("args", "looked_at"),
    [
        pytest.param(limits(10, 3), 3, id="absolute"),
        pytest.param(limits(50, 3), 10, id="percentage"),
        pytest.param(limits(0, 100), 20, id="no more than there are"),
        pytest.param({}, 20, id="the defaults take all of a small cluster"),
    ],
)
def test_live_as_many_candidates_as_configured_are_looked_at(
    args: dict[str, int], looked_at: int
) -> None:
    world = many(20, **args)
    # The victims' priorities fall from node to node, so the last one looked at is the best.
    assert world.preempt(preemptor()).nominated_node == f"n{looked_at - 1:02}"


def test_the_next_search_begins_where_the_last_one_ended() -> None:
    world = many(5, **limits(0, 2))
    chosen = []
    for i in range(4):
        # Each Pod has a shape of its own, so nothing is known of earlier dry runs.
        pod = as_preemptor(preemptor().label("n", str(i)))
        node_name = world.preempt(pod).nominated_node
        world.world.nominator.nominate(pod, node_name)
        chosen.append(node_name)
    assert chosen == ["n01", "n03", "n04", "n02"]


def test_offline_every_node_is_looked_at() -> None:
    world = many(20, **limits(0, 2))
    world.ports = replace(world.ports, exhaustive=True)
    world.reload()
    analysis = world.analyse(preemptor())
    assert len(analysis.candidates) == 20
    assert tied(analysis) == ["n19"]


def test_nobody_is_evicted_while_the_decision_is_not_applied() -> None:
    world = many(20, **limits(0, 2))
    result, effects = world.ask(preemptor())
    assert result.nominated_node == "n01"
    assert [type(effect) for effect in effects] == [Remember, CountSearch, Evict]
    assert world.client.calls == []
    assert world.metric("scheduler_preemption_attempts_total") == 0


def test_a_question_changes_nothing_about_the_next_decisions() -> None:
    """Neither where the next search begins, nor among how many candidates it chooses."""
    chosen = []
    for questions in (0, 3):
        world = many(20, **limits(0, 2))
        nodes = []
        for _ in range(3):
            for _ in range(questions):
                world.ask(preemptor())
                world.ask(preemptor().label("another", "shape"))
            nodes.append(world.preempt(preemptor()).nominated_node)
        chosen.append(nodes)
    assert chosen[0] == chosen[1]


def test_the_search_goes_on_until_a_node_without_protected_victims_is_found() -> None:
    world = many(6, **limits(0, 2))
    protected = [victim(f"g{i}").label("app", "web") for i in range(5)]
    world.budget("web", labels_are({"app": "web"}), allowed=0)
    for i, pod in enumerate(protected):
        world.cache.remove(next(iter(world.cache.nodes.pods[i])))
        world.put(f"n{i:02}", pod.req(cpu="3"))
    assert world.preempt(preemptor()).nominated_node == "n05"


def test_of_equally_good_nodes_the_first_by_name_is_taken() -> None:
    world = World(node("b"), node("c"), node("a"))
    for name in ("b", "c", "a"):
        world.put(name, victim(f"v-{name}", 4))
    analysis = world.analyse(preemptor())
    assert tied(analysis) == ["a", "b", "c"]
    assert analysis.best is not None
    assert analysis.best.node_name == "a" == analysis.result.nominated_node


def test_a_start_after_now_is_not_better_than_now() -> None:
    world = World(node("n1"), node("n2"))
    world.put("n1", victim("v1", 4, started=None))
    world.put("n2", victim("v2", 4))
    world.clock.time = NOW
    assert tied(world.analyse(preemptor())) == ["n1"]


# Extenders


class Extender:
    """Answers what the test says, by uid; raises where that is an exception."""

    def __init__(self, answer: Any, ignorable: bool = False) -> None:
        self.ignorable = ignorable
        self.name = "http://extender"
        self._answer = answer
        self.asked: Any = None

    def preempt(self, pod: Pod, victims: Any) -> Any:
        self.asked = {n: ([p.name for p in pods], v) for n, (pods, v) in victims.items()}
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer(victims) if callable(self._answer) else self._answer


class Extenders:
    def __init__(self, *extenders: Extender) -> None:
        self._extenders = extenders

    def preemptors(self, pod: Pod) -> Any:
        return list(self._extenders)

    def filter(self, *_: Any) -> dict[int, Status]:
        return {}


def agree_to(*names: str) -> Any:
    return lambda victims: {n: MetaVictims(meta_pods(*victims[n][0]), victims[n][1]) for n in names}


def meta_pods(*pods: Any) -> Any:
    return [SimpleNamespace(uid=getattr(p, "uid", p)) for p in pods]


def two_nodes(*extenders: Extender) -> World:
    world = World(node("n1"), node("n2"), extenders=Extenders(*extenders))
    world.put("n1", victim("v1", 4, priority=1).uid("v1"))
    world.put("n2", victim("v2", 4, priority=2).uid("v2"))
    return world


def test_extenders_narrow_the_candidates_one_after_the_other() -> None:
    first, second = Extender(agree_to("n1", "n2")), Extender(agree_to("n2"))
    analysis = two_nodes(first, second).analyse(preemptor())
    assert first.asked == second.asked == {"n1": (["v1"], 0), "n2": (["v2"], 0)}
    assert candidates(analysis) == {"n2": (["v2"], 0)}
    assert analysis.result.nominated_node == "n2"


def test_an_extender_may_name_other_victims() -> None:
    world = two_nodes(Extender({"n1": MetaVictims(meta_pods("v1", "more"), 1)}))
    world.put("n1", victim("more", 0, priority=5).uid("more"))
    assert candidates(world.analyse(preemptor())) == {"n1": (["v1", "more"], 1)}


def test_without_extenders_that_preempt_nobody_is_asked() -> None:
    analysis = two_nodes().analyse(preemptor())
    assert analysis.result.nominated_node == "n1"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            {}, Status.unschedulable("preemption: no candidate node for preemption"), id="none"
        ),
        pytest.param(ExtenderError("down"), Status.error("preemption: down"), id="failure"),
        pytest.param(
            {"n1": MetaVictims(None)},
            Status.error('preemption: expected at least one victim pod on node "n1"'),
            id="no victims",
        ),
        pytest.param(
            {"n9": MetaVictims(meta_pods("v1"))},
            Status.error('preemption: nodeinfo not found for node name "n9"'),
            id="unknown node",
        ),
        pytest.param(
            {"n1": MetaVictims(meta_pods("v2"))},
            Status.error(
                "preemption: extender: http://extender claims to preempt pod (UID: v2) on node: "
                "n1, but the pod is not found on that node"
            ),
            id="unknown Pod",
        ),
    ],
)
def test_an_extender_can_make_preemption_impossible(answer: Any, expected: Status) -> None:
    result = two_nodes(Extender(answer)).analyse(preemptor()).result
    assert result.status == expected
    assert result.nominated_node is None


@pytest.mark.parametrize(
    ("answer", "nominated_node"),
    [
        pytest.param(ExtenderError("down"), "n1", id="a failure is skipped"),
        pytest.param(
            {"n1": MetaVictims(None), "n2": MetaVictims(meta_pods("v2"))},
            "n2",
            id="a node without victims is skipped",
        ),
    ],
)
def test_an_ignorable_extender_may_go_wrong(answer: Any, nominated_node: str) -> None:
    analysis = two_nodes(Extender(answer, ignorable=True)).analyse(preemptor())
    assert analysis.result.nominated_node == nominated_node


def test_no_lower_pods_at_all() -> None:
    world = World(node("n1"))
    world.put("n1", make_pod("same").req(cpu="4").priority(1000))
    assert world.preempt(preemptor()).status.message == (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
