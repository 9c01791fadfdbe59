"""The state of InterPodAffinity for one Pod: its counters, and corrections for what-if tables.

A Pod is judged by three tallies per topology key: Pods that match all its affinity terms, Pods that
match one of its anti-affinity terms, and Pods whose own anti-affinity terms select it. In a what-if
table rows are independent, so a tally has one correction per row, for the domain of that row: the
other domains do not matter for that row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from bayplan.api.pod import PodShape
from bayplan.cache.counters import (
    DomainCounter,
    DomainCounters,
    DomainSpec,
    Integers,
    PodTerm,
    SelectionCounter,
    ShapeTerms,
    TermMatches,
    clamp_outside,
    selected_by_all,
    shape_terms,
    weighted_counts,
)
from bayplan.cache.node_table import ABSENT, BoolArray, IntArray, NodeTable
from bayplan.framework.interface import MAX_NODE_SCORE

EXISTING_ANTI_AFFINITY, ANTI_AFFINITY, AFFINITY = 1, 2, 3
"""Reason codes. Of several reasons to reject a node, the greatest is reported."""


class DomainCounts:
    """Pods per domain of one topology key: the sum of counters, and a correction per world."""

    __slots__ = ("counters", "delta", "key")

    def __init__(
        self, key: str, counters: Sequence[DomainCounter], delta: IntArray | None = None
    ) -> None:
        self.key = key
        self.counters = counters
        self.delta = delta

    def by_domain(self) -> Integers:
        """Pods in each domain, and none for `ABSENT`, ``(d + 1,)``; without the correction."""
        return reduce(np.add, (counter.by_domain() for counter in self.counters))

    def at(self, nodes: NodeTable) -> Integers:
        """Pods in the domain that each row lies in, ``(len(nodes),)``; 0 without the key."""
        counts: Integers = np.zeros(len(nodes), np.int32)
        if self.counters:
            counts = self.by_domain().take(nodes.label(self.key).codes)
        return counts if self.delta is None else counts + self.delta

    def what_if(self, rows: IntArray) -> DomainCounts:
        """The same for a table of only ``rows``, with a correction per row."""
        delta = np.zeros(len(rows), np.int64) if self.delta is None else self.delta[rows]
        return DomainCounts(self.key, self.counters, delta)

    def total(self) -> IntArray | int:
        """Pods in all domains: a number, or ``(worlds,)``."""
        total = sum(counter.total for counter in self.counters)
        return total if self.delta is None else total + self.delta


Tallies = dict[str, DomainCounts]


def tallies(counters: Iterable[DomainCounter]) -> Tallies:
    """Tallies of ``counters`` by topology key; counters of no Pods are left out."""
    by_key: dict[str, list[DomainCounter]] = {}
    for counter in counters:
        if counter.total:
            by_key.setdefault(counter.topology_key, []).append(counter)
    return {key: DomainCounts(key, group) for key, group in by_key.items()}


@dataclass
class AffinityView:
    """What is kept for a shape between cycles; the counters are to be released in the end.

    Attributes:
        affinity: one counter per topology key of required affinity.
        anti: one per required anti-affinity term.
        preferred: one per preferred term, with its weight.
    """

    terms: ShapeTerms
    affinity: list[SelectionCounter]
    anti: list[SelectionCounter]
    preferred: list[tuple[int, SelectionCounter]]
    matches: TermMatches = field(default_factory=TermMatches)

    @classmethod
    def of(cls, shape: PodShape, counters: DomainCounters) -> AffinityView:
        """Acquire all counters that Pods of ``shape`` need."""
        terms = shape.memo(shape_terms)

        def counter(term: PodTerm) -> SelectionCounter:
            return counters.acquire(selected_by_all((term,)), DomainSpec(term.topology_key))

        keys = dict.fromkeys(term.topology_key for term in terms.affinity)
        return cls(
            terms,
            [counters.acquire(selected_by_all(terms.affinity), DomainSpec(key)) for key in keys],
            [counter(term) for term in terms.anti],
            [(weight, counter(term)) for weight, term in terms.preferred],
        )

    def release(self, counters: DomainCounters) -> None:
        """Give all counters back."""
        for counter in (*self.affinity, *self.anti, *(c for _, c in self.preferred)):
            counters.release(counter)


class AffinityState:
    """The Filter state of one Pod; `what_if` gives the copy for a what-if table."""

    def __init__(
        self,
        shape: PodShape,
        counters: DomainCounters,
        affinity: Tallies,
        anti: Tallies,
        existing: Tallies,
        worlds: int | None = None,
    ) -> None:
        self._shape = shape
        self._counters = counters
        self._terms = shape.memo(shape_terms)
        self._affinity = affinity
        self._anti = anti
        self._existing = existing
        self._worlds = worlds
        self._effects: dict[int, list[DomainCounts]] = {}

    @classmethod
    def of(cls, shape: PodShape, counters: DomainCounters, view: AffinityView) -> AffinityState:
        """The state of a Pod of ``shape`` in the current cluster."""
        return cls(
            shape,
            counters,
            {c.topology_key: DomainCounts(c.topology_key, [c]) for c in view.affinity},
            tallies(view.anti),
            tallies(view.matches.anti),
        )

    # Filter

    def judge(self, nodes: NodeTable) -> Integers:
        """Reason code per row, ``(len(nodes),)``; 0 where the Pod fits."""
        codes: Integers = np.zeros(len(nodes), np.int8)
        for key, resisted in self._resisted(nodes).items():
            rows = resisted.take(nodes.label(key).codes) if self._worlds is None else resisted
            codes = np.maximum(codes, rows)
        if self._affinity:
            codes = np.maximum(codes, self._affinity_unmet(nodes) * np.int8(AFFINITY))
        return codes

    def _resisted(self, nodes: NodeTable) -> dict[str, Integers]:
        """By topology key, the reason code of each domain (in a what-if: of each world).

        Few domains or many, they are looked up by row once a key.
        """
        resisted: dict[str, Integers] = {}
        for code, side in ((EXISTING_ANTI_AFFINITY, self._existing), (ANTI_AFFINITY, self._anti)):
            for key, tally in side.items():
                counts = tally.by_domain() if self._worlds is None else tally.at(nodes)
                codes = (counts > 0) * np.int8(code)
                resisted[key] = np.maximum(resisted[key], codes) if key in resisted else codes
        return resisted

    def _affinity_unmet(self, nodes: NodeTable) -> BoolArray:
        unmet = np.zeros(len(nodes), np.bool_)
        for tally in self._affinity.values():  # which counts nothing where the key is lacking
            unmet |= tally.at(nodes) <= 0
        if unmet.any() and self._all_mean(self._shape):
            # Where no Pod matches, a Pod that its own terms select may be the first.
            unmet &= np.asarray(sum(tally.total() for tally in self._affinity.values()) != 0)
            for key in self._affinity:
                unmet |= nodes.label(key).codes == ABSENT
        return unmet

    def _all_mean(self, other: PodShape) -> bool:
        labels = self._counters.namespace_labels(other.namespace)
        return all(term.selects(other, labels) for term in self._terms.affinity)

    # What if

    def what_if(self, rows: IntArray) -> AffinityState:
        """A copy for a table of only ``rows`` of this one's, whose tallies can be corrected."""

        def copy(side: Tallies) -> Tallies:
            return {key: tally.what_if(rows) for key, tally in side.items()}

        sides = (copy(self._affinity), copy(self._anti), copy(self._existing))
        return AffinityState(self._shape, self._counters, *sides, worlds=len(rows))

    def count(
        self, other: PodShape, nodes: NodeTable, row: int, pods: int, elsewhere: int | None = None
    ) -> None:
        """In the world of ``row``, ``pods`` more Pods of shape ``other`` are there.

        Or on another node, the row ``elsewhere`` of the live table: these matter in the domains
        that the two nodes share.
        """
        effects = self._effects.get(other.id)
        if effects is None:
            effects = self._effects[other.id] = self._effects_of(other)
        for tally in effects:
            code = nodes.label(tally.key).codes[row]
            if tally.delta is None or code == ABSENT:
                continue
            if elsewhere is None or nodes.live.label(tally.key).codes[elsewhere] == code:
                tally.delta[row] += pods

    def _effects_of(self, other: PodShape) -> list[DomainCounts]:
        """The counts to which a Pod of shape ``other`` adds one, with repetitions."""
        labels = self._counters.namespace_labels(other.namespace)
        own_labels = self._counters.namespace_labels(self._shape.namespace)
        effects = list(self._affinity.values()) if self._all_mean(other) else []
        for term in self._terms.anti:
            if term.selects(other, labels):
                effects.append(self._tally(self._anti, term.topology_key))
        for term in other.memo(shape_terms).anti:
            if term.selects(self._shape, own_labels):
                effects.append(self._tally(self._existing, term.topology_key))
        return effects

    def _tally(self, side: Tallies, key: str) -> DomainCounts:
        assert self._worlds is not None
        return side.setdefault(key, DomainCounts(key, (), np.zeros(self._worlds, np.int64)))


@dataclass(frozen=True)
class AffinityScore:
    """The Score state of one Pod.

    Attributes:
        weighted: what counts for the Pod, with its weight.
        feasible: ``(n,)``, the nodes to normalize among.
    """

    weighted: list[tuple[int, DomainCounter]]
    feasible: BoolArray

    def raw(self, nodes: NodeTable) -> Integers:
        """The sum of weights times Pods in each node's domains, ``(n,)``; may be negative."""
        return weighted_counts(self.weighted, nodes)

    def normalized(self, nodes: NodeTable) -> Integers:
        """Lowest to 0, highest to 100, truncated, ``(n,)``; all 0 where there is no difference."""
        raw = clamp_outside(self.raw(nodes), self.feasible)
        above: Integers = raw - raw.min()
        highest = int(above.max())
        if not highest:
            return above
        if highest > len(above):
            return _shares(above, highest)
        return _shares(np.arange(highest + 1), highest).take(above)


def _shares(scores: Integers, highest: int) -> Integers:
    """Percentages of ``highest``, truncated."""
    shares: Integers = (MAX_NODE_SCORE * (scores / highest)).astype(np.int16)
    return shares
