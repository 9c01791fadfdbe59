"""QueueTree: the kept sums of the Queues, their limits and their shares.

A Pod belongs to the leaf of the tree that selects its namespace and its classes (`Structure`). What
queues use and wait for is in `bayplan.cache.kept_sums`; what each is entitled to, its *share*, in
`bayplan.cache.queue_tree.shares`. Pods that Kueue admits belong to no queue.

The reasons: docs/decisions/0021-queues-are-sums.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import NAMESPACE, QUEUE
from bayplan.api.meta import ObjectFault
from bayplan.api.pod import Pod, PodShape
from bayplan.api.queues import Queue
from bayplan.api.workloads import Namespace
from bayplan.cache.amounts import NO_ROW, Amounts, Charge, Rows, Sums, User, add_amounts
from bayplan.cache.cache import Cache
from bayplan.cache.kept_sums import KeptSums
from bayplan.cache.node_table import BoolArray, CodedColumn, IntArray
from bayplan.cache.queue_tree.past_use import PastUse
from bayplan.cache.queue_tree.shares import Shares, fair_shares, needed_guarantees, needs
from bayplan.cache.queue_tree.structure import NAMESPACE_TAKEN, Structure
from bayplan.cache.queued_pods import QueuedPods
from bayplan.cache.requests import pod_requests

NO_QUEUE = NO_ROW
"""The row of a Pod that belongs to no queue."""

_DOWN = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_KUEUE_LABELS = ("kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset", "kueue.x-k8s.io/queue-name")


class Excess(NamedTuple):
    """Which limit stands in the way; amounts as in `bayplan.api.quantity.of`.

    Attributes:
        whose: of whom the limit is: a queue, or a user in a queue.
    """

    whose: str
    resource: str
    used: int
    promised: int
    requested: int
    limit: int

    @property
    def limit_name(self) -> str:
        """Which limit, without figures."""
        return f"limit of {self.resource} of {self.whose}"

    @property
    def message(self) -> str:
        """Which limit, and by how much."""
        used, promised, requested, limit = (
            quantity.shown(self.resource, amount)
            for amount in (self.used, self.promised, self.requested, self.limit)
        )
        others = f", {promised} promised to nominated Pods" if self.promised else ""
        return f"{self.limit_name} is {limit}: {used} used{others}, {requested} requested"


class _Room(NamedTuple):
    """What nodes have, as of a position in the node journal.

    Attributes:
        seen: the sums, and that position.
        together: (r,) of the nodes that take new Pods.
        largest: (r,) the most that one of these has.
        closed: the rows of the nodes that take none.
    """

    seen: tuple[object, int] | None
    together: IntArray
    largest: IntArray
    closed: IntArray


class QueueTree(KeptSums[Structure]):
    """See the module's docstring.

    Attributes:
        past_use: lowers weights by what was used before; None where only the present counts.
    """

    kind = QUEUE

    def __init__(self, cache: Cache, queue: QueuedPods) -> None:
        self._nodes = cache.nodes
        self._leaves: dict[str, Sequence[int]] = {}
        """Those that select a namespace; a Pod belongs to the first that takes it."""
        nothing = np.zeros(0, np.int64)
        self._room = _Room(None, nothing, nothing, nothing)
        self._divided: tuple[object, *tuple[IntArray, ...]] = (None,)
        """The sums, and the arrays that shares were made of last."""
        self._shares = Shares.none()
        self.past_use: PastUse | None = None
        self._said: object = None
        """The faults that were put together last, those of the room without their figures."""
        self._all_faults: tuple[ObjectFault, ...] = ()
        super().__init__(cache, cache.objects, queue)
        self._objects.on_change(NAMESPACE, self._namespace_changed)

    # Queues and namespaces

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        namespace = new or old
        if not self.active or namespace is None:
            return
        leaves = self._leaves.pop(namespace.name, None)
        if leaves is not None and leaves != self._leaves_of(namespace.name):
            self._outdate()

    def _new_structure(self, extra: Iterable[str]) -> Structure:
        self._leaves.clear()
        structure = Structure(self._objects.all(QUEUE), extra)
        self._users = self._users_of if any(structure.user_limits) else None
        return structure

    def faults(self) -> list[ObjectFault]:
        """What is wrong with the Queue objects; looks at all namespaces."""
        capacity, structure = self.capacity(), self.structure
        shared = structure.shared_namespaces(self._objects.all(NAMESPACE))
        above = structure.guaranteed_above(capacity)
        return sorted({*structure.faults, *shared, *above})

    @property
    def known_faults(self) -> tuple[ObjectFault, ...]:
        """See `bayplan.cache.kept_sums`; with guarantees that exceed the room.

        While the same queues lack the same the figures stay, or each end of a Pod on a node that is
        being drained would be told to all of them.
        """
        if not self.active:
            return super().known_faults
        capacity = self.capacity()
        faults, above = super().known_faults, self.structure.guaranteed_above(capacity)
        said = faults, [(fault.regarding, fault.message.partition(":")[0]) for fault in above]
        if said != self._said:
            self._said, self._all_faults = said, (*faults, *above)
        return self._all_faults

    # Pods

    def _leaf(self, pod: Pod) -> int:
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

    def amounts(self, pod: Pod) -> Mapping[str, int]:
        """What ``pod`` requests, as nodes count it."""
        return pod_requests(pod).amounts

    def _is_leaving(self, _pod: Pod) -> bool:
        return True

    def _can_run(self, charge: Charge[Structure]) -> bool:
        largest = self._find_room().largest.tolist()
        return super()._can_run(charge) and all(
            amount <= most for amount, most in zip(charge.requests, largest, strict=True)
        )

    def namespaces(self, row: int) -> list[str]:
        """The namespaces that have had Pods and are selected by the leaf at ``row``."""
        return [namespace for namespace, leaves in self._leaves.items() if row in leaves]

    def _leaves_of(self, namespace: str) -> Sequence[int]:
        obj: Namespace | None = self._objects.get(NAMESPACE, namespace)
        structure = self._sums.structure
        rows = structure.rows_of(namespace, {} if obj is None else obj.labels)
        if len(rows) > 1 and obj is not None:
            reported = {f.regarding for f in self._faults if f.reason == NAMESPACE_TAKEN}
            shared = structure.shared_namespaces([obj])
            self._faults += tuple(fault for fault in shared if fault.regarding not in reported)
        return rows

    # Limits

    def _users_of(self, leaf: int, pod: Pod) -> Sequence[User]:
        structure = self._sums.structure
        return tuple(
            [
                User(row, user_of(pod, structure.queues[row]), structure.user_limits[row])
                for row in structure.limiting_users[leaf]
            ]
        )

    def excess(
        self,
        charge: Charge[Structure],
        requests: Amounts,
        others: Rows | None = None,
        promised: Rows | None = None,
    ) -> Excess | None:
        """Which limit of their queue or above, or of a user, Pods would exceed.

        Args:
            charge: of one of them.
            requests: (r,) of all of them.
            others: (q, r) what counts as used, too.
            promised: (q, r) what nominated Pods will use.
        """
        rows = charge.sums.used_rows
        for link, column, limit in charge.limits_on(requests):
            used, requested = rows[link][column], requests[column]
            if others is not None:
                used += others[link][column]
            kept = 0 if promised is None else promised[link][column]
            if used + kept + requested > limit:
                resource = charge.sums.structure.resources[column]
                return Excess(self._named(link), resource, used, kept, requested, limit)
        return None

    def excess_of(self, pods: Sequence[Pod], promised: Rows | None = None) -> Excess | None:
        """The same for Pods of any queues together."""
        members: dict[Sequence[int], list[tuple[Charge[Structure], Pod]]] = defaultdict(list)
        for pod, charge in zip(pods, self.charges(pods), strict=True):
            if charge is not None:
                members[charge.links].append((charge, pod))
        others = self.sums.zeros() if len(members) > 1 else None
        for links, some in members.items():
            requests = self.sum_of(pod for _, pod in some)
            excess = self.excess(some[0][0], requests, others, promised)
            if excess is not None:
                return excess
            if others is not None:
                add_amounts(others, links, requests)
        return None

    def _named(self, link: int) -> str:
        """Whose row it is."""
        structure, user = self._sums.structure, self._sums.user_at(link)
        if user is None:
            return f"queue {structure.name(link)}"
        who = f"user {user.name}" if user.name else "Pods without user"
        return f"{who} in queue {structure.name(user.row)}"

    # Shares

    def capacity(self) -> IntArray:
        """(r,) the room of nodes open to new Pods, and of other nodes the room in use."""
        while True:
            sums = self.sums
            room = self._find_room()
            if sums is self.sums:
                break
        nodes, closed = self._nodes, room.closed
        if not len(closed):
            return room.together
        in_use = [
            np.minimum(nodes.allowed_pods[closed], nodes.pod_count[closed]).sum()
            if name == "pods"
            else np.minimum(nodes.allocatable(name)[closed], nodes.requested(name)[closed]).sum()
            for name in sums.structure.resources
        ]
        return room.together + np.array(in_use, np.int64)

    def _find_room(self) -> _Room:
        """The room as of now; where another largest node changes who can run, sums are stale."""
        nodes, sums, before = self._nodes, self._sums, self._room
        seen = sums, nodes.node_journal.position
        if before.seen != seen:
            closed = nodes.unschedulable | _are_down(nodes.taints)
            is_open = nodes.exists & ~closed
            amounts = [
                (nodes.allowed_pods if name == "pods" else nodes.allocatable(name))[is_open]
                for name in sums.structure.resources
            ]
            together = np.array([int(amount.sum()) for amount in amounts], np.int64)
            largest = np.array([int(amount.max(initial=0)) for amount in amounts], np.int64)
            self._room = _Room(seen, together, largest, np.flatnonzero(closed))
            if not np.array_equal(before.largest, largest) and any(
                charge.can_run != self._can_run(charge) for charge in self._charges.values()
            ):
                self._outdate()
        return self._room

    def shares(self) -> Shares:
        """What queues are entitled to as of now."""
        self.refresh_shares()
        return self._shares

    def refresh_shares(self) -> Sums[Structure]:
        """The columns with shares as of now; a few milliseconds for a thousand queues.

        Where nothing has changed that they follow from, they stay as they are.
        """
        capacity = self.capacity()
        sums = self.sums
        structure = sums.structure
        leaves = structure.leaves
        demand = np.zeros_like(sums.share)
        demand[leaves] = sums.demand[leaves]
        limit, weight = self._limit(), self._weight(capacity)
        made_of = capacity, demand, limit, weight
        of, *before = self._divided
        if of is sums and all(map(np.array_equal, before, made_of)):
            return sums
        need = needs(structure.parent, structure.levels, demand, limit)
        self._shares = fair_shares(
            capacity,
            structure.parent,
            structure.levels,
            need,
            needed_guarantees(structure.parent, structure.levels, structure.guaranteed, need),
            weight,
            structure.priority,
            structure.divisible,
        )
        sums.share = self._shares.whole
        self._divided = sums, *made_of
        return sums

    def adopt(self, past_use: PastUse | None) -> None:
        """Past use counts from now on, as this one says; or not at all."""
        if past_use is not None and self.past_use is not None:
            past_use.go_on_from(self.past_use)
        self.past_use = past_use

    def _weight(self, capacity: IntArray) -> IntArray:
        """(q, r), or (q, 1) where it is the same for all resources."""
        sums, past = self._sums, self.past_use
        if past is None:
            return sums.structure.weight[:, None]
        return past.weights(sums, capacity, self._pods.pods(), self.charge)

    def _limit(self) -> IntArray:
        """(q, r) what queues can use at most: no user uses more than a limit allows."""
        sums = self._sums
        structure = sums.structure
        if self._users is None:
            return structure.limit
        can_use = [{column: 0 for column, _ in limits} for limits in structure.user_limits]
        for user, row in sums.users.items():
            for column, most in user.limits:
                can_use[user.row][column] += min(sums.demand_rows[row][column], most)
        limit = structure.limit.copy()
        for row, amounts in enumerate(can_use):
            for column, amount in amounts.items():
                limit[row, column] = min(limit[row, column], amount)
        return limit


def user_of(pod: Pod, queue: Queue) -> str:
    """Whose Pod it is for the limits of ``queue``; "" where the Pod does not say so."""
    key = queue.spec.user_key
    return pod.shape.labels.get(key) or pod.annotations.get(key, "")


def _are_down(taints: CodedColumn) -> BoolArray:
    """(n,) which nodes are not ready or unreachable, as the node lifecycle controller says."""
    down = [
        any(taint.key in _DOWN and taint.effect != "PreferNoSchedule" for taint in value)
        for value in taints.values
    ]
    return np.array([*down, False])[taints.codes]  # the code of a row without node is -1


def _is_of_kueue(shape: PodShape) -> bool:
    return any(label in shape.labels for label in _KUEUE_LABELS)
