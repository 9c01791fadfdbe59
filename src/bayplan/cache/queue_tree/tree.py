"""QueueTree: the kept sums of the Queues, their limits and their shares.

A Pod belongs to the leaf of the tree that selects its namespace and its classes (`Structure`). What
queues use and wait for is in `bayplan.cache.kept_sums`; what each is entitled to, its *share*, in
`bayplan.cache.queue_tree.shares`. Pods that Kueue admits belong to no queue.

Where Queues name amounts for kinds of nodes, a Pod counts in the columns of the kind of its node,
too, or of the kind that it asks for (`bayplan.cache.queue_tree.kinds`). When nodes change so that
Pods are of other kinds, everything is counted anew.

That Pods are never evicted is said by their label `PREEMPTIBLE`, by their PriorityClass or by their
queue. They have a limit of their own, as those of a user have: the guarantee.

The reasons: docs/decisions/0021-queues-are-sums.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import NAMESPACE, NODE_KIND, PRIORITY_CLASS, QUEUE
from bayplan.api.meta import ObjectFault, ObjectReference
from bayplan.api.pod import Pod, PodShape
from bayplan.api.queues import NodeKind, Queue, State
from bayplan.api.workloads import Namespace, PriorityClass
from bayplan.cache.amounts import (
    NO_ROW,
    UNLIMITED,
    Amounts,
    Charge,
    Rows,
    Sums,
    User,
    add_amounts,
    total,
)
from bayplan.cache.cache import Cache
from bayplan.cache.kept_sums import KeptSums
from bayplan.cache.node_table import BoolArray, CodedColumn, IntArray
from bayplan.cache.queue_tree.kinds import ANY_KIND, NO_KIND, NodeKinds, is_choosy
from bayplan.cache.queue_tree.past_use import PastUse
from bayplan.cache.queue_tree.running_groups import RunningGroups
from bayplan.cache.queue_tree.shares import Shares, fair_shares, needed_guarantees, needs
from bayplan.cache.queue_tree.structure import NAMESPACE_TAKEN, Structure
from bayplan.cache.queued_pods import QueuedPods
from bayplan.cache.requests import pod_requests

PREEMPTIBLE = "bayplan.dev/preemptible"
"""On a Pod or a PriorityClass: the label that says "false" where Pods are never evicted."""
NO_QUEUE = NO_ROW
"""The row of a Pod that belongs to no queue."""

_DOWN = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_WIDENED_KEPT = 4096
_OF_KUEUE, _NEVER, _MISREAD = "of Kueue", "never evicted", "neither true nor false"
"""What labels of a Pod may say."""
_MOST_MISREAD = 256
"""Pods that are told of their label, each with all Pods of its shape."""
_KUEUE_LABELS = ("kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset", "kueue.x-k8s.io/queue-name")


class Excess(NamedTuple):
    """Which limit stands in the way; amounts as in `bayplan.api.quantity.of`.

    Attributes:
        whose: of whom the limit is: a queue, or a user in a queue.
        is_guarantee: whether it is the one of the Pods that are never evicted.
    """

    whose: str
    is_guarantee: bool
    resource: str
    used: int
    promised: int
    requested: int
    limit: int

    @property
    def limit_name(self) -> str:
        """Which limit, without figures."""
        resource, _, kind = self.resource.partition("@")
        where = f" on {kind} nodes" if kind else ""
        what = "guarantee" if self.is_guarantee else "limit"
        return f"{what} of {resource}{where} of {self.whose}"

    @property
    def message(self) -> str:
        """Which limit, and by how much."""
        used, promised, requested, limit = (
            quantity.shown(self.resource, amount)
            for amount in (self.used, self.promised, self.requested, self.limit)
        )
        by = " by Pods that are never evicted" if self.is_guarantee else ""
        others = f", {promised} promised to nominated Pods" if self.promised else ""
        return f"{self.limit_name} is {limit}: {used} used{by}{others}, {requested} requested"


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
        if new is not None and _says_never(new):
            self._classes_never_evicted.add(new.name)
        elif new is not None and _is_misread(new):
            self._misread[new.name] = _label_fault(PRIORITY_CLASS.reference(new), new)
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
        if (mark := shape.memo(_mark)) is not None:
            if mark == _OF_KUEUE:
                return NO_QUEUE
            if mark == _MISREAD:
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
            self._misread[pod.shape] = _label_fault(whose, pod.shape)

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
            or pod.shape.memo(_mark) == _NEVER
        ):
            limits = structure.never_evicted
            users += [User(row, "", limits[row], True) for row in structure.links[leaf]]
        return tuple(users)

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
                user = charge.sums.user_at(link)
                is_guarantee = user is not None and user.never_evicted
                whose = self._named(user.row if user is not None and is_guarantee else link)
                return Excess(whose, is_guarantee, resource, used, kept, requested, limit)
        return None

    def excess_of(self, pods: Sequence[Pod], promised: Rows | None = None) -> Excess | None:
        """The same for Pods of any queues together.

        The limits of a kind of nodes hold those back that may go to no other one.
        """
        members: dict[Sequence[int], Counter[Charge[Structure]]] = defaultdict(Counter)
        for charge, number in Counter(self._charges_where_they_must_go(pods)).items():
            if charge is not None:
                members[charge.links][charge] = number
        others = self.sums.zeros() if len(members) > 1 else None
        for links, some in members.items():
            requests = total(some)
            excess = self.excess(next(iter(some)), requests, others, promised)
            if excess is not None:
                return excess
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
            np.minimum(nodes.allowed_pods[closed], nodes.pod_count[closed])
            if name == "pods"
            else np.minimum(nodes.allocatable(name)[closed], nodes.requested(name)[closed])
            for name in sums.structure.bases
        ]
        return room.together + self._sums_of(in_use, closed)

    def _sums_of(self, amounts: Sequence[IntArray], rows: IntArray) -> IntArray:
        """(r,) the sums over some nodes, all and of each kind; ``amounts`` are of ``rows``."""
        sums = [int(amount.sum()) for amount in amounts]
        for kind, _, base in self._sums.structure.kind_columns:
            sums.append(int(amounts[base][self._kinds.codes[rows] == kind].sum()))
        return np.array(sums, np.int64)

    def _find_room(self) -> _Room:
        """The room as of now; where another largest node changes who can run, sums are stale."""
        self._follow_nodes()
        nodes, sums, before = self._nodes, self._sums, self._room
        seen = sums, nodes.node_journal.position
        if before.seen != seen:
            closed = nodes.unschedulable | _are_down(nodes.taints)
            is_open = np.flatnonzero(nodes.exists & ~closed)
            amounts = [
                (nodes.allowed_pods if name == "pods" else nodes.allocatable(name))[is_open]
                for name in sums.structure.bases
            ]
            together = self._sums_of(amounts, is_open)
            largest = np.full(len(together), UNLIMITED)
            largest[: len(amounts)] = [int(amount.max(initial=0)) for amount in amounts]
            self._room = _Room(seen, together, largest, np.flatnonzero(closed))
            if not np.array_equal(before.largest, largest) and any(
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
        need = needs(structure.parent, structure.levels, demand, limit)
        guarantees = structure.parent, structure.levels, structure.guaranteed
        guaranteed = needed_guarantees(*guarantees, need)
        shares = fair_shares(
            capacity,
            structure.parent,
            structure.levels,
            need,
            self._with_kinds(guaranteed, need),
            weight,
            structure.priority,
            structure.divisible,
        )
        if self._by_node:
            # What a kind brings to a share is no guarantee elsewhere, and no one's saturation
            # unless it is divided by itself.
            others = [c for kind, c, _ in structure.kind_columns if kind not in structure.divided]
            shares.contended[:, others] = False
            there = self._there(capacity, np.minimum(shares.guaranteed, guaranteed))
            shares = shares._replace(guaranteed=there)
        self._shares = shares
        sums.share = shares.whole
        self._divided = sums, *made_of
        return sums

    def _there(self, capacity: IntArray, needed: IntArray) -> IntArray:
        """(q, r) what of guarantees is there.

        On nodes of a kind it is what is declared, needed or not, if all of that fits: a Pod that
        waits asks for one kind, and may claim another one.
        """
        structure = self._sums.structure
        declared = np.minimum(structure.guaranteed, structure.limit)
        fits = declared[structure.parent < 0].sum(axis=0) <= capacity
        children = np.flatnonzero(structure.parent >= 0)
        below = np.zeros_like(declared)
        np.add.at(below, structure.parent[children], declared[children])
        fits &= (below <= declared).all(axis=0)
        fits[: len(structure.bases)] = False
        return np.where(fits, declared, needed)

    def _with_kinds(self, guaranteed: IntArray, need: IntArray) -> IntArray:
        """(q, r) guarantees, where those of all nodes are at least what is needed of kinds."""
        on_kinds = np.zeros_like(guaranteed)
        for _, column, base in self._sums.structure.kind_columns:
            on_kinds[:, base] += guaranteed[:, column]
        return np.maximum(guaranteed, np.minimum(on_kinds, need))

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


def _are_down(taints: CodedColumn) -> BoolArray:
    """(n,) which nodes are not ready or unreachable, as the node lifecycle controller says."""
    down = [
        any(taint.key in _DOWN and taint.effect != "PreferNoSchedule" for taint in value)
        for value in taints.values
    ]
    return np.array([*down, False])[taints.codes]  # the code of a row without node is -1


def _says_never(labelled: PodShape | PriorityClass) -> bool:
    return labelled.labels.get(PREEMPTIBLE) == "false"


def _is_misread(labelled: PodShape | PriorityClass) -> bool:
    return labelled.labels.get(PREEMPTIBLE, "true") not in ("true", "false")


def _label_fault(whose: ObjectReference, labelled: PodShape | PriorityClass) -> ObjectFault:
    wrong = f"{labelled.labels[PREEMPTIBLE]!r} means nothing, 'true' and 'false' do"
    return ObjectFault(whose, "InvalidLabel", f"metadata.labels.{PREEMPTIBLE}: {wrong}")


def _mark(shape: PodShape) -> str | None:
    if any(label in shape.labels for label in _KUEUE_LABELS):
        return _OF_KUEUE
    if _is_misread(shape):
        return _MISREAD
    return _NEVER if _says_never(shape) else None
