"""QueueTree: the kept sums of the Queues, their limits and their shares.

A Pod belongs to the leaf of the tree that selects its namespace and its classes (`Structure`). What
queues use and wait for is in `bayplan.cache.kept_sums`; what each is entitled to, its *share*, in
`bayplan.cache.queue_tree.entitlements`. Pods that Kueue admits belong to no queue.

Where Queues name amounts for kinds of nodes, a Pod counts in the columns of the kind of its node,
too, or of the kind that it asks for (`bayplan.cache.queue_tree.kinds`). When nodes change so that
Pods are of other kinds, everything is counted anew.

That Pods are never evicted is said by their label (`bayplan.cache.queue_tree.labels`), by their
PriorityClass or by their queue. They have a limit of their own, as those of a user have: the
guarantee.

The reasons: docs/decisions/0021-queues-are-sums.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from bayplan.api.kinds import NAMESPACE, NODE_KIND, PRIORITY_CLASS, QUEUE
from bayplan.api.meta import ObjectFault, ObjectReference
from bayplan.api.pod import Pod, PodShape
from bayplan.api.queues import NodeKind, Queue, State
from bayplan.api.workloads import Namespace, PriorityClass
from bayplan.cache.amounts import (
    NO_ROW,
    Charge,
    Rows,
    Sums,
    User,
    add_amounts,
    total,
)
from bayplan.cache.cache import Cache
from bayplan.cache.kept_sums import KeptSums
from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree import labels
from bayplan.cache.queue_tree.entitlements import entitlements
from bayplan.cache.queue_tree.kinds import ANY_KIND, NO_KIND, NodeKinds, is_choosy
from bayplan.cache.queue_tree.limits import Excess, excess
from bayplan.cache.queue_tree.past_use import PastUse
from bayplan.cache.queue_tree.room import NO_ROOM, Room, in_use_of, room_of
from bayplan.cache.queue_tree.running_groups import RunningGroups
from bayplan.cache.queue_tree.shares import Shares
from bayplan.cache.queue_tree.structure import NAMESPACE_TAKEN, Structure
from bayplan.cache.queued_pods import QueuedPods
from bayplan.cache.requests import pod_requests

NO_QUEUE = NO_ROW
"""The row of a Pod that belongs to no queue."""

_WIDENED_KEPT = 4096
_MOST_MISREAD = 256
"""Pods that are told of their label, each with all Pods of its shape."""


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
        self._room = NO_ROOM
        self._room_as_of: tuple[object, int] | None = None
        """The sums, and a position in the node journal."""
        self._divided: tuple[object, *tuple[IntArray, ...]] = (None,)
        """The sums, and the arrays that shares were made of last."""
        self._shares = Shares.none()
        self.past_use: PastUse | None = None
        self._said: object = None
        """The faults that were put together last, those of the room without their figures."""
        self._all_faults: tuple[ObjectFault, ...] = ()
        self._kinds = NodeKinds((), self._nodes)
        self._on_kind: dict[tuple[int, int], tuple[Mapping[str, int], Mapping[str, int]]] = {}
        """By the id of what a Pod requests and a kind: that, and with the columns of the kind."""
        self._where: dict[
            tuple[int, tuple[int, ...]], tuple[Mapping[str, int], Mapping[str, int]]
        ] = {}
        """Likewise by the id of what a Pod is charged, and kinds."""
        self._classes_never_evicted: set[str] = set()
        self._any_labels = False
        """Whether a Pod of a queue has said by its label that it is never evicted."""
        self._groups, self._inferred = cache.groups, cache.groups.version
        self._running: RunningGroups | None = None
        """None while no queue is draining."""
        self._misread: dict[PodShape | str, ObjectFault] = {}
        """What is wrong with labels: of Pods, and of PriorityClasses by their name."""
        super().__init__(cache, cache.objects, queue)
        self._objects.on_change(NAMESPACE, self._namespace_changed)
        self._objects.on_change(NODE_KIND, self._node_kind_changed)
        self._objects.on_change(PRIORITY_CLASS, self._priority_class_changed)

    # Queues and namespaces

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        namespace = new or old
        if not self.active or namespace is None:
            return
        leaves = self._leaves.pop(namespace.name, None)
        if leaves is not None and leaves != self._leaves_of(namespace.name):
            self._outdate()

    def _node_kind_changed(self, old: NodeKind | None, new: NodeKind | None) -> None:
        if self.active and (old is None or new is None or old.spec != new.spec):
            self._outdate()

    def _new_structure(self, extra: Iterable[str]) -> Structure:
        self._leaves.clear()
        self._on_kind.clear()
        self._where.clear()
        of_pods = [whose for whose in self._misread if isinstance(whose, PodShape)]
        for shape in of_pods:  # those that are still there tell again
            del self._misread[shape]
        queues = self._objects.all(QUEUE)
        self._kinds = NodeKinds(self._objects.all(NODE_KIND) if queues else (), self._nodes)
        structure = Structure(queues, extra, self._kinds.names)
        self._by_node = bool(structure.kind_columns)
        any_users = any(structure.user_limits) or self._says_never(structure)
        self._users = self._users_of if any_users else None
        draining = any(queue.spec.state is State.DRAINING for queue in structure.queues)
        self._running = (
            RunningGroups(self._groups, self._pods, self._ask_again) if draining else None
        )
        return structure

    def _priority_class_changed(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        before = set(self._classes_never_evicted)
        if old is not None:
            self._classes_never_evicted.discard(old.name)
            self._misread.pop(old.name, None)
        if new is not None and labels.says_never(new):
            self._classes_never_evicted.add(new.name)
        elif new is not None and labels.is_misread(new):
            self._misread[new.name] = labels.label_fault(PRIORITY_CLASS.reference(new), new)
        if self.active and before != self._classes_never_evicted:
            self._outdate()

    def faults(self) -> list[ObjectFault]:
        """What is wrong with Queues and NodeKinds; looks at all namespaces."""
        capacity, structure = self.capacity(), self.structure
        shared = structure.shared_namespaces(self._objects.all(NAMESPACE))
        above = structure.guaranteed_above(capacity)
        return sorted({*structure.faults, *shared, *above, *self.kinds.faults})

    @property
    def known_faults(self) -> tuple[ObjectFault, ...]:
        """See `bayplan.cache.kept_sums`; with guarantees that exceed the room, and of NodeKinds.

        While the same queues lack the same the figures stay, or each end of a Pod on a node that is
        being drained would be told to all of them.
        """
        if not self.active:
            return super().known_faults
        capacity = self.capacity()
        faults, others = super().known_faults, (*self.kinds.faults, *self._misread.values())
        above = self.structure.guaranteed_above(capacity)
        said = faults, [(fault.regarding, fault.message.partition(":")[0]) for fault in above]
        if (*said, others) != self._said:
            self._said, self._all_faults = (*said, others), (*faults, *above, *others)
        return self._all_faults

    # Kinds of nodes

    @property
    def kinds(self) -> NodeKinds:
        """The kinds of the nodes as of now."""
        self._follow_nodes()
        if self._stale:
            self._count_anew()
        return self._kinds

    def _follow_nodes(self) -> None:
        if self._kinds.is_outdated:
            moved, found = self._kinds.refresh()
            if found or (moved and self._by_node):
                self._stale = True

    def possible_kinds(self, pod: Pod) -> list[int]:
        """The kinds where a Pod of a queue may go but for limits, those preferred first."""
        kinds, row = self.kinds, self.leaf(pod)
        return [kind for kind in self.structure.orders[row] if kinds.admits(pod.shape, kind)]

    def charge_on(self, pod: Pod, kind: int) -> Charge[Structure]:
        """What a Pod of a queue counts for if it is on a node of this kind."""
        return self._charge_of(self.leaf(pod), pod, self._widened(pod, kind))

    def _kind_of(self, pod: Pod) -> int:
        """The kind of the node; of a waiting Pod, the first kind that nodes and limits allow."""
        self._follow_nodes()
        if pod.node_name:
            return self._kinds.of(pod.node_name)
        row = self._leaf(pod)
        return NO_KIND if row == NO_QUEUE else next(self._kinds_for(pod, row), NO_KIND)

    def _kinds_for(self, pod: Pod, row: int) -> Iterator[int]:
        """The kinds for a Pod of a leaf, preferred ones first, as far as nodes and limits allow."""
        for kind in self._sums.structure.orders[row]:
            charge = self._charge_of(row, pod, self._widened(pod, kind))
            if all(most >= 0 for *_, most in charge.most) and self._kinds.admits(pod.shape, kind):
                yield kind

    def _wanted(self, row: int, pod: Pod, amounts: Mapping[str, int]) -> Mapping[str, int]:
        """See `KeptSums`: on each kind that is divided by itself, if the Pod may go there."""
        divided = self._sums.structure.divided
        possible = self._kinds_for(pod, row) if divided else ()
        kinds = tuple(kind for kind in possible if kind in divided)
        if not kinds:
            return amounts
        kept = self._where.get((id(amounts), kinds))
        if kept is None:
            if len(self._where) >= _WIDENED_KEPT:
                self._where.clear()
            everywhere = dict(amounts)
            for kind in kinds:
                everywhere |= self._widened(pod, kind)
            kept = self._where[id(amounts), kinds] = amounts, everywhere
        return kept[1]

    def _widened(self, pod: Pod, kind: int) -> Mapping[str, int]:
        """What ``pod`` is charged on a node of a kind."""
        amounts = pod_requests(pod).amounts
        kept = self._on_kind.get((id(amounts), kind))
        if kept is None:
            structure = self._sums.structure
            if len(self._on_kind) >= _WIDENED_KEPT:
                self._on_kind.clear()
            more = {
                structure.resources[column]: amounts.get(name, int(name == "pods"))
                for its_kind, column, base in structure.kind_columns
                if its_kind == kind and (name := structure.resources[base])
            }
            kept = self._on_kind[id(amounts), kind] = (
                amounts,
                {**amounts, **more} if more else amounts,
            )
        return kept[1]

    # Pods

    def _leaf(self, pod: Pod) -> int:
        shape = pod.shape
        if (mark := shape.memo(labels.mark)) is not None:
            if mark == labels.OF_KUEUE:
                return NO_QUEUE
            if mark == labels.MISREAD:
                self._tell_misread(pod)
            elif not self._any_labels:
                self._any_labels = True
                self._outdate()
        leaves = self._leaves.get(shape.namespace)
        if leaves is None:
            leaves = self._leaves[shape.namespace] = self._leaves_of(shape.namespace)
        conditions = self._sums.structure.conditions
        for row in leaves:
            spec = conditions[row]
            if spec is None or spec.takes(shape):
                return row
        return NO_QUEUE

    def _tell_misread(self, pod: Pod) -> None:
        if pod.shape not in self._misread and len(self._misread) < _MOST_MISREAD:
            whose = ObjectReference("Pod", pod.namespace, pod.name, pod.uid, "v1")
            self._misread[pod.shape] = labels.label_fault(whose, pod.shape)

    def amounts(self, pod: Pod) -> Mapping[str, int]:
        """The requests of ``pod``, as nodes count them, and the same on nodes of the kind."""
        if not self._by_node:
            return pod_requests(pod).amounts
        return self._widened(pod, self._kind_of(pod))

    def _is_leaving(self, _pod: Pod) -> bool:
        return True

    @property
    def any_never_evicted(self) -> bool:
        """Whether there may be Pods that are never evicted."""
        return self._says_never(self.structure)

    def _says_never(self, structure: Structure) -> bool:
        says = self._any_labels or bool(self._classes_never_evicted)
        return says or not all(structure.preemptible)

    def is_never_evicted(self, pod: Pod) -> bool:
        """Whether ``pod`` yields to nobody, as far as what is guaranteed to its queue goes."""
        charge = self.charge(pod) if self._users is not None else None
        return charge is not None and any(user.never_evicted for user in charge.users)

    def _can_run(self, charge: Charge[Structure]) -> bool:
        if charge.sums.structure.state(charge.row) is State.CLOSED:
            return False
        largest = self._find_room().largest.tolist()
        return super()._can_run(charge) and all(
            amount <= most for amount, most in zip(charge.requests, largest, strict=True)
        )

    def _may_run(self, pod: Pod, row: int) -> bool:
        if self._sums.structure.closing[row] is not None and not self.completes_a_group(pod):
            return False
        if self._sums.structure.preferences[row] is not None:
            return next(self._kinds_for(pod, row), None) is not None
        shape = pod.shape
        return not shape.constraints.memo(is_choosy) or self._kinds.admits(shape, ANY_KIND)

    # Queues that are draining

    def completes_a_group(self, pod: Pod) -> bool:
        """Whether other Pods of its group have nodes; False while no queue is draining."""
        return self._running is not None and self._running.has(pod)

    def _ask_again(self, pod: Pod, but: str) -> None:
        """The group of ``pod`` has its first Pod on a node, or lost the last: who is demand now?"""
        if self._stale:
            return
        closing = self._sums.structure.closing
        for uid, (other, charge, _) in list(self._waiting.items()):
            is_closing = closing[charge.row] is not None and uid != but
            if is_closing and self._running is not None and self._running.same(pod, other):
                self.pod_waits(other)

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
        users = [
            User(row, user_of(pod, structure.queues[row]), structure.user_limits[row])
            for row in structure.limiting_users[leaf]
        ]
        if (
            not structure.preemptible[leaf]
            or pod.spec.priority_class_name in self._classes_never_evicted
            or pod.shape.memo(labels.mark) == labels.NEVER
        ):
            limits = structure.never_evicted
            users += [User(row, "", limits[row], True) for row in structure.links[leaf]]
        return tuple(users)

    def excess_of(self, pods: Sequence[Pod], promised: Rows | None = None) -> Excess | None:
        """Which limit Pods of any queues would exceed together.

        The limits of a kind of nodes hold those back that may go to no other one.
        """
        members: dict[Sequence[int], Counter[Charge[Structure]]] = defaultdict(Counter)
        for charge, number in Counter(self._charges_where_they_must_go(pods)).items():
            if charge is not None:
                members[charge.links][charge] = number
        others = self.sums.zeros() if len(members) > 1 else None
        for links, some in members.items():
            requests = total(some)
            above = excess(next(iter(some)), requests, others, promised)
            if above is not None:
                return above
            if others is not None:
                add_amounts(others, links, requests)
        return None

    def _charges_where_they_must_go(self, pods: Sequence[Pod]) -> list[Charge[Structure] | None]:
        """What each counts for; a Pod with a single possible kind of nodes, on that kind."""
        charges = self.charges(pods)
        if not self._by_node:
            return charges
        return [
            None if charge is None else self.charge_on(pod, self._only_kind(pod))
            for pod, charge in zip(pods, charges, strict=True)
        ]

    def _only_kind(self, pod: Pod) -> int:
        possible = self.possible_kinds(pod)
        return possible[0] if len(possible) == 1 else NO_KIND

    # Shares

    def capacity(self) -> IntArray:
        """(r,) the room of nodes open to new Pods, and of other nodes the room in use."""
        while True:
            sums = self.sums
            room = self._find_room()
            if sums is self.sums:
                break
        if not len(room.closed):
            return room.together
        structure, kinds = sums.structure, self._kinds
        return room.together + in_use_of(self._nodes, room.closed, structure, kinds)

    def _find_room(self) -> Room:
        """The room as of now; where another largest node changes who can run, sums are stale."""
        self._follow_nodes()
        seen = self._sums, self._nodes.node_journal.position
        if self._room_as_of != seen:
            before = self._room
            self._room_as_of = seen
            self._room = room_of(self._nodes, self._sums.structure, self._kinds)
            if not np.array_equal(before.largest, self._room.largest) and any(
                charge.can_run != self._can_run(charge) for charge in self._charges.values()
            ):
                self._outdate()
        return self._room

    def recount(self) -> dict[str, int]:
        """See `KeptSums`; nodes that have changed since the last question are no difference."""
        if self.active:
            self._find_room()
        return super().recount()

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
        for user, row in sums.users.items():
            if user.never_evicted:  # what these want beyond the guarantee can never run
                for column, most in user.limits:
                    demand[user.row, column] -= max(sums.demand_rows[row][column] - most, 0)
        demand[structure.parent[structure.parent >= 0]] = 0
        limit, weight = self._limit(), self._weight(capacity)
        made_of = capacity, demand, limit, weight
        of, *before = self._divided
        if of is sums and all(map(np.array_equal, before, made_of)):
            return sums
        self._shares = shares = entitlements(structure, *made_of)
        sums.share = shares.whole
        self._divided = sums, *made_of
        return sums

    def adopt(self, past_use: PastUse | None) -> None:
        """Past use counts from now on, as this one says, or not at all.

        The owners of which groups are inferred may be others, too.
        """
        if self._inferred != self._groups.version:
            self._inferred = self._groups.version
            self._outdate()
        if past_use is not None and self.past_use is not None:
            past_use.go_on_from(self.past_use)
        self.past_use = past_use

    def _weight(self, capacity: IntArray) -> IntArray:
        """(q, r), or (q, 1) where it is the same for all resources."""
        sums, past = self._sums, self.past_use
        if past is None:
            return sums.structure.weights
        return past.weights(sums, capacity, self._pods.pods(), self.charge)

    def _limit(self) -> IntArray:
        """(q, r) what queues can use at most: no user uses more than a limit allows."""
        sums = self._sums
        structure = sums.structure
        if self._users is None:
            return structure.limit
        can_use = [{column: 0 for column, _ in limits} for limits in structure.user_limits]
        for user, row in sums.users.items():
            for column, most in user.limits if not user.never_evicted else ():
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
