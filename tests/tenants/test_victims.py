"""Who goes of one giver: judged by a slow program that enumerates all sets of victims.

The taker claims what it is guaranteed, the giver is entitled to nothing, all have one priority. So
every Pod of the giver may go, and who goes is a matter of order alone.
"""

from __future__ import annotations

from collections import Counter
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
BUDGETS = "", "x", "y"
Key = tuple[bool, int, int]
"""Whether a budget is violated; 0 surplus of a group, 1 alone, 2 ends a group; minus the start."""


@dataclass(frozen=True)
class Running:
    """A Pod of the giver; ``started`` is the second, so the highest is the youngest."""

    name: str
    node: int
    cpu: int
    group: str
    budget: str
    started: int


@dataclass
class Small:
    """Nodes by cores, and what the taker asks for.

    Attributes:
        minimums: by group.
        allowed: by budget, how many may be evicted.
        pods: who runs.
    """

    nodes: Sequence[int]
    size: int
    minimums: Mapping[str, int]
    allowed: Mapping[str, int]
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

    def is_protected(self, one: Running) -> bool:
        """Whether its budget is violated where all younger Pods of that go, too."""
        younger = [o for o in self.pods if o.budget == one.budget and o.started > one.started]
        return bool(one.budget) and len(younger) >= self.allowed[one.budget]

    def keys(self) -> dict[Running, Key]:
        """When each Pod goes: lower ones first. What ends a group goes at once."""
        keys: dict[Running, Key] = {
            one: (self.is_protected(one), 1, -one.started) for one in self.pods
        }
        for group, minimum in self.minimums.items():
            members = self.members(group)
            for one in members[minimum:]:
                keys[one] = self.is_protected(one), 0, -one.started
            for one in members[:minimum]:
                is_protected = any(map(self.is_protected, members[:minimum]))
                keys[one] = is_protected, 2, -members[0].started
        return keys

    def loss(self, gone: Collection[Running]) -> tuple[int, int, int]:
        """How many violate a budget, how many groups end, and how many Pods go."""
        ended = [
            group
            for group, minimum in self.minimums.items()
            if any(one in gone for one in self.members(group)[:minimum])
        ]
        of = Counter(one.budget for one in gone if one.budget)
        violations = sum(max(number - self.allowed[budget], 0) for budget, number in of.items())
        return violations, len(ended), len(gone)

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
    of_group = {group: draw(st.sampled_from(BUDGETS)) for group in ("g", "h")}
    minimums = {group: draw(st.integers(1, 3)) for group in ("g", "h")}
    allowed = {budget: draw(st.sampled_from([0, 0, 1, 2])) for budget in BUDGETS[1:]}
    world = Small(nodes, draw(st.integers(1, 4)), minimums, allowed)
    one = st.tuples(
        st.integers(0, len(nodes) - 1),
        st.integers(1, 4),
        st.sampled_from(GROUPS),
        st.sampled_from(BUDGETS),
    )
    for second, (node, cpu, group, alone) in enumerate(draw(st.lists(one, min_size=1, max_size=8))):
        if cpu <= world.free(node):
            budget = of_group.get(group, alone)
            world.pods.append(Running(f"b-{second}", node, cpu, group, budget, second))
    assume(all(world.free(node) < world.size for node in range(len(nodes))))
    return world


def evicted(world: Small) -> frozenset[Running]:
    """Whom the scheduler evicts for the taker."""
    cluster: Cluster = queue_cluster("Coscheduling")
    cluster.writer.on_deleted = None
    for number, cores in enumerate(world.nodes):
        cluster.add(make_node(f"n{number}").capacity(cpu=cores, memory="64Gi", pods=110))
    cluster.add(queue("a", "x", guaranteed={"cpu": world.size}), queue("b", "y", weight=0))
    for name, allowed in world.allowed.items():
        budget = make_object(POD_DISRUPTION_BUDGET, name).namespace("y")
        budget.spec(selector={"matchLabels": {"budget": name}})
        cluster.add(budget.status(disruptionsAllowed=allowed))
    for group, minimum in world.minimums.items():
        cluster.add(pod_group(group, minMember=minimum).namespace("y"))
    for one in world.pods:
        builder = pod(one.name, "y", str(one.cpu)).node(f"n{one.node}")
        if one.budget:
            builder.label("budget", one.budget)
        if one.group:
            builder.label(POD_GROUP_LABEL, one.group)
        cluster.add(builder.start_time(f"2026-01-01T00:00:{one.started:02d}Z"))
    cluster.add(pod("a", "x", str(world.size)))
    cluster.run()
    return frozenset(one for one in world.pods if one.name in cluster.writer.deleted)


@length(150)
@given(small_worlds())
def test_nobody_goes_where_others_of_the_giver_would_do_at_less_loss(world: Small) -> None:
    """Less is lost where fewer budgets are violated, then where fewer groups end.

    No part of those who go would do, and no single Pod. Of sets by which as much is lost, none has
    its last Pod earlier in the order than ours.
    """
    gone, keys, sets = evicted(world), world.keys(), world.sets()
    assert gone in sets
    assert not any(other < gone for other in sets), "a part of them would do"
    losses = {some: world.loss(some) for some in sets}
    for some, loss in losses.items():
        assert losses[gone][:2] <= loss[:2], f"{some} would do"
        if len(some) == 1:
            assert losses[gone] <= loss, f"{some} would do"
    last = {some: max(keys[one] for one in some) for some in sets}
    assert last[gone] == min(last[some] for some in sets if losses[some] == losses[gone])


def test_one_pod_goes_in_place_of_two_younger_ones() -> None:
    """Two Pods that come earlier in the order are more than one."""
    assert names(*((0, cpu, "") for cpu in (2, 1, 1))) == {"b-0"}


def test_two_pods_go_where_the_one_has_a_budget() -> None:
    """A budget is worth more than a Pod."""
    assert names((0, 2, "x"), (0, 1, ""), (0, 1, "")) == {"b-1", "b-2"}


def test_a_node_where_one_budget_is_violated_comes_before_one_where_two_are() -> None:
    """On both nodes two Pods have to go; who runs for longer is of less weight."""
    assert names((0, 2, "x"), (0, 2, ""), (1, 2, "x"), (1, 2, "x"), size=4) == {"b-0", "b-1"}


def test_a_budget_that_allows_one_is_used_up_by_the_pod_that_is_of_use() -> None:
    """The younger one of that budget stays, and no other budget is violated."""
    pods = (0, 2, "x"), (0, 2, "y"), (1, 3, "y"), (1, 1, "x")
    assert names(*pods, allowed={"x": 1, "y": 0}) == {"b-0"}


def names(
    *pods: tuple[int, int, str], size: int = 2, allowed: Mapping[str, int] | None = None
) -> set[str]:
    """Who goes of Pods that are given by node, cores and budget, on nodes of 4 cores."""
    nodes = [4] * (1 + max(node for node, _, _ in pods))
    world = Small(nodes, size, {"g": 1, "h": 1}, allowed or {"x": 0, "y": 0})
    for number, (node, cpu, budget) in enumerate(pods):
        world.pods.append(Running(f"b-{number}", node, cpu, "", budget, number))
    return {one.name for one in evicted(world)}
