"""Queues: what each Queue has, is entitled to, borrows and waits for, as plain data.

The format is in docs/tenants.md; amounts are milli-CPU, bytes and counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.api.kinds import QUEUE
from bayplan.api.meta import ObjectFault
from bayplan.cache.queue_tree.report import QueueReport, reports
from bayplan.explain.why import API_VERSION
from bayplan.framework.turns import Place
from bayplan.profiles import Profiles
from bayplan.world import World


def answer(world: World, profiles: Profiles, now: float, only: str = "") -> dict[str, Any]:
    """All Queues. On the scheduling thread.

    Args:
        world: what the scheduler knows.
        profiles: whose plugins say whose turn it is.
        now: seconds since the epoch.
        only: a namespace: the Queues in which its Pods count, without users and faults; "" for all.
    """
    listed: list[dict[str, Any]] = []
    if world.queues.active:
        faults = [] if only else world.queues.faults()
        shown = _names(world, only) if only else None
        turns = profiles.policy.turns
        places = turns.places() if turns is not None else {}
        for queue in reports(world.queues, now):
            row = plain(queue, places.get(queue.name), faults)
            if shown is None:
                listed.append(row)
            elif queue.name in shown:
                listed.append(row | {"users": {}})
    return {"apiVersion": API_VERSION, "kind": "QueuesAnswer", "namespace": only, "queues": listed}


def _names(world: World, namespace: str) -> set[str]:
    """The Queues in which Pods of a namespace count."""
    queues = world.queues
    structure = queues.refresh_shares().structure
    pods = (pod for pod in world.handlers.pods.values() if pod.namespace == namespace)
    return {structure.name(row) for row in {queues.leaf(pod) for pod in pods} if row >= 0}


def plain(
    state: QueueReport,
    place: Place | None,
    faults: Iterable[ObjectFault],
    covered: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """One Queue.

    Args:
        state: its sums.
        place: where it stands among the others; None if none of its Pods may run.
        faults: of all objects.
        covered: by resource, what of `used` a guarantee covers; None for no such key.
    """
    return {
        "queue": state.name,
        "depth": state.depth,
        "state": state.state,
        "nodeKinds": state.kinds,
        "pending": state.pending,
        "oldestSeconds": state.oldest,
        "waitingTargetSeconds": state.target or None,
        "late": state.late,
        "turn": None if place is None else place.turn,
        "attempts": None if place is None else round(place.attempts, 2),
        "resources": {
            name: {
                **amounts._asdict(),
                "borrowed": amounts.borrowed,
                "neverEvicted": state.never_evicted.get(name, 0),
                "saturation": _number(state.saturation.get(name, 0.0)),
                **({} if covered is None else {"covered": covered.get(name, 0)}),
                **_past(state, name),
            }
            for name, amounts in state.amounts.items()
        },
        "users": state.users,
        "faults": [
            {"reason": fault.reason, "message": fault.message}
            for fault in faults
            if (fault.regarding.kind, fault.regarding.name) == (QUEUE.name, state.name)
        ],
    }


def _past(state: QueueReport, resource: str) -> dict[str, float]:
    past = state.past.get(resource)
    return {} if past is None else {"pastUse": past.use, "weight": past.weight}


def _number(ratio: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(ratio) else round(ratio, 4)
