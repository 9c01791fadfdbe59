"""Proof: a plan is carried out in a trial, move by move, and then the goal is asked for.

The search says who moves and where to. Here an order is found in which each unit, taken off its
node, fits at once on its target, with all units after it still where they are; in the end the goal
is decided about as the scheduler would. What does not stand is no plan. A group that wants to be in
one topology domain is decided about as one; where it goes is then what that decision says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import Group
from bayplan.decide.deciding import deciding
from bayplan.decide.group import deciding_group
from bayplan.improve.deciders import Deciders
from bayplan.improve.goals import Goal
from bayplan.improve.movable import Unit
from bayplan.improve.trials import Trials
from bayplan.measures import Measures, measures_of

ORDERS = 1024
"""Sets of moves that are still to be made, from which no order works, until a plan is given up."""


class Move(msgspec.Struct, frozen=True):
    """One Pod that is evicted and made again.

    Attributes:
        pod: as it runs.
        target: the name of its next node.
        fits: on how many nodes it fits when its turn comes.
        rank: the place of the target among them; 1 is the choice of the scheduler by itself.
        step: moves of one step are those of a group, which are made together.
    """

    pod: Pod
    target: str
    fits: int
    rank: int
    step: int


class Proven(msgspec.Struct, frozen=True):
    """A plan that stands.

    Attributes:
        moves: in their order.
        placed: by uid, where the Pods of the goal go.
        after: with all moves made, and the goal reached.
    """

    moves: tuple[Move, ...]
    placed: Mapping[str, str]
    after: Measures


class Prover:
    """Proves plans; see the module's docstring. Scheduling thread only.

    Attributes:
        proven: what was proven last.
        all: whether no plan was given up.
    """

    def __init__(self, core: Deciders, trials: Trials, goal: Goal) -> None:
        self._core, self._trials, self._goal = core, trials, goal
        self._nodes = core.world.cache.nodes
        self.proven: Proven | None = None
        self.all = True

    def prove(self, units: Sequence[Unit], targets: Mapping[str, str]) -> bool:
        """Whether moving ``units`` to ``targets`` can be done, and reaches the goal."""
        self.proven = None
        self._dead_ends: set[frozenset[str]] = set()
        self._next(list(units), targets, ())
        return self.proven is not None

    def _next(
        self, left: Sequence[Unit], targets: Mapping[str, str], made: tuple[Move, ...]
    ) -> bool:
        """Make the moves that are left, in any order; all is undone afterwards."""
        if not left:
            return self._finish(made)
        rest = frozenset(unit.key for unit in left)
        if rest in self._dead_ends:
            return False
        if len(self._dead_ends) == ORDERS:
            self.all = False
            return False
        for unit in left:
            others = [other for other in left if other is not unit]
            with ExitStack() as stack:
                moves = self._move(stack, unit, targets, made[-1].step + 1 if made else 1)
                if moves and self._next(others, targets, (*made, *moves)):
                    return True
        self._dead_ends.add(rest)
        return False

    def _move(
        self, stack: ExitStack, unit: Unit, targets: Mapping[str, str], step: int
    ) -> list[Move]:
        """The moves of a unit, made while the stack is open; none if it does not fit."""
        stack.enter_context(self._trials.without(unit.pods))
        if unit.group is None or not _has_topology(unit.group):
            moves = [self._move_pod(stack, pod, targets[pod.uid], step) for pod in unit.pods]
            return [] if None in moves else [move for move in moves if move is not None]
        waiting = [pod.off_node() for pod in unit.pods]
        chosen = stack.enter_context(self._group(unit, waiting))
        made = []
        for pod in unit.pods:
            row = self._nodes.row(chosen.get(pod.uid, ""))
            if row is None or row in self._goal.empty:
                return []
            made.append(Move(pod, chosen[pod.uid], 0, 1, step))
        return made

    def _move_pod(self, stack: ExitStack, pod: Pod, target: str, step: int) -> Move | None:
        waiting, row = pod.off_node(), self._nodes.row(target)
        rows = self._trials.ranked(waiting)
        if row not in rows or not stack.enter_context(self._trials.placed(waiting, row)):
            return None
        return Move(pod, target, len(rows), rows.index(row) + 1, step)

    @contextmanager
    def _group(self, unit: Unit, pods: Sequence[Pod]) -> Iterator[Mapping[str, str]]:
        """By uid, where the Pods of the unit's group go; nothing if it does not fit."""
        assert unit.group is not None
        framework = self._core.profiles[pods[0].spec.scheduler_name]
        with deciding_group(
            self._core.placers, framework, unit.group, pods, make_room=False
        ) as decision:
            placed = (one.member.pod for one in decision.placed if decision.fits)
            yield {pod.uid: pod.node_name for pod in placed}

    def _finish(self, made: tuple[Move, ...]) -> bool:
        with ExitStack() as stack:
            placed = self._reach(stack)
            if placed is None:
                return False
            self.proven = Proven(made, placed, measured(self._core))
        return True

    def _reach(self, stack: ExitStack) -> Mapping[str, str] | None:
        """Where the Pods of the goal go; None if they do not fit."""
        goal, core = self._goal, self._core
        if goal.group is not None:
            unit = Unit(goal.pods, goal.group)
            chosen = stack.enter_context(self._group(unit, goal.pods))
            return chosen if all(pod.uid in chosen for pod in goal.pods) else None
        for pod in goal.pods:
            if not self._trials.ranked(pod):
                return None
            framework = core.profiles[pod.spec.scheduler_name]
            decision = stack.enter_context(deciding(core.placers, framework, pod))
            if decision.member is None:
                return None
            return {pod.uid: decision.member.pod.node_name}
        return {}


def _has_topology(group: Group) -> bool:
    return any(part.topology for tree in group.tree() for part in tree.walk())


def measured(core: Deciders) -> Measures:
    """The measures of the cluster as it is at the moment, trials included."""
    return measures_of(core.world.cache.nodes, core.world.handlers.pods.values())
