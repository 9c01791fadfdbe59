"""Precedence among Pods that wait: nobody is placed whom another one of these would evict at once.

A tenant says which Pods could take back the room of another one (`bayplan.framework.turns.Turns`).
The tenant of such a Pod goes first, with its next Pod, so that no priority is turned round: if that
one finds no room, the Pod behind it is next. It may itself have to yield to a third one, and so on.
Where that is a circle, one Pod has to go before the next one of its tenant: of the highest
priority, one that yields to nobody.

An example: ``a`` and ``b`` are guaranteed 1 each, and have a Pod of 2, then one of 1. Each of the
large Pods would be evicted for the small one of the other queue. So a small one goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bayplan.framework.turns import Turns
from bayplan.queue.queued_pod import QueuedPod


def first_in_turn(
    turns: Turns,
    tenant: int,
    next_of: Callable[[int], QueuedPod | None],
    waiting: Callable[[], Mapping[int, Mapping[str, QueuedPod]]],
) -> tuple[int, QueuedPod]:
    """The Pod to try first, and the tenant.

    Args:
        turns: says who could take room back.
        tenant: whose turn it is, but for that. It has a Pod that is next.
        next_of: the next Pod of a tenant, which others of it come after.
        waiting: by tenant and uid, a Pod of each shape; only of these it is asked what they take.
    """
    queued = next_of(tenant)
    assert queued is not None
    begin = tenant, queued
    if not turns.is_exposed(queued.pod):
        return begin
    pods = waiting()
    firsts = {one: [other.pod for other in some.values()] for one, some in pods.items()}
    seen: list[int] = []
    while True:
        seen.append(tenant)
        takers = list(turns.takers(queued.pod, firsts))
        if not takers:
            return tenant, queued
        others = [(one, pod) for one, pod in takers if one not in seen]
        if not others:
            break
        tenant, taker = others[0]
        queued = pods[tenant][taker.uid]
        its_next = next_of(tenant)
        if its_next is not None and its_next.pod.priority >= taker.priority:
            queued = its_next
    for tenant in seen:
        some = pods.get(tenant, {}).values()
        for queued in sorted(some, key=lambda one: -one.pod.priority):
            if not any(turns.takers(queued.pod, firsts)):
                return tenant, queued
    return begin
