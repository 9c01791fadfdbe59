"""DomainCounters: how many Pods lie in which topology domain, kept up to date Pod by Pod.

Inter-pod affinity and topology spreading ask for counts of Pods (by selector, or by the affinity
terms that they carry) per topology domain. A count is made once, when it is first asked for, and
then changes with every Pod that comes or goes: no decision walks over Pods.

Invariants:
- Pods on nodes stand in groups: one per shape, terminating ones apart. Whatever counts one Pod
  of a group counts all of them, so what a group adds to is found once, when it appears. A group
  stays for a while when its last Pod goes, because the next one is likely on its way.
- Every counter equals a recount over the table's Pods; `recount` proves it.
- Counters live as long as somebody who acquired them has not released them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator

import numpy as np

from bayplan.api.pod import Pod, PodShape
from bayplan.api.selectors import Labels
from bayplan.api.workloads import Namespace
from bayplan.cache.carried_terms import CarriedTerms, TermCounter, TermMatches, carried
from bayplan.cache.domains import DomainCounter, Domains, DomainSpec, DomainTable
from bayplan.cache.node_table import ABSENT, LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.cache.pod_terms import PodSelection, shape_terms

_NO_LABELS: Labels = {}
_EMPTY_GROUPS_KEPT = 256


class SelectionCounter(DomainCounter):
    """How many Pods of a selection lie in each domain."""

    __slots__ = ("selection",)

    def __init__(self, selection: PodSelection, domains: Domains) -> None:
        super().__init__(domains)
        self.selection = selection

    def counts_shape(self, shape: PodShape, terminating: bool, namespace_labels: Labels) -> bool:
        """Whether Pods of ``shape`` count, given whether they are terminating."""
        if terminating and not self.selection.terminating:
            return False
        return self.selection.selects(shape, namespace_labels)


class PodGroup:
    """Pods of one shape on nodes: row -> number of Pods, and the counters that they add to."""

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


class DomainCounters:
    """All counters of a cluster; see the module's docstring."""

    def __init__(self, nodes: LiveNodeTable, objects: ObjectStore) -> None:
        self._nodes = nodes
        self._objects = objects
        self._domains = DomainTable(nodes)
        self._selections: dict[tuple[Hashable, DomainSpec], SelectionCounter] = {}
        # By namespace whose Pods a selection can hold; None for those that may hold any.
        self._index: dict[str | None, list[SelectionCounter]] = defaultdict(list)
        self._groups: dict[str, dict[GroupKey, PodGroup]] = defaultdict(dict)
        self._filled = self._empty = 0
        self.carried = CarriedTerms(self._domains)
        for row, pods in enumerate(nodes.pods):
            self.node_changed(row)
            for pod in pods.values():
                self.pod_added(row, pod)
        nodes.listen(self)
        objects.on_change("Namespace", self._namespace_changed)

    # For plugins

    def namespace_labels(self, namespace: str) -> Labels:
        """The labels of ``namespace``; empty when there is no such object."""
        obj: Namespace | None = self._objects.get("Namespace", namespace)
        return _NO_LABELS if obj is None else obj.labels

    def acquire(self, selection: PodSelection, spec: DomainSpec) -> SelectionCounter:
        """The counter of Pods of ``selection`` by domains of ``spec``; `release` it in the end."""
        key = (selection.id, spec)
        counter = self._selections.get(key)
        if counter is None:
            counter = self._selections[key] = self._count(selection, spec)
        counter.users += 1
        return counter

    def release(self, counter: SelectionCounter) -> None:
        """Undo one `acquire`; the last one forgets the counter."""
        counter.users -= 1
        if counter.users:
            return
        del self._selections[counter.selection.id, counter.domains.spec]
        for scope in _scopes(counter.selection):
            self._index[scope].remove(counter)
        for group in self._groups_of(counter.selection):
            if counter in group.selected:
                group.selected.remove(counter)
        self._domains.release(counter.domains)

    def acquire_domains(self, spec: DomainSpec) -> Domains:
        """The domains of ``spec`` with no Pods counted; `release_domains` them in the end."""
        return self._domains.acquire(spec)

    def release_domains(self, domains: Domains) -> None:
        """Undo one `acquire_domains`."""
        self._domains.release(domains)

    def any_below(self, priority: int) -> bool:
        """Whether a Pod on any node has a lower priority; asks one Pod of each shape."""
        groups = (group for found in self._groups.values() for group in found.values())
        return any(group.shape.spec.priority < priority for group in groups if group.rows)

    def matching(self, shape: PodShape, known: TermMatches) -> TermMatches:
        """The terms of existing Pods that select Pods of ``shape``; see `CarriedTerms.matching`."""
        return self.carried.matching(shape, self.namespace_labels(shape.namespace), known)

    def __len__(self) -> int:
        return len(self._selections) + len(self.carried)

    # Listener

    def pod_added(self, row: int, pod: Pod) -> None:
        """``pod`` now counts on ``row``."""
        group = self._group(pod)
        if not group.rows:
            self._filled += 1
            self._empty -= 1
        group.add(row, 1)

    def pod_removed(self, row: int, pod: Pod) -> None:
        """``pod`` no longer counts on ``row``."""
        group = self._groups[pod.shape.namespace][pod.shape.id, pod.deleted is not None]
        group.add(row, -1)
        if not group.rows:
            self._filled -= 1
            self._empty += 1
            if self._empty > _EMPTY_GROUPS_KEPT + self._filled // 4:
                self._forget_empty()

    def node_changed(self, row: int) -> None:
        """The node of ``row`` came, went or changed."""
        self._domains.changed(row)

    # Counting

    def _count(self, selection: PodSelection, spec: DomainSpec) -> SelectionCounter:
        counter = SelectionCounter(selection, self._domains.acquire(spec))
        for scope in _scopes(selection):
            self._index[scope].append(counter)
        for group in self._groups_of(selection):
            if self._holds(counter, group):
                group.selected.append(counter)
                counter.add_rows(group.rows, 1)
        return counter

    def _holds(self, counter: SelectionCounter, group: PodGroup) -> bool:
        labels = self.namespace_labels(group.shape.namespace)
        return counter.counts_shape(group.shape, group.terminating, labels)

    def _groups_of(self, selection: PodSelection) -> Iterator[PodGroup]:
        names = self._groups if selection.namespaces is None else selection.namespaces
        for namespace in names:
            yield from self._groups.get(namespace, {}).values()

    def _group(self, pod: Pod) -> PodGroup:
        shape, terminating = pod.shape, pod.deleted is not None
        groups = self._groups[shape.namespace]
        group = groups.get((shape.id, terminating))
        if group is None:
            group = groups[shape.id, terminating] = PodGroup(shape, terminating)
            found = self._candidates(shape.namespace)
            group.selected = [counter for counter in found if self._holds(counter, group)]
            group.carried = self.carried.acquire(shape)
            self._empty += 1
        return group

    def _forget_empty(self) -> None:
        for namespace, groups in list(self._groups.items()):
            for key, group in list(groups.items()):
                if not group.rows:
                    self.carried.release(group.carried)
                    del groups[key]
            if not groups:
                del self._groups[namespace]
        self.carried.forget_unused()
        self._empty = 0

    def _candidates(self, namespace: str) -> Iterator[SelectionCounter]:
        yield from self._index.get(namespace, ())
        yield from self._index.get(None, ())

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        before, after = old.labels if old else _NO_LABELS, new.labels if new else _NO_LABELS
        changed = new or old
        if before == after or changed is None:
            return
        self.carried.namespace_changed()
        for group in self._groups.get(changed.name, {}).values():
            for counter in self._candidates(changed.name):
                was, is_ = counter in group.selected, self._holds(counter, group)
                if was != is_:
                    (group.selected.append if is_ else group.selected.remove)(counter)
                    counter.add_rows(group.rows, 1 if is_ else -1)

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
        yield from self._selections.values()
        yield from self.carried

    def _counting(self, pod: Pod) -> Iterator[DomainCounter]:
        labels = self.namespace_labels(pod.namespace)
        for counter in self._selections.values():
            if counter.counts_shape(pod.shape, pod.deleted is not None, labels):
                yield counter
        terms = {counter.id: counter for counter in self.carried}
        for key, _ in carried(pod.shape.memo(shape_terms)):
            yield terms[key]


def _scopes(selection: PodSelection) -> frozenset[str | None]:
    names = selection.namespaces
    return frozenset({None}) if names is None else frozenset[str | None](names)


__all__ = ["DomainCounter", "DomainCounters", "DomainSpec", "SelectionCounter", "TermMatches"]
