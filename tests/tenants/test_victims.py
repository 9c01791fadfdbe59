"""Who goes of one giver: judged by a slow program that enumerates all sets of victims.

The taker claims what it is guaranteed, the giver is entitled to nothing, all have one priority. So
every Pod of the giver may go, and who goes is a matter of order alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.core_harness import Cluster
from tests.groups import pod_group
from tests.properties import length
from tests.queues import pod, queue, queue_cluster

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.testing import make_node, make_object

GROUPS = "", "", "g", "h"
Key = tuple[bool, int, int]
"""Whether a budget is violated; 0 surplus of a group, 1 alone, 2 ends a group; minus the start."""


@dataclass(frozen=True)
class Running:
    """A Pod of the giver; ``started`` is the second, so the highest is the youngest."""

    name: str
    node: int
    cpu: int
    group: str
    is_protected: bool
    started: int


@dataclass
class Small:
    """Nodes by cores, what runs on them, the minimum of each group, what the taker asks for."""

    nodes: Sequence[int]
    size: int
    minimums: Mapping[str, int]
    pods: list[Running] = field(default_factory=list)

    def free(self, node: int, gone: Collection[Running] = ()) -> int:
        """Cores of the node that nobody uses."""
        on_node = (one for one in self.pods if one.node == node and one not in gone)
        return self.nodes[node] - sum(one.cpu for one in on_node)

    def members(self, group: str) -> list[Running]:
        """Those of a group, the oldest first."""
        mine = [one for one in self.pods if one.group == group]
        return sorted(mine, key=lambda one: one.started)

    def suffices(self, gone: Collection[Running]) -> bool:
        """Whether the taker fits then; of a group, those of its minimum go with all others."""
        for group, minimum in self.minimums.items():
            members = self.members(group)
            ends = any(one in gone for one in members[:minimum])
            if ends and not all(one in gone for one in members):
                return False
        return any(self.free(node, gone) >= self.size for node in range(len(self.nodes)))

    def keys(self) -> dict[Running, Key]:
        """When each Pod goes: lower ones first. What ends a group goes at once."""
        keys: dict[Running, Key] = {one: (one.is_protected, 1, -one.started) for one in self.pods}
        for group, minimum in self.minimums.items():
            members = self.members(group)
            for number, one in enumerate(members):
                oldest = members[0] if number < minimum else one
                kind = 2 if number < minimum else 0
                keys[one] = one.is_protected, kind, -oldest.started
        return keys

    def loss(self, gone: Collection[Running]) -> tuple[int, int, int]:
        """How many violate a budget, how many groups end, and how many Pods go."""
        ended = [
            group
            for group, minimum in self.minimums.items()
            if any(one in gone for one in self.members(group)[:minimum])
        ]
        return sum(one.is_protected for one in gone), len(ended), len(gone)

    def sets(self) -> list[frozenset[Running]]:
        """All sets of victims that make room."""
        return [frozenset(some) for some in subsets(self.pods) if self.suffices(some)]


def subsets(pods: Collection[Running]) -> Iterator[tuple[Running, ...]]:
    """All but the empty one."""
    return chain.from_iterable(combinations(pods, n) for n in range(1, len(pods) + 1))


@st.composite
def small_worlds(draw: st.DrawFn) -> Small:
    """No node has room for the taker, each would have if it were empty."""
    nodes = draw(st.lists(st.integers(4, 6), min_size=1, max_size=3))
    protected = {group: draw(st.booleans()) for group in ("g", "h")}
    minimums = {group: draw(st.integers(1, 3)) for group in ("g", "h")}
    world = Small(nodes, draw(st.integers(1, 4)), minimums)
    one = st.tuples(
        st.integers(0, len(nodes) - 1),
        st.integers(1, 4),
        st.sampled_from(GROUPS),
        st.booleans(),
    )
    for second, (node, cpu, group, is_protected) in enumerate(
        draw(st.lists(one, min_size=1, max_size=8))
    ):
        if cpu <= world.free(node):
            kept = protected.get(group, is_protected)
            world.pods.append(Running(f"b-{second}", node, cpu, group, kept, second))
    assume(all(world.free(node) < world.size for node in range(len(nodes))))
    return world


def evicted(world: Small) -> frozenset[Running]:
    """Whom the scheduler evicts for the taker."""
    cluster: Cluster = queue_cluster("Coscheduling")
    cluster.writer.on_deleted = None
    for number, cores in enumerate(world.nodes):
        cluster.add(make_node(f"n{number}").capacity(cpu=cores, memory="64Gi", pods=110))
    cluster.add(queue("a", "x", guaranteed={"cpu": world.size}), queue("b", "y", weight=0))
    budget = make_object(POD_DISRUPTION_BUDGET, "protected").namespace("y")
    budget.spec(selector={"matchLabels": {"protected": "yes"}})
    cluster.add(budget.status(disruptionsAllowed=0))
    for group, minimum in world.minimums.items():
        cluster.add(pod_group(group, minMember=minimum).namespace("y"))
    for one in world.pods:
        builder = pod(one.name, "y", str(one.cpu)).node(f"n{one.node}")
        if one.is_protected:
            builder.label("protected", "yes")
        if one.group:
            builder.label(POD_GROUP_LABEL, one.group)
        cluster.add(builder.start_time(f"2026-01-01T00:00:{one.started:02d}Z"))
    cluster.add(pod("a", "x", str(world.size)))
    cluster.run()
    return frozenset(one for one in world.pods if one.name in cluster.writer.deleted)


@length(150)
@given(small_worlds())
def test_nobody_goes_in_vain_and_no_single_pod_would_do_at_less_loss(world: Small) -> None:
    """Less is lost where fewer budgets are violated, then fewer groups end, then fewer Pods go.

    Of sets by which as much is lost, none has its last Pod earlier in the order than ours. A budget
    is violated only where every set violates one.
    """
    gone, keys, sets = evicted(world), world.keys(), world.sets()
    assert gone in sets
    assert not any(other < gone for other in sets), "a part of them would do"
    losses = {some: world.loss(some) for some in sets}
    for some, loss in losses.items():
        if len(some) == 1:
            assert losses[gone] <= loss, f"{some} would do"
    assert bool(losses[gone][0]) <= min(bool(loss[0]) for loss in losses.values())
    last = {some: max(keys[one] for one in some) for some in sets}
    assert last[gone] == min(last[some] for some in sets if losses[some] == losses[gone])


def test_one_pod_goes_in_place_of_two_younger_ones() -> None:
    """Two Pods that come earlier in the order are more than one."""
    world = Small([4], 2, {"g": 1, "h": 1})
    for number, cpu in enumerate((2, 1, 1)):
        world.pods.append(Running(f"b-{number}", 0, cpu, "", False, number))
    assert {one.name for one in evicted(world)} == {"b-0"}


def test_two_pods_go_where_the_one_has_a_budget() -> None:
    """A budget is worth more than a Pod."""
    world = Small([4], 2, {"g": 1, "h": 1})
    for number, cpu in enumerate((2, 1, 1)):
        world.pods.append(Running(f"b-{number}", 0, cpu, "", cpu == 2, number))
    assert {one.name for one in evicted(world)} == {"b-1", "b-2"}
