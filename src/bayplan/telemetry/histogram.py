"""Histograms whose observations cost an append; they are sorted into buckets in batches.

Several are observed for every Pod, on the scheduling thread. `prometheus_client.Histogram` takes
two locks and a search for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from threading import Lock

import numpy as np
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

BATCH = 512
"""Observations that wait at most: 16 KiB."""


def exponential(start: float, factor: float, count: int) -> list[float]:
    """So many upper bounds, each ``factor`` times the one before."""
    return [start * factor**i for i in range(count)]


class Observations:
    """The observations under one combination of labels. Any thread."""

    __slots__ = ("_bounds", "_counts", "_lock", "_pending", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = np.zeros(len(bounds), np.int64)
        self._sum = 0.0
        self._pending: list[float] = []
        self._lock = Lock()

    def observe(self, value: float) -> None:
        """One more."""
        pending = self._pending
        pending.append(value)
        if len(pending) >= BATCH:
            self.totals()

    def totals(self) -> tuple[list[int], float]:
        """How many are not above each bound, and the sum of all."""
        with self._lock:
            taken = self._pending[:]
            # Others may append meanwhile, so only what was taken goes.
            del self._pending[: len(taken)]
            buckets = np.searchsorted(self._bounds, taken)
            self._counts += np.bincount(buckets, minlength=len(self._bounds))
            self._sum += sum(taken)
            return np.cumsum(self._counts).tolist(), self._sum


class Histogram:
    """One family, served to a prometheus_client registry.

    Args:
        buckets: upper bounds, ascending; infinity comes on top.

    Attributes:
        bounds: all of them.
    """

    def __init__(
        self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> None:
        self._name, self._text, self._names = name, text, labels
        self.bounds = [*buckets, math.inf]
        self._children: dict[tuple[str, ...], Observations] = {}
        self._lock = Lock()
        self.labels = cache(self._child)
        """The observations with these values of the labels."""
        if not labels:
            self.labels()

    def _child(self, *values: str) -> Observations:
        with self._lock:
            return self._children.setdefault(values, Observations(self.bounds))

    def describe(self) -> Iterable[Metric]:
        """The family without samples."""
        yield self._empty()

    def counts(self) -> dict[tuple[str, ...], int]:
        """How many observations there are by the values of the labels."""
        return {values: counts[-1] for values, counts in self.cumulative().items()}

    def cumulative(self) -> dict[tuple[str, ...], list[int]]:
        """How many are not above each of `bounds`, by the values of the labels."""
        return {values: o.totals()[0] for values, o in self._by_labels()}

    def _by_labels(self) -> list[tuple[tuple[str, ...], Observations]]:
        with self._lock:
            return list(self._children.items())

    def collect(self) -> Iterable[Metric]:
        """The family with all that was observed so far."""
        family = self._empty()
        for values, observations in self._by_labels():
            counts, total = observations.totals()
            bounds = map(floatToGoString, self.bounds)
            family.add_metric(values, list(zip(bounds, counts, strict=True)), total)
        yield family

    def _empty(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self._name, self._text, labels=self._names)
