"""Kept sums: the amounts that each tenant uses, has leaving, and waits for.

A tenant is a row: a Queue (`bayplan.cache.queue_tree`), or a namespace with an ElasticQuota
(`bayplan.plugins.capacity_scheduling.quotas`). A resource is a column. The rows are a tree; a Pod
belongs to one leaf, and counts there and in all rows above, and in those of its users::

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
- Pods with scheduling gates are no demand: they ask for nothing yet. Nor are those that can never
  run (`Charge.can_run`), or that no node is open to: nobody is to give way to them, or to get less
  for them.
- Scheduling thread only, except `KeptSums.latest`.

Sums know no rules. What rows are, whose a Pod is, what it is charged and when it is leaving is for
the subclass to say; what a tenant is entitled to, and who yields to whom, is built on these sums.
The reasons: docs/decisions/0028-one-kept-sum.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, ClassVar, Generic, NamedTuple

from bayplan.api.kinds import Kind
from bayplan.api.meta import ObjectFault
from bayplan.api.pod import Pod
from bayplan.cache.amounts import NO_ROW, Amounts, Charge, S, Sums, Terms, User, add_amounts
from bayplan.cache.counted_pods import CountedPods
from bayplan.cache.objects import ObjectStore
from bayplan.cache.queued_pods import QueuedPods
from bayplan.cache.subscription import Subscription

_VECTORS_KEPT = 4096
_SPARE_USERS = 1024
"""Rows of users who have no Pods any more, beside as many as there were: then all is recounted."""


class Waiting(NamedTuple):
    """A waiting Pod; `demand` is empty where limits or nodes never allow such a Pod."""

    pod: Pod
    charge: Charge[Any]
    demand: Terms


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
        self._faults: tuple[ObjectFault, ...] = ()
        self._vectors: dict[int, tuple[Mapping[str, int], Amounts]] = {}
        self._by_node = False
        """Whether what a Pod is charged depends on its node."""
        self._charges: dict[tuple[int, int, int, Sequence[User]], Charge[S]] = {}
        """By the row of the leaf, the ids of `Charge.amounts` and `Charge.wanted`, and users."""
        self._users: Callable[[int, Pod], Sequence[User]] | None = None
        """Who the users of a Pod of a leaf are; None while no tenant limits users."""
        self._most_users = inf
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
        """What ``pod`` is charged, by resource; the same object for Pods that are alike.

        And are on the same node, where `_by_node` says that it matters.
        """

    def _wanted(self, row: int, pod: Pod, amounts: Mapping[str, int]) -> Mapping[str, int]:  # noqa: ARG002
        """What a Pod of a leaf is demand for, beside what it is charged; asked if `_by_node`."""
        return amounts

    @abstractmethod
    def _is_leaving(self, pod: Pod) -> bool:
        """Whether ``pod``, which is terminating, counts as leaving."""

    def _can_run(self, charge: Charge[S]) -> bool:
        """Whether Pods like this are ever placed; asked once, until all is counted anew."""
        return all(most >= 0 for _, _, most in charge.most)

    def _may_run(self, pod: Pod, row: int) -> bool:  # noqa: ARG002
        """Whether a node, and its leaf, are open to a Pod; asked when the Pod begins to wait."""
        return True

    def _tenant_changed(self, old: Any, new: Any) -> None:
        if old is not None and new is not None and old.spec == new.spec and old.uid == new.uid:
            return
        self._outdate()
        self.active = bool(self._objects.all(self.kind))
        if self.active and not self._subscriptions:
            self._subscriptions = [
                publisher.listen(self)
                for publisher in (self._pods, self._queue)
                if publisher is not None
            ]
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

    @property
    def known_faults(self) -> tuple[ObjectFault, ...]:
        """The faults of the objects that have come up so far; replaced when one comes or goes."""
        if self._stale:
            self._count_anew()
        return self._faults

    def leaf(self, pod: Pod) -> int:
        """The row of the leaf that ``pod`` belongs to, or `NO_ROW`."""
        if self._stale:
            self._count_anew()
        return self._leaf(pod)

    def requests(self, pod: Pod) -> Amounts:
        """(r,) what ``pod`` requests. Shared: do not change."""
        return self._row_of(self.amounts(pod))

    def _row_of(self, amounts: Mapping[str, int]) -> Amounts:
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

    def charge(self, pod: Pod) -> Charge[S] | None:
        """What ``pod`` counts for, as long as tenants stay as they are; None without a tenant."""
        if self._stale:
            self._count_anew()
        waiting = self._waiting.get(pod.uid)
        if waiting is not None and waiting.pod is pod:
            return waiting.charge
        charge = self._charge(pod)
        return self.charges([pod])[0] if self._stale else charge

    def charges(self, pods: Sequence[Pod]) -> list[Charge[S] | None]:
        """`charge` of each, all of the same columns."""
        if self._stale:
            self._count_anew()
        if self._users is None:
            amounts = list(map(self.amounts, pods))
            alike = [(p.shape, id(of_pod)) for p, of_pod in zip(pods, amounts, strict=True)]
            examples = dict(zip(alike, pods, strict=True))
            found = {key: self._charge(pod) for key, pod in examples.items()}
            charges = [found[key] for key in alike]
        else:
            charges = [self._charge(pod) for pod in pods]
        return self.charges(pods) if self._stale else charges  # a resource had no column

    def _charge(self, pod: Pod) -> Charge[S] | None:
        row = self._leaf(pod)
        if row == NO_ROW:
            return None
        amounts = self.amounts(pod)
        wanted = self._wanted(row, pod, amounts) if self._by_node else amounts
        return self._charge_of(row, pod, amounts, wanted)

    def _charge_of(
        self,
        row: int,
        pod: Pod,
        amounts: Mapping[str, int],
        wanted: Mapping[str, int] | None = None,
    ) -> Charge[S]:
        users = () if self._users is None else self._users(row, pod)
        wanted = amounts if wanted is None else wanted
        key = row, id(amounts), id(wanted), users
        charge = self._charges.get(key)
        if charge is None:
            if len(self._charges) >= _VECTORS_KEPT:
                self._charges.clear()
            requests, demanded = self._row_of(amounts), self._row_of(wanted)
            charge = Charge(self._sums, row, requests, amounts, users, (wanted, demanded))
            charge.can_run = self._can_run(charge)
            self._charges[key] = charge
            if len(self._sums.users) > self._most_users:
                self._outdate()
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
            if (
                waiting.demand
                and not self._by_node
                and waits.shape is pod.shape
                and waits.status is pod.status
                and pod.deleted is None
                and (self._users is None or waits.annotated_like(pod))
            ):
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
                add_amounts(self._sums.leaving_rows, charge.links, charge.requests, sign)
        if waiting is not None:
            # It was demand as it waits, and is demand as it counts.
            _add(waiting.demand, -sign)

    def pod_waits(self, pod: Pod) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        if not self.active or self._stale:
            return
        self.pod_left(pod.uid)
        if pod.spec.scheduling_gates or (charge := self._charge(pod)) is None:
            return
        can_run = charge.can_run and self._may_run(pod, charge.row)
        waiting = self._waiting[pod.uid] = Waiting(pod, charge, charge.demand if can_run else ())
        if self._pods.pod(pod.uid) is None:
            _add(waiting.demand, 1)

    def pod_left(self, uid: str) -> None:
        """See `bayplan.cache.queued_pods.QueueListener`."""
        waiting = self._waiting.pop(uid, None)
        if waiting is not None and self._pods.pod(uid) is None:
            _add(waiting.demand, -1)

    # Counting from scratch

    def _count_anew(self) -> None:
        """Count all Pods; once more with a new column if a Pod requests a resource without one."""
        while self._stale:
            self._stale, self._most_users = False, inf
            self._sums = Sums(self._new_structure(self._extra))
            self._faults = tuple(self._sums.structure.faults)
            self._vectors.clear()
            self._charges.clear()
            self._waiting.clear()
            for pod in self._pods.pods():
                self._move(pod, 1)
            for pod in self._queue.waiting_pods() if self._queue is not None else ():
                self.pod_waits(pod)
            self._most_users = 2 * len(self._sums.users) + _SPARE_USERS

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
            + len(kept.of_users(f"{name}_rows").items() ^ anew.of_users(f"{name}_rows").items())
            for name in ("used", "leaving", "demand")
        }
        self.difference = sum(different.values())
        return {name: number for name, number in different.items() if number}


def _add(terms: Terms, sign: int) -> None:
    for sums, column, amount in terms:
        sums[column] += sign * amount
