"""Selections of Pods, and how many Pods of a selection lie in each domain.

A plugin acquires the counter of a `PodSelection` over a `DomainSpec`; equal ones are shared and
counted until everyone has released them. `SelectionCounters` finds the counters that may select
Pods of a namespace, so that a new Pod is tested against few selectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from bayplan.api.pod import PodShape
from bayplan.api.selectors import Labels
from bayplan.cache.counters.domain_counter import DomainCounter
from bayplan.cache.counters.domains import Domains, DomainSpec, DomainTable
from bayplan.cache.counters.pod_terms import PodTerm


@dataclass(frozen=True)
class PodSelection:
    """Which Pods a counter counts; selections with equal ids select the same Pods.

    Attributes:
        namespaces: the only ones that can hold such Pods; None where labels of namespaces decide.
        selects: whether Pods of a shape count, given the labels of their namespace.
        terminating: whether Pods that have a deletionTimestamp count too.
    """

    id: Hashable
    namespaces: frozenset[str] | None = field(compare=False)
    selects: Callable[[PodShape, Labels], bool] = field(compare=False)
    terminating: bool = field(default=True, compare=False)


def selected_by_all(terms: tuple[PodTerm, ...]) -> PodSelection:
    """The Pods that every one of an incoming Pod's ``terms`` means (at least one term)."""
    named = [term.namespaces for term in terms if not term.any_namespace]
    return PodSelection(
        id=tuple(sorted(term.id for term in terms)),
        namespaces=frozenset.intersection(*named) if named else None,
        selects=lambda shape, labels: all(term.selects(shape, labels) for term in terms),
    )


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


class SelectionCounters:
    """All selection counters in use."""

    def __init__(self, domains: DomainTable) -> None:
        self._domains = domains
        self._counters: dict[tuple[Hashable, DomainSpec], SelectionCounter] = {}
        # By namespace whose Pods a selection can hold; None for those that may hold any.
        self._index: dict[str | None, list[SelectionCounter]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._counters)

    def __iter__(self) -> Iterator[SelectionCounter]:
        return iter(self._counters.values())

    def get(self, selection: PodSelection, spec: DomainSpec) -> SelectionCounter | None:
        """The counter of these, or None."""
        return self._counters.get((selection.id, spec))

    def add(self, selection: PodSelection, spec: DomainSpec) -> SelectionCounter:
        """A new counter that has counted nothing yet."""
        counter = SelectionCounter(selection, self._domains.acquire(spec))
        self._counters[selection.id, spec] = counter
        for scope in _scopes(selection):
            self._index[scope].append(counter)
        return counter

    def remove(self, counter: SelectionCounter) -> None:
        """Drop a counter that everyone has released."""
        del self._counters[counter.selection.id, counter.domains.spec]
        for scope in _scopes(counter.selection):
            self._index[scope].remove(counter)
        self._domains.release(counter.domains)

    def candidates(self, namespace: str) -> Iterator[SelectionCounter]:
        """The counters that may select Pods of ``namespace``."""
        yield from self._index.get(namespace, ())
        yield from self._index.get(None, ())


def _scopes(selection: PodSelection) -> frozenset[str | None]:
    names = selection.namespaces
    return frozenset({None}) if names is None else frozenset[str | None](names)
