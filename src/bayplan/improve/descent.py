"""Descent: the fewest moves after which a measure has fallen far enough, by beam search.

From the plans with n moves that let the measure fall most, all plans with one more move are made:
each Pod that may help is taken off its node, and put on those of the nodes that fit where it adds
least. All of it happens in a trial, move after move, each placed by the whole pipeline with the
later ones still in place; so a plan that is found is proven, too. A first move that makes it worse
may be part of a plan, as long as it is among the best so many.

Pods of groups stay: they would have to move together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import NamedTuple

from bayplan.api.pod import Pod
from bayplan.cache.node_price import FloatArray
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
        self._deadline = perf_counter() + seconds
        self.all = True
        self.until = -1
        self.best = 0.0

    @property
    def timed_out(self) -> bool:
        """Whether the time is over."""
        return perf_counter() > self._deadline

    def run(self, most: int) -> Proven | None:
        """The plan with the fewest moves, and of these the one with the greatest fall."""
        beam = [_Partial()]
        if self._enough(beam[0]):
            return self._proven(beam[0])
        units = self._units()
        self.until = 0
        for moves in range(1, most + 1):
            found = {one.key: one for partial in beam for one in self._longer(partial, units)}
            beam = sorted(found.values(), key=lambda one: -one.fall)
            if beam:
                self.best = max(self.best, beam[0].fall)
                if self._enough(beam[0]):
                    return self._proven(beam[0])
            if self.timed_out:
                self.all = False
                return None
            self.all = self.all and len(beam) <= BEAM
            beam, self.until = beam[:BEAM], moves
        return None

    def _enough(self, partial: _Partial) -> bool:
        return partial.fall >= self._gain.needed - _LITTLE

    def _units(self) -> list[Unit]:
        """The most promising ones, by what Pods of the shape add on this node and on others."""
        promises: list[tuple[float, Pod]] = []
        by_shape: dict[int, FloatArray] = {}
        for pod in tuple(self._core.world.cache.pods()):
            row = self._nodes.row(pod.node_name)
            if row is None or not self._gain.concerns(pod):
                continue
            if pod.shape.id not in by_shape:
                with self._trials.without([pod]):
                    by_shape[pod.shape.id] = self._gain.added(pod.off_node())
            added = by_shape[pod.shape.id]
            promises.append((float(added[row] - added[self._nodes.exists].min()), pod))
        promises.sort(key=lambda one: (-one[0], one[1].key))
        units: list[Unit] = []
        for _, pod in promises:
            unit = self._movable.unit(pod)
            if unit is not None and unit.group is None:
                if len(units) == UNITS:
                    self.all = False
                    break
                units.append(unit)
        return units

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
            added = self._gain.added(waiting) if ranked else None
        if added is None:
            return
        rows = sorted((row for row in ranked if row != here), key=lambda row: float(added[row]))
        self.all = self.all and len(rows) <= TARGETS
        for row in rows[:TARGETS]:
            fall = float(added[here] - added[row])
            name, rank = self._nodes.names[row] or "", ranked.index(row) + 1
            move = Move(pod, name, len(ranked), rank, len(partial.moves) + 1)
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
