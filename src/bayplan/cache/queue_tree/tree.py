"""QueueTree: what each queue uses and waits for, kept up to date with every Pod.

A Pod belongs to the leaf of the tree that selects its namespace and its classes (`Structure`), and
counts there and in all ancestors::

    used      requests of the Pods that count on nodes, assumed ones included (`bayplan.cache`)
    demand    these, and requests of the Pods that wait for a node (`bayplan.queue`)
    share     what the queue is entitled to (`bayplan.cache.queue_tree.shares`)

Both sums are added to and subtracted from: a Pod costs a few microseconds, however many queues and
Pods there are. When Queues or the labels of namespaces change, everything is recounted, at the
next question. `recount` says whether the sums still equal a count from scratch.

- Without Queue objects the tree listens to nothing and costs nothing.
- A Pod that is in the queue and counts on a node (assumed, being bound) is demand once. So demand
  stays as it is when a Pod is assumed, and when it is bound.
- Pods with scheduling gates are no demand: they ask for nothing yet.
- Pods that Kueue admits belong to no queue.
- Scheduling thread only, except `latest`.

The reasons: docs/decisions/0021-queues-are-sums.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import NAMESPACE, QUEUE
from bayplan.api.pod import Pod, PodShape
from bayplan.api.queues import Queue
from bayplan.api.workloads import Namespace
from bayplan.cache.cache import Cache
from bayplan.cache.queue_tree.shares import UNLIMITED, IntArray, fair_shares, needs
from bayplan.cache.queue_tree.structure import NAMESPACE_TAKEN, QueueFault, Structure
from bayplan.cache.queued_pods import QueuedPods
from bayplan.cache.requests import Requests, pod_requests
from bayplan.cache.subscription import Subscription

NO_QUEUE = -1
"""The row of a Pod that belongs to no queue."""

_KUEUE_LABELS = ("kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset", "kueue.x-k8s.io/queue-name")
_VECTORS_KEPT = 4096

Amounts = Sequence[int]
"""(r,) by resource."""
Rows = Sequence[list[int]]
"""(q, r) sums in lists: a single Pod changes them at a fraction of what arrays cost."""


class Excess(NamedTuple):
    """Which limit stands in the way; amounts as in `bayplan.api.quantity.of`."""

    queue: str
    resource: str
    used: int
    promised: int
    requested: int
    limit: int

    @property
    def limit_name(self) -> str:
        """Which limit, without figures."""
        return f"limit of {self.resource} of queue {self.queue}"

    @property
    def message(self) -> str:
        """Which limit, and by how much."""
        used, promised, requested, limit = (
            quantity.shown(self.resource, amount)
            for amount in (self.used, self.promised, self.requested, self.limit)
        )
        others = f", {promised} promised to nominated Pods" if self.promised else ""
        return f"{self.limit_name} is {limit}: {used} used{others}, {requested} requested"


class Sums:
    """The columns of one structure. Any thread may read them, and may see a change half done.

    Attributes:
        structure: what the rows and columns are.
        used_rows, demand_rows: see `used` and `demand`.
        share: (q, r).
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        shape = len(structure), len(structure.resources)
        self.used_rows: Rows = _zeros(shape)
        self.demand_rows: Rows = _zeros(shape)
        self.share: IntArray = np.zeros(shape, np.int64)

    @property
    def used(self) -> IntArray:
        """(q, r) what counts on nodes, as of now."""
        return _array(self.used_rows, self.share.shape)

    @property
    def demand(self) -> IntArray:
        """(q, r) what counts on nodes or waits for one, as of now."""
        return _array(self.demand_rows, self.share.shape)

    def zeros(self) -> Rows:
        """Other sums of this shape, see `add_amounts`."""
        return _zeros(self.share.shape)


Terms = Sequence[tuple[list[int], int, int]]
"""Sums of one row, a column of them, and an amount."""


class Charge:
    """The sums and limits for Pods of one queue with equal requests.

    A term says which sum it is about. So a Pod is counted, and compared with its limits, without
    looking for rows and columns again.

    Attributes:
        row: the leaf.
        requests: (r,) of one Pod.
        used, demand: what a Pod adds, of the leaf and its ancestors.
        most: how much may be used for a Pod to be within a limit, for each limit that concerns it.
    """

    __slots__ = ("demand", "most", "requests", "row", "used")

    def __init__(self, sums: Sums, row: int, requests: Amounts) -> None:
        structure = sums.structure
        terms = [
            (link, column, amount)
            for link in structure.links[row]
            for column, amount in enumerate(requests)
            if amount
        ]
        self.row, self.requests = row, requests
        self.used: Terms = [(sums.used_rows[link], *term) for link, *term in terms]
        self.demand: Terms = [(sums.demand_rows[link], *term) for link, *term in terms]
        self.most: Terms = [
            (sums.used_rows[link], column, limit - requests[column])
            for link, column, limit in structure.limits[row]
            if requests[column]
        ]

    @property
    def is_within_limits(self) -> bool:
        """Whether no limit stands in the way of one Pod more; `QueueTree.excess` says which."""
        for sums, column, most in self.most:  # noqa: SIM110 - a generator costs twice as much
            if sums[column] > most:
                return False
        return True


class Waiting(NamedTuple):
    """A Pod that waits for a node."""

    pod: Pod
    charge: Charge


class QueueTree:
    """See the module's docstring.

    Attributes:
        active: whether there are Queues.
        version: changes when rows may mean something else.
        difference: how many sums differed from a count from scratch, at the last `recount`.
    """

    def __init__(self, cache: Cache, queue: QueuedPods) -> None:
        self._cache, self._queue = cache, queue
        self._objects = cache.objects
        self._subscriptions: Sequence[Subscription] = ()
        self._extra: dict[str, None] = {}
        self._stale = False
        self._sums = Sums(Structure(()))
        self._leaves: dict[str, Sequence[int]] = {}
        """Those that select a namespace; a Pod belongs to the first that takes it."""
        self._faults: tuple[QueueFault, ...] = ()
        self._vectors: dict[int, tuple[Requests, Amounts]] = {}
        self._charges: dict[tuple[int, int], Charge] = {}
        """By the row of the leaf and the id of `Charge.requests`."""
        self._waiting: dict[str, Waiting] = {}
        self._capacity: tuple[object, IntArray] = (None, np.zeros(0, np.int64))
        self._divided = self._capacity[1], np.zeros((0, 0), np.int64)
        """The capacity and the demand that shares were made of last."""
        self.active = False
        self.version = 0
        self.difference = 0
        self._objects.on_change(QUEUE, self._queue_changed)
        self._objects.on_change(NAMESPACE, self._namespace_changed)

    # Queues and namespaces

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if old is not None and new is not None and old.spec == new.spec and old.uid == new.uid:
            return
        self._outdate()
        self.active = bool(self._objects.all(QUEUE))
        if self.active and not self._subscriptions:
            self._subscriptions = self._cache.listen(self), self._queue.listen(self)
        elif not self.active:
            for subscription in self._subscriptions:
                subscription.close()
            self._subscriptions = ()

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        namespace = new or old
        if not self.active or namespace is None:
            return
        leaves = self._leaves.pop(namespace.name, None)
        if leaves is not None and leaves != self._leaves_of(namespace.name):
            self._outdate()

    def _outdate(self) -> None:
        self._stale = True
        self.version += 1

    @property
    def latest(self) -> Sums:
        """The columns as they were counted last; any thread may ask."""
        return self._sums

    @property
    def structure(self) -> Structure:
        """What the rows and columns are."""
        return self.sums.structure

    @property
    def sums(self) -> Sums:
        """The columns; shares as of `refresh_shares`."""
        if self._stale:
            self._count_anew()
        return self._sums

    @property
    def known_faults(self) -> tuple[QueueFault, ...]:
        """What has come up so far: all but shared namespaces without Pods. Replaced if changed."""
        if self._stale:
            self._count_anew()
        return self._faults

    def faults(self) -> list[QueueFault]:
        """What is wrong with the Queue objects; looks at all namespaces."""
        structure = self.structure
        shared = structure.shared_namespaces(self._objects.all(NAMESPACE))
        return sorted({*structure.faults, *shared})

    # Pods

    def leaf(self, pod: Pod) -> int:
        """The row of the leaf that ``pod`` belongs to, or `NO_QUEUE`."""
        if self._stale:
            self._count_anew()
        if pod.shape.memo(_is_of_kueue):
            return NO_QUEUE
        shape = pod.shape
        leaves = self._leaves.get(shape.namespace)
        if leaves is None:
            leaves = self._leaves[shape.namespace] = self._leaves_of(shape.namespace)
        conditions = self._sums.structure.conditions
        for row in leaves:
            spec = conditions[row]
            if spec is None or spec.takes(shape):
                return row
        return NO_QUEUE

    def namespaces(self, row: int) -> list[str]:
        """The namespaces that have had Pods and are selected by the leaf at ``row``."""
        return [namespace for namespace, leaves in self._leaves.items() if row in leaves]

    def _leaves_of(self, namespace: str) -> Sequence[int]:
        obj: Namespace | None = self._objects.get(NAMESPACE, namespace)
        structure = self._sums.structure
        rows = structure.rows_of(namespace, {} if obj is None else obj.labels)
        if len(rows) > 1 and obj is not None:
            known = {fault.queue for fault in self._faults if fault.reason == NAMESPACE_TAKEN}
            shared = structure.shared_namespaces([obj])
            self._faults += tuple(fault for fault in shared if fault.queue not in known)
        return rows

    def requests(self, pod: Pod) -> Amounts:
        """(r,) what ``pod`` requests. Shared: do not change."""
        requests = pod_requests(pod)
        kept = self._vectors.get(id(requests))
        if kept is None:
            if len(self._vectors) >= _VECTORS_KEPT:
                self._vectors.clear()
            kept = self._vectors[id(requests)] = requests, self._vector(requests)
        return kept[1]

    def sum_of(self, pods: Iterable[Pod]) -> Amounts:
        """(r,) what these Pods, at least one, request together."""
        return [sum(amounts) for amounts in zip(*map(self.requests, pods), strict=True)]

    def _vector(self, requests: Requests) -> Amounts:
        names, amounts = self._sums.structure.resources, requests.amounts | {"pods": 1}
        unknown = [n for n, amount in requests.amounts.items() if amount and n not in names]
        if unknown:
            self._extra |= dict.fromkeys(unknown)
            self._outdate()
        return [amounts.get(name, 0) for name in names]

    def charge(self, pod: Pod) -> Charge | None:
        """What ``pod`` counts for, as long as Queues stay as they are; None without a queue."""
        if self._stale:
            self._count_anew()
        waiting = self._waiting.get(pod.uid)
        if waiting is not None and waiting.pod is pod:
            return waiting.charge
        charge = self._charge(pod)
        if self._stale:  # it asks for a resource that had no column
            self._count_anew()
            charge = self._charge(pod)
        return charge

    def _charge(self, pod: Pod) -> Charge | None:
        row = self.leaf(pod)
        if row == NO_QUEUE:
            return None
        requests = self.requests(pod)
        charge = self._charges.get((row, id(requests)))
        if charge is None:
            if len(self._charges) >= _VECTORS_KEPT:
                self._charges.clear()
            charge = self._charges[row, id(requests)] = Charge(self._sums, row, requests)
        return charge

    def pod_counted(self, pod: Pod) -> None:
        """``pod`` counts on a node from now on; see `bayplan.cache.counted_pods.PodListener`."""
        self._move(pod, 1)

    def pod_uncounted(self, pod: Pod) -> None:
        """``pod`` counts on a node no longer."""
        self._move(pod, -1)

    def _move(self, pod: Pod, sign: int) -> None:
        if self._stale:
            return
        waiting = self._waiting.get(pod.uid)
        if waiting is not None:
            waits = waiting.pod
            if waits.shape is pod.shape and waits.status is pod.status:
                # Of an assumed copy all is the same, and it is demand already.
                for sums, column, amount in waiting.charge.used:
                    sums[column] += sign * amount
                return
        charge = self._charge(pod)
        if charge is not None:
            _add(charge.used, sign)
            _add(charge.demand, sign)
        if waiting is not None:
            # It was demand as it waits, and is demand as it counts.
            _add(waiting.charge.demand, -sign)

    def pod_waits(self, pod: Pod) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        if not self.active or self._stale:
            return
        self.pod_left(pod.uid)
        if pod.spec.scheduling_gates or (charge := self._charge(pod)) is None:
            return
        self._waiting[pod.uid] = Waiting(pod, charge)
        if self._cache.pod(pod.uid) is None:
            _add(charge.demand, 1)

    def pod_left(self, uid: str) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        waiting = self._waiting.pop(uid, None)
        if waiting is not None and self._cache.pod(uid) is None:
            _add(waiting.charge.demand, -1)

    def waits(self, uid: str) -> bool:
        """Whether that Pod is in the queue, and belongs to a Queue."""
        return uid in self._waiting

    def waiting(self) -> list[Waiting]:
        """The Pods of queues that wait for a node."""
        if self._stale:
            self._count_anew()
        return [w for w in self._waiting.values() if self._cache.pod(w.pod.uid) is None]

    # Counting from scratch

    def _count_anew(self) -> None:
        """Count all Pods; once more with a new column if a Pod requests a resource without one."""
        while self._stale:
            self._stale = False
            self._sums = Sums(Structure(self._objects.all(QUEUE), self._extra))
            self._faults = tuple(self._sums.structure.faults)
            self._leaves.clear()
            self._vectors.clear()
            self._charges.clear()
            self._waiting.clear()
            for pod in self._cache.pods():
                self._move(pod, 1)
            for pod in self._queue.waiting_pods():
                self.pod_waits(pod)

    def recount(self) -> dict[str, int]:
        """In how many places the sums differ from a count from scratch; empty where in none.

        Afterwards they are right.
        """
        if not self.active:
            return {}
        kept = self.sums
        self.difference = 0
        self._stale = True
        anew = self.sums
        if kept.structure.resources != anew.structure.resources:
            return {"resources": 1}
        anew.share = kept.share
        if len(kept.used) != len(anew.used):
            return {"rows": 1}
        different = {
            name: int((getattr(kept, name) != getattr(anew, name)).sum())
            for name in ("used", "demand")
        }
        self.difference = sum(different.values())
        return {name: number for name, number in different.items() if number}

    # Limits

    def excess(
        self,
        row: int,
        requests: Amounts,
        others: Rows | None = None,
        promised: Rows | None = None,
    ) -> Excess | None:
        """Which limit of the queue at ``row`` or above would be exceeded by ``requests`` more.

        A resource that is not requested holds nothing back, however much of it is used.

        Args:
            row: a leaf.
            requests: (r,)
            others: (q, r) what counts as used, too.
            promised: (q, r) what nominated Pods will use.
        """
        sums = self.sums
        structure, rows = sums.structure, sums.used_rows
        for link, column, limit in structure.limits[row]:
            if requested := requests[column]:
                used = rows[link][column]
                if others is not None:
                    used += others[link][column]
                kept = 0 if promised is None else promised[link][column]
                if used + kept + requested > limit:
                    name, resource = structure.name(link), structure.resources[column]
                    return Excess(name, resource, used, kept, requested, limit)
        return None

    # Shares

    def capacity(self) -> IntArray:
        """(r,) what all nodes have; summed up again when a node has changed."""
        nodes, sums = self._cache.nodes, self.sums
        seen = sums, nodes.node_journal.position
        if self._capacity[0] != seen:
            exists = nodes.exists
            amounts = [
                nodes.allowed_pods if name == "pods" else nodes.allocatable(name)
                for name in sums.structure.resources
            ]
            capacity = np.array([int(amount[exists].sum()) for amount in amounts], np.int64)
            self._capacity = seen, capacity
        return self._capacity[1]

    def refresh_shares(self) -> Sums:
        """The columns with shares as of now; a few milliseconds for a thousand queues.

        Where nothing has changed that they follow from, they stay as they are.
        """
        sums = self.sums
        structure = sums.structure
        capacity = self.capacity()
        leaves = structure.leaves
        demand = np.zeros_like(sums.share)
        demand[leaves] = sums.demand[leaves]
        divided, between = self._divided  # what is divided is another array for other sums
        if divided is capacity and np.array_equal(between, demand):
            return sums
        need = needs(structure.parent, structure.levels, demand, structure.limit)
        sums.share = fair_shares(
            capacity,
            structure.parent,
            structure.levels,
            need,
            structure.guaranteed,
            structure.weight,
            structure.priority,
        )
        self._divided = capacity, demand
        return sums


def _add(terms: Terms, sign: int) -> None:
    for sums, column, amount in terms:
        sums[column] += sign * amount


def add_amounts(rows: Rows, links: Iterable[int], amounts: Amounts) -> None:
    """Add to the sums of these rows."""
    for link in links:
        sums = rows[link]
        for column, amount in enumerate(amounts):
            sums[column] += amount


def _zeros(shape: tuple[int, ...]) -> Rows:
    q, r = shape
    return [[0] * r for _ in range(q)]


def _array(rows: Rows, shape: tuple[int, ...]) -> IntArray:
    try:
        return np.array(rows, np.int64).reshape(shape)
    except OverflowError:
        return np.array([[min(amount, UNLIMITED) for amount in row] for row in rows], np.int64)


def _is_of_kueue(shape: PodShape) -> bool:
    return any(label in shape.labels for label in _KUEUE_LABELS)
