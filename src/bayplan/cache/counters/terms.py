"""Affinity terms that Pods on nodes carry, and how many Pods carry each, per topology domain.

A term counts in one of three roles (`Role`). Equal terms in the same role and of the same weight
share one counter, so a thousand Pods of a template count in one.

For an incoming Pod we need the terms that select it. With thousands of different terms that means
thousands of selectors, so the caller caches the result (`TermMatches`) and passes it to the next
call. Terms are only appended to the lists of `_index`; the result stores the lengths of its two
lists, and `matching` tests only the terms after them. Example: a Pod in namespace ns::

    _index[ns] = [T1, T2]   _index[None] = [T3]        answer: anti [T2], seen (2, 1), epoch 7
    a Pod with a new term T4 is bound: _index[ns] = [T1, T2, T4]
    matching(...): epoch 7 still, seen is (3, 1) now, so only T4 is tested

A new epoch begins when lists were rebuilt (terms that no Pod carries are dropped) or when a term
selects other Pods (labels of a namespace changed). Then the result is computed from scratch.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bayplan.api.pod import PodShape
from bayplan.api.selectors import Labels
from bayplan.cache.counters.domain_counter import DomainCounter
from bayplan.cache.counters.domains import Domains, DomainSpec, DomainTable
from bayplan.cache.counters.pod_terms import PodTerm, ShapeTerms, shape_terms


class Role(enum.Enum):
    """The kind of an affinity term."""

    ANTI = enum.auto()
    AFFINITY = enum.auto()
    PREFERRED = enum.auto()


CarriedKey = tuple[Role, int, bytes]


class TermCounter(DomainCounter):
    """How many Pods carry a term; `users` is how many Pod shapes do.

    Attributes:
        weight: of a preferred term, negative for anti-affinity; 0 for required terms.
    """

    __slots__ = ("id", "role", "term", "weight")

    def __init__(self, key: CarriedKey, term: PodTerm, domains: Domains) -> None:
        super().__init__(domains)
        self.id = key
        self.role, self.weight, _ = key
        self.term = term


@dataclass
class TermMatches:
    """The carried terms that select Pods of one shape, by role.

    Attributes:
        epoch: of the `CarriedTerms` when this was computed; in another one it is stale.
        seen: how many terms were tested, of those that name the namespace and of the others.
    """

    anti: list[TermCounter] = field(default_factory=list)
    affinity: list[TermCounter] = field(default_factory=list)
    preferred: list[TermCounter] = field(default_factory=list)
    epoch: int = -1
    seen: tuple[int, int] = (0, 0)

    def add(self, counter: TermCounter) -> None:
        """Append to the list of its role."""
        by_role = {
            Role.ANTI: self.anti,
            Role.AFFINITY: self.affinity,
            Role.PREFERRED: self.preferred,
        }
        by_role[counter.role].append(counter)


class CarriedTerms:
    """All terms carried by Pods on nodes; a new epoch makes all answers stale."""

    def __init__(self, domains: DomainTable) -> None:
        self._domains = domains
        self._counters: dict[CarriedKey, TermCounter] = {}
        # By namespace that a term names; None for those whose namespaceSelector decides.
        self._index: dict[str | None, list[TermCounter]] = defaultdict(list)
        self._epoch = 0

    def __len__(self) -> int:
        return len(self._counters)

    def __iter__(self) -> Iterator[TermCounter]:
        return iter(self._counters.values())

    def acquire(self, shape: PodShape) -> list[TermCounter]:
        """The counters for the terms of ``shape``; a term that is carried twice comes twice."""
        counters = [self._counter(key, term) for key, term in carried(shape.memo(shape_terms))]
        for counter in counters:
            counter.users += 1
        return counters

    def release(self, counters: list[TermCounter]) -> None:
        """Undo one `acquire`; the counters stay until `drop_unused`."""
        for counter in counters:
            counter.users -= 1

    def drop_unused(self) -> None:
        """Drop the counters of terms that no Pod carries."""
        unused = [counter for counter in self if not counter.users]
        if not unused:
            return
        for counter in unused:
            self._domains.release(counter.domains)
            del self._counters[counter.id]
        self._index.clear()
        for counter in self:
            self._enter(counter)
        self._epoch += 1

    def _counter(self, key: CarriedKey, term: PodTerm) -> TermCounter:
        counter = self._counters.get(key)
        if counter is None:
            counter = TermCounter(key, term, self._domains.acquire(DomainSpec(term.topology_key)))
            self._counters[key] = counter
            self._enter(counter)
        return counter

    def _enter(self, counter: TermCounter) -> None:
        term = counter.term
        for namespace in (None,) if term.any_namespace else term.namespaces:
            self._index[namespace].append(counter)

    def namespace_changed(self) -> None:
        """Labels of a namespace changed: which Pods a term selects may have changed."""
        self._epoch += 1

    def matching(
        self, shape: PodShape, namespace_labels: Labels, previous: TermMatches
    ) -> TermMatches:
        """The terms that select Pods of ``shape``, in a namespace with these labels.

        The last answer for the shape, ``previous``, is updated and returned unless it is stale.
        """
        named = self._index.get(shape.namespace, ())
        others = self._index.get(None, ())
        seen = (len(named), len(others))
        if previous.epoch == self._epoch and previous.seen == seen:
            return previous
        fresh = previous.epoch != self._epoch
        matches = TermMatches(epoch=self._epoch) if fresh else previous
        for counter in (*named[matches.seen[0] :], *others[matches.seen[1] :]):
            if counter.term.selects(shape, namespace_labels):
                matches.add(counter)
        matches.seen = seen
        return matches


def carried(terms: ShapeTerms) -> Iterator[tuple[CarriedKey, PodTerm]]:
    """Each term of a Pod with the key of its counter."""
    for term in terms.anti:
        yield (Role.ANTI, 0, term.id), term
    for term in terms.affinity:
        yield (Role.AFFINITY, 0, term.id), term
    for weight, term in terms.preferred:
        yield (Role.PREFERRED, weight, term.id), term
