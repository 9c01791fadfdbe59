"""Status: what waits, the oldest first, and what is under way, from the scheduler's own tables.

On the scheduling thread. Two looks at every entry of the queue: some 0.5 us each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from heapq import nsmallest
from typing import Any

from bayplan.explain.names import Names
from bayplan.framework.evictions import Eviction
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import QueueState
from bayplan.report.pods import cut_note
from bayplan.report.records import Records
from bayplan.world import World

MOST = 10
"""Entries that are named, and causes."""
_WAITING = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE, QueueState.GATED)
_LATE = datetime.max.replace(tzinfo=UTC)


def waiting(world: World, records: Records, now: float, only: str = "") -> dict[str, Any]:
    """Pods and groups that wait to be tried or for something to change.

    Args:
        world: what the scheduler knows.
        records: what came of the last attempts.
        now: seconds since the epoch.
        only: a namespace: the one of which entries are named; "" for all.
    """
    parts = world.queue.pending_pods()
    entries = [queued for state in _WAITING for queued in parts[state]]
    alike = Counter(
        (
            q.gating_plugin,
            q.unschedulable_plugins,
            q.pending_plugins,
            q.consecutive_errors_count > 0,
        )
        for q in entries
    )
    causes: Counter[str] = Counter()
    for (gate, rejected, pending, failed), count in alike.items():
        causes[_cause(gate, rejected | pending, failed=failed)] += count
    shown = [q for q in entries if q.pod.namespace == only] if only else entries
    oldest = nsmallest(MOST, shown, key=lambda queued: queued.pod.created or _LATE)
    return {
        "entries": len(entries),
        "pods": len(parts[QueueState.GROUPED])
        + sum(not isinstance(queued, QueuedGroup) for queued in entries),
        "by": [{"cause": cause, "entries": n} for cause, n in causes.most_common(MOST)],
        "oldest": [_entry(world, records, queued, now, only) for queued in oldest],
    }


def _cause(gate: str, rejectors: Iterable[str], *, failed: bool) -> str:
    """Who holds or has rejected an entry; after an error, and before an attempt, no plugin has."""
    return gate or ", ".join(sorted(rejectors)) or ("error" if failed else "its turn")


def _entry(
    world: World, records: Records, queued: QueuedPod, now: float, only: str
) -> dict[str, Any]:
    entry: dict[str, Any] = {"pod": queued.pod.key}
    if isinstance(queued, QueuedGroup):
        missing = queued.gathering()
        message = missing.message if missing is not None else queued.last_report
        entry = {"group": queued.key, "pods": len(queued.members)}
    elif queued.gating_plugin:
        message = queued.gating_reason
    else:
        record = records.of(queued.uid)
        message = cut_note(record.message) if record is not None else ""
    created = queued.pod.created
    if created is not None:
        entry["seconds"] = round(max(now - created.timestamp(), 0.0))
    entry |= {"attempts": queued.attempts, "state": str(queued.state)}
    failed = queued.consecutive_errors_count > 0
    entry["cause"] = _cause(queued.gating_plugin, queued.rejectors, failed=failed)
    if message:
        entry["message"] = Names(world, (only,)).hidden(message) if only else message
    return entry


def in_flight(world: World, bindings: int, now: float, only: str = "") -> dict[str, Any]:
    """What was decided and has not come about.

    Args:
        world: what the scheduler knows.
        bindings: as the scheduler counts them.
        now: seconds since the epoch.
        only: a namespace: the one of which groups and Pods are named; "" for all.
    """
    permit = Counter(plugin for pod in world.waiting for plugin in pod.pending_plugins())
    evictions = world.evictions.running()
    there = {pod.uid for each in evictions for pod in each.leaving}
    groups = [entry for entry in world.queue.groups if entry.state is QueueState.IN_FLIGHT]
    return {
        "bindings": bindings,
        "permit": dict(sorted(permit.items())),
        "preBind": len(world.preparing),
        "groups": len(groups),
        "plans": [
            {"group": e.key, "pods": len(e.members), "placed": sum(e.scheduled().values())}
            for e in groups
            if _is_shown(e.key, only)
        ][:MOST],
        "evictions": len(evictions),
        "leaving": len(there),
        "leavingFor": [_eviction(e, now) for e in evictions if _is_shown(e.preemptor.key, only)][
            :MOST
        ],
    }


def _is_shown(key: str, only: str) -> bool:
    return not only or key.startswith(f"{only}/")


def _eviction(eviction: Eviction, now: float) -> dict[str, Any]:
    since = eviction.since
    answer: dict[str, Any] = {"for": eviction.preemptor.key, "pods": len(eviction.leaving)}
    if since is not None:
        answer["seconds"] = round(max(now - since.timestamp(), 0.0))
    return answer
