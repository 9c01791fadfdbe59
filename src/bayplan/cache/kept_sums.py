"""Kept sums: the amounts that each tenant uses, has leaving, and waits for.

A tenant is a row: a Queue (`bayplan.cache.queue_tree`), or a namespace with an ElasticQuota
(`bayplan.plugins.capacity_scheduling.quotas`). A resource is a column. The rows are a tree; a Pod
belongs to one leaf, and counts there and in all rows above::

    used      requests of the Pods that count on nodes, assumed ones included (`bayplan.cache`)
    leaving   what of that is used by Pods that are about to end, from the decision to evict them on
    demand    used, and requests of the Pods that wait for a node (`bayplan.queue`)

The sums are added to and subtracted from: a Pod costs a few microseconds, however many tenants and
Pods there are. When tenants change, or a Pod requests a resource that has no column, everything is
recounted, at the next question. `KeptSums.recount` says whether the sums still equal a count from
scratch.

- Without tenants nobody listens, and nothing is counted.
- A Pod that is in the queue and counts on a node (assumed, being bound) is demand once. So demand
  stays as it is when a Pod is assumed, and when it is bound.
- Pods with scheduling gates are no demand: they ask for nothing yet.
- Scheduling thread only, except `KeptSums.latest`.

Sums know no rules. What rows are, whose a Pod is, what it is charged and when it is leaving is for
the subclass to say; what a tenant is entitled to, and who yields to whom, is built on these sums.
The reasons: docs/decisions/0028-one-kept-sum.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from bayplan.api.kinds import Kind
from bayplan.api.pod import Pod
from bayplan.cache.counted_pods import CountedPods
from bayplan.cache.node_table import IntArray
from bayplan.cache.objects import ObjectStore
from bayplan.cache.queued_pods import QueuedPods
from bayplan.cache.subscription import Subscription

NO_ROW = -1
"""The row of a Pod that belongs to no tenant."""
UNLIMITED = 2**62
"""The limit of a resource that has none."""
_VECTORS_KEPT = 4096

Amounts = Sequence[int]
"""(r,) by resource: milli-CPU, bytes or counts."""
Rows = Sequence[list[int]]
"""(q, r) sums in lists: a single Pod changes them at a fraction of what arrays cost."""
Terms = Sequence[tuple[list[int], int, int]]
"""Sums of one row, a column of them, and an amount."""


class Limit(NamedTuple):
    """What a row may use at most of the resource of a column."""

    row: int
    column: int
    most: int


class Structure(Protocol):
    """What the rows and columns are."""

    @property
    def resources(self) -> Sequence[str]:
        """(r,) the columns."""

    @property
    def links(self) -> Sequence[Sequence[int]]:
        """(q,) of each row, itself and its ancestors."""

    def limits_on(self, leaf: int, requests: Amounts, named: Collection[str], /) -> Iterable[Limit]:
        """The limits that hold for a Pod of a leaf.

        Args:
            leaf: the row.
            requests: (r,) of the Pod.
            named: the resources that the Pod names, those included of which it requests 0.
        """


S = TypeVar("S", bound=Structure)


class Sums(Generic[S]):
    """The columns of one structure. Any thread may read them, and may see a change half done.

    Attributes:
        structure: what the rows and columns are.
        used_rows, leaving_rows, demand_rows: (q, r) see the module's docstring.
        share: (q, r) what rows are entitled to, where somebody computes it.
    """

    def __init__(self, structure: S) -> None:
        self.structure = structure
        shape = len(structure.links), len(structure.resources)
        self.share: IntArray = np.zeros(shape, np.int64)
        self.used_rows, self.leaving_rows, self.demand_rows = (self.zeros() for _ in range(3))

    @property
    def used(self) -> IntArray:
        """(q, r) what counts on nodes, as of now."""
        return self._array(self.used_rows)

    @property
    def demand(self) -> IntArray:
        """(q, r) what counts on nodes or waits for one, as of now."""
        return self._array(self.demand_rows)

    @property
    def leaving(self) -> IntArray:
        """(q, r) what of `used` is leaving, as of now."""
        return self._array(self.leaving_rows)

    def staying(self, row: int) -> list[int]:
        """(r,) what a row will use when all is gone that is leaving."""
        pairs = zip(self.used_rows[row], self.leaving_rows[row], strict=True)
        return [used - leaving for used, leaving in pairs]

    def zeros(self) -> Rows:
        """Other sums of this shape, see `add_amounts`."""
        q, r = self.share.shape
        return [[0] * r for _ in range(q)]

    def _array(self, rows: Rows) -> IntArray:
        try:
            return np.array(rows, np.int64).reshape(self.share.shape)
        except OverflowError:
            return np.array([[min(amount, UNLIMITED) for amount in row] for row in rows], np.int64)


class Charge:
    """The sums and limits for Pods of one leaf with equal requests.

    A term says which sum it is about. So a Pod is counted, and compared with its limits, without
    looking for rows and columns again.

    Attributes:
        row: the leaf.
        requests: (r,) of one Pod.
        amounts: the same by resource, as the Pod names them.
        used, demand: what a Pod adds, of the leaf and its ancestors.
        most: how much may be used for a Pod to be within a limit, for each limit that concerns it.
    """

    __slots__ = ("amounts", "demand", "most", "requests", "row", "used")

    def __init__(
        self, sums: Sums[S], row: int, requests: Amounts, amounts: Mapping[str, int]
    ) -> None:
        structure = sums.structure
        terms = [
            (link, column, amount)
            for link in structure.links[row]
            for column, amount in enumerate(requests)
            if amount
        ]
        self.row, self.requests, self.amounts = row, requests, amounts
        self.used: Terms = [(sums.used_rows[link], c, amount) for link, c, amount in terms]
        self.demand: Terms = [(sums.demand_rows[link], c, amount) for link, c, amount in terms]
        self.most: Terms = [
            (sums.used_rows[link], column, most - requests[column])
            for link, column, most in structure.limits_on(row, requests, amounts)
        ]

    @property
    def is_within_limits(self) -> bool:
        """Whether no limit stands in the way of one Pod more."""
        for sums, column, most in self.most:  # noqa: SIM110 - a generator costs twice as much
            if sums[column] > most:
                return False
        return True


class Waiting(NamedTuple):
    """A Pod that waits for a node."""

    pod: Pod
    charge: Charge


class KeptSums(ABC, Generic[S]):
    """See the module's docstring.

    Args:
        pods: those on nodes.
        objects: has the tenants.
        queue: the Pods that wait; None if nobody asks for demand.

    Attributes:
        kind: of the objects that make tenants.
        active: whether there are tenants.
        version: changes when rows may mean something else.
        difference: how many sums differed from a count from scratch, at the last `recount`.
    """

    kind: ClassVar[Kind[Any]]

    def __init__(
        self, pods: CountedPods, objects: ObjectStore, queue: QueuedPods | None = None
    ) -> None:
        self._pods, self._objects, self._queue = pods, objects, queue
        self._subscriptions: Sequence[Subscription] = ()
        self._extra: dict[str, None] = {}
        self._stale = False
        self._sums = Sums(self._new_structure(()))
        self._vectors: dict[int, tuple[Mapping[str, int], Amounts]] = {}
        self._charges: dict[tuple[int, int], Charge] = {}
        """By the row of the leaf and the id of `Charge.amounts`."""
        self._waiting: dict[str, Waiting] = {}
        self.active = False
        self.version = 0
        self.difference = 0
        objects.on_change(self.kind, self._tenant_changed)

    # For subclasses

    @abstractmethod
    def _new_structure(self, extra: Iterable[str]) -> S:
        """The rows and columns as of now, with columns for ``extra`` resources, too."""

    @abstractmethod
    def _leaf(self, pod: Pod) -> int:
        """The row of the leaf that ``pod`` belongs to, or `NO_ROW`."""

    @abstractmethod
    def amounts(self, pod: Pod) -> Mapping[str, int]:
        """What ``pod`` is charged, by resource; the same object for Pods that are alike."""

    @abstractmethod
    def _is_leaving(self, pod: Pod) -> bool:
        """Whether ``pod``, which is terminating, counts as leaving."""

    def _tenant_changed(self, old: Any, new: Any) -> None:
        if old is not None and new is not None and old.spec == new.spec and old.uid == new.uid:
            return
        self._outdate()
        self.active = bool(self._objects.all(self.kind))
        if self.active and not self._subscriptions:
            listening = [self._pods.listen(self)]
            self._subscriptions = (
                [*listening, self._queue.listen(self)] if self._queue is not None else listening
            )
        elif not self.active:
            for subscription in self._subscriptions:
                subscription.close()
            self._subscriptions = ()

    def _outdate(self) -> None:
        self._stale = True
        self.version += 1

    # Questions

    @property
    def latest(self) -> Sums[S]:
        """The columns as they were counted last; any thread may ask."""
        return self._sums

    @property
    def structure(self) -> S:
        """What the rows and columns are."""
        return self.sums.structure

    @property
    def sums(self) -> Sums[S]:
        """The columns."""
        if self._stale:
            self._count_anew()
        return self._sums

    def leaf(self, pod: Pod) -> int:
        """The row of the leaf that ``pod`` belongs to, or `NO_ROW`."""
        if self._stale:
            self._count_anew()
        return self._leaf(pod)

    def requests(self, pod: Pod) -> Amounts:
        """(r,) what ``pod`` requests. Shared: do not change."""
        amounts = self.amounts(pod)
        kept = self._vectors.get(id(amounts))
        if kept is None:
            if len(self._vectors) >= _VECTORS_KEPT:
                self._vectors.clear()
            kept = self._vectors[id(amounts)] = amounts, self._vector(amounts)
        return kept[1]

    def sum_of(self, pods: Iterable[Pod]) -> Amounts:
        """(r,) what these Pods, at least one, request together."""
        return [sum(amounts) for amounts in zip(*map(self.requests, pods), strict=True)]

    def _vector(self, amounts: Mapping[str, int]) -> Amounts:
        names = self._sums.structure.resources
        unknown = [name for name, amount in amounts.items() if amount and name not in names]
        if unknown:
            self._extra |= dict.fromkeys(unknown)
            self._outdate()
        return [1 if name == "pods" else amounts.get(name, 0) for name in names]

    def charge(self, pod: Pod) -> Charge | None:
        """What ``pod`` counts for, as long as tenants stay as they are; None without a tenant."""
        if self._stale:
            self._count_anew()
        waiting = self._waiting.get(pod.uid)
        if waiting is not None and waiting.pod is pod:
            return waiting.charge
        charge = self._charge(pod)
        return self.charges([pod])[0] if self._stale else charge

    def charges(self, pods: Sequence[Pod]) -> list[Charge | None]:
        """`charge` of each, all of the same columns."""
        if self._stale:
            self._count_anew()
        charges = [self._charge(pod) for pod in pods]
        return self.charges(pods) if self._stale else charges  # a resource had no column

    def _charge(self, pod: Pod) -> Charge | None:
        row = self._leaf(pod)
        if row == NO_ROW:
            return None
        amounts = self.amounts(pod)
        charge = self._charges.get((row, id(amounts)))
        if charge is None:
            if len(self._charges) >= _VECTORS_KEPT:
                self._charges.clear()
            charge = Charge(self._sums, row, self.requests(pod), amounts)
            self._charges[row, id(amounts)] = charge
        return charge

    def waits(self, uid: str) -> bool:
        """Whether that Pod is in the queue, and belongs to a tenant."""
        return uid in self._waiting

    def waiting(self) -> list[Waiting]:
        """The Pods of tenants that wait for a node."""
        if self._stale:
            self._count_anew()
        return [w for w in self._waiting.values() if self._pods.pod(w.pod.uid) is None]

    # Pods

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
            if waits.shape is pod.shape and waits.status is pod.status and pod.deleted is None:
                # Of an assumed copy all is the same, and it is demand already.
                for sums, column, amount in waiting.charge.used:
                    sums[column] += sign * amount
                return
        charge = self._charge(pod)
        if charge is not None:
            _add(charge.used, sign)
            if self._queue is not None:
                _add(charge.demand, sign)
            if pod.deleted is not None and self._is_leaving(pod):
                links = self._sums.structure.links[charge.row]
                add_amounts(self._sums.leaving_rows, links, charge.requests, sign)
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
        if self._pods.pod(pod.uid) is None:
            _add(charge.demand, 1)

    def pod_left(self, uid: str) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        waiting = self._waiting.pop(uid, None)
        if waiting is not None and self._pods.pod(uid) is None:
            _add(waiting.charge.demand, -1)

    # Counting from scratch

    def _count_anew(self) -> None:
        """Count all Pods; once more with a new column if a Pod requests a resource without one."""
        while self._stale:
            self._stale = False
            self._sums = Sums(self._new_structure(self._extra))
            self._vectors.clear()
            self._charges.clear()
            self._waiting.clear()
            for pod in self._pods.pods():
                self._move(pod, 1)
            for pod in self._queue.waiting_pods() if self._queue is not None else ():
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
            for name in ("used", "leaving", "demand")
        }
        self.difference = sum(different.values())
        return {name: number for name, number in different.items() if number}


def _add(terms: Terms, sign: int) -> None:
    for sums, column, amount in terms:
        sums[column] += sign * amount


def add_amounts(rows: Rows, links: Iterable[int], amounts: Amounts, sign: int = 1) -> None:
    """Add to the sums of these rows, or with ``sign`` -1 subtract from them."""
    for link in links:
        sums = rows[link]
        for column, amount in enumerate(amounts):
            sums[column] += sign * amount
