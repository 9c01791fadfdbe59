"""Rows with nominated Pods: what is kept of them is what a fresh look says, whatever happens."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.queues import pod as of_queue
from tests.queues import queue, queue_cluster

from bayplan.api.pod import Pod
from bayplan.engine.what_if import WhatIf
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.services import Services
from bayplan.testing import PodBuilder, make_node, make_pod

NODES = 4
OPERATIONS = ("nominate", "end", "place", "leave", "change", "remove", "join")


def numbered(name: str, number: int, cpu: str) -> PodBuilder:
    """A Pod with a host port, of one of three priorities."""
    pod = make_pod(f"{name}-{number}").uid(f"{name}-{number}").req(cpu=cpu)
    return pod.priority(number % 3).host_port(number % 2 + 1)


NOMINEES = [numbered("nominee", number, "1") for number in range(8)]
ASKERS = [numbered("asker", number, "2").obj() for number in range(3)]


class Rig:
    """A cluster, and two asked by name: what keeps its tables, and what never saw any before."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.nominator = self.cluster.world.nominator
        self.nodes = self.cluster.nodes
        self.kept = self.cluster.framework.search.what_if
        for index in range(NODES):
            self.join(index)

    def join(self, index: int, cpu: str = "4") -> None:
        """The node is new, or has changed."""
        self.cluster.add(make_node(f"n{index}").uid(f"n{index}").capacity(cpu=cpu, pods=9))

    def do(self, operation: str, number: int) -> None:
        """One change of the cluster or of the nominations."""
        index = number % NODES
        name = f"n{index}"
        placed = make_pod(f"placed-{number}").uid(f"placed-{number}").req(cpu="1")
        changes: dict[str, Callable[[], object]] = {
            "nominate": lambda: self.nominator.nominate(NOMINEES[number].obj(), name),
            "end": lambda: self.nominator.remove(f"nominee-{number}"),
            "place": lambda: self.cluster.add(placed.node(name)),
            "leave": lambda: self.cluster.remove(placed),
            "change": lambda: self.join(index, cpu=str(2 + number)),
            "remove": lambda: self.cluster.remove(make_node(name).uid(name)),
            "join": lambda: self.join(index),
        }
        changes[operation]()

    def look(self, *more: Pod) -> None:
        """What is kept says the same as what is not."""
        for pod in (*ASKERS, *more):
            assert self.answer(self.kept, pod) == self.answer(self.fresh(), pod)

    def answer(self, what_if: WhatIf, pod: Pod) -> dict[str, list[str]]:
        """By node with nominees, why the Pod does not fit beside them; empty where it does."""
        state = CycleState()
        self.cluster.framework.search.diagnose(state, pod)
        nominated = what_if.with_nominees(state, pod, self.nodes)
        if nominated is None:
            return {}
        rows, diagnosis = nominated
        names = [str(self.nodes.names[row]) for row in rows.tolist()]
        return {name: list(diagnosis.status(i).reasons) for i, name in enumerate(names)}

    def fresh(self) -> WhatIf:
        """One that has kept nothing."""
        what_if = WhatIf(self.nominator, Services())
        what_if.adopt(self.cluster.framework.plugins, self.kept.stages)
        return what_if


@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 7)), min_size=5, max_size=20))
def test_what_is_kept_is_what_a_fresh_look_says(operations: list[tuple[str, int]]) -> None:
    rig = Rig()
    rig.look()
    for operation, number in operations:
        rig.do(operation, number)
        rig.look(NOMINEES[number].obj())


def test_nothing_is_made_anew_while_neither_a_nomination_nor_its_node_changes() -> None:
    rig = Rig()
    rig.nominator.nominate(make_pod("nominee").req(cpu="3").priority(1).obj(), "n1")
    asker = make_pod("asker").req(cpu="2").obj()

    def table() -> object:
        state = CycleState()
        rig.cluster.framework.search.diagnose(state, asker)
        nominated = rig.kept.with_nominees(state, asker, rig.nodes)
        assert nominated is not None
        return nominated[1].nodes

    first = table()
    rig.cluster.add(make_pod("elsewhere").req(cpu="1").node("n2"))
    assert table() is first
    rig.cluster.add(make_pod("there").req(cpu="1").node("n1"))
    second = table()
    assert second is not first
    rig.nominator.nominate(make_pod("other").req(cpu="1").priority(1).obj(), "n3")
    assert table() is not second


def test_pods_of_one_queue_have_their_own_rivals_and_those_of_the_moment() -> None:
    """What is guaranteed covers a nominated Pod, and not each Pod of a higher priority."""
    cluster = queue_cluster()
    cluster.add(make_node("n0").capacity(cpu="8", pods=9), queue("a", "x", guaranteed={"cpu": 2}))
    low = of_queue("low", "x")
    cluster.add(of_queue("placed", "x").node("n0"), of_queue("other", "z", cpu="7").node("n0"))
    cluster.add(low, of_queue("another", "z"))
    cluster.run()  # turns look at guarantees while Pods of several tenants wait
    cluster.world.nominator.nominate(low.obj(), "n0")

    def has_rivals(cpu: str) -> bool:
        asker, state = of_queue(f"high-{cpu}", "x", cpu=cpu, priority=9).obj(), CycleState()
        cluster.framework.search.diagnose(state, asker)
        what_if = cluster.framework.search.what_if
        return what_if.with_nominees(state, asker, cluster.nodes) is not None

    assert [has_rivals(cpu) for cpu in ("1", "2", "3")] == [False, True, True]
    cluster.add(of_queue("placed-later", "x").node("n0"))
    assert not has_rivals("3")
