"""The theorems where queues name kinds of nodes (docs/decisions/0031)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.properties import length
from tests.tenants.played import GPU, KINDS, counted, trees
from tests.tenants.rules import CPU, Asked, Tenant
from tests.tenants.theorems import TenantsMachine

NODES = ("n0", "n1", "n2", "n3")
AMOUNTS = st.fixed_dictionaries(
    {CPU: st.sampled_from([1, 1, 2, 3])}, optional={GPU: st.sampled_from([1, 2])}
)
MOST = 16
"""Pods in the world."""


class KindsMachine(TenantsMachine):
    """Nodes are of two kinds and of none, and Queues name other ones."""

    amounts = AMOUNTS
    places = (None, None, None, frozenset({"n0"}), frozenset({"n1", "n2"}))
    most = MOST

    @initialize(tree=trees(kinds=True), number=st.integers(1, 8))
    def begin(self, tree: list[Tenant], number: int) -> None:
        nodes = {"n0": {CPU: 4, GPU: 4}, "n1": {CPU: 3, GPU: 2}, "n2": {CPU: 2, GPU: 0}}
        self.start(nodes, tree, {"n0": "fast", "n1": "slow"})
        for _ in range(number):
            self.played.come(counted(Asked("", self.leaves[0], {CPU: 1})))
        self.settles()

    @rule(
        name=st.sampled_from(NODES),
        gpus=st.sampled_from([0, 2, 4]),
        closed=st.sampled_from([False, False, True]),
        kind=st.sampled_from(["", *KINDS]),
    )
    def a_node_is_of_this_kind(self, name: str, gpus: int, *, closed: bool, kind: str) -> None:
        has = self.played.world.nodes.get(name, {CPU: 3000, GPU: gpus})
        amounts = {CPU: has[CPU] // 1000, GPU: has[GPU]}
        self.played.set_node(name, amounts, closed=closed, kind=kind)
        self.settles()

    @rule(data=st.data(), other=trees(kinds=True), weight=st.integers(0, 2))
    def a_queue_names_other_kinds(
        self, data: st.DataObject, other: list[Tenant], weight: int
    ) -> None:
        tenant, like = data.draw(st.sampled_from(self.tree)), other[0]
        if tenant.reclaimable and like.reclaimable:
            kinds, is_bound = like.kinds, like.is_bound
            self.change(tenant, replace(tenant, kinds=kinds, is_bound=is_bound, weight=weight))


KindsMachine.TestCase.settings = length(20, steps=8)
TestKinds = KindsMachine.TestCase
