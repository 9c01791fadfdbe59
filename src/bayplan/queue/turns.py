"""TurnQueue: Pods to try next, where tenants take turns.

While there are no tenants this is one heap in the order of QueueSort. Else there is a tree in its
place: tenant > priority > namespace > heap. A plugin says which tenant is next
(`bayplan.framework.turns.Turns`). Within a tenant:

- The highest priority goes first. With ageing, the first Pod of the priority below goes before it
  if it has waited so long, and longer: a Pod rises by one step at most, among the priorities that
  wait.
- Of one priority, namespaces take turns, and in each of them QueueSort decides. Or, if the tenant
  wants that, the oldest Pod goes first.

Before a Pod is popped, it is asked whether others that wait, active or in backoff, could take its
room back (`bayplan.queue.precedence`); their tenant goes first then.

A Pod is found by its uid, so adding and removing costs as much as in the heap itself. A turn costs
O(log n), of tenants as of namespaces (`bayplan.framework.turns.Ranking`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from bayplan.api.pod import Pod
from bayplan.api.queues import Order
from bayplan.framework.turns import Ranking, Turns
from bayplan.queue.backoff import BackoffQueue
from bayplan.queue.by_shape import PodsByShape
from bayplan.queue.heap import Key, PodHeap
from bayplan.queue.precedence import first_in_turn
from bayplan.queue.queued_pod import QueuedPod

_Lane = tuple[int, int, str]
"""Tenant, priority, namespace; these two where they matter."""


class _Level:
    """The Pods of one tenant with one priority.

    Attributes:
        heaps: by namespace; never empty.
    """

    def __init__(self) -> None:
        self.heaps: dict[str, PodHeap] = {}
        self._tried: dict[str, int] = {}
        self._turns: Ranking[str] = Ranking()
        """By how often each was tried; neither is kept up while no tenant waits."""

    def add(self, queued: QueuedPod, namespace: str, key: Key) -> None:
        """Put a Pod in; a new namespace waits for its turn like the others."""
        heap = self.heaps.get(namespace)
        if heap is None:
            least = 0
            if self.heaps:
                first = self._next_namespace()
                least = self._tried[first]
                self._turns.put(first, least)
            heap = self.heaps[namespace] = PodHeap(key)
            tried = self._tried[namespace] = max(self._tried.get(namespace, 0), least)
            self._turns.put(namespace, tried)
        heap.add(queued)

    def _next_namespace(self) -> str:
        return next(iter(self.heaps)) if len(self.heaps) == 1 else self._turns.first()

    def first(self) -> QueuedPod:
        """The Pod whose turn it is."""
        if len(self.heaps) == 1:
            [heap] = self.heaps.values()
        else:
            heap = self.heaps[self._turns.first()]
        queued = heap.peek()
        assert queued is not None
        return queued

    def pop(self) -> QueuedPod:
        """Pop the next Pod."""
        alone = len(self.heaps) == 1
        if alone:
            [(namespace, heap)] = self.heaps.items()
        else:
            heap = self.heaps[namespace := self._turns.first()]
        queued = heap.pop()
        assert queued is not None
        if not heap:
            self._remove(namespace)
        elif not alone:
            tried = self._tried[namespace] = self._tried[namespace] + queued.size
            self._turns.put(namespace, tried)
        return queued

    def discard(self, queued: QueuedPod, namespace: str) -> None:
        """Take a Pod out."""
        heap = self.heaps[namespace]
        heap.discard(queued)
        if not heap:
            self._remove(namespace)

    def _remove(self, namespace: str) -> None:
        del self.heaps[namespace]
        self._turns.discard(namespace)


class TurnQueue:
    """Pods to try next; see the module's docstring.

    Args:
        key: the order of Pods.
        turns: the order of tenants.
        backoff: where others back off; None where nobody does.
    """

    def __init__(self, key: Key, turns: Turns, backoff: BackoffQueue | None = None) -> None:
        self._key = key
        self._turns, self._backoff = turns, backoff
        self._begin()

    def _begin(self) -> None:
        self._turns.restart(self._first_pod)
        self._version = self._turns.version
        self._active = self._turns.active
        self._plain = PodHeap(self._key)
        self._lanes: dict[str, tuple[_Lane, QueuedPod]] = {}
        self._tenants: dict[int, dict[int, _Level]] = {}
        self._by_shape: dict[int, PodsByShape] | None = None
        """By tenant, from the first time on when tenants are compared."""

    def _first_pod(self, tenant: int) -> Pod | None:
        levels = self._tenants.get(tenant)
        return levels[max(levels)].first().pod if levels else None

    def _oldest_first(self, queued: QueuedPod) -> tuple[float, Any]:
        return _created(queued, 0.0), self._key(queued)

    def _lane(self, queued: QueuedPod) -> tuple[_Lane, Key]:
        """The Pod's lane, and the order there."""
        pod = queued.pod
        tenant = self._turns.tenant(pod)
        match self._turns.order(tenant):
            case Order.FAIR:
                return (tenant, pod.priority, pod.namespace), self._key
            case Order.FIFO:
                return (tenant, pod.priority, ""), self._oldest_first
        return (tenant, 0, ""), self._key

    def _arrange(self) -> None:
        """Start over: Pods may belong to other tenants now."""
        pods = list(self)
        self._begin()
        for queued in pods:
            self.add(queued)

    def add(self, queued: QueuedPod) -> None:
        """Add a Pod, or move the Pod to its present place."""
        if self._version != self._turns.version:
            self._arrange()
        if not self._active:
            self._plain.add(queued)
            return
        self.discard(queued)
        lane, key = self._lane(queued)
        tenant, priority, namespace = lane
        levels = self._tenants.get(tenant)
        enters = levels is None
        if levels is None:
            levels = self._tenants[tenant] = {}
        level = levels.get(priority)
        if level is None:
            level = levels[priority] = _Level()
        level.add(queued, namespace, key)
        self._lanes[queued.uid] = lane, queued
        if self._by_shape is not None:
            self._by_shape.setdefault(tenant, PodsByShape()).add(queued)
        if enters:
            self._turns.enters(tenant)

    def update(self, queued: QueuedPod) -> None:
        """The Pod has changed: reorder it if need be."""
        if self._version != self._turns.version:
            self._arrange()
        if self._active:
            self.add(queued)
        else:
            self._plain.update(queued)

    def discard(self, queued: QueuedPod) -> bool:
        """Take the Pod out; whether it was in."""
        kept = self._lanes.pop(queued.uid, None)
        if kept is None:
            return self._plain.discard(queued)
        tenant, priority, namespace = kept[0]
        level = self._tenants[tenant][priority]
        level.discard(queued, namespace)
        if self._by_shape is not None:
            self._by_shape[tenant].discard(queued)
        if not level.heaps:
            self._remove(tenant, priority)
        return True

    def _remove(self, tenant: int, priority: int) -> None:
        levels = self._tenants[tenant]
        del levels[priority]
        if not levels:
            del self._tenants[tenant]
            self._turns.leaves(tenant)

    def pop(self) -> QueuedPod | None:
        """Take out the Pod whose turn it is."""
        tenants, turns = self._tenants, self._turns
        if self._version != turns.version:
            self._arrange()
            tenants = self._tenants
        if not tenants:
            return self._plain.pop()
        if len(tenants) == 1 and not self._rejected:
            tenant = next(iter(tenants))
        else:
            tenant = turns.next_tenant()
            if turns.compares:
                tenant, chosen = first_in_turn(turns, tenant, self._next, self._waiting)
                if chosen is not self._next(tenant):
                    return self._pop_out_of_turn(chosen)
        levels = tenants[tenant]
        if len(levels) == 1:
            [(priority, level)] = levels.items()
        else:
            level = levels[priority := self._next_priority(levels)]
        queued = level.pop()
        del self._lanes[queued.uid]
        if self._by_shape is not None:
            self._by_shape[tenant].discard(queued)
        turns.tried(tenant, queued.size)
        if not level.heaps:
            self._remove(tenant, priority)
        return queued

    @property
    def _rejected(self) -> PodsByShape | None:
        return None if self._backoff is None else self._backoff.rejected

    def _next(self, tenant: int) -> QueuedPod | None:
        levels = self._tenants.get(tenant)
        return None if levels is None else levels[self._next_priority(levels)].first()

    def _waiting(self) -> dict[int, dict[str, QueuedPod]]:
        """By tenant, a Pod of each shape, active or in backoff after a rejection."""
        if self._by_shape is None:
            self._by_shape = {}
            for (tenant, *_), queued in self._lanes.values():
                self._by_shape.setdefault(tenant, PodsByShape()).add(queued)
        waiting = {
            tenant: {queued.uid: queued for queued in pods.firsts()}
            for tenant, pods in self._by_shape.items()
            if pods
        }
        for queued in self._rejected.firsts() if self._rejected else ():
            waiting.setdefault(self._turns.tenant(queued.pod), {})[queued.uid] = queued
        return waiting

    def _pop_out_of_turn(self, queued: QueuedPod) -> QueuedPod:
        """Take out this Pod, which is active or backs off."""
        if queued.uid not in self._lanes:
            self.add(queued)
        (tenant, priority, namespace), _ = self._lanes.pop(queued.uid)
        levels = self._tenants[tenant]
        levels[priority].discard(queued, namespace)
        if self._by_shape is not None:
            self._by_shape[tenant].discard(queued)
        self._turns.tried(tenant, 1)
        if not levels[priority].heaps:
            self._remove(tenant, priority)
        return queued

    def _next_priority(self, levels: dict[int, _Level]) -> int:
        highest = max(levels)
        if not self._turns.ageing or len(levels) == 1:
            return highest
        second = max(priority for priority in levels if priority != highest)
        below, now = levels[second], self._turns.now()
        since, rival = _created(below.first(), now), _created(levels[highest].first(), now)
        return second if since <= now - self._turns.ageing and since < rival else highest

    def __len__(self) -> int:
        return len(self._lanes) + len(self._plain)

    def __contains__(self, queued: QueuedPod) -> bool:
        return queued.uid in self._lanes or queued in self._plain

    def __iter__(self) -> Iterator[QueuedPod]:
        return chain(self._plain, (queued for _, queued in self._lanes.values()))


def _created(queued: QueuedPod, default: float) -> float:
    created = queued.pod.created
    return default if created is None else created.timestamp()
