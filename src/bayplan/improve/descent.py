"""Descent: the fewest moves after which a measure has fallen far enough.

First by a dive: always the move that lets the measure fall most, of those that promise most from
afar. Where what so many Pods less one promise together is not enough, that is the plan. Else plans
with fewer moves are looked for, until half of the time is over; or any plan, where the dive found
none, until all of it is. That is a beam search: from the plans with n moves that let the measure
fall most, all plans with one more move are made: each Pod that may help is taken off its node, and
put on those of the nodes that fit where it adds least. A first move that makes it worse may be part
of a plan, as long as it is among the best so many.

All of it happens in a trial, move after move, each placed by the whole pipeline with the later ones
still in place; so a plan that is found is proven, too. Pods of groups stay: they would have to move
together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from heapq import heappop, heappush
from itertools import accumulate
from time import perf_counter
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray
from bayplan.cache.requests import pod_requests
from bayplan.improve.deciders import Deciders
from bayplan.improve.goals import Gain
from bayplan.improve.movable import Movable, Unit
from bayplan.improve.proof import Move, Proven, measured
from bayplan.improve.trials import Trials
from bayplan.preemption.budgets import Budgets

BEAM = 32
"""Plans with n moves from which those with one more are made."""
UNITS = 64
"""Pods that are considered, those first that promise most."""
TARGETS = 16
"""Nodes that are considered for a Pod, those first where it adds least."""
_LITTLE = 1e-9


class _Partial(NamedTuple):
    """A plan under way: by how much the measure has fallen, and the moves with their rows."""

    fall: float = 0.0
    moves: tuple[tuple[Move, int], ...] = ()

    @property
    def key(self) -> frozenset[tuple[str, int]]:
        """Equal for plans that end alike."""
        return frozenset((move.pod.uid, row) for move, row in self.moves)


class _Promise(NamedTuple):
    """By how much the measure falls if the unit moves, as far as can be seen from afar."""

    fall: float
    unit: Unit


class Descent:
    """See the module's docstring. Scheduling thread only.

    Attributes:
        all: whether nothing was left out so far.
        until: up to how many moves the search has ended.
        best: by how much the measure can fall, as far as was found.
    """

    def __init__(
        self, core: Deciders, movable: Movable, trials: Trials, gain: Gain, seconds: float
    ) -> None:
        self._core, self._movable, self._trials, self._gain = core, movable, trials, gain
        self._nodes, objects = core.world.cache.nodes, core.world.cache.objects
        self._budgets = objects.shared(Budgets, objects)
        self._seconds, self._deadline = seconds, perf_counter() + seconds
        self.all = True
        self.until = -1
        self.best = 0.0

    @property
    def timed_out(self) -> bool:
        """Whether the time is over."""
        return perf_counter() > self._deadline

    def run(self, most: int) -> Proven | None:
        """The plan with the fewest moves, and of these the one with the greatest fall."""
        if self._enough(_Partial()):
            return self._proven(_Partial())
        promises = self._promises()
        self.until = 0
        dive = self._dive(promises, most)
        if dive is not None:
            least = 1 + bisect_left([*accumulate(it.fall for it in promises)], self._needed)
            if len(dive.moves) <= least:
                return self._proven(dive)
            most = len(dive.moves) - 1
            self._deadline -= self._seconds / 2
        found = self._beam([it.unit for it in promises], most) or dive
        return None if found is None else self._proven(found)

    def _beam(self, units: Sequence[Unit], most: int) -> _Partial | None:
        beam = [_Partial()]
        for moves in range(1, most + 1):
            found = {one.key: one for partial in beam for one in self._longer(partial, units)}
            beam = sorted(found.values(), key=lambda one: -one.fall)
            if beam:
                self.best = max(self.best, beam[0].fall)
                if self._enough(beam[0]):
                    return beam[0]
            if self.timed_out:
                self.all = False
                return None
            self.all = self.all and len(beam) <= BEAM
            beam, self.until = beam[:BEAM], moves
        return None

    def _dive(self, promises: Sequence[_Promise], most: int) -> _Partial | None:
        """Always the move that lets the measure fall most; None where this is not enough.

        What a move promises is looked at only when none promises more.
        """
        partial, best = _Partial(), dict[int, _Partial]()
        heap = [(-it.fall, index, -1) for index, it in enumerate(promises)]
        with ExitStack() as stack:
            while heap and not self._enough(partial) and not self.timed_out:
                fall, index, seen = heappop(heap)
                if len(partial.moves) == most or fall >= -_LITTLE:
                    break
                (pod,) = promises[index].unit.pods
                if seen == len(partial.moves):
                    partial = best[index]
                    self._make(stack, pod, partial.moves[-1][1])
                elif (longer := next(self._moves(partial, pod), None)) is not None:
                    best[index] = longer
                    heappush(heap, (partial.fall - longer.fall, index, len(partial.moves)))
        self.best = max(self.best, partial.fall)
        return partial if self._enough(partial) else None

    @property
    def _needed(self) -> float:
        return self._gain.needed - _LITTLE

    def _enough(self, partial: _Partial) -> bool:
        return partial.fall >= self._needed

    def _promises(self) -> list[_Promise]:
        """The greatest ones, by what Pods that are alike add on this node and on others."""
        pods: list[Pod] = []
        falls: list[float] = []
        by_shape: dict[int, Sequence[float]] = {}
        by_kind: dict[Hashable, Sequence[float]] = {}
        for row, here in enumerate(self._nodes.pods):
            for pod in tuple(here.values()):
                if self._gain.concerns(pod):
                    if pod.shape.id not in by_shape:
                        by_shape[pod.shape.id] = self._falls(pod, by_kind)
                    falls.append(by_shape[pod.shape.id][row])
                    pods.append(pod)
        promises: list[_Promise] = []
        for index in np.argsort(-np.array(falls), kind="stable").tolist():
            unit = self._movable.unit(pods[index])
            if unit is not None and unit.group is None:
                if len(promises) == UNITS:
                    self.all = False
                    break
                promises.append(_Promise(falls[index], unit))
        return promises

    def _falls(self, pod: Pod, by_kind: dict[Hashable, Sequence[float]]) -> Sequence[float]:
        """(n,) by how much the measure can fall if such a Pod leaves a row."""
        kind = self._gain.kind(pod), pod.shape.requests.id
        if kind not in by_kind:
            rows = self._nodes.exists & self._has_room(pod)
            with self._trials.without([pod]):
                added = self._gain.added(pod.off_node())
            by_kind[kind] = (added - added[rows].min(initial=added.max())).tolist()
        return by_kind[kind]

    def _has_room(self, pod: Pod) -> BoolArray:
        """(n,) where what the Pod requests is free."""
        nodes = self._nodes
        room: BoolArray = nodes.pod_count < nodes.allowed_pods
        for name, amount in pod_requests(pod).amounts.items():
            if amount:
                room &= nodes.requested(name) + amount <= nodes.allocatable(name)
        return room

    def _longer(self, partial: _Partial, units: Sequence[Unit]) -> Iterator[_Partial]:
        """The plan with each further move."""
        moved = {move.pod.uid for move, _ in partial.moves}
        with ExitStack() as stack:
            for move, row in partial.moves:
                self._make(stack, move.pod, row)
            for unit in units:
                (pod,) = unit.pods
                if pod.uid not in moved and not self.timed_out:
                    yield from self._moves(partial, pod)

    def _moves(self, partial: _Partial, pod: Pod) -> Iterator[_Partial]:
        others = [move.pod for move, _ in partial.moves]
        if not self._budgets.is_empty and self._budgets.violations([*others, pod]):
            return
        here, waiting = self._nodes.row(pod.node_name), pod.off_node()
        with self._trials.without([pod]):
            ranked = self._trials.ranked(waiting)
            added = self._gain.added(waiting)
        order = np.argsort(added[ranked], kind="stable").tolist() if ranked else []
        order = [index for index in order[: TARGETS + 1] if ranked[index] != here]
        self.all = self.all and len(order) <= TARGETS
        for index in order[:TARGETS]:
            row = ranked[index]
            fall = float(added[here] - added[row])
            name = self._nodes.names[row] or ""
            move = Move(pod, name, len(ranked), index + 1, len(partial.moves) + 1)
            yield _Partial(partial.fall + fall, (*partial.moves, (move, row)))

    def _make(self, stack: ExitStack, pod: Pod, row: int) -> bool:
        stack.enter_context(self._trials.without([pod]))
        return stack.enter_context(self._trials.placed(pod.off_node(), row))

    def _proven(self, partial: _Partial) -> Proven | None:
        """Make the moves once more; None if one does not stand."""
        with ExitStack() as stack:
            if not all(self._make(stack, move.pod, row) for move, row in partial.moves):
                return None
            after = measured(self._core)
        self.best = partial.fall
        placed: Mapping[str, str] = {}
        return Proven(tuple(move for move, _ in partial.moves), placed, after)
