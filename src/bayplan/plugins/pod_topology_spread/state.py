"""The state of PodTopologySpread for one Pod: hard constraints for Filter, soft ones for Score.

Filter compares the count of a node's domain with the least count of all domains. In a what-if table
rows are independent, and on each row only Pods of that row were added or removed. So for each row
only one count per constraint changes: that of the row's own domain. The new least count then needs
no search over all domains, only the two least counts of the current cluster (`Least`): it is the
smaller of the changed count and the least count of the *other* domains.

Example: zones a, b, c have the counts 1, 2, 5, so ``first`` is 1 (zone a) and ``second`` is 2.

- A row in zone c loses 3 Pods: the count of c is 2. The least count of the others is ``first``, as
  c is not the zone of ``first``: min(2, 1) = 1.
- A row in zone a gets 4 Pods: the count of a is 5. Now the others are b and c, so their least count
  is ``second``: min(5, 2) = 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from itertools import repeat
from operator import iadd

import numpy as np
import numpy.typing as npt

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.counters import (
    DomainCounters,
    Domains,
    DomainSpec,
    Integers,
    Number,
    SelectionCounter,
    clamp_outside,
)
from bayplan.cache.node_table import ABSENT, BoolArray, CodedColumn, IntArray, NodeTable
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.plugins.pod_topology_spread.constraints import HOSTNAME, SpreadConstraint
from bayplan.plugins.shared.moved_pods import MovableCounts

UNEVEN, NO_LABEL = 1, 2
FloatArray = npt.NDArray[np.float64]

_NO_DOMAIN = 2**31 - 1
"""The least count where there is no domain at all, as in kube-scheduler."""
_HALF = float(np.nextafter(0.5, 0.0))
_MAX_NARROW = 2**30 // (2 * MAX_NODE_SCORE)
"""A score below it is normalized in 32 bits."""


@dataclass(frozen=True)
class Spread:
    """A constraint with its counter.

    Attributes:
        places: the domains that a soft constraint is weighed by, whatever its inclusion policies;
            None for hosts.
    """

    constraint: SpreadConstraint
    counter: SelectionCounter
    places: Domains | None = None

    @property
    def key(self) -> str:
        """The topology key."""
        return self.constraint.topology_key

    def column(self, nodes: NodeTable) -> CodedColumn:
        """The column of the topology key."""
        return nodes.label(self.key)


@dataclass(frozen=True)
class SpreadView:
    """What is kept for a shape between cycles; the counters are to be released in the end.

    Attributes:
        version: of the default selectors that this is made from; -1 where none is needed.
        strict: whether a node must have all topology keys to count.
    """

    spreads: tuple[Spread, ...] = ()
    version: int = -1
    strict: bool = True

    @classmethod
    def hard(
        cls,
        shape: PodShape,
        constraints: list[SpreadConstraint],
        counters: DomainCounters,
        version: int,
    ) -> SpreadView:
        """For filtering: counts by domains of nodes that have all keys."""
        keys = _keys(constraints)
        specs = [c.domains(shape, requires=keys) for c in constraints]
        pairs = zip(constraints, specs, strict=True)
        spreads = (Spread(c, counters.acquire(c.pods(shape), spec)) for c, spec in pairs)
        return cls(tuple(spreads), version)

    @classmethod
    def soft(
        cls,
        shape: PodShape,
        constraints: list[SpreadConstraint],
        counters: DomainCounters,
        version: int,
        strict: bool,
    ) -> SpreadView:
        """For scoring: hosts are counted one by one, and by no inclusion policy.

        Without ``strict`` a node that lacks a key counts as if the label were empty.
        """
        keys = _keys(constraints) if strict else ()
        absent_as = None if strict else ""

        def spread(constraint: SpreadConstraint) -> Spread:
            key, pods = constraint.topology_key, constraint.pods(shape)
            if key == HOSTNAME:
                return Spread(constraint, counters.acquire(pods, DomainSpec(None)))
            places = counters.acquire_domains(DomainSpec(key, keys, absent_as=absent_as))
            spec = constraint.domains(shape, keys, absent_as)
            return Spread(constraint, counters.acquire(pods, spec), places)

        return cls(tuple(map(spread, constraints)), version, strict)

    def release(self, counters: DomainCounters) -> None:
        """Give all counters back."""
        for spread in self.spreads:
            counters.release(spread.counter)
            if spread.places is not None:
                counters.release_domains(spread.places)


def _keys(constraints: list[SpreadConstraint]) -> tuple[str, ...]:
    return tuple(sorted({c.topology_key for c in constraints}))


@dataclass(frozen=True)
class Least:
    """The least count of any domain: ``first``, in domain ``code``; ``second`` without that one."""

    code: int
    first: int
    second: int

    @classmethod
    def of(cls, counter: SelectionCounter) -> Least:
        """Over the domains of nodes that count."""
        counts = counter.by_domain()
        rows = counter.domains.fit(counter.domains.rows)
        counts = np.where(rows[: len(counts)] > 0, counts, _NO_DOMAIN)
        code = int(counts.argmin())
        first, counts[code] = int(counts[code]), _NO_DOMAIN
        return cls(code, first, int(counts.min()))


class FilterSpread:
    """One hard constraint in one cycle, with one correction per row in a what-if table."""

    def __init__(
        self,
        spread: Spread,
        shape: PodShape,
        rows: IntArray | None = None,
        delta: IntArray | None = None,
    ) -> None:
        self.spread = spread
        self._shape = shape
        self._rows = rows
        self._delta = delta

    def what_if(self, rows: IntArray) -> FilterSpread:
        """The same for a table of only ``rows`` of this one's, with a correction per row."""
        if self._rows is None or self._delta is None:
            return FilterSpread(self.spread, self._shape, rows, np.zeros(len(rows), np.int64))
        return FilterSpread(self.spread, self._shape, self._rows[rows], self._delta[rows])

    def judge(self, nodes: NodeTable) -> Integers:
        """Reason code per row; 0 where the Pod fits."""
        codes = self.spread.column(nodes).codes
        counts = self.spread.counter.by_domain()
        if self._delta is None:
            by_domain = self._verdict(counts)
            by_domain[ABSENT] = NO_LABEL
            return by_domain.take(codes)
        verdict = self._verdict(counts.take(codes) + self._delta)
        verdict[codes == ABSENT] = NO_LABEL
        return verdict

    def _verdict(self, counts: Integers) -> Integers:
        """The reason code for each of ``counts``: those of domains, or one per world."""
        constraint = self.spread.constraint
        itself = constraint.selector.matches(self._shape.labels)
        skew = counts + int(itself) - self._least(counts)
        verdict: Integers = (skew > constraint.max_skew) * np.int8(UNEVEN)
        return verdict

    def _least(self, counts: IntArray) -> IntArray | int:
        """The count to compare with: a number, or one per world."""
        counter = self.spread.counter
        if counter.domains.count < self.spread.constraint.min_domains:
            return 0
        least = Least.of(counter)
        if self._rows is None:
            return least.first
        codes = counter.domains.codes[self._rows]
        others = np.where(codes == least.code, least.second, least.first)
        return np.where(codes == ABSENT, least.first, np.minimum(others, counts))

    def count(self, row: int, pods: int, elsewhere: int | None = None) -> None:
        """In the world of ``row``, ``pods`` more Pods that the selector matches are there.

        Or on another node, the row ``elsewhere`` of the live table: these matter if the nodes are
        in one domain. What they change in another domain is left out of account.
        """
        assert self._rows is not None
        assert self._delta is not None
        codes = self.spread.counter.domains.codes
        code = codes[self._rows[row]]
        if code != ABSENT and (elsewhere is None or codes[elsewhere] == code):
            self._delta[row] += pods

    def matches(self, other: PodShape) -> bool:
        """Whether the selector matches Pods of ``other``."""
        return self.spread.constraint.selector.matches(other.labels)


class FilterState(MovableCounts):
    """The Filter state of one Pod; `what_if` gives the copy for a what-if table."""

    def __init__(self, shape: PodShape, spreads: list[FilterSpread]) -> None:
        self._shape = shape
        self._spreads = spreads
        self._effects: dict[int, list[FilterSpread]] = {}

    @classmethod
    def of(cls, shape: PodShape, view: SpreadView) -> FilterState:
        """The state of a Pod of ``shape`` in the current cluster."""
        return cls(shape, [FilterSpread(spread, shape) for spread in view.spreads])

    def what_if(self, rows: IntArray) -> FilterState:
        """A copy for a table of only ``rows`` of this one's, whose counts can be corrected."""
        return FilterState(self._shape, [spread.what_if(rows) for spread in self._spreads])

    def judge(self, nodes: NodeTable) -> Integers:
        """Reason code per row, ``(len(nodes),)``, of the first constraint that is not met."""
        verdict = self._spreads[0].judge(nodes)
        for spread in self._spreads[1:]:
            verdict = np.where(verdict, verdict, spread.judge(nodes))
        return verdict

    def count(self, other: Pod, row: int, pods: int, elsewhere: int | None = None) -> None:
        """See `MovableCounts`.

        Like kube-scheduler, this does not ask whether ``other`` is terminating.
        """
        effects = self._effects.get(other.shape.id)
        if effects is None:
            same = other.namespace == self._shape.namespace
            effects = [s for s in self._spreads if same and s.matches(other.shape)]
            self._effects[other.shape.id] = effects
        for spread in effects:
            spread.count(row, pods, elsewhere)


class ScoreState:
    """The Score state of one Pod: the weight of each soft constraint, and which nodes count.

    Attributes:
        scored: ``(n,)``, the feasible nodes, where ``strict`` those that have all topology keys.
    """

    def __init__(self, view: SpreadView, nodes: NodeTable, feasible: BoolArray) -> None:
        self._view = view
        self.scored = feasible & _have_all(view, nodes) if view.strict else feasible
        self._weights = [math.log(self._size(spread) + 2) for spread in view.spreads]

    def _size(self, spread: Spread) -> int:
        """How many domains the scored nodes are in; for hosts, how many nodes."""
        if spread.places is None:
            return int(np.count_nonzero(self.scored))
        return spread.places.among(self.scored)

    def raw(self, nodes: NodeTable) -> Integers:
        """Weighted counts of matching Pods, rounded half away from zero, ``(len(nodes),)``."""
        spreads = self._view.spreads
        parts = [_by_domain(s, weight) for s, weight in zip(spreads, self._weights, strict=True)]
        if len(spreads) == 1:  # there are fewer domains than nodes to round for
            return _by_node(spreads[0], _rounded(parts[0]), nodes)
        return _rounded(reduce(iadd, map(_by_node, spreads, parts, repeat(nodes))))

    def normalized(self, nodes: NodeTable) -> Integers:
        """Fewest to 100, ``(len(nodes),)``; nodes that do not count get 0."""
        raw = clamp_outside(self.raw(nodes), self.scored)
        highest = raw.max()
        scores: Integers
        if highest:
            scores = MAX_NODE_SCORE * (highest + raw.min() - raw) // highest
        else:
            scores = np.full_like(raw, MAX_NODE_SCORE)
        return scores if self.scored.all() else scores * self.scored


def _by_domain(spread: Spread, weight: float) -> FloatArray:
    """The score of a node in each domain; 0 without the key."""
    scores = spread.counter.by_domain().astype(np.float64)
    scores *= weight
    scores += spread.constraint.max_skew - 1
    scores[ABSENT] = 0
    return scores


def _by_node(
    spread: Spread, by_domain: npt.NDArray[Number], nodes: NodeTable
) -> npt.NDArray[Number]:
    by_node = spread.counter.domains.at(by_domain, nodes)
    if spread.places is None:  # a host is a domain of its own even without the label
        by_node[spread.column(nodes).codes == ABSENT] = 0
    return by_node


def _rounded(scores: FloatArray) -> Integers:
    """The nearest integers, half away from zero; overwrites ``scores``.

    It adds nextafter(0.5, 0): adding 0.5 would round 0.49999999999999994 up to 1. At exactly 0.5
    the sum is rounded to 1.0 by the floating-point addition, so half still rounds up.
    """
    scores += _HALF
    return scores.astype(np.int32 if scores.max(initial=0.0) < _MAX_NARROW else np.int64)


def _have_all(view: SpreadView, nodes: NodeTable) -> BoolArray:
    mask = np.ones(len(nodes), np.bool_)
    for spread in view.spreads:
        mask &= spread.column(nodes).codes != ABSENT
    return mask
