"""Structure: the Queue objects as rows of columns, and what is wrong with them.

A queue has one row. A queue that has children and a namespaceSelector has a second one for its own
Pods, which stands beside its children (weight 1, nothing guaranteed). So all Pods are of leaves.

An object that is wrong is reported (`ObjectFault`) and used as far as it makes sense:

- unknown parent, or a parent that is its own descendant: as if it had no parent;
- more than `MOST_LEVELS` levels: who is below has the same parent as the queue that is on the last
  of them, so the limits further up hold;
- an amount of more than `MOST`, below 0 or of no known notation, a selector that cannot be read: as
  if it were not there;
- more guaranteed to children than to the parent: the parent's share is divided in proportion;
- a namespace that two queues select: it belongs to the older one, by name where both are as old, or
  the Pods do that are of the classes of both;
- a kind of nodes that there is not or that is named twice: as if it were not there;
- less guaranteed than on nodes of all kinds together: what is guaranteed on these counts;
- amounts of ``improve`` that make no sense: as if it were not there.

A parent that does not say what it guarantees of a resource guarantees what its children do.

Columns are resources, and after these resources on nodes of a kind, as far as a Queue names them:
``nvidia.com/gpu@a100``. There a Pod counts while it is on such a node. A kind for which a Queue
names a weight is *divided by itself*, so all resources have columns there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import QUEUE
from bayplan.api.meta import ObjectFault
from bayplan.api.pod_spec import Resources
from bayplan.api.queues import KindQuota, NodeKindPolicy, Queue, State
from bayplan.api.selectors import Labels, Predicate, SelectorError, label_selector
from bayplan.api.workloads import Namespace
from bayplan.cache.amounts import UNLIMITED, Amounts, Charge, Limit
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree.kinds import NO_KIND

NAME_LABEL = "kubernetes.io/metadata.name"
ALWAYS_COUNTED = ("cpu", "memory")
DIVISIBLE = (*ALWAYS_COUNTED, "ephemeral-storage", "hugepages-")
NAMESPACE_TAKEN = "NamespaceTaken"
MOST_LEVELS = 16
"""Of a tree: what a Pod costs grows with the levels above its queue."""
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?\w([-\w.]*\w)?", re.ASCII)
_MOST_NAMED = 8
"""Queues of a cycle that are named."""
GUARANTEED_ABOVE_ROOM = "GuaranteedAboveRoom"
HEAVIEST = 1_000_000
LEAST_SECONDS = 60
"""Between two rounds in which a queue looks for Pods to be moved, and of the age of these Pods."""
MOST = 2**53
"""An amount above that is a mistake; sums of such amounts would leave 64 bits."""


class KindColumn(NamedTuple):
    """The column of a resource on nodes of a kind.

    Attributes:
        kind: see `bayplan.cache.queue_tree.kinds`.
        column: the column.
        base: that of the resource on all nodes.
    """

    kind: int
    column: int
    base: int


class Preference(NamedTuple):
    """To which kinds of nodes the Pods of a queue go.

    Attributes:
        order: the kinds that are named, those preferred first.
        allowed: the only kinds where Pods may go; None for all nodes.
    """

    order: tuple[int, ...]
    allowed: frozenset[int] | None


class Structure:
    """The tree of queues, by row; parents come before their children.

    Attributes:
        queues: the Queue of each row.
        resources: the columns.
        parent: (q,), -1 for none.
        levels: the rows by depth, roots first.
        chains: of each row, itself and its ancestors.
        links: the same as tuples, which are faster where there are few.
        limits: of each row, all limits of its chain.
        user_limits: of each row, what a user may use at most of some columns.
        limiting_users: of each row, those of its chain that limit users.
        kinds: the names of the kinds of nodes.
        kind_columns: those behind the columns of resources.
        divided: the kinds that are divided by themselves.
        lines: the columns in which guarantees cover Pods independently: those of resources, and
            those of each kind.
        preferences: of each row; None where no kind is named.
        by_kind: whether any queue names kinds.
        orders: of each row, the kinds where its Pods may go (`NO_KIND` is one), preferred first.
        leaves: the rows without children.
        own: whether a row stands for the Pods of a queue that has children.
        divisible: (r,) whether one unit is too little to matter: cores and bytes are, no devices.
        guaranteed, limit: (q, r), `UNLIMITED` where there is no limit.
        never_evicted: of each row, the limits of Pods that are never evicted, by column: what is
            guaranteed; for the own Pods of a queue that has children, what of it these are not. The
            number of Pods has a limit only where one is guaranteed.
        conditions: of each row, the spec that says of which classes Pods are; None for any.
        weight, priority: (q,).
        weights: (q, r), or (q, 1): the weight, which may be another one on nodes of a kind.
        preemptible: of each row, whether its Pods may be evicted, as far as Queues say.
        evicting: the rows of queues that evict what is above their limit.
        improving: the rows of queues that have Pods moved.
        closing: of each row, the row of its chain that is least open; None where all are open.
        faults: what is wrong.
    """

    def __init__(
        self,
        queues: Iterable[Queue],
        resources: Iterable[str] = (),
        kinds: Sequence[str] = (),
    ) -> None:
        self.faults: list[ObjectFault] = []
        self.kinds = tuple(kinds)
        by_name = {queue.name: queue for queue in sorted(queues, key=_age)}
        rows = list(_rows(by_name, self._parents(by_name)))
        self.queues = tuple(row.queue for row in rows)
        self.own = tuple(row.own for row in rows)
        self.parent: IntArray = np.array([row.parent for row in rows], np.int64)
        depth = np.array([row.depth for row in rows], np.int64)
        deepest = int(depth.max()) if rows else -1
        self.levels = [np.flatnonzero(depth == d) for d in range(deepest + 1)]
        self.chains = [self._chain(row) for row in range(len(rows))]
        self.links = [tuple(chain.tolist()) for chain in self.chains]
        specs = [queue.spec for queue in self.queues]
        self.preemptible = [all(specs[link].preemptible for link in links) for links in self.links]
        self.closing = [self._closing(links) for links in self.links]
        self.evicting = [
            row
            for row, spec in enumerate(specs)
            if spec.evict_over_limit_after_seconds is not None and not self.own[row]
        ]
        self.improving = [
            row
            for row, spec in enumerate(specs)
            if spec.improve is not None and not self.own[row] and self._may_improve(row)
        ]
        self.leaves = sorted({*range(len(rows))}.difference(self.parent.tolist()))
        self.weight: IntArray = self._weights()
        self.priority: IntArray = self._numbers("priority", 0)
        self.user_limits: list[tuple[tuple[int, int], ...]] = [()] * len(rows)
        self._quotas = [self._named_kinds(row.queue, own=row.own) for row in rows]
        self.divided = frozenset(
            kind
            for quotas in self._quotas
            for kind, quota in quotas.items()
            if quota.weight is not None
        )
        self._amounts(resources)
        self.weights = self._weights_by_column()
        self.limiting_users = [
            [row for row in links if self.user_limits[row]] for links in self.links
        ]
        limited = [np.flatnonzero(amounts < UNLIMITED).tolist() for amounts in self.limit]
        self.limits = [
            [
                Limit(row, column, int(self.limit[row, column]))
                for row in links
                for column in limited[row]
            ]
            for links in self.links
        ]
        self.preferences = [self._preference(links) for links in self.links]
        self.by_kind = any(preference is not None for preference in self.preferences)
        self.orders = [self._order(preference) for preference in self.preferences]
        self._selectors = [
            (row, selector)
            for row, selector in enumerate(map(self._selector, rows))
            if selector is not None
        ]
        self._selectors.sort(key=lambda pair: _precedence(self.queues[pair[0]]))
        self.conditions = [q.spec if q.spec.conditions else None for q in self.queues]

    def __len__(self) -> int:
        return len(self.queues)

    def name(self, row: int) -> str:
        """The name of the queue that ``row`` stands for."""
        return self.queues[row].name

    def state(self, row: int) -> State:
        """Whether the queue takes Pods, as the least open queue of its chain says."""
        closing = self.closing[row]
        return State.OPEN if closing is None else self.queues[closing].spec.state

    def preferred(self, row: int) -> tuple[str, ...]:
        """The kinds of nodes for Pods of the queue, as the nearest queue with kinds says."""
        preference = self.preferences[row]
        return () if preference is None else tuple(self.kinds[kind] for kind in preference.order)

    def limits_on(self, leaf: int, requests: Amounts, _named: Collection[str] = ()) -> list[Limit]:
        """See `bayplan.cache.amounts.TenantRows`.

        A resource that is not requested holds nothing back, however much of it is used.
        """
        return [limit for limit in self.limits[leaf] if requests[limit.column]]

    def limits_above(self, charge: Charge[Structure]) -> bool:
        """Whether any limit holds for such Pods on nodes of all kinds."""
        return any(limit.column < len(self.bases) for limit in charge.limits_on(charge.requests))

    @property
    def bases(self) -> Sequence[str]:
        """The resources of the columns that are for all nodes."""
        return self.resources[: len(self.resources) - len(self.kind_columns)]

    def compared(self, kind: int) -> frozenset[int]:
        """The columns by which the share rule compares queues on nodes of a kind."""
        return self._compared.get(kind, self._compared[NO_KIND])

    def compared_for(self, requests: Amounts) -> frozenset[int]:
        """The same on nodes of the kind for which Pods are charged so much."""
        if not self.divided:
            return self._compared[NO_KIND]
        asked = (kind for kind, column, _ in self.kind_columns if requests[column])
        return self.compared(next(asked, NO_KIND))

    def is_below(self, row: int) -> BoolArray:
        """(q,) whether each row is part of the queue at ``row``, or that queue itself."""
        return np.array([row in links for links in self.links])

    def _closing(self, links: tuple[int, ...]) -> int | None:
        for state in (State.CLOSED, State.DRAINING):
            for link in links:
                if self.queues[link].spec.state is state:
                    return link
        return None

    # Which queue is whose part

    def _parents(self, by_name: Mapping[str, Queue]) -> dict[str, str]:
        """By name, the parent that counts; "" for none. Each queue is looked at once."""
        parents = {name: queue.spec.parent for name, queue in by_name.items()}
        for name, parent in parents.items():
            if parent and parent not in by_name:
                text = f"spec.parent: there is no queue {parent}"
                self._fault(by_name[name], "UnknownParent", text)
                parents[name] = ""
        level = {"": 0}
        for start in by_name:
            name, upwards = start, dict[str, None]()
            while name not in level and name not in upwards:
                upwards[name] = None
                name = parents[name]
            path = list(upwards)
            if name in upwards:
                cycle = path[path.index(name) :]
                self._cycle([by_name[member] for member in cycle])
                parents |= dict.fromkeys(cycle, "")
            for below in reversed(path):
                parent = parents[below]
                level[below] = level[parent] + 1
                if level[parent] >= MOST_LEVELS:
                    counts = parents[below] = parents[parent]
                    text = (
                        f"spec.parent: the queue is on level {level[below]}, trees have at most "
                        f"{MOST_LEVELS}: it counts as part of queue {counts}"
                    )
                    self._fault(by_name[below], "TooDeep", text)
        return parents

    def _cycle(self, queues: list[Queue]) -> None:
        """Report queues, each of which is the parent of the one before, the first of the last."""
        around = [*queues, *queues]
        for start, queue in enumerate(queues):
            path = [q.name for q in around[start : start + min(len(queues), _MOST_NAMED)]]
            path += ["..."] if len(queues) > _MOST_NAMED else []
            text = f"spec.parent: the queue is its own ancestor: {' > '.join([*path, queue.name])}"
            self._fault(queue, "Cycle", text)

    def _chain(self, row: int) -> IntArray:
        chain = [row]
        while (row := int(self.parent[row])) >= 0:
            chain.append(row)
        return np.array(chain, np.int64)

    # Columns

    def _numbers(self, field: str, own: int) -> IntArray:
        values = [
            own if is_own else getattr(queue.spec, field)
            for queue, is_own in zip(self.queues, self.own, strict=True)
        ]
        return np.array(values, np.int64)

    def _weights(self) -> IntArray:
        weights = self._numbers("weight", 1)
        pairs = enumerate(weights.tolist())
        return np.array([self._weight(row, "weight", weight) for row, weight in pairs], np.int64)

    def _weight(self, row: int, field: str, weight: int) -> int:
        if 0 <= weight <= HEAVIEST:
            return weight
        text = f"spec.{field}: {weight} is not from 0 to {HEAVIEST}; it counts as 1"
        self._fault(self.queues[row], "InvalidAmount", text)
        return 1

    def _weights_by_column(self) -> IntArray:
        weights = self.weight[:, None]
        if not self.divided:
            return weights
        weights = np.repeat(weights, len(self.resources), axis=1)
        for row, quotas in enumerate(self._quotas):
            for kind, quota in quotas.items():
                if quota.weight is not None:
                    field = f"nodeKinds[{self.kinds[kind]}].weight"
                    columns = list(self.compared(kind))
                    weights[row, columns] = self._weight(row, field, quota.weight)
        return weights

    def _may_improve(self, row: int) -> bool:
        """Whether the amounts of `improve` make sense."""
        improve = self.queues[row].spec.improve
        assert improve is not None
        amounts = (
            ("everySeconds", improve.every_seconds, LEAST_SECONDS),
            ("minAgeSeconds", improve.min_age_seconds, LEAST_SECONDS),
            ("maxMovesPerHour", improve.max_moves_per_hour, 0),
        )
        wrong = [(name, amount, least) for name, amount, least in amounts if amount < least]
        for name, amount, least in wrong:
            text = f"spec.improve.{name}: {amount} is less than {least}: no Pod is moved"
            self._fault(self.queues[row], "InvalidAmount", text)
        return not wrong

    def _amounts(self, resources: Iterable[str]) -> None:
        specs = [queue.spec for queue in self.queues]
        every = (amounts for s in specs for amounts in (s.guaranteed, s.limit, s.user_limit))
        names = [name for amounts in every for name in amounts]
        by_kind = {
            (kind, name)
            for quotas in self._quotas
            for kind, quota in quotas.items()
            for name in (*quota.guaranteed, *quota.limit)
        }
        names += [name for _, name in by_kind]
        bases = tuple(dict.fromkeys((*ALWAYS_COUNTED, *sorted(names), *resources)))
        by_kind |= {(kind, name) for kind in self.divided for name in bases}
        self.kind_columns = [
            KindColumn(kind, len(bases) + place, bases.index(name))
            for place, (kind, name) in enumerate(sorted(by_kind))
        ]
        its_names = [f"{bases[base]}@{self.kinds[kind]}" for kind, _, base in self.kind_columns]
        self.resources = (*bases, *its_names)
        by_line: dict[int, list[int]] = {NO_KIND: list(range(len(bases)))}
        for kind, column, _ in self.kind_columns:
            by_line.setdefault(kind, []).append(column)
        self.lines: Sequence[IntArray] = [np.array(columns) for columns in by_line.values()]
        self._compared = {
            kind: frozenset(columns)
            for kind, columns in by_line.items()
            if kind == NO_KIND or kind in self.divided
        }
        shape = len(self.queues), len(self.resources)
        self.divisible = np.array([name.startswith(DIVISIBLE) for name in self.resources])
        self.guaranteed: IntArray = np.zeros(shape, np.int64)
        self.limit: IntArray = np.full(shape, UNLIMITED, np.int64)
        named = np.zeros(shape, np.bool_)
        for row, (spec, own) in enumerate(zip(specs, self.own, strict=True)):
            if own:
                continue
            quotas = [(NO_KIND, spec.guaranteed, spec.limit)]
            quotas += [(kind, q.guaranteed, q.limit) for kind, q in self._quotas[row].items()]
            for kind, guaranteed, limit in quotas:
                for column, amount in self._parsed(row, kind, "guaranteed", guaranteed):
                    self.guaranteed[row, column] = amount
                    named[row, column] = True
                for column, amount in self._parsed(row, kind, "limit", limit):
                    self.limit[row, column] = amount
            self.user_limits[row] = tuple(self._parsed(row, NO_KIND, "userLimit", spec.user_limit))
            if not _LABEL_KEY.fullmatch(spec.user_key):
                wrong = f"spec.userKey: {spec.user_key!r} is no key of a label: nobody has one"
                self._fault(self.queues[row], "InvalidUserKey", wrong)
            self._compare(row, "GuaranteedAboveLimit", "the limit", self.limit[row])
            if not spec.reclaimable:
                lent = named[row]
                self.limit[row, lent] = np.minimum(self.limit, self.guaranteed)[row, lent]
        self._roll_up(named)
        self._limit_never_evicted()

    def _parsed(
        self, row: int, kind: int, field: str, amounts: Resources
    ) -> Iterator[tuple[int, int]]:
        of_kind = "" if kind == NO_KIND else f"@{self.kinds[kind]}"
        field = f"nodeKinds[{self.kinds[kind]}].{field}" if of_kind else field
        for name, text in amounts.items():
            try:
                amount = quantity.of(name, text)
            except quantity.QuantityError as error:
                self._fault(self.queues[row], "InvalidAmount", f"spec.{field}.{name}: {error}")
                continue
            if 0 <= amount <= MOST:
                yield self.resources.index(f"{name}{of_kind}"), amount
                continue
            wrong = "must not be negative" if amount < 0 else f"{text} is more than can be counted"
            self._fault(self.queues[row], "InvalidAmount", f"spec.{field}.{name}: {wrong}")

    def _roll_up(self, named: np.ndarray) -> None:
        """Compute the guarantees left open by parents, and report guarantees that are too small."""
        for rows in reversed(self.levels):
            sums = np.zeros_like(self.guaranteed)
            children = np.flatnonzero(np.isin(self.parent, rows))
            np.add.at(sums, self.parent[children], self.guaranteed[children])
            for row in rows.tolist():
                self.guaranteed[row, ~named[row]] += sums[row, ~named[row]]
                text = "what its children are guaranteed"
                self._compare(row, "GuaranteedToChildren", text, sums[row], at_least=True)
                on_kinds = np.zeros_like(sums[row])
                for _, column, base in self.kind_columns:
                    on_kinds[base] += self.guaranteed[row, column]
                on_kinds[~named[row]] = 0
                text = "what is guaranteed on nodes of all kinds"
                self._compare(row, "GuaranteedToKinds", text, on_kinds, at_least=True)

    def _limit_never_evicted(self) -> None:
        most = self.guaranteed.copy()
        for row in np.flatnonzero(self.own).tolist():
            parent = int(self.parent[row])
            of_children = self.guaranteed[self.parent == parent].sum(axis=0)
            most[row] = np.maximum(self.guaranteed[parent] - of_children, 0)
        if "pods" in self.resources:
            number = most[:, self.resources.index("pods")]
            number[number == 0] = UNLIMITED
        anywhere = len(self.resources) - len(self.kind_columns)
        self.never_evicted = [tuple(enumerate(row[:anywhere])) for row in most.tolist()]
        for row, queue in enumerate(self.queues):
            if not queue.spec.preemptible and not self.own[row] and not self.guaranteed[row].any():
                text = "spec.preemptible: nothing is guaranteed, so no Pod is admitted"
                self._fault(queue, "NothingGuaranteed", text)

    def _compare(
        self, row: int, reason: str, other: str, bounds: IntArray, *, at_least: bool = False
    ) -> None:
        amounts = self.guaranteed[row]
        wrong = amounts < bounds if at_least else amounts > bounds
        for column in np.flatnonzero(wrong).tolist():
            name = self.resources[column]
            mine, its = quantity.shown_apart(name, int(amounts[column]), int(bounds[column]))
            than = "less" if at_least else "more"
            resource, _, kind = name.partition("@")
            field = f"nodeKinds[{kind}].guaranteed" if kind else "guaranteed"
            text = f"spec.{field}.{resource}: {mine} is {than} than {other}: {its}"
            self._fault(self.queues[row], reason, text)

    def guaranteed_above(self, room: IntArray) -> list[ObjectFault]:
        """A fault for each queue with a guarantee of something of which there is too little.

        Args:
            room: (r,) what the cluster has.
        """
        due = np.minimum(self.guaranteed, self.limit)
        together = due[self.parent < 0].sum(axis=0)
        faults = []
        for column in np.flatnonzero(together > room).tolist():
            name = self.resources[column]
            to_all, there = quantity.shown_apart(name, int(together[column]), int(room[column]))
            faults += [
                ObjectFault(
                    QUEUE.reference(self.queues[row]),
                    GUARANTEED_ABOVE_ROOM,
                    f"spec.guaranteed.{name}: guaranteed to all: {to_all}, there is: {there}. "
                    "What Pods hold within a guarantee stays, nobody can claim what is not there",
                )
                for row in np.flatnonzero(due[:, column]).tolist()
            ]
        return faults

    # Kinds of nodes

    def _named_kinds(self, queue: Queue, *, own: bool) -> dict[int, KindQuota]:
        """The kinds that a Queue names, in this order; a second row has no amounts."""
        quotas: dict[int, KindQuota] = {}
        for quota in queue.spec.node_kinds:
            kind = self.kinds.index(quota.name) if quota.name in self.kinds else NO_KIND
            if kind == NO_KIND or kind in quotas:
                what = "named twice" if kind in quotas else "no NodeKind"
                if not own:
                    text = f"spec.nodeKinds: {quota.name} is {what}"
                    self._fault(queue, "UnknownNodeKind", text)
                continue
            quotas[kind] = KindQuota(quota.name) if own else quota
        return quotas

    def _preference(self, links: Iterable[int]) -> Preference | None:
        """By the nearest queue of a chain with kinds; all queues that require some bind."""
        order: tuple[int, ...] | None = None
        allowed: frozenset[int] | None = None
        for row in links:
            spec = self.queues[row].spec
            if not spec.node_kinds:
                continue
            named = tuple(self._quotas[row])
            order = named if order is None else order
            if spec.node_kind_policy is NodeKindPolicy.REQUIRED:
                allowed = frozenset(named) if allowed is None else allowed.intersection(named)
        return None if order is None else Preference(order, allowed)

    def _order(self, preference: Preference | None) -> Sequence[int]:
        """What is named, then nodes of no kind, then the other kinds by name."""
        named, allowed = preference or Preference((), None)
        rest = [NO_KIND, *sorted(range(len(self.kinds)), key=self.kinds.__getitem__)]
        order = dict.fromkeys((*named, *rest))
        return tuple(kind for kind in order if allowed is None or kind in allowed)

    # Whose Pods

    def _selector(self, row: _Row) -> Predicate | None:
        selector = row.queue.spec.namespace_selector
        if selector is None or not row.has_pods:
            return None
        try:
            return label_selector(selector)
        except SelectorError as error:
            text = f"spec.namespaceSelector: {error}"
            self._fault(row.queue, "InvalidSelector", text)
            return None

    def rows_of(self, namespace: str, labels: Labels) -> list[int]:
        """The leaves that select the namespace; a Pod belongs to the first matching leaf."""
        labels = {NAME_LABEL: namespace} | dict(labels)
        return [row for row, selects in self._selectors if selects(labels)]

    def shared_namespaces(self, namespaces: Iterable[Namespace]) -> list[ObjectFault]:
        """A fault for each queue that selects namespaces of another one."""
        lost: dict[int, tuple[str, str]] = {}
        counts: Counter[int] = Counter()
        for namespace in sorted(namespaces, key=lambda n: n.name):
            rows = self.rows_of(namespace.name, namespace.labels)
            for place, row in enumerate(rows):
                spec = self.queues[row].spec
                for owner in rows[:place]:
                    other = self.queues[owner].spec
                    if other.conditions == spec.conditions and other.overlaps(spec):
                        lost.setdefault(row, (namespace.name, self.name(owner)))
                        counts[row] += 1
                        break
        return [
            ObjectFault(
                QUEUE.reference(self.queues[row]),
                NAMESPACE_TAKEN,
                f"spec.namespaceSelector: Pods of {counts[row]} namespaces belong to other "
                f"queues: {namespace} to {owner}",
            )
            for row, (namespace, owner) in lost.items()
        ]

    def _fault(self, queue: Queue, reason: str, message: str) -> None:
        self.faults.append(ObjectFault(QUEUE.reference(queue), reason, message))


class _Row(NamedTuple):
    """A row to be created; `has_pods` says whether Pods may belong to this row."""

    queue: Queue
    parent: int
    depth: int
    own: bool
    has_pods: bool


def _rows(by_name: Mapping[str, Queue], parents: Mapping[str, str]) -> Iterator[_Row]:
    children: dict[str, list[str]] = {name: [] for name in ("", *by_name)}
    for name, parent in parents.items():
        children[parent].append(name)
    level = [(name, -1) for name in sorted(children[""])]
    row, depth = 0, 0
    while level:
        below: list[tuple[str, int]] = []
        for name, parent_row in level:
            queue = by_name[name.removesuffix("/")]
            own = name.endswith("/")
            kept = [] if own else sorted(children[name])
            if kept and queue.spec.namespace_selector is not None:
                kept.append(f"{name}/")
            below += [(child, row) for child in kept]
            yield _Row(queue, parent_row, depth, own, not kept)
            row += 1
        level, depth = below, depth + 1


def _precedence(queue: Queue) -> tuple[int, float, str]:
    """The sort key of queues that select the same namespace; the most precise one comes first."""
    return -queue.spec.conditions, *_age(queue)


def _age(queue: Queue) -> tuple[float, str]:
    created = queue.metadata.creation_timestamp
    return (0.0 if created is None else created.timestamp()), queue.name
