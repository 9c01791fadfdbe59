"""Budgets: what the Pods of a namespace, a Queue or a PodGroup may cost an hour together.

An annotation of the object says the budget. A Pod counts for its namespace, for its queue and all
queues above, and for its group (a PodGroup by label, what the group is inferred from, or one of
Kubernetes and all groups above), each with its share of the price of its node, from the moment when
the node is chosen. Traffic does not count: it changes with the Pods that come.

What is spent is kept, in units of 1e-9, from the Pods that count on nodes (`bayplan.cache`). A node
that changes has its Pods counted again; with other prices, budgets or queues all are, at the next
question. Pods whose node is gone cost nothing.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from bayplan.api import batch, queues, scheduling, workloads
from bayplan.api.kinds import (
    COMPOSITE_POD_GROUP,
    JOB,
    JOB_SET,
    KUBERNETES_POD_GROUP,
    LEADER_WORKER_SET,
    NAMESPACE,
    POD_GROUP,
    QUEUE,
    Kind,
)
from bayplan.api.meta import Object, ObjectFault
from bayplan.api.pod import Pod
from bayplan.cache.amounts import NO_ROW
from bayplan.cache.inferred_groups import owner_of
from bayplan.cache.node_price import FloatArray, number
from bayplan.cache.node_table import IntArray
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.shared.moved_pods import MovableCounts

UNIT = 10**9
"""So many units are 1 of the currency."""
_OF_TYPE: Mapping[type[Object], tuple[Kind[Any], str]] = {
    workloads.Namespace: (NAMESPACE, NAMESPACE.name),
    queues.Queue: (QUEUE, QUEUE.name),
    scheduling.PodGroup: (POD_GROUP, POD_GROUP.name),
    scheduling.KubernetesPodGroup: (KUBERNETES_POD_GROUP, "PodGroup.scheduling.k8s.io"),
    scheduling.CompositePodGroup: (COMPOSITE_POD_GROUP, COMPOSITE_POD_GROUP.name),
    batch.Job: (JOB, JOB.name),
    batch.JobSet: (JOB_SET, JOB_SET.name),
    batch.LeaderWorkerSet: (LEADER_WORKER_SET, LEADER_WORKER_SET.name),
}
"""Of the objects that may have a budget the kind, and what a scope calls it."""
_INFERRED = (JOB, JOB_SET, LEADER_WORKER_SET)
"""These are watched where groups are inferred from them, and have budgets there."""
KINDS = tuple(kind for kind, _ in _OF_TYPE.values() if kind not in _INFERRED)
_MOST = 10**15
"""A greater amount counts as this one, which leaves sums within 64 bits."""


class Scope(NamedTuple):
    """Whose Pods count together.

    Attributes:
        kind: the name of a kind; with its group for PodGroups of Kubernetes.
        key: of the object.
    """

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Charged(NamedTuple):
    """What a Pod counts for: units in each scope, on a row (-1 where the node is gone)."""

    pod: Pod
    row: int
    scopes: tuple[Scope, ...]
    amount: int


def shown(units: int) -> str:
    """An amount for people."""
    return f"{units / UNIT:.4f}"


class Budgets:
    """See the module's docstring. Scheduling thread only.

    Args:
        annotation: of the objects.
        price: what a Pod costs an hour on a row of the live table.
        priced_by: another value when nodes cost something else.

    Attributes:
        faults: the budgets that are no numbers; replaced when one comes or goes.
    """

    def __init__(
        self,
        handle: InTreeHandle,
        annotation: str,
        price: Callable[[Pod, int], float],
        priced_by: Callable[[], object],
    ) -> None:
        self._pods, self._nodes = handle.pods, handle.nodes
        self._groups, self._queues = handle.groups, handle.queues
        self._kubernetes_groups = handle.kubernetes_groups
        self._annotation, self._price, self._priced_by = annotation, price, priced_by
        self._said: dict[Scope, int | None] = {}
        """The budgets; None where what is said is no number."""
        self._wrong: dict[Scope, ObjectFault] = {}
        self.faults: Sequence[ObjectFault] = ()
        self._charged: dict[str, Charged] = {}
        self._on_row: defaultdict[int, set[str]] = defaultdict(set)
        self._spent: Counter[Scope] = Counter()
        self._seen: object = None
        self._node_position = 0
        self._owners_changed: set[Scope] = set()
        for kind in (*KINDS, *_INFERRED):
            handle.objects.on_change(kind, self._changed)
        handle.pods.listen(self)

    # Who has which budget

    def _changed(self, old: Object | None, new: Object | None) -> None:
        before, after = (
            None if obj is None else obj.metadata.annotations.get(self._annotation)
            for obj in (old, new)
        )
        if _parent(old) != _parent(new):
            self._seen = None
        obj = new or old
        if obj is None or before == after:
            return
        self._seen = None
        kind, name = _OF_TYPE[type(obj)]
        scope = Scope(name, obj.key)
        known = self._wrong.pop(scope, None)
        self._said.pop(scope, None)
        if after is not None:
            amount = number(after)
            self._said[scope] = None if math.isnan(amount) else _units(amount)
            if math.isnan(amount):
                text = f'annotation {self._annotation}: "{after}" is not a number of at least 0'
                self._wrong[scope] = ObjectFault(kind.reference(obj), "InvalidBudget", text)
        if kind in _INFERRED:
            self._owners_changed.add(scope)
        if known != self._wrong.get(scope):
            self.faults = [fault for _, fault in sorted(self._wrong.items())]

    def scopes(self, pod: Pod) -> tuple[Scope, ...]:
        """The scopes of ``pod`` with a budget."""
        if not self._said:
            return ()
        found = [Scope(NAMESPACE.name, pod.namespace), self._of_group(pod)]
        above = self._kubernetes_groups.above(pod)
        found += [Scope(_OF_TYPE[type(each)][1], each.key) for each in above]
        if self._queues.active and (row := self._queues.leaf(pod)) != NO_ROW:
            structure = self._queues.structure
            found += [Scope(QUEUE.name, structure.name(link)) for link in structure.links[row]]
        return tuple(scope for scope in dict.fromkeys(found) if scope in self._said)

    def _of_group(self, pod: Pod) -> Scope:
        """The PodGroup by label, or what the group is inferred from."""
        key = self._groups.key_of(pod)
        inferred = owner_of(key) if key else None
        return Scope(*(inferred or (POD_GROUP.name, key)))

    def woken(self, waiting: Callable[[], Iterable[Pod]]) -> list[Pod]:
        """Waiting Pods whose owner says another budget since the last call.

        Plugins register no events of kinds that they do not have watched.
        """
        changed, self._owners_changed = self._owners_changed, set()
        return [pod for pod in waiting() if self._of_group(pod) in changed] if changed else []

    def limit(self, scope: Scope) -> int | None:
        """The budget; None where what is said is no number."""
        return self._said[scope]

    # What is spent

    def spent(self, scope: Scope) -> int:
        """By the Pods on nodes, assumed ones included."""
        self._follow()
        return self._spent[scope]

    def amount(self, pod: Pod, row: int | None) -> int:
        """What ``pod`` costs an hour on a row of the live table."""
        return 0 if row is None else _units(self._price(pod, row))

    def pod_counted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        if self._said and self._seen is not None and (scopes := self.scopes(pod)):
            row = self._nodes.row(pod.node_name)
            charged = Charged(pod, -1 if row is None else row, scopes, self.amount(pod, row))
            self._charged[pod.uid] = charged
            self._on_row[charged.row].add(pod.uid)
            for scope in scopes:
                self._spent[scope] += charged.amount

    def pod_uncounted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        charged = self._charged.pop(pod.uid, None)
        if charged is not None:
            self._on_row[charged.row].discard(pod.uid)
            for scope in charged.scopes:
                self._spent[scope] -= charged.amount

    def _follow(self) -> None:
        changed = self._nodes.node_journal.since(self._node_position)
        self._node_position = self._nodes.node_journal.position
        seen = self._priced_by(), self._queues.version, self._groups.version
        if seen != self._seen or changed is None:
            self._seen = seen
            self._charged.clear()
            self._on_row.clear()
            self._spent.clear()
            for pod in self._pods.pods() if self._said else ():
                self.pod_counted(pod)
            return
        rows = {*changed, -1} if changed else ()
        for uid in [uid for row in rows for uid in self._on_row.get(row, ())]:
            pod = self._charged[uid].pod
            self.pod_uncounted(pod)
            self.pod_counted(pod)

    def figures(self) -> Mapping[str, int]:
        """How many budgets there are, are no numbers, and are exceeded as prices have risen."""
        self._follow()
        limits = {scope: limit for scope, limit in self._said.items() if limit is not None}
        exceeded = sum(self._spent[scope] > limit for scope, limit in limits.items())
        invalid = len(self._said) - len(limits)
        return {"budgets": len(limits), "invalid_budgets": invalid, "budgets_exceeded": exceeded}

    def recount(self) -> int:
        """In how many scopes what is spent differs from a count of all Pods."""
        self._follow()
        fresh: Counter[Scope] = Counter()
        for pod in self._pods.pods():
            for scope in self.scopes(pod):
                fresh[scope] += self.amount(pod, self._nodes.row(pod.node_name))
        return sum(fresh[scope] != self._spent[scope] for scope in {*fresh, *self._spent})


def _parent(obj: Object | None) -> str:
    """The group above a group of Kubernetes; "" for none, and for other objects."""
    if isinstance(obj, scheduling.KubernetesPodGroup):
        return obj.spec.parent_composite_pod_group_name
    return ""


def in_units(amounts: FloatArray) -> IntArray:
    """The same amounts, in units."""
    units: IntArray = np.rint(np.minimum(amounts * UNIT, _MOST)).astype(np.int64)
    return units


def _units(amount: float) -> int:
    return round(min(amount * UNIT, _MOST))


@dataclass
class Left(MovableCounts):
    """The budgets of one Pod in one cycle; ``moved`` corrects them by row of a what-if table.

    Attributes:
        limits: by scope, the budget, and what is spent of it.
        costs: ``(n,)`` what the Pod costs on each row of the live table.
        least: by reason code, the least sum that was too much.
    """

    budgets: Budgets
    limits: Mapping[Scope, tuple[int, int]]
    costs: IntArray
    rows: IntArray | None = None
    moved: IntArray | None = None
    least: dict[int, int] = field(default_factory=dict)

    def what_if(self, rows: IntArray) -> Left:
        """The same for a table of only ``rows``."""
        moved = np.zeros((len(self.limits), len(rows)), np.int64)
        if self.rows is None or self.moved is None:
            return replace(self, rows=rows, moved=moved, least={})
        return replace(self, rows=self.rows[rows], moved=self.moved[:, rows], least={})

    def count(self, other: Pod, row: int, pods: int, elsewhere: int | None = None) -> None:
        """See `MovableCounts`."""
        assert self.rows is not None
        assert self.moved is not None
        at = int(self.rows[row]) if elsewhere is None else elsewhere
        scopes = self.budgets.scopes(other)
        for i, scope in enumerate(self.limits):
            if scope in scopes:
                self.moved[i, row] += pods * self.budgets.amount(other, at)

    def codes(self) -> IntArray:
        """(n,) 0 where all budgets hold with the Pod, or the number of the first that does not."""
        costs = self.costs if self.rows is None else self.costs[self.rows]
        codes = np.zeros(len(costs), np.int64)
        for i, (limit, spent) in reversed(list(enumerate(self.limits.values()))):
            total = costs + spent if self.moved is None else costs + spent + self.moved[i]
            exceeded = total > limit
            if exceeded.any():
                codes[exceeded] = i + 1
                self.least[i + 1] = int(total[exceeded].min())
        return codes

    def reason(self, code: int) -> str:
        """Which budget, and by how much."""
        scope, (limit, _) = list(self.limits.items())[code - 1]
        least = shown(self.least[code])
        return f"hourly budget of {scope}: {least} or more of {shown(limit)} with this node"
