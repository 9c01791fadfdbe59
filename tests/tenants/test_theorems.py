"""What is promised to tenants (docs/decisions/0030), whatever happens.

Pods and groups come and end, nodes are lost, closed and come back, Queues change. After
each change the scheduler goes on until nobody moves any more, and then all of this holds. Every
eviction on the way is judged by the rules (`tests.tenants.played`).
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.properties import length
from tests.tenants.played import GPU, Played, counted, trees
from tests.tenants.rules import CPU, Asked, Tenant
from tests.tenants.theorems import check

NODES = ("n0", "n1", "n2")
AMOUNTS = st.fixed_dictionaries(
    {CPU: st.sampled_from([1, 1, 2, 3])}, optional={GPU: st.sampled_from([1, 2, 4])}
)
MOST = 20
"""Pods in the world."""


class TheoremsMachine(RuleBasedStateMachine):
    """Changes, one after the other."""

    @initialize(
        tree=trees(),
        runtime=st.sampled_from([0, 0, 0, 20]),
        first=st.lists(st.builds(Asked, st.just(""), st.just(""), AMOUNTS), min_size=1, max_size=2),
    )
    def begin(self, tree: list[Tenant], runtime: int, first: list[Asked]) -> None:
        self.tree = [replace(tenant, min_runtime=runtime) for tenant in tree]
        parents = {tenant.parent for tenant in tree}
        self.leaves = sorted(tenant.name for tenant in tree if tenant.name not in parents)
        self.groups: dict[str, str] = {}
        self.played = Played({"n0": {CPU: 5, GPU: 4}, "n1": {CPU: 4, GPU: 8}}, self.tree)
        for one in first:
            for _ in range(6):
                self.played.come(counted(replace(one, tenant=self.leaves[0])))
            self.settles()

    @precondition(lambda self: len(self.played.world.pods) < MOST)
    @rule(
        data=st.data(),
        amounts=AMOUNTS,
        number=st.sampled_from([1, 2, 4, 6]),
        priority=st.sampled_from([0, 0, 0, 5]),
        protected=st.sampled_from([False, False, True]),
        nodes=st.sampled_from([None, None, None, frozenset({"n0"}), frozenset({"n2"})]),
    )
    def pods_come(
        self,
        data: st.DataObject,
        amounts: dict[str, int],
        number: int,
        priority: int,
        protected: bool,
        nodes: frozenset[str] | None,
    ) -> None:
        tenant = data.draw(st.sampled_from(self.leaves))
        for _ in range(number):
            pod = Asked("", tenant, amounts, priority, nodes, is_protected=protected)
            self.played.come(counted(pod))
        self.settles()

    @precondition(lambda self: len(self.played.world.pods) < MOST)
    @rule(
        data=st.data(),
        amounts=AMOUNTS,
        minimum=st.integers(2, 3),
        more=st.integers(0, 2),
    )
    def a_group_comes(
        self, data: st.DataObject, amounts: dict[str, int], minimum: int, more: int
    ) -> None:
        tenant = data.draw(st.sampled_from(self.leaves))
        name = f"g{len(self.groups)}"
        self.groups[name] = tenant
        self.played.set_group(name, tenant, minimum)
        for _ in range(minimum + more):
            self.played.come(counted(Asked("", tenant, amounts, group=name)))
        self.settles()

    @precondition(lambda self: self.played.world.pods)
    @rule(data=st.data())
    def a_pod_ends(self, data: st.DataObject) -> None:
        pods = sorted(self.played.world.pods)
        self.played.end(data.draw(st.sampled_from(pods)))
        self.settles()

    @rule(name=st.sampled_from(NODES), gpus=st.sampled_from([0, 4, 8]), closed=st.booleans())
    def a_node_is_there_or_takes_no_more(self, name: str, gpus: int, closed: bool) -> None:
        has = self.played.world.nodes.get(name, {}).get(GPU, gpus)
        self.played.set_node(name, {CPU: 5, GPU: has}, closed=closed)
        self.settles()

    @precondition(lambda self: self.played.world.nodes)
    @rule(data=st.data())
    def a_node_is_lost(self, data: st.DataObject) -> None:
        self.played.lose_node(data.draw(st.sampled_from(sorted(self.played.world.nodes))))
        self.settles()

    @rule(data=st.data(), weight=st.integers(0, 3), amount=st.integers(0, 4))
    def a_queue_changes(self, data: st.DataObject, weight: int, amount: int) -> None:
        number = data.draw(st.integers(0, len(self.tree) - 1))
        tenant = self.tree[number]
        guaranteed = {r: min(amount, tenant.limit.get(r, amount)) for r in tenant.guaranteed}
        if tenant.reclaimable:
            self.tree[number] = replace(tenant, weight=weight, guaranteed=guaranteed)
            self.played.set_tenant(self.tree[number])
            self.settles()

    @rule(
        data=st.data(), state=st.sampled_from(["Open", "Draining", "Closed"]), evicts=st.booleans()
    )
    def a_queue_opens_or_closes(self, data: st.DataObject, state: str, evicts: bool) -> None:
        number = data.draw(st.integers(0, len(self.tree) - 1))
        patience = 20 if evicts else None
        self.tree[number] = replace(self.tree[number], state=state, evict_after=patience)
        self.played.set_tenant(self.tree[number])
        self.settles()

    @rule(data=st.data(), most=st.integers(1, 6), patience=st.sampled_from([None, 0, 20]))
    def a_limit_changes(self, data: st.DataObject, most: int, patience: int | None) -> None:
        number = data.draw(st.integers(0, len(self.tree) - 1))
        tenant = self.tree[number]
        if tenant.reclaimable:
            limit = {CPU: max(most, tenant.guaranteed.get(CPU, 0))}
            self.tree[number] = replace(tenant, limit=limit, evict_after=patience)
            self.played.set_tenant(self.tree[number])
            self.settles()

    def settles(self) -> None:
        """It does, and then the theorems hold."""
        check(self.played)


TheoremsMachine.TestCase.settings = length(30, steps=10)
TestTheorems = TheoremsMachine.TestCase


@st.composite
def queues_of_pods_that_are_alike(draw: st.DrawFn) -> tuple[list[Tenant], list[Asked]]:
    """A few Pods of each queue, all of one size, in any order."""
    size = draw(st.integers(1, 4))
    tree = [replace(t, parent="", user_limit={}) for t in draw(trees()) if t.name in "abcd"]
    pods = [
        Asked("", tenant.name, {GPU: size})
        for tenant in tree
        for _ in range(draw(st.integers(1, 6)))
    ]
    return tree, draw(st.permutations(pods))


@length(60)
@given(
    st.lists(st.sampled_from([4, 6, 8]), min_size=1, max_size=3),
    queues_of_pods_that_are_alike(),
    st.sampled_from([0, 2, 6]),
)
def test_nobody_is_placed_and_then_evicted_by_pods_that_were_waiting_already(
    nodes: list[int], tree_and_pods: tuple[list[Tenant], list[Asked]], first: int
) -> None:
    """Where all Pods are of one size; decision 30 has what happens where they are not."""
    tree, pods = tree_and_pods
    played = Played({f"n{i}": {CPU: 64, GPU: gpus} for i, gpus in enumerate(nodes)}, tree)
    for some in (pods[:first], pods[first:]):
        for pod in some:
            played.come(counted(pod))
        played.settle()
    assert not played.in_vain


def test_a_pod_at_its_limit_is_woken_by_demand_elsewhere() -> None:
    """Demand of a sibling makes more of the parent's guarantee needed: then the Pod claims."""
    tree = [
        Tenant("right"),
        Tenant("a", "right", user_limit={CPU: 2}),
        Tenant("c", "right", {CPU: 3}, weight=0),
    ]
    played = Played({"n0": {CPU: 5}}, tree)
    for _ in range(6):
        played.come(counted(Asked("", "a", {CPU: 2})))
    played.settle()
    urgent = played.come(counted(Asked("", "a", {CPU: 1}, priority=5)))
    played.settle()
    assert urgent not in played.world.running
    played.set_group("large", "c", 2)
    for _ in range(2):
        played.come(counted(Asked("", "c", {CPU: 2}, group="large")))
    played.settle()
    assert urgent in played.world.running


def test_who_is_covered_does_not_yield_to_a_larger_one_of_the_department() -> None:
    """That one would not be covered; the room would be taken back from other departments."""
    tree = [
        Tenant("right", guaranteed={CPU: 2}),
        Tenant("a", "right"),
        Tenant("b", "right", weight=3),
    ]
    played = Played({"n0": {CPU: 4}}, tree)
    small = {played.come(counted(Asked("", "a", {CPU: 1}))) for _ in range(3)}
    played.settle()
    played.come(counted(Asked("", "b", {CPU: 3})))
    played.settle()
    assert set(played.world.running) == small
    fits = played.come(counted(Asked("", "b", {CPU: 2})))
    played.settle()
    assert fits in played.world.running
    assert len(played.world.running) == len(small)
