"""DomainCounters: the number of Pods per topology domain, updated incrementally.

Inter-pod affinity and topology spreading need two kinds of counts per topology domain:

- by selector: how many Pods with ``app=web`` are in each zone? (`selections`)
- by the affinity terms that Pods carry: how many Pods in each zone repel Pods with ``app=web``?
  (`terms`)

kube-scheduler iterates over the Pods of all nodes in every cycle. Here a counter is computed once,
at its first use, and then updated for every Pod that is added or removed.

Which counters count a Pod depends only on its shape (and on whether it is terminating). So they are
looked up once per `ShapeGroup`, when its first Pod appears. An example: two Pods of
shape S, with ``app=web`` and an anti-affinity term T against ``app=web`` by hostname, are on row 3
in zone a. A plugin has acquired a counter C of ``app=web`` by zone::

    group S   rows {3: 2}   selected [C]   carried [T]
    C         a: 2          (how many Pods are selected)
    T         row 3's host: 2   (how many Pods carry the term)

A third Pod of S is bound to row 5 in zone b. `pod_added` finds the group, and `ShapeGroup.add` does
``rows[5] = 1``, ``C[b] += 1``, ``T[host of row 5] += 1``. When a plugin acquires another counter
D, every group is tested against D's selector once, and those that match add all their rows.

Invariants:
- A counter counts all Pods of a group or none. An empty group is kept for a while, because the next
  Pod of the same shape is likely to follow.
- Every counter equals a recount over the table's Pods; `recount` proves it.
- A counter lives until everyone who acquired it has released it.

The reasons: docs/decisions/0004-domain-counters.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from bayplan.api.kinds import NAMESPACE
from bayplan.api.pod import Pod, PodShape
from bayplan.api.selectors import Labels
from bayplan.api.workloads import Namespace
from bayplan.cache.counters.domain_counter import DomainCounter
from bayplan.cache.counters.domains import Domains, DomainSpec, DomainTable
from bayplan.cache.counters.pod_terms import shape_terms
from bayplan.cache.counters.selections import PodSelection, SelectionCounter, SelectionCounters
from bayplan.cache.counters.terms import CarriedTerms, TermCounter, TermMatches, carried
from bayplan.cache.node_table import ABSENT, LiveNodeTable
from bayplan.cache.objects import ObjectStore

_NO_LABELS: Labels = {}
_EMPTY_GROUPS_KEPT = 256


class ShapeGroup:
    """The Pods of one shape that are on nodes, terminating ones apart.

    Attributes:
        rows: row -> number of Pods.
        selected: the selection counters that count them.
        carried: the counters of the terms that they carry.
    """

    __slots__ = ("carried", "rows", "selected", "shape", "terminating")

    def __init__(self, shape: PodShape, terminating: bool) -> None:
        self.shape = shape
        self.terminating = terminating
        self.rows: dict[int, int] = {}
        self.selected: list[SelectionCounter] = []
        self.carried: list[TermCounter] = []

    def add(self, row: int, pods: int) -> None:
        """Count ``pods`` more Pods (fewer, if negative) on ``row``."""
        self.rows[row] = self.rows.get(row, 0) + pods
        if not self.rows[row]:
            del self.rows[row]
        for counter in self.selected:
            counter.add(row, pods)
        for carried_term in self.carried:
            carried_term.add(row, pods)


GroupKey = tuple[int, bool]
_NO_GROUPS: Mapping[GroupKey, ShapeGroup] = {}


class DomainCounters:
    """All counters of a cluster; see the module's docstring."""

    def __init__(self, nodes: LiveNodeTable, objects: ObjectStore) -> None:
        self._nodes = nodes
        self._objects = objects
        self._domains = DomainTable(nodes)
        self._selections = SelectionCounters(self._domains)
        self._groups: dict[str, dict[GroupKey, ShapeGroup]] = defaultdict(dict)
        self._filled = self._empty = self._leaving = 0
        """Groups: with Pods, without, and with Pods that are terminating."""
        self.carried = CarriedTerms(self._domains)
        for row, pods in enumerate(nodes.pods):
            self.node_changed(row)
            for pod in pods.values():
                self.pod_added(row, pod)
        nodes.listen(self)
        objects.on_change(NAMESPACE, self._namespace_changed)

    # For plugins

    def namespace_labels(self, namespace: str) -> Labels:
        """The labels of ``namespace``; empty when there is no such object."""
        obj: Namespace | None = self._objects.get(NAMESPACE, namespace)
        return _NO_LABELS if obj is None else obj.labels

    def acquire(self, selection: PodSelection, spec: DomainSpec) -> SelectionCounter:
        """The counter of Pods of ``selection`` by domains of ``spec``; `release` it in the end."""
        counter = self._selections.get(selection, spec)
        if counter is None:
            counter = self._selections.add(selection, spec)
            for group in self._groups_of(selection):
                if self._holds(counter, group):
                    group.selected.append(counter)
                    counter.add_rows(group.rows, 1)
        counter.users += 1
        return counter

    def release(self, counter: SelectionCounter) -> None:
        """Undo one `acquire`; the last one drops the counter."""
        counter.users -= 1
        if counter.users:
            return
        for group in self._groups_of(counter.selection):
            if counter in group.selected:
                group.selected.remove(counter)
        self._selections.remove(counter)

    def acquire_domains(self, spec: DomainSpec) -> Domains:
        """The domains of ``spec`` with no Pods counted; `release_domains` them in the end."""
        return self._domains.acquire(spec)

    def release_domains(self, domains: Domains) -> None:
        """Undo one `acquire_domains`."""
        self._domains.release(domains)

    def any_below(self, priority: int, namespaces: Iterable[str] | None = None) -> bool:
        """Whether a Pod on any node has a lower priority; asks one Pod of each shape.

        With ``namespaces``, a Pod of one of these.
        """
        names = self._groups if namespaces is None else namespaces
        return any(
            group.rows and group.shape.spec.priority < priority
            for name in names
            for group in self._groups.get(name, _NO_GROUPS).values()
        )

    @property
    def any_leaving(self) -> bool:
        """Whether a Pod on any node is terminating."""
        return self._leaving > 0

    def matching(self, shape: PodShape, previous: TermMatches) -> TermMatches:
        """The terms of existing Pods that select Pods of ``shape``; see `CarriedTerms.matching`."""
        return self.carried.matching(shape, self.namespace_labels(shape.namespace), previous)

    def __len__(self) -> int:
        return len(self._selections) + len(self.carried)

    # Listener

    def pod_added(self, row: int, pod: Pod) -> None:
        """``pod`` now counts on ``row``."""
        group = self._group(pod)
        if not group.rows:
            self._filled += 1
            self._empty -= 1
            self._leaving += group.terminating
        group.add(row, 1)

    def pod_removed(self, row: int, pod: Pod) -> None:
        """``pod`` no longer counts on ``row``."""
        group = self._groups[pod.shape.namespace][pod.shape.id, pod.deleted is not None]
        group.add(row, -1)
        if not group.rows:
            self._filled -= 1
            self._empty += 1
            self._leaving -= group.terminating
            if self._empty > _EMPTY_GROUPS_KEPT + self._filled // 4:
                self._drop_empty()

    def node_changed(self, row: int) -> None:
        """The node of ``row`` came, went or changed."""
        self._domains.changed(row)

    # Counting

    def _holds(self, counter: SelectionCounter, group: ShapeGroup) -> bool:
        labels = self.namespace_labels(group.shape.namespace)
        return counter.counts_shape(group.shape, group.terminating, labels)

    def _groups_of(self, selection: PodSelection) -> Iterator[ShapeGroup]:
        names = self._groups if selection.namespaces is None else selection.namespaces
        for namespace in names:
            yield from self._groups.get(namespace, {}).values()

    def _group(self, pod: Pod) -> ShapeGroup:
        shape, terminating = pod.shape, pod.deleted is not None
        groups = self._groups[shape.namespace]
        group = groups.get((shape.id, terminating))
        if group is None:
            group = groups[shape.id, terminating] = ShapeGroup(shape, terminating)
            candidates = self._selections.candidates(shape.namespace)
            group.selected = [counter for counter in candidates if self._holds(counter, group)]
            group.carried = self.carried.acquire(shape)
            self._empty += 1
        return group

    def _drop_empty(self) -> None:
        for namespace, groups in list(self._groups.items()):
            for key, group in list(groups.items()):
                if not group.rows:
                    self.carried.release(group.carried)
                    del groups[key]
            if not groups:
                del self._groups[namespace]
        self.carried.drop_unused()
        self._empty = 0

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        changed = new or old
        if changed is None or (old.labels if old else {}) == (new.labels if new else {}):
            return
        self.carried.namespace_changed()
        for group in self._groups.get(changed.name, {}).values():
            for counter in self._selections.candidates(changed.name):
                counted, counts = counter in group.selected, self._holds(counter, group)
                if counts and not counted:
                    group.selected.append(counter)
                    counter.add_rows(group.rows, 1)
                elif counted and not counts:
                    group.selected.remove(counter)
                    counter.add_rows(group.rows, -1)

    # Proof

    def recount(self) -> dict[str, int]:
        """What differs from a fresh count over all Pods, by kind; empty when all is well."""
        wrong = {"Domains": self._domains.wrong()}
        fresh = {counter: np.zeros_like(counter.by_domain()) for counter in self._all()}
        counted: dict[GroupKey, list[DomainCounter]] = {}
        for row, pods in enumerate(self._nodes.pods):
            for pod in pods.values():
                key = (pod.shape.id, pod.deleted is not None)
                if key not in counted:
                    counted[key] = list(self._counting(pod))
                for counter in counted[key]:
                    code = counter.domains.codes[row]
                    fresh[counter][code] += code != ABSENT
        for counter, counts in fresh.items():
            same = np.array_equal(counter.by_domain(), counts) and counter.total == counts.sum()
            kind = type(counter).__name__
            wrong[kind] = wrong.get(kind, 0) + (not same)
        return {kind: n for kind, n in wrong.items() if n}

    def _all(self) -> Iterator[DomainCounter]:
        yield from self._selections
        yield from self.carried

    def _counting(self, pod: Pod) -> Iterator[DomainCounter]:
        labels = self.namespace_labels(pod.namespace)
        for counter in self._selections:
            if counter.counts_shape(pod.shape, pod.deleted is not None, labels):
                yield counter
        terms = {counter.id: counter for counter in self.carried}
        for key, _ in carried(pod.shape.memo(shape_terms)):
            yield terms[key]
