"""What is promised to tenants (docs/decisions/0030), whatever happens.

Pods and groups come and end, nodes are lost, closed and come back, Queues change. After
each change the scheduler goes on until nobody moves any more, and then all of this holds. Every
eviction on the way is judged by the rules (`tests.tenants.played`).
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.properties import length
from tests.tenants.played import BACKOFF, GPU, Played, counted, trees
from tests.tenants.rules import CPU, Asked, Tenant
from tests.tenants.theorems import TenantsMachine

from bayplan.queue.states import QueueState

NODES = ("n0", "n1", "n2")
AMOUNTS = st.fixed_dictionaries(
    {CPU: st.sampled_from([1, 1, 2, 3])}, optional={GPU: st.sampled_from([1, 2, 4])}
)
MOST = 20
"""Pods in the world."""


class TheoremsMachine(TenantsMachine):
    """Nodes are lost, closed and come back, and Queues have other guarantees."""

    amounts = AMOUNTS
    places = (None, None, None, frozenset({"n0"}), frozenset({"n2"}))
    most = MOST

    @initialize(
        tree=trees(),
        runtime=st.sampled_from([0, 0, 0, 20]),
        first=st.lists(st.builds(Asked, st.just(""), st.just(""), AMOUNTS), min_size=1, max_size=2),
    )
    def begin(self, tree: list[Tenant], runtime: int, first: list[Asked]) -> None:
        nodes = {"n0": {CPU: 5, GPU: 4}, "n1": {CPU: 4, GPU: 8}}
        self.start(nodes, [replace(tenant, min_runtime=runtime) for tenant in tree])
        for one in first:
            for _ in range(6):
                self.played.come(counted(replace(one, tenant=self.leaves[0])))
            self.settles()

    @rule(name=st.sampled_from(NODES), gpus=st.sampled_from([0, 4, 8]), closed=st.booleans())
    def a_node_is_there_or_takes_no_more(self, name: str, gpus: int, *, closed: bool) -> None:
        has = self.played.world.nodes.get(name, {}).get(GPU, gpus)
        self.played.set_node(name, {CPU: 5, GPU: has}, closed=closed)
        self.settles()

    @rule(data=st.data(), weight=st.integers(0, 3), amount=st.integers(0, 4))
    def a_queue_changes(self, data: st.DataObject, weight: int, amount: int) -> None:
        tenant = data.draw(st.sampled_from(self.tree))
        guaranteed = {r: min(amount, tenant.limit.get(r, amount)) for r in tenant.guaranteed}
        if tenant.reclaimable:
            self.change(tenant, replace(tenant, weight=weight, guaranteed=guaranteed))


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
    """Where all Pods are of one size; the next test is about others."""
    tree, pods = tree_and_pods
    played = Played({f"n{i}": {CPU: 64, GPU: gpus} for i, gpus in enumerate(nodes)}, tree)
    for some in (pods[:first], pods[first:]):
        for pod in some:
            played.come(counted(pod))
        played.settle()
    assert not played.in_vain


_WITHOUT_A_SHARE = [
    Asked("", "a", {GPU: 2, CPU: 1}, 5, frozenset({"n0"})),
    Asked("", "b", {CPU: 3, GPU: 1}, 5),
    Asked("", "b", {GPU: 2}),
    Asked("", "a", {GPU: 1, CPU: 1}),
    Asked("", "b", {CPU: 2}, 0, frozenset({"n0"})),
    Asked("", "a", {GPU: 3}, 5),
    Asked("", "b", {GPU: 4}, 5, frozenset({"n0"})),
]


@length(40)
@given(st.permutations(_WITHOUT_A_SHARE), st.sampled_from([1, 2, 12]))
def test_it_ends_where_a_queue_has_no_share_of_one_of_two_resources(
    pods: list[Asked], at_once: int
) -> None:
    tree = [Tenant("a", "right"), Tenant("b", weight=0), Tenant("right", weight=2)]
    played = Played({"n0": {CPU: 3, GPU: 4}, "n1": {CPU: 6, GPU: 0}}, tree)
    for number in range(0, len(pods), at_once):
        for pod in pods[number : number + at_once]:
            played.come(counted(pod))
        played.settle()


@st.composite
def queues_of_unlike_pods(draw: st.DrawFn) -> tuple[list[Tenant], list[Asked]]:
    """A few Pods of each queue of a tree, of any sizes, in any order."""
    tree = [replace(tenant, user_limit={}) for tenant in draw(trees())]
    parents = {tenant.parent for tenant in tree}
    one = st.builds(
        Asked,
        st.just(""),
        st.sampled_from([tenant.name for tenant in tree if tenant.name not in parents]),
        st.one_of(AMOUNTS, st.fixed_dictionaries({GPU: st.integers(1, 4)})),
        st.sampled_from([0, 0, 0, 5]),
        st.sampled_from([None, None, frozenset({"n0"})]),
    )
    return tree, draw(st.lists(one, min_size=2, max_size=12))


@length(40)
@given(
    st.lists(
        st.fixed_dictionaries({CPU: st.integers(3, 6), GPU: st.sampled_from([0, 4, 6])}),
        min_size=1,
        max_size=3,
    ),
    queues_of_unlike_pods(),
    st.sampled_from([1, 3, 12]),
    st.sampled_from([None, None, 1, 2]),
)
def test_nobody_is_placed_whom_a_pod_that_is_ready_could_evict(
    nodes: list[dict[str, int]],
    tree_and_pods: tuple[list[Tenant], list[Asked]],
    at_once: int,
    before_cordon: int | None,
) -> None:
    """Of whatever size Pods are; decision 30 has what may happen to them later."""
    tree, late = tree_and_pods
    named = {f"n{i}": amounts for i, amounts in enumerate(nodes)}
    played = Played(named, tree, regrets=True)
    for number in range(0, len(late), at_once):
        if number // at_once == before_cordon:
            played.set_node("n0", nodes[0], closed=True)
        for pod in late[number : number + at_once]:
            played.come(counted(pod))
        for _ in range(2):
            for _ in range(MOST):
                played.attempt()
            played.wait(BACKOFF)
    assert not played.regretted


def test_a_pod_behind_the_next_one_claims_room_before_others_get_it() -> None:
    """The next one, which has a higher priority and claims nothing, is tried before it."""
    tree = [Tenant("a"), Tenant("b", guaranteed={CPU: 1})]
    played = Played({"n0": {CPU: 1}}, tree)
    played.come(counted(Asked("", "a", {CPU: 1})))
    large = played.come(counted(Asked("", "b", {CPU: 2}, priority=5)))
    small = played.come(counted(Asked("", "b", {CPU: 1})))
    tried = [queued.pod.name for queued in iter(played.cluster.queue.pop, None)]
    assert tried[:2] == [large, small]


def test_where_each_would_have_to_yield_a_small_one_goes_first() -> None:
    """The large Pods of both queues would be evicted for the small one of the other."""
    tree = [Tenant("a", guaranteed={CPU: 1}), Tenant("b", guaranteed={CPU: 1})]
    played = Played({"n0": {CPU: 2}}, tree)
    for name in ("a", "b"):
        for size in (2, 1):
            played.come(counted(Asked("", name, {CPU: size})))
    played.settle()
    assert len(played.world.running) == len(tree)
    assert not played.evictions


def test_a_queue_that_has_grown_since_gives_what_a_waiting_pod_can_use() -> None:
    """When the first Pod was placed, its queue was entitled to that; decision 30 says why."""
    nodes = {"n0": {CPU: 2}, "n1": {CPU: 1}, "n2": {CPU: 1}}
    played = Played(nodes, [Tenant("a"), Tenant("b")], regrets=True)
    small = Asked("", "a", {CPU: 1})
    first = played.come(counted(replace(small, nodes=frozenset({"n0"}))))
    for node in ("n1", "n2"):
        played.come(counted(replace(small, nodes=frozenset({node}))))
    large = played.come(counted(Asked("", "b", {CPU: 2})))
    played.settle()
    assert played.in_vain == [(first, large)]
    assert not played.regretted


def test_a_pod_that_backs_off_comes_before_one_that_it_could_evict() -> None:
    """It is tried while its backoff lasts."""
    tree = [Tenant("a", guaranteed={CPU: 2}), Tenant("b")]
    played = Played({"n0": {CPU: 2}}, tree)
    first = played.come(counted(Asked("", "b", {CPU: 2})))
    played.attempt()
    played.set_tenant(replace(tree[0], from_lower=True))
    claims = played.come(counted(Asked("", "a", {CPU: 2})))
    played.attempt()
    assert claims not in played.world.running
    played.end(first)
    played.set_tenant(tree[0])
    played.come(counted(Asked("", "b", {CPU: 1})))
    assert played.cluster.queue.pending_pods()[QueueState.BACKOFF]
    played.attempt()
    assert claims in played.world.running


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
