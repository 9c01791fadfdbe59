"""NodeLoads: the measured load of the nodes, a column for each source of measurements.

A source (metrics.k8s.io, Prometheus) is asked by a thread of its own. What the source says,
`Readings`, reaches the scheduling thread through the inbox and is written here, as shares of the
node's capacity. A sample is only taken if it can be true:

====================  =============================================================================
invalid               negative, infinite, no number, or more than `MOST` times the capacity
stale                 older than `STALE_SECONDS`, or as far in the future
unknown node          no node has that name
====================  =============================================================================

All three are counted and otherwise ignored: the sample before stays, until it is stale itself. A
node without a sample is NaN in every array. What that means for a score is up to the plugins
(`bayplan.plugins.shared.load_scores`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from bayplan.api import quantity
from bayplan.api.node import Node, NodeMetrics
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.node_table.column import NumbersByKey

FloatArray = npt.NDArray[np.float64]

RESOURCES = ("cpu", "memory")
STALE_SECONDS = 300.0
"""Prometheus calls a series stale after the same time."""
MOST = 2.0
"""A node cannot use much more than it has; a greater share is in another unit, such as percent."""
NO_NUMBER = -1.0
"""Stands in `Readings` for a value that is there and no number."""
_EXAMPLES = 5


class Capacity(NumbersByKey):
    """status.capacity by resource: milli-CPU and bytes; what is allocatable where it is absent."""

    def set_node(self, row: int, node: Node, _previous: Node | None) -> None:
        """See `bayplan.cache.node_table.column.NodeColumn`."""
        capacity = node.status.capacity
        for name, given in (("cpu", capacity.cpu), ("memory", capacity.memory)):
            amount = node.status.allocatable.get(name, 0) if given is None else given
            self[name][row] = quantity.of(name, amount)


@dataclass(frozen=True)
class Readings:
    """What a source says of nodes at one moment.

    Attributes:
        names: of the nodes, each once.
        mean: by resource ``(n,)``; NaN where the source says nothing, -1 where it is no
            number.
        deviation: the standard deviation, likewise.
        times: ``(n,)`` when each was measured, seconds since the epoch.
        absolute: whether values are milli-CPU and bytes; else they are shares of the capacity.
    """

    names: Sequence[str]
    mean: Mapping[str, FloatArray]
    deviation: Mapping[str, FloatArray]
    times: FloatArray
    absolute: bool = False


def of_node_metrics(objects: Iterable[NodeMetrics]) -> Readings:
    """What NodeMetrics objects say."""
    by_name = {metrics.name: metrics for metrics in objects}
    usage = {
        name: np.array([_amount(name, metrics.usage) for metrics in by_name.values()], np.float64)
        for name in RESOURCES
    }
    times = [m.timestamp.timestamp() if m.timestamp else math.nan for m in by_name.values()]
    none = {name: np.full(len(times), math.nan) for name in RESOURCES}
    return Readings(list(by_name), usage, none, np.array(times, np.float64), absolute=True)


def _amount(resource: str, usage: Mapping[str, quantity.Amount]) -> float:
    """Milli-CPU or bytes; see `Readings.mean`."""
    if resource not in usage:
        return math.nan
    try:
        return quantity.measured(usage[resource]) * (1000 if resource == "cpu" else 1)
    except (quantity.QuantityError, OverflowError):
        return NO_NUMBER


@dataclass
class Written:
    """What became of readings.

    Attributes:
        counts: how many samples were ``used``, ``invalid``, ``stale`` or of an ``unknown node``.
        examples: some of the nodes that were not used, by the same words.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, what: str, names: Sequence[str]) -> None:
        """These samples are ``what``."""
        if names:
            self.counts[what] += len(names)
            self.examples[what] = sorted(names)[:_EXAMPLES]


class NodeLoad:
    """The load of every row by one source.

    Attributes:
        mean: by resource ``(n,)``, a share of the capacity; NaN where it is not known.
        deviation: the standard deviation, likewise; 0 where the source has none.
        times: when that was measured, likewise, seconds since the epoch.
        version: another number after each change.
    """

    def __init__(self, n: int) -> None:
        self.mean = {name: np.full(n, np.nan) for name in RESOURCES}
        self.deviation = {name: np.full(n, np.nan) for name in RESOURCES}
        self.times = {name: np.full(n, np.nan) for name in RESOURCES}
        self.version = 0

    def arrays(self) -> list[FloatArray]:
        """All of them."""
        return [a for columns in (self.mean, self.deviation, self.times) for a in columns.values()]

    def take(self, rows: IntArray) -> NodeLoad:
        """These rows."""
        taken = NodeLoad(len(rows))
        for mine, its in zip(self.arrays(), taken.arrays(), strict=True):
            its[:] = mine[rows]
        taken.version = self.version
        return taken

    def forget_stale(self, now: float) -> None:
        """Samples that are too old are not known any more."""
        for name, times in self.times.items():
            stale = np.abs(now - times) > STALE_SECONDS
            if stale.any():
                for columns in (self.mean, self.deviation, self.times):
                    columns[name][stale] = np.nan
                self.version += 1


class NodeLoads:
    """See the module's docstring; a `bayplan.cache.node_table.column.Column`."""

    def __init__(self, n: int = 0, by_source: dict[Hashable, NodeLoad] | None = None) -> None:
        self._n = n
        self._by_source = {} if by_source is None else by_source

    def __getitem__(self, source: Hashable) -> NodeLoad:
        """What ``source`` has said; nothing so far where the source is new."""
        load = self._by_source.get(source)
        if load is None:
            load = self._by_source[source] = NodeLoad(self._n)
        return load

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        known = np.arange(n) < self._n
        for source, load in self._by_source.items():
            grown = self._by_source[source] = NodeLoad(n)
            for mine, its in zip(load.arrays(), grown.arrays(), strict=True):
                its[known] = mine
            grown.version = load.version + 1
        self._n = n

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        for load in self._by_source.values():
            for array in load.arrays():
                array[row] = np.nan

    def take(self, rows: IntArray) -> Self:
        """See `Column.take`."""
        by_source = {source: load.take(rows) for source, load in self._by_source.items()}
        return type(self)(len(rows), by_source)

    def write(self, source: Hashable, readings: Readings, nodes: NodeTable, now: float) -> Written:
        """``source`` says this of ``nodes``, the table of this column, at ``now``."""
        load, written = self[source], Written()
        found = [nodes.row(name) for name in readings.names]
        is_node = np.array([row is not None for row in found], np.bool_)
        rows = np.array([row for row in found if row is not None], np.int64)
        names = np.array(readings.names, np.object_)
        written.add("unknown node", names[~is_node].tolist())
        names, times = names[is_node], readings.times[is_node]
        timely = np.abs(now - times) <= STALE_SECONDS
        written.add("stale", names[~timely].tolist())
        wrong, used = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        for name in readings.mean:
            mean, deviation = readings.mean[name][is_node], readings.deviation[name][is_node]
            given = timely & ~np.isnan(mean)
            if readings.absolute:
                whole = nodes.column(Capacity)[name][rows]
                given &= whole > 0
                mean, deviation = (each / np.maximum(whole, 1) for each in (mean, deviation))
            can_be = _possible(mean, deviation)
            wrong |= given & ~can_be
            taken = given & can_be
            used |= taken
            load.mean[name][rows[taken]] = mean[taken]
            load.deviation[name][rows[taken]] = np.nan_to_num(deviation[taken])
            load.times[name][rows[taken]] = times[taken]
        written.add("invalid", names[wrong].tolist())
        written.counts["used"] += int(used.sum())
        load.version += 1
        load.forget_stale(now)
        return written

    def known(self, source: Hashable) -> int:
        """How many nodes have a sample."""
        return int((~np.isnan(list(self[source].times.values()))).any(axis=0).sum())

    def newest(self, source: Hashable) -> float:
        """When the newest sample was measured, seconds since the epoch; 0 if there is none."""
        times = np.array(list(self[source].times.values()))
        return float(np.nan_to_num(times).max(initial=0))

    def forget(self, source: Hashable) -> None:
        """``source`` is not asked any more."""
        self._by_source.pop(source, None)


def _possible(mean: FloatArray, deviation: FloatArray) -> npt.NDArray[np.bool_]:
    """Which samples can be true; without a deviation the mean alone counts."""
    sane = (mean >= 0) & (mean <= MOST)
    return sane & (np.isnan(deviation) | ((deviation >= 0) & (deviation <= MOST)))
