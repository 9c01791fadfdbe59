"""Search: the fewest Pods to move, by iterative deepening.

Pods without a node are *in hand*: those of the goal, and those that have been taken off their node.
One after the other is placed: on a node that fits, the best one first; else, while moves are left,
on a node from which units are taken that are in the way, which are then in hand, too. When nobody
is in hand, every Pod has a target. That this is a plan is for `bayplan.improve.proof` to say; what
it refuses is not proposed again.

So with n moves allowed each set of n Pods is looked at of which every one is in the way of the goal
or of another one; first with 0 moves, then with 1, up to the most. Where there are many nodes, only
some are tried for each Pod, and the search ends after a time, so it may miss a plan; `Search.all`
says whether it has looked at everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from time import perf_counter

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray
from bayplan.cache.requests import pod_requests
from bayplan.engine.faults import AttemptFault
from bayplan.framework.status import Code
from bayplan.improve.deciders import Deciders
from bayplan.improve.goals import Goal
from bayplan.improve.movable import Movable, Unit
from bayplan.improve.trials import Trials
from bayplan.preemption.budgets import Budgets

TARGETS = 16
"""Nodes that are tried for one Pod in hand, where more than so many fit."""
NARROW = 2
"""The same for a Pod that is taken away while more than `TARGETS` nodes fit."""
SOURCES = 64
"""Nodes that are considered for taking Pods away, those first where least is lacking."""
SETS = 256
"""Sets of units that are tried on one node."""
SPARE = 2
"""How many more units than the requests need may be in the way by other plugins."""

Targets = Mapping[str, str]
"""By uid of a Pod, the name of its node."""


class Search:
    """See the module's docstring. Scheduling thread only.

    Attributes:
        all: whether nothing was left out so far.
        until: up to how many moves the search has ended.
    """

    def __init__(
        self, core: Deciders, movable: Movable, trials: Trials, goal: Goal, seconds: float
    ) -> None:
        self._nodes, self._movable = core.world.cache.nodes, movable
        self._trials, self._goal = trials, goal
        objects = core.world.cache.objects
        self._budgets = objects.shared(Budgets, objects)
        self._deadline = perf_counter() + seconds
        self.all = True
        self.until = -1
        self._allowed: frozenset[int] | None = None
        self._least: dict[int, int] = {}
        """By the id of a shape, how many units have to go at least for a Pod that fits nowhere."""
        self._units: dict[str, Unit] = {}
        self._targets: dict[str, str] = {}

    @property
    def timed_out(self) -> bool:
        """Whether the time is over."""
        return perf_counter() > self._deadline

    def run(self, most: int, prove: Callable[[Sequence[Unit], Targets], bool]) -> None:
        """Propose plans, those with the fewest moves first, until one is proven.

        Args:
            most: Pods to be moved, at most.
            prove: asked with nothing in trial.
        """
        first = self._first()
        least = sum(len(unit.pods) for unit in first)
        for moves in range(least, most + 1):
            for domain in self._domains():
                self._allowed, refused = domain, 0
                while (found := self._attempt(first, moves, refused)) is not None:
                    if prove(*found):
                        return
                    refused += 1
            if self.timed_out:
                self.all = False
                return
            self.until = moves

    def _first(self) -> list[Unit]:
        """What has to move in any case."""
        here = map(self._movable.on_row, sorted(self._goal.empty))
        return list({unit.key: unit for units in here for unit in units}.values())

    def _domains(self) -> Iterator[frozenset[int] | None]:
        """The rows where the Pods of the goal may be together; None for anywhere."""
        group = self._goal.group
        level = "" if group is None else group.required_level
        if not level:
            yield None
            return
        codes = self._nodes.domains(level)
        for code in np.unique(codes[codes >= 0]).tolist():
            yield frozenset(np.flatnonzero(codes == code).tolist())

    def _attempt(
        self, first: Sequence[Unit], moves: int, refused: int
    ) -> tuple[list[Unit], Targets] | None:
        """Who moves where, after ``refused`` other answers; None if there are no more."""
        self._units = {unit.key: unit for unit in first}
        self._targets, self._skip = {}, refused
        hand = [*self._goal.pods, *self._in_hand(first)]
        with self._trials.without(pod for unit in first for pod in unit.pods):
            found = self._place(hand, moves - sum(len(unit.pods) for unit in first))
        return (list(self._units.values()), dict(self._targets)) if found else None

    @staticmethod
    def _in_hand(units: Sequence[Unit]) -> list[Pod]:
        """Their Pods as they wait, the largest first."""
        pods = [pod.off_node() for unit in units for pod in unit.pods]
        return sorted(pods, key=lambda pod: sorted(pod_requests(pod).amounts.values())[::-1])[::-1]

    def _place(self, hand: Sequence[Pod], left: int) -> bool:
        if not hand:
            self._skip -= 1
            return self._skip < 0
        if self.timed_out:
            return False
        pod, *rest = hand
        rows = [row for row in self._trials.ranked(pod) if self._may_go(pod, row)]
        tried = self._tried(rows)
        for row in tried:
            with self._trials.placed(pod, row) as fits:
                if fits and self._place(rest, left):
                    self._targets[pod.uid] = self._nodes.names[row] or ""
                    return True
        if not left or (not rows and self._are_too_many(hand, left)):
            return False
        return self._displace(pod, rest, left, set(rows))

    def _tried(self, rows: Sequence[int]) -> Sequence[int]:
        if len(rows) <= TARGETS:
            return rows
        self.all = False
        return rows[:NARROW]

    def _may_go(self, pod: Pod, row: int) -> bool:
        if row in self._goal.empty:
            return False
        return self._allowed is None or row in self._allowed or pod not in self._goal.pods

    def _displace(self, pod: Pod, rest: Sequence[Pod], left: int, fitting: set[int]) -> bool:
        """Place the Pod where others are in the way, and then these."""
        for row, units in self._in_the_way(pod, left, fitting):
            if self.timed_out:
                return False
            taken = [other for unit in units for other in unit.pods]
            with self._trials.without(taken), self._trials.placed(pod, row) as fits:
                if not fits:
                    continue
                self._units |= {unit.key: unit for unit in units}
                if self._place([*rest, *self._in_hand(units)], left - len(taken)):
                    self._targets[pod.uid] = self._nodes.names[row] or ""
                    return True
                for unit in units:
                    del self._units[unit.key]
        return False

    def _in_the_way(
        self, pod: Pod, left: int, fitting: set[int]
    ) -> Iterator[tuple[int, tuple[Unit, ...]]]:
        """Nodes, and units there of ``left`` Pods at most; those with the fewest Pods first."""
        sources = self._sources(pod, fitting)
        for size in range(1, left + 1):
            for row, short, units in sources:
                yield from ((row, some) for some in self._sets(units, short, size, row))

    def _sources(self, pod: Pod, fitting: set[int]) -> list[tuple[int, dict[str, int], list[Unit]]]:
        """Rows, what the Pod lacks there, and the units that may be taken away."""
        try:
            rows = self._rejecting(pod)
        except AttemptFault:
            return []
        lacks = self._lacking(pod, rows)
        requests = pod_requests(pod).amounts
        lacking = sum(lack.clip(0) / requests.get(name, 1) for name, lack in lacks.items())
        sources = []
        for index in np.argsort(lacking, kind="stable").tolist():
            row = int(rows[index])
            if row in fitting or not self._may_go(pod, row):
                continue
            units = [u for u in self._movable.on_row(row) if u.key not in self._units]
            short = {name: int(lack[index]) for name, lack in lacks.items() if lack[index] > 0}
            node = self._names(row)
            if units and all(_freed(units, name, node) >= lack for name, lack in short.items()):
                sources.append((row, short, units))
                if len(sources) == SOURCES:
                    self.all = False
                    break
        return sources

    def _are_too_many(self, pods: Sequence[Pod], left: int) -> bool:
        """Whether the first of ``pods``, which fits nowhere, and others alike need more moves.

        Each needs moves of its own, but where one that was moved leaves room for two.
        """
        first, *rest = pods
        like = sum(pod.shape is first.shape for pod in rest)
        if not like:
            return not left
        shape = first.shape.id
        if shape not in self._least:
            self._least[shape] = self._fewest(first)
        too_many = left < (1 + like) * self._least[shape]
        self.all = self.all and not too_many
        return too_many

    def _fewest(self, pod: Pod) -> int:
        fewest = [
            _least(units, short, self._names(row))
            for row, short, units in self._sources(pod, set())
        ]
        return min(fewest, default=1)

    def _names(self, row: int) -> str:
        return self._nodes.names[row] or ""

    def _rejecting(self, pod: Pod) -> IntArray:
        """Rows of nodes that may fit once Pods are gone."""
        state, fit = self._trials.seek(pod)
        diagnosis = fit.diagnosis
        if diagnosis is None:
            diagnosis, _ = self._trials.search(pod).diagnose(state, pod, with_nominated=False)
        held = self._trials.held_by(pod)
        rows = [
            rows
            for status, rows in diagnosis.groups()
            if status.plugin in held or status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        ]
        return np.sort(np.concatenate(rows)) if rows else np.empty(0, np.int64)

    def _lacking(self, pod: Pod, rows: IntArray) -> dict[str, IntArray]:
        """(rows,) by resource, what is requested and not free."""
        nodes = self._nodes
        lacking = {
            name: amount - (nodes.allocatable(name)[rows] - nodes.requested(name)[rows])
            for name, amount in pod_requests(pod).amounts.items()
            if amount
        }
        return lacking | {"pods": 1 - (nodes.allowed_pods[rows] - nodes.pod_count[rows])}

    def _sets(
        self, units: Sequence[Unit], short: Mapping[str, int], size: int, row: int
    ) -> Iterator[tuple[Unit, ...]]:
        """Sets of units with ``size`` Pods together that free what is short."""
        name = self._names(row)
        freed = {id(u): {r: _freed([u], r, name) for r in short} for u in units}
        ordered = sorted(units, key=lambda unit: -sum(freed[id(unit)].values()))
        least = _least(units, short, name)
        looked = 0
        for number in range(least, min(size, least + SPARE) + 1):
            for some in combinations(ordered, number):
                looked += 1
                if looked > SETS:
                    self.all = False
                    return
                enough = all(sum(freed[id(u)][r] for u in some) >= short[r] for r in short)
                fitting = enough and sum(len(unit.pods) for unit in some) == size
                if fitting and not self._violates(some):
                    yield some

    def _violates(self, more: Sequence[Unit]) -> bool:
        """Whether a budget has no room for these moves and those before."""
        if self._budgets.is_empty:
            return False
        units = (*self._units.values(), *more)
        return bool(self._budgets.violations([pod for unit in units for pod in unit.pods]))


def _least(units: Sequence[Unit], short: Mapping[str, int], node: str) -> int:
    """How many units free enough of each resource at least."""
    return max(
        (_number([_freed([u], name, node) for u in units], lack) for name, lack in short.items()),
        default=1,
    )


def _number(amounts: Sequence[int], needed: int) -> int:
    """How many of the amounts make up what is needed at least."""
    total = 0
    for number, amount in enumerate(sorted(amounts, reverse=True), 1):
        total += amount
        if total >= needed:
            return number
    return len(amounts) + 1


def _freed(units: Sequence[Unit], resource: str, node: str) -> int:
    """What these units use of a resource on a node."""
    pods = (pod for unit in units for pod in unit.pods if pod.node_name == node)
    if resource == "pods":
        return sum(1 for _ in pods)
    return sum(pod_requests(pod).amounts.get(resource, 0) for pod in pods)
