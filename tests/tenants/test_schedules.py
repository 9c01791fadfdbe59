"""What the scheduler makes of a small world is one of the schedules that the rules allow.

`tests.tenants.schedules` tries them all: so it also shows that the rules have no circle, whoever's
turn it is and whoever is chosen. Queues have no parents here: within departments the rules do have
circles (docs/decisions/0030).
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st
from tests.properties import length
from tests.tenants.played import GPU, KINDS, Played, counted, trees
from tests.tenants.rules import CPU, Asked, OnKind, Tenant, World
from tests.tenants.schedules import Schedules

STATES = 400
"""As many are looked at in one world; of larger ones, only the scheduler's own moves are judged."""
NODES = st.lists(st.sampled_from([4, 4, 6, 8]), min_size=1, max_size=4)


@st.composite
def tenants_and_pods(draw: st.DrawFn) -> tuple[list[Tenant], list[Asked]]:
    """Up to four queues and up to ten Pods, of one to eight devices."""
    tree = [replace(t, parent="") for t in draw(trees()) if t.name in "abcd"]
    leaves = [tenant.name for tenant in tree]
    sizes = st.sampled_from([1, 2, 2, 3, 4, 4, 5, 8])
    one = st.builds(
        lambda tenant, size, priority: Asked("", tenant, {GPU: size}, priority),
        st.sampled_from(leaves),
        sizes,
        st.sampled_from([0, 0, 0, 5]),
    )
    return tree, draw(st.lists(one, min_size=3, max_size=10))


@length(40)
@given(NODES, tenants_and_pods(), st.sampled_from([0, 2, 4, 6]))
def test_the_end_is_one_of_those_that_the_rules_allow(
    nodes: list[int], tree_and_pods: tuple[list[Tenant], list[Asked]], first: int
) -> None:
    tree, pods = tree_and_pods
    played = Played({f"n{i}": {CPU: 64, GPU: gpus} for i, gpus in enumerate(nodes)}, tree)
    judge(played, pods, first)


def judge(played: Played, pods: list[Asked], first: int) -> None:
    """Some of the Pods come first; from there on all schedules are looked at."""
    for some in (pods[:first], pods[first:]):
        played.settle()
        for pod in some:
            played.come(counted(pod))
    world = played.world
    copy = World(world.nodes, world.tenants.values(), world.pods.values())
    copy.running, copy.kinds = dict(world.running), world.kinds
    every = Schedules(copy, STATES)
    event(f"all schedules: {every.is_complete}")
    played.settle()
    event(f"evictions: {bool(played.evictions)}")
    if every.is_complete:
        assert every.end(world) in every.ends


ON_KINDS = st.lists(st.sampled_from(KINDS), unique=True, max_size=2).flatmap(
    lambda kinds: st.tuples(
        *(st.builds(OnKind, st.just(kind), weight=st.integers(0, 3)) for kind in kinds)
    )
)


@st.composite
def tenants_and_pods_of_kinds(draw: st.DrawFn) -> tuple[list[Tenant], list[Asked]]:
    """The same, where kinds are divided by themselves; some Pods may go to nodes of one only."""
    tree, pods = draw(tenants_and_pods())
    tree = [replace(tenant, kinds=draw(ON_KINDS)) for tenant in tree]
    places = st.sampled_from([None, None, frozenset({"n0"}), frozenset({"n1"})])
    return tree, [replace(pod, nodes=draw(places)) for pod in pods]


@length(12)
@given(
    st.lists(st.sampled_from([2, 4, 4, 6]), min_size=2, max_size=3),
    tenants_and_pods_of_kinds(),
    st.sampled_from([0, 2, 4, 6]),
)
def test_nor_is_there_a_circle_where_kinds_are_divided_by_themselves(
    nodes: list[int], tree_and_pods: tuple[list[Tenant], list[Asked]], first: int
) -> None:
    tree, pods = tree_and_pods
    named = {f"n{i}": {CPU: 64, GPU: gpus} for i, gpus in enumerate(nodes)}
    kinds = dict(zip(named, (*KINDS, ""), strict=False))
    judge(Played(named, tree, kinds), pods, first)
