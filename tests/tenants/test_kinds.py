"""The theorems where queues name kinds of nodes (docs/decisions/0031)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.properties import length
from tests.tenants.played import GPU, KINDS, Played, counted, trees
from tests.tenants.rules import CPU, Asked, Tenant
from tests.tenants.theorems import check

NODES = ("n0", "n1", "n2", "n3")
AMOUNTS = st.fixed_dictionaries(
    {CPU: st.sampled_from([1, 1, 2, 3])}, optional={GPU: st.sampled_from([1, 2])}
)
MOST = 16
"""Pods in the world."""


class KindsMachine(RuleBasedStateMachine):
    """Changes, one after the other, of nodes of two kinds and of none."""

    @initialize(tree=trees(kinds=True), number=st.integers(1, 8))
    def begin(self, tree: list[Tenant], number: int) -> None:
        self.tree = tree
        parents = {tenant.parent for tenant in tree}
        self.leaves = sorted(tenant.name for tenant in tree if tenant.name not in parents)
        nodes = {"n0": {CPU: 4, GPU: 4}, "n1": {CPU: 3, GPU: 2}, "n2": {CPU: 2, GPU: 0}}
        self.played = Played(nodes, tree, {"n0": "fast", "n1": "slow"})
        for _ in range(number):
            self.played.come(counted(Asked("", self.leaves[0], {CPU: 1})))
        self.settles()

    @precondition(lambda self: len(self.played.world.pods) < MOST)
    @rule(
        data=st.data(),
        amounts=AMOUNTS,
        number=st.sampled_from([1, 2, 4]),
        priority=st.sampled_from([0, 0, 0, 5]),
        nodes=st.sampled_from([None, None, None, frozenset({"n0"}), frozenset({"n1", "n2"})]),
        protected=st.sampled_from([False, False, True]),
    )
    def pods_come(
        self,
        data: st.DataObject,
        amounts: dict[str, int],
        number: int,
        priority: int,
        nodes: frozenset[str] | None,
        protected: bool,
    ) -> None:
        tenant = data.draw(st.sampled_from(self.leaves))
        for _ in range(number):
            pod = Asked("", tenant, amounts, priority, nodes, is_protected=protected)
            self.played.come(counted(pod))
        self.settles()

    @precondition(lambda self: self.played.world.pods)
    @rule(data=st.data())
    def a_pod_ends(self, data: st.DataObject) -> None:
        self.played.end(data.draw(st.sampled_from(sorted(self.played.world.pods))))
        self.settles()

    @rule(
        name=st.sampled_from(NODES),
        gpus=st.sampled_from([0, 2, 4]),
        closed=st.sampled_from([False, False, True]),
        kind=st.sampled_from(["", *KINDS]),
    )
    def a_node_is_of_this_kind(self, name: str, gpus: int, closed: bool, kind: str) -> None:
        has = self.played.world.nodes.get(name, {CPU: 3000, GPU: gpus})
        amounts = {CPU: has[CPU] // 1000, GPU: has[GPU]}
        self.played.set_node(name, amounts, closed=closed, kind=kind)
        self.settles()

    @precondition(lambda self: self.played.world.nodes)
    @rule(data=st.data())
    def a_node_is_lost(self, data: st.DataObject) -> None:
        self.played.lose_node(data.draw(st.sampled_from(sorted(self.played.world.nodes))))
        self.settles()

    @rule(data=st.data(), other=trees(kinds=True), weight=st.integers(0, 2))
    def a_queue_names_other_kinds(
        self, data: st.DataObject, other: list[Tenant], weight: int
    ) -> None:
        number = data.draw(st.integers(0, len(self.tree) - 1))
        tenant, like = self.tree[number], other[0]
        if tenant.reclaimable and like.reclaimable:
            kinds, is_bound = like.kinds, like.is_bound
            self.tree[number] = replace(tenant, kinds=kinds, is_bound=is_bound, weight=weight)
            self.played.set_tenant(self.tree[number])
            self.settles()

    @rule(data=st.data(), most=st.integers(0, 4), patience=st.sampled_from([0, 20]))
    def a_limit_on_a_kind_is_lowered(self, data: st.DataObject, most: int, patience: int) -> None:
        number = data.draw(st.integers(0, len(self.tree) - 1))
        tenant = self.tree[number]
        if tenant.kinds and tenant.reclaimable:
            first, *others = tenant.kinds
            limit = {CPU: max(most, first.guaranteed.get(CPU, 0))}
            kinds = (replace(first, limit=limit), *others)
            self.tree[number] = replace(tenant, kinds=kinds, evict_after=patience)
            self.played.set_tenant(self.tree[number])
            self.settles()

    def settles(self) -> None:
        """It does, and then the theorems hold."""
        check(self.played)


KindsMachine.TestCase.settings = length(20, steps=8)
TestKinds = KindsMachine.TestCase
