"""Groups beside the other scheduler: one verdict for each decision about Pods of a group."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import GATE, Kubernetes, Label, Source, gang, gang_members, groups_profile
from tests.properties import length
from tests.shadow.harness import THEIRS, Followed

from bayplan.shadow.verdict import NotCompared, Outcome, Verdict, sentence
from bayplan.testing import NodeBuilder, PodBuilder, make_node, make_pod

PACKING: dict[str, Any] = {
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}},
        }
    ]
}
GROUPS = pytest.mark.parametrize("source", [Label(), Kubernetes()], ids=str)


def followed(**profile: Any) -> Followed:
    """A shadow that knows groups of the label and of Kubernetes."""
    name = {"schedulerName": THEIRS}
    config = {"profiles": [groups_profile() | profile | name]}
    return Followed(config, feature_gates=GATE)


def nodes(*cpus: int) -> list[NodeBuilder]:
    sizes = enumerate(cpus, start=1)
    return [make_node(f"n{i}").capacity(cpu=cpu, memory="64Gi", pods=20) for i, cpu in sizes]


def members(source: Source, count: int) -> list[PodBuilder]:
    pods = source.members(count)
    for pod in pods:
        pod.spec(schedulerName=THEIRS)
    return pods


def shown(followed: Followed, source: Source, count: int, minimum: int = 2) -> list[PodBuilder]:
    """A group and its Pods, which the shadow knows."""
    followed.add(source.group(minimum))
    pods = members(source, count)
    followed.show(*pods)
    followed.follow()
    return pods


def verdict(followed: Followed, pod: PodBuilder) -> Verdict:
    [one] = followed.tally.of_pod(pod.obj().key)
    return one


@GROUPS
def test_a_group_on_the_only_nodes_that_fit_is_one_decision_and_the_same(source: Source) -> None:
    here = followed()
    here.add(*nodes(1, 1))
    pods = shown(here, source, 2)
    here.bind(pods[0], "n2")
    here.bind(pods[1], "n1")
    here.follow()
    assert here.tally.compared == 1
    said = verdict(here, pods[1])
    assert (said.outcome, len(said.members)) == (Outcome.SAME, 2)
    assert sentence(said) == f"{said.pod}, 2 Pods: n1, n2 there and here."


@GROUPS
def test_nodes_that_are_drawn_among_equal_ones_are_no_difference(source: Source) -> None:
    here = followed()
    here.add(*nodes(4, 4, 4, 4))
    pods = shown(here, source, 2)
    here.bind(pods[0], "n4")
    here.bind(pods[1], "n3")
    here.follow()
    assert verdict(here, pods[0]).outcome is Outcome.EQUAL


@GROUPS
def test_the_order_in_which_equal_pods_were_tried_is_no_difference(source: Source) -> None:
    here = followed()
    here.add(*nodes(8, 4, 2))
    pods = shown(here, source, 3, minimum=3)
    for pod, node in zip(pods, ("n2", "n1", "n1"), strict=True):
        here.bind(pod, node)
    here.follow()
    assert verdict(here, pods[0]).agreed


@GROUPS
def test_the_first_pod_that_would_go_elsewhere_says_why(source: Source) -> None:
    here = followed(**PACKING)
    here.add(*nodes(8, 8))
    pods = shown(here, source, 2)
    here.bind(pods[0], "n1")
    here.bind(pods[1], "n2")
    here.follow()
    said = verdict(here, pods[0])
    assert (said.outcome, said.plugin) == (Outcome.BETTER, "NodeResourcesFit")
    assert (said.ours.node, said.theirs.node) == ("n1", "n2")
    assert len(said.members) == 2


@GROUPS
def test_a_group_for_which_there_is_no_room_here_would_wait(source: Source) -> None:
    here = followed()
    here.add(*nodes(1, 1))
    pods = shown(here, source, 3, minimum=3)
    for pod, node in zip(pods, ("n1", "n2", "n2"), strict=True):
        here.bind(pod, node)
    here.follow()
    assert verdict(here, pods[0]).outcome is Outcome.PENDING_HERE


@GROUPS
def test_a_group_that_is_not_complete_would_wait_for_its_pods(source: Source) -> None:
    here = followed()
    here.add(*nodes(4))
    pods = shown(here, source, 1, minimum=2)
    here.bind(pods[0], "n1")
    here.follow()
    said = verdict(here, pods[0])
    assert said.outcome is Outcome.PENDING_HERE
    assert said.plugin in ("Coscheduling", "GangScheduling")


def refuse(here: Followed, pods: list[PodBuilder], messages: dict[str, str]) -> None:
    for pod in pods:
        here.refuse(pod, messages[pod.obj().key])
    here.follow()


def ours(source: Source, sizes: tuple[int, ...], count: int, minimum: int) -> dict[str, str]:
    """What bayplan itself says of the Pods of a group."""
    live = Cluster(profiles=[groups_profile()], feature_gates=GATE)
    pods = source.members(count)
    live.add(*nodes(*sizes), source.group(minimum), *pods)
    live.settle()
    said = {name: condition.message for name, condition in live.recorder.conditions}
    return {pod.obj().key: said[pod.obj().name] for pod in pods}


@GROUPS
def test_a_group_that_is_refused_with_the_same_messages_is_the_same(source: Source) -> None:
    here = followed()
    here.add(*nodes(1, 1))
    pods = shown(here, source, 3, minimum=3)
    refuse(here, pods, ours(source, (1, 1), 3, 3))
    assert here.tally.compared == 1
    assert verdict(here, pods[2]).outcome is Outcome.SAME_MESSAGE


@GROUPS
def test_a_group_that_is_refused_though_it_fits_here_would_be_placed(source: Source) -> None:
    here = followed()
    here.add(*nodes(4))
    pods = shown(here, source, 2)
    refuse(
        here, pods, {pod.obj().key: "0/1 nodes are available: 1 Insufficient cpu." for pod in pods}
    )
    said = verdict(here, pods[0])
    assert (said.outcome, said.ours.node) == (Outcome.PLACED_HERE, "n1")


def test_a_group_with_a_topology_on_other_nodes_is_not_compared() -> None:
    here = Followed(
        {"profiles": [groups_profile() | {"schedulerName": THEIRS}]},
        feature_gates=f"{GATE},TopologyAwareWorkloadScheduling=true",
    )
    racks = [node.label("rack", f"r{i // 2}") for i, node in enumerate(nodes(4, 4, 4, 4))]
    constraints = {"topology": [{"key": "rack"}]}
    here.add(*racks, gang("g", 2, schedulingConstraints=constraints))
    pods = [pod.spec(schedulerName=THEIRS) for pod in gang_members("g", 2)]
    here.show(*pods)
    here.follow()
    here.bind(pods[0], "n3")
    here.bind(pods[1], "n4")
    here.follow()
    assert here.tally.not_compared == {NotCompared.GROUP: 1}


def test_a_group_that_is_an_error_here_is_not_compared() -> None:
    source, here = Kubernetes(), followed()
    here.add(*nodes(4))
    here.add(source.group(2, priority=10))  # unlike that of its Pods
    pods = members(source, 2)
    here.show(*pods)
    here.follow()
    here.bind(pods[0], "n1")
    here.bind(pods[1], "n1")
    here.follow()
    assert here.tally.not_compared == {NotCompared.ERROR: 1}


def test_pods_bound_later_than_the_others_are_a_decision_of_their_own() -> None:
    source, here = Kubernetes(), followed()
    here.add(*nodes(4, 4))
    pods = shown(here, source, 3)
    here.bind(pods[0], "n1")
    here.bind(pods[1], "n2")
    here.follow()
    here.bind(pods[2], "n1")
    here.follow()
    assert here.tally.compared == here.tally.agreed == 2


def test_evictions_for_a_group_are_judged_before_the_victims_are_gone() -> None:
    source, here = Kubernetes(), followed()
    low = make_low("low-0"), make_low("low-1")
    here.add(*nodes(1, 1), low[0].node("n1"), low[1].node("n2"))
    here.add(gang("g", 2, priority=10))
    pods = [pod.spec(schedulerName=THEIRS).priority(10) for pod in source.members(2)]
    here.show(*pods)
    here.follow()
    for victim in low:
        here.evict(victim)
    for pod, node in zip(pods, ("n1", "n2"), strict=True):
        here.refuse(pod, "preempting", nominated=node)
    here.follow()
    assert here.tally.compared == 1
    assert verdict(here, pods[0]).outcome is Outcome.SAME_EVICTIONS


def make_low(name: str) -> PodBuilder:
    return make_pod(name).req(cpu="1")


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    count=st.integers(1, 5),
    minimum=st.integers(1, 5),
    source=st.sampled_from([Label(), Kubernetes()]),
    seed=st.randoms(use_true_random=False),
)
@length(60)
def test_bayplan_itself_never_differs_from_its_shadow(
    sizes: list[int], count: int, minimum: int, source: Source, seed: Any
) -> None:
    """Whichever Pod of the group is seen first."""
    live = Cluster(profiles=[groups_profile()], feature_gates=GATE)
    live.add(*nodes(*sizes), source.group(minimum), *source.members(count))
    live.settle()
    here = followed()
    here.add(*nodes(*sizes))
    pods = shown(here, source, count, minimum)
    said = dict(live.recorder.conditions)
    seed.shuffle(pods)
    for pod in pods:
        name = pod.obj().name
        if node := live.node_of(name):
            here.bind(pod, node)
        elif name in said and said[name].reason == "Unschedulable":
            here.refuse(pod, said[name].message)
    here.follow()
    assert here.tally.agreed == here.tally.compared, list(here.tally.differences())
    assert here.tally.not_compared.total() == 0
