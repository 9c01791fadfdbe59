"""Room for slices: whom a group evicts, that it helps, and that nobody goes in vain."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests import packing_judge
from tests.core_harness import Cluster
from tests.groups import group_cluster, members, pod_group, racks, slices
from tests.owners import make_job, pods_of_job
from tests.properties import length
from tests.slice_judge import Question, Rack, best
from tests.test_slice_packing import asked as annotations_of
from tests.test_slice_packing import built, members_of
from tests.test_slice_packing import questions as packing_questions

from bayplan.testing import make_node, make_pod

LEVELS = ["zone", "block", "rack", "host"]


def evicted(cluster: Cluster) -> set[str]:
    """The names of the Pods that were evicted."""
    return set(cluster.writer.deleted)


@st.composite
def questions(draw: Any) -> tuple[Question, list[int]]:
    """Racks with one node each, and how many Pods of low priority each has."""
    found, low = [], []
    for number in range(draw(st.integers(1, 6))):
        block, room = draw(st.integers(0, 2)), draw(st.integers(0, 5))
        found.append(Rack(f"r{number}", (f"z{block % 2}", f"b{block}"), room))
        low.append(draw(st.integers(0, room)))
    size, outer = draw(st.integers(1, 3)), dict[int, int]()
    within = draw(st.sampled_from([-1, -1, 0, 1]))
    each = size
    for position in (1, 0):
        ratio = draw(st.sampled_from([0, 0, 2]))
        if ratio and position >= within:
            each *= ratio
            outer[position] = each
    pods = each * draw(st.integers(1, max(9 // each, 1)))
    return Question(found, pods, size, outer, within), low


def fits_beside(question: Question, low: list[int]) -> bool:
    """Whether there is a way for the slices beside so many Pods in each rack."""
    racks = [
        rack._replace(room=rack.room - there)
        for rack, there in zip(question.racks, low, strict=True)
    ]
    return best(question._replace(racks=racks)) is not None


@length(40)
@given(questions())
def test_room_for_slices_is_made_where_it_can_be_and_nobody_goes_in_vain(
    asked: tuple[Question, list[int]],
) -> None:
    question, low = asked
    cluster = group_cluster(topologyLevels=LEVELS)
    for rack in question.racks:
        node = make_node(rack.name).capacity(cpu=str(rack.room), memory="64Gi", pods=110)
        labels = zip(LEVELS, (*rack.path, rack.name, rack.name), strict=True)
        for label, value in labels:
            node = node.label(label, value)
        cluster.add(node)
    for index, number in enumerate(low):
        pods = (make_pod(f"low{index}-{i}").req(cpu="1").node(f"r{index}") for i in range(number))
        cluster.add(*pods)
    layers = [(LEVELS[position], size) for position, size in sorted(question.outer.items())]
    required = LEVELS[question.within] if question.within >= 0 else ""
    annotations = slices(*layers, ("rack", question.size), required=required)
    cluster.add(pod_group("g", annotations, minMember=question.pods))
    cluster.add(*(pod.priority(5) for pod in members("g", question.pods)))
    cluster.settle(3)
    gone = evicted(cluster)
    nobody = [0] * len(low)
    assert len(cluster.bound) == (question.pods if fits_beside(question, nobody) else 0)
    if fits_beside(question, low) or not cluster.bound:
        assert not gone
    else:
        left = [n - sum(f"low{i}-{k}" in gone for k in range(n)) for i, n in enumerate(low)]
        assert fits_beside(question, left)
        for index in {int(name.removeprefix("low").split("-")[0]) for name in gone}:
            one_more = [n + (i == index) for i, n in enumerate(left)]
            assert not fits_beside(question, one_more), (gone, index)


@length(30)
@given(st.data())
def test_room_for_unlike_pods_and_parts_is_made_where_it_can_be_and_not_in_vain(data: Any) -> None:
    nodes, parts = data.draw(packing_questions())
    low = [data.draw(st.integers(0, node.cpu)) for node in nodes]
    cluster = group_cluster(topologyLevels=packing_judge.LEVELS)
    cluster.add(*built(nodes))
    for index, number in enumerate(low):
        pods = (make_pod(f"low{index}-{i}").req(cpu="1").node(f"n{index}") for i in range(number))
        cluster.add(*pods)
    total = sum(len(part.cpus) for part in parts)
    cluster.add(pod_group("g", annotations_of(parts), minMember=total))
    cluster.add(*(pod.priority(5) for pod in members_of(parts)))
    cluster.settle(3)
    gone = evicted(cluster)
    beside = [node._replace(cpu=node.cpu - n) for node, n in zip(nodes, low, strict=True)]
    fits = packing_judge.best(nodes, parts) is not None
    assert len(cluster.bound) == (total if fits else 0)
    if not fits or packing_judge.best(beside, parts) is not None:
        assert not gone


def test_victims_of_the_lowest_priority_make_room_for_a_whole_slice() -> None:
    """The lowest two Pods are in two racks, and would make no room for a slice."""
    cluster = group_cluster(topologyLevels=LEVELS)
    priorities = {"r0n0": 0, "r0n1": 3, "r1n0": 1, "r1n1": 1}
    low = [
        make_pod(f"on-{node}").req(cpu="1").node(node).priority(priority)
        for node, priority in priorities.items()
    ]
    cluster.add(*racks(2, 2), *low, pod_group("g", slices(("rack", 2)), minMember=2))
    cluster.add(*(pod.priority(5) for pod in members("g", 2)))
    cluster.settle()
    assert evicted(cluster) == {"on-r1n0", "on-r1n1"}


def test_a_last_slice_with_fewer_pods_gets_room_for_a_whole_one() -> None:
    cluster = group_cluster(topologyLevels=LEVELS, inferGroups=["Job"])
    node = make_node("n").capacity(cpu="8", memory="64Gi", pods=110).label("rack", "r0")
    cluster.add(node, *(make_pod(f"low{i}").req(cpu="1").node("n") for i in range(3)))
    job = make_job("g", 6, completions=6).uid("job-g")
    for name, value in slices(("rack", 4)).items():
        job = job.annotation(name, value)
    cluster.add(job, *(pod.priority(5) for pod in pods_of_job(job, range(6))))
    cluster.settle(3)
    assert evicted(cluster) == {"low0", "low1", "low2"}
    assert len(cluster.bound) == 6
