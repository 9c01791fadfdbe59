"""Past use: what queues have used of late, and how that lowers the weights of some.

Who borrowed much yesterday gets less of what is lent today. Of each queue and resource the average
use is kept, in which an amount counts half after each half-life::

    past = past x d + used x (1 - d)        d = 0.5 ** (seconds / half-life)

Weights divide what is lent, so what counts is what of `past` is above the guarantee: *borrowed*. A
queue is *due* its part, by weight, of all that its siblings can lend or have borrowed, as if all of
them had always asked for it. Who borrowed ``over`` times what is due has its weight divided by
that, in steps of a fourth root of 2 (19 %); who borrowed less keeps its weight.

An example: room 8, queues A and B with equal weights and nothing guaranteed are due 4 each. A had
all 8 for long, so its past is 8, twice what is due: its weight is halved, and the shares become 3
and 5. When B takes them, A's past sinks, and the weights approach each other again.

Guarantees stay as they are. Weights change every `interval` only. In between shares follow from
demand alone, and evictions end as they do without past use
(docs/decisions/0030-what-a-tenant-is-entitled-to.md).

Nothing is stored: at first, `past` is what the Pods that count have used since they started. What
Pods used that are gone is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.amounts import Charge, Sums
from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree.shares import FloatArray
from bayplan.cache.queue_tree.structure import Structure

LOOK_SECONDS = 5.0
"""Between two looks at what is used, at least."""
UNIT = 1000
"""What a weight of 1 is as long as it is not lowered."""
_STEPS = 4
"""Between a weight and half of it."""


class Past(NamedTuple):
    """What a queue has used of a resource, and the weight that follows."""

    use: int
    weight: float


_Charge = Callable[[Pod], Charge[Structure] | None]


class PastUse:
    """See the module's docstring. Scheduling thread only, except `shown`.

    Args:
        half_life: seconds after which an amount counts half.
        interval: seconds between two changes of weights, at least.
        now: seconds since the epoch.

    Attributes:
        shown: by name of the queue and resource, what there is to say; replaced at each look.
    """

    def __init__(self, half_life: float, interval: float, now: Callable[[], float]) -> None:
        self._half_life, self._interval, self._now = half_life, interval, now
        self._structure: Structure | None = None
        self._past: FloatArray = np.zeros((0, 0))
        self._factors: FloatArray = np.ones((0, 0))
        self._weights: IntArray = np.ones((0, 0), np.int64)
        self._looked: float | None = None
        self._stepped = -inf
        self.shown: dict[tuple[str, str], Past] = {}

    def go_on_from(self, other: PastUse) -> None:
        """Begin with what another one knows, with other times."""
        self._structure, self._past, self._factors = other._structure, other._past, other._factors
        self._looked = other._looked

    def weights(
        self, sums: Sums[Structure], capacity: IntArray, pods: Iterable[Pod], charge: _Charge
    ) -> IntArray:
        """(q, r) the weights as of now, in `UNIT`.

        Args:
            sums: what queues use.
            capacity: (r,) the room of the cluster.
            pods: those that count, for the first look.
            charge: what each of these is charged.
        """
        now = self._now()
        structure = sums.structure
        is_new = structure is not self._structure
        if not is_new and self._looked is not None and abs(now - self._looked) < LOOK_SECONDS:
            return self._weights
        if is_new:
            self._past = self._moved(self._past, structure, 0.0)
            self._factors = self._moved(self._factors, structure, 1.0)
            self._structure = structure
        if self._looked is None:
            self._begin(now, pods, charge)
        else:
            kept = self._decay(now - self._looked)
            self._past = self._past * kept + sums.used * (1 - kept)
        self._looked = now
        if abs(now - self._stepped) >= self._interval:
            self._stepped = now
            self._factors = factors(structure, capacity, self._past)
        lowered = np.maximum(np.round(self._factors * UNIT), 1).astype(np.int64)
        self._weights = structure.weights * lowered
        self._show(structure)
        return self._weights

    def _decay(self, seconds: float) -> float:
        return float(0.5 ** (max(seconds, 0.0) / self._half_life))

    def _begin(self, now: float, pods: Iterable[Pod], charge: _Charge) -> None:
        for pod in pods:
            its, start = charge(pod), pod.status.start_time
            if its is not None and start is not None and its.sums.structure is self._structure:
                part = 1 - self._decay(now - start.timestamp())
                links = list(its.sums.structure.links[its.row])
                self._past[links] += np.array(its.requests) * part

    def _moved(self, values: FloatArray, structure: Structure, new: float) -> FloatArray:
        """The same of another structure: rows by name of the queue, columns by resource."""
        moved: FloatArray = np.full((len(structure), len(structure.resources)), new)
        before = self._structure
        if before is None:
            return moved
        old_rows = {key: row for row, key in enumerate(_keys(before))}
        kept = [(row, old_rows[key]) for row, key in enumerate(_keys(structure)) if key in old_rows]
        for column, name in enumerate(structure.resources):
            if kept and name in before.resources:
                rows, old = zip(*kept, strict=True)
                moved[rows, column] = values[old, before.resources.index(name)]
        return moved

    def _show(self, structure: Structure) -> None:
        self.shown = {
            (structure.name(row), name): Past(
                round(self._past[row, column]),
                round(float(self._weights[row, column]) / UNIT, 3),
            )
            for row in range(len(structure))
            if not structure.own[row]
            for column, name in enumerate(structure.resources)
        }


def factors(structure: Structure, capacity: IntArray, past: FloatArray) -> FloatArray:
    """(q, r) what weights are multiplied with, at most 1.

    Args:
        structure: the queues.
        capacity: (r,) what the cluster has.
        past: (q, r) what they have used.
    """
    q, r = past.shape
    result: FloatArray = np.ones((q, r))
    nominal = np.zeros((q + 1, r))
    """What each would have if all asked for more; the last row is the cluster."""
    nominal[-1] = capacity
    for rows in structure.levels:
        parents = structure.parent[rows]

        def of_siblings(values: FloatArray | IntArray, parents: IntArray = parents) -> FloatArray:
            sums = np.zeros((q + 1, r))
            np.add.at(sums, parents, values)
            return sums[parents]

        guaranteed = structure.guaranteed[rows]
        weight = structure.weights[rows] * np.ones(r)
        part = weight / np.maximum(of_siblings(weight), 1)
        lent = np.maximum(nominal[parents] - of_siblings(guaranteed), 0)
        nominal[rows] = guaranteed + part * lent
        borrowed = np.maximum(past[rows] - guaranteed, 0)
        due = part * np.maximum(lent, of_siblings(borrowed))
        over = np.divide(borrowed, due, out=np.ones_like(due), where=due > 0)
        steps = np.round(_STEPS * np.log2(np.maximum(over, 1)))
        result[rows] = 0.5 ** (steps / _STEPS)
    return result


def _keys(structure: Structure) -> Iterable[tuple[str, bool]]:
    return zip((queue.name for queue in structure.queues), structure.own, strict=True)
