"""What is promised to tenants, once nobody moves any more (docs/decisions/0030)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from tests.tenants.played import Played, counted
from tests.tenants.rules import CPU, Amounts, Asked, Tenant

FLUSH = 301
"""Seconds after which everybody is tried again who was refused, whatever has changed."""


class TenantsMachine(RuleBasedStateMachine):
    """Changes of Pods, groups and limits, one after the other; a world adds those of its own.

    Attributes:
        amounts: what Pods request.
        places: the nodes that a Pod may use; None for all.
        most: Pods in the world.
        played: the world.
        tree: the queues of the world.
        leaves: those that have Pods.
    """

    amounts: ClassVar[st.SearchStrategy[Amounts]]
    places: ClassVar[Sequence[frozenset[str] | None]]
    most: ClassVar[int]
    played: Played

    def start(
        self,
        nodes: Mapping[str, Amounts],
        tree: Sequence[Tenant],
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Begin with these nodes and queues; see `Played`."""
        parents = {tenant.parent for tenant in tree}
        self.tree = list(tree)
        self.leaves = sorted(tenant.name for tenant in tree if tenant.name not in parents)
        self._groups = 0
        self.played = Played(nodes, tree, kinds)

    def change(self, tenant: Tenant, other: Tenant) -> None:
        """A queue is another one from now on."""
        self.tree[self.tree.index(tenant)] = other
        self.played.set_tenant(other)
        self.settles()

    @precondition(lambda self: len(self.played.world.pods) < self.most)
    @rule(
        data=st.data(),
        number=st.sampled_from([1, 2, 4, 6]),
        priority=st.sampled_from([0, 0, 0, 5]),
        protected=st.sampled_from([False, False, True]),
    )
    def pods_come(
        self, data: st.DataObject, number: int, priority: int, *, protected: bool
    ) -> None:
        amounts, nodes = data.draw(self.amounts), data.draw(st.sampled_from(self.places))
        tenant = data.draw(st.sampled_from(self.leaves))
        for _ in range(number):
            pod = Asked("", tenant, amounts, priority, nodes, is_protected=protected)
            self.played.come(counted(pod))
        self.settles()

    @precondition(lambda self: len(self.played.world.pods) < self.most)
    @rule(data=st.data(), minimum=st.integers(2, 3), more=st.integers(0, 2))
    def a_group_comes(self, data: st.DataObject, minimum: int, more: int) -> None:
        tenant, amounts = data.draw(st.sampled_from(self.leaves)), data.draw(self.amounts)
        name, self._groups = f"g{self._groups}", self._groups + 1
        self.played.set_group(name, tenant, minimum)
        for _ in range(minimum + more):
            self.played.come(counted(Asked("", tenant, amounts, group=name)))
        self.settles()

    @precondition(lambda self: self.played.world.pods)
    @rule(data=st.data())
    def a_pod_ends(self, data: st.DataObject) -> None:
        self.played.end(data.draw(st.sampled_from(sorted(self.played.world.pods))))
        self.settles()

    @precondition(lambda self: self.played.world.nodes)
    @rule(data=st.data())
    def a_node_is_lost(self, data: st.DataObject) -> None:
        self.played.lose_node(data.draw(st.sampled_from(sorted(self.played.world.nodes))))
        self.settles()

    @rule(
        data=st.data(),
        most=st.integers(0, 6),
        patience=st.sampled_from([None, 0, 20]),
        on_kind=st.booleans(),
    )
    def a_limit_changes(
        self, data: st.DataObject, most: int, patience: int | None, *, on_kind: bool
    ) -> None:
        """On nodes of the preferred kind, where the queue names one, or on all nodes."""
        tenant = data.draw(st.sampled_from(self.tree))
        if not tenant.reclaimable:
            return
        if on_kind and tenant.kinds:
            first, *others = tenant.kinds
            limit = {CPU: max(most, first.guaranteed.get(CPU, 0))}
            lowered = replace(tenant, kinds=(replace(first, limit=limit), *others))
        else:
            limit = {CPU: max(most, tenant.guaranteed.get(CPU, 0))}
            lowered = replace(tenant, limit=limit)
        self.change(tenant, replace(lowered, evict_after=patience))

    @rule(
        data=st.data(), state=st.sampled_from(["Open", "Draining", "Closed"]), evicts=st.booleans()
    )
    def a_queue_opens_or_closes(self, data: st.DataObject, state: str, *, evicts: bool) -> None:
        tenant = data.draw(st.sampled_from(self.tree))
        self.change(tenant, replace(tenant, state=state, evict_after=20 if evicts else None))

    def settles(self) -> None:
        """It does, and then the theorems hold."""
        check(self.played)


def check(played: Played) -> None:
    """Nobody moves any more after a while, and then the theorems hold."""
    world = played.world
    begin, pods = played.evictions, len(world.pods)
    decisions = played.settle()
    # It ends, and soon: a guarantee is kept within as many decisions.
    assert played.evictions - begin <= pods
    assert decisions <= 4 * pods
    assert not played.nominated()
    # Nothing is nobody's
    of = world.divided()
    assert played.shares() == of.whole
    for r in world.bases:
        roots = [name for name, tenant in world.tenants.items() if not tenant.parent]
        room = sum(world.room(node, r) for node in world.nodes)
        needs = sum(world.needs(root)[r] for root in roots)
        assert sum(of.whole[root][r] for root in roots) == min(room, needs)
    for pod in world.waiting():
        assert not world.fits(pod), f"{pod} has room"
        # A guarantee is kept
        sets = world.may_claim(pod, of)
        assert not sets, f"{pod} is guaranteed what it waits for: {sets}"
    # What was lowered is kept to, as far as Pods may go.
    for name, tenant in world.tenants.items():
        if tenant.evict_after is not None and world.is_above_limit(name):
            assert not world.may_leave(name), f"{name} is above its limit"
    # Nobody sleeps who would move: of time alone nothing follows.
    running = dict(world.running)
    played.wait(FLUSH)
    played.settle()
    assert world.running == running
