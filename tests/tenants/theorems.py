"""What is promised to tenants, once nobody moves any more (docs/decisions/0030)."""

from __future__ import annotations

from tests.tenants.played import Played

FLUSH = 301
"""Seconds after which everybody is tried again who was refused, whatever has changed."""


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
