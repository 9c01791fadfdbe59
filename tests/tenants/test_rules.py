"""Every eviction between tenants is allowed by the rules, helps, and is needed; and they end.

The judge is a program of its own (`tests.tenants.rules`). Worlds are small; a scheduler places the
Pods one after the other, evicted ones come again, until nothing changes any more.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.properties import length
from tests.tenants.played import GPU, Played, counted, trees
from tests.tenants.rules import CPU, Asked, Tenant

AMOUNTS = st.fixed_dictionaries(
    {CPU: st.sampled_from([1, 1, 2, 3])}, optional={GPU: st.sampled_from([1, 2, 4])}
)
NODES = st.lists(
    st.fixed_dictionaries({CPU: st.integers(3, 6), GPU: st.sampled_from([0, 4, 8])}),
    min_size=1,
    max_size=3,
)


@st.composite
def waiting(draw: st.DrawFn, tree: list[Tenant]) -> list[Asked]:
    """Two to ten Pods."""
    leaves = sorted({tenant.name for tenant in tree} - {tenant.parent for tenant in tree})
    one = st.builds(
        Asked,
        st.just(""),
        st.sampled_from(leaves),
        AMOUNTS,
        st.sampled_from([0, 0, 0, 5]),
        never=st.sampled_from([False, False, False, True]),
        user=st.sampled_from(["", "", "ann"]),
    )
    return draw(st.lists(one, min_size=2, max_size=10))


@st.composite
def yielding(draw: st.DrawFn) -> list[Tenant]:
    """Queues, some of which yield to nobody, or take from lower priorities only."""
    often = st.sampled_from([True, True, True, False])
    return [
        replace(tenant, preemptible=draw(often), from_lower=not draw(often))
        for tenant in draw(trees())
    ]


@length(40)
@given(
    NODES,
    yielding().flatmap(lambda tree: st.tuples(st.just(tree), waiting(tree))),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([None, None, 0, 2, 4]),
    st.sampled_from([range(0), range(0), range(2, 6), range(1, 3)]),
)
def test_every_eviction_is_allowed_and_helps_and_they_end(
    nodes: list[dict[str, int]],
    tree_and_pods: tuple[list[Tenant], list[Asked]],
    at_once: int,
    before_cordon: int | None,
    closed: range,
) -> None:
    tree, late = tree_and_pods
    played = Played({f"n{i}": amounts for i, amounts in enumerate(nodes)}, tree)
    rounds = 0
    while late or rounds <= max(before_cordon or 0, closed.stop):
        if closed and rounds in (closed.start, closed.stop):
            played.set_tenant(replace(tree[0], state="Open" if rounds == closed.stop else "Closed"))
        if rounds == before_cordon:
            played.set_node("n0", nodes[0], closed=True)
        for pod in late[:at_once]:
            played.come(counted(pod))
        late = late[at_once:]
        for _ in range(2):
            while played.attempt() is not None:
                assert played.evictions < 60, "they do not end"
            played.wait(11)
        rounds += 1
    played.settle()
    world = played.world
    assert not played.nominated()
    of = world.divided()
    assert played.shares() == of.whole
    for pod in world.waiting():
        assert not world.fits(pod), f"{pod.name} has room"
        if any(world.claims(pod, link, of) for link in world.chain(pod.tenant)):
            assert not world.sets(pod), f"{pod.name} is guaranteed what it waits for"
