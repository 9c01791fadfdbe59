"""What is promised about groups, while nothing goes wrong but what the scheduler does itself.

Pods and groups of all sources come, nodes come and go, writes and watch events are late; no user
deletes anything and the API server refuses nothing. So a group that has fewer Pods than its minimum
has lost them by the scheduler's own hand, unless they went with their node. One Pod that preempts
may leave a group below its minimum, where there is no other node for it, as kube-scheduler does
(docs/groups.md). Pods without a group have no higher priority than groups, so only Pods that come
later than the minimum of their group do so.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.live_groups import GROUPS, LiveMachine
from tests.properties import length

NODES = ["n0", "n1", "n2"]


class PromisesMachine(LiveMachine):
    def __init__(self) -> None:
        super().__init__()
        self.unlucky: set[str] = set()
        """Groups that lost Pods with a node."""

    @initialize(
        minimums=st.tuples(*(st.integers(1, 4) for _ in GROUPS)),
        groups=st.lists(st.sampled_from(sorted(GROUPS)), max_size=4),
    )
    def begin(self, minimums: tuple[int, ...], groups: list[str]) -> None:
        self.world.set_node("n0")
        self.world.set_node("n1")
        for name, minimum in zip(GROUPS, minimums, strict=True):
            self.world.set_group(name, minimum)
        for name in groups:
            self.a_whole_group_comes(name, 0)
            self.world.settle()

    @rule(cpu=st.integers(1, 4), priority=st.integers(-1, 0))
    def a_pod_comes(self, cpu: int, priority: int) -> None:
        self.world.come("", cpu=cpu, priority=priority)

    @rule(name=st.sampled_from(sorted(GROUPS)), more=st.integers(0, 1))
    def a_whole_group_comes(self, name: str, more: int) -> None:
        for _ in range(self.world.minimums[name] + more):
            self.world.come(name)

    @rule(name=st.sampled_from(sorted(GROUPS)))
    def one_member_comes(self, name: str) -> None:
        self.world.come(name)

    @rule(name=st.sampled_from(NODES), cordoned=st.sampled_from([False, False, True]))
    def a_node_comes_or_is_cordoned(self, name: str, cordoned: bool) -> None:
        self.world.set_node(name, cordoned=cordoned)

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data())
    def a_node_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.nodes)))
        # A binding to it that is under way is lost, too.
        self.unlucky |= {
            self.world.group_of(self.api.pods[pod].obj())
            for pod, node in self.world.cluster.bound
            if node == name and pod in self.api.pods
        }
        self.world.drop_node(name)

    @rule(attempts=st.integers(1, 4))
    def schedule(self, attempts: int) -> None:
        for _ in range(attempts):
            self.world.schedule()

    @rule()
    def all_settles(self) -> None:
        super().all_settles()
        running = Counter(self.world.group_of(pod) for pod in self.api.running())
        excused = self.unlucky | {
            event.pod.partition("-")[0]
            for event in self.world.cluster.events
            if event.note.startswith("Preempted by pod ")
        }
        for name, minimum in self.world.minimums.items():
            if GROUPS[name].goes_as_a_whole and name not in excused:
                assert running[name] == 0 or running[name] >= minimum, (name, running[name])


PromisesMachine.TestCase.settings = length(40, steps=40)
TestPromises = PromisesMachine.TestCase
