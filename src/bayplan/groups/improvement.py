"""Improvement: Pods of a plan move and change places as long as the whole becomes cheaper.

Pods that are placed one after the other do not know where later ones will be. So once a group is
placed, and before it is committed, each Pod is taken off its node and put where it costs least now,
and pairs of Pods change places, until nothing helps. Every try is an ordinary attempt, so Filter
plugins have the last word.

What a plan costs is said by a `bayplan.framework.services.GroupObjective`. Left as they are: groups
with slices, groups of which a Pod requires to be near others (it would not see them go), and all
that is left to try after so many attempts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.counters import shape_terms
from bayplan.cache.node_table import BoolArray, LiveNodeTable
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import sub_group_of
from bayplan.framework.services import GroupObjective
from bayplan.groups.decision import Placed
from bayplan.groups.domains import Domain
from bayplan.groups.fill import Fill

MOST_ATTEMPTS = 500
"""About 50 ms."""
MOST_LEVELS = 4
"""A Pod tries so many costs below its own, from the lowest."""
_LITTLE = 1e-9


class Improvement:
    """The improvement of one plan, in place.

    Args:
        objective: says what Pods cost.
        fill: has placed the Pods.
        nodes: the live table.
        group: what was asked for.
        pods: of the group.
        domains: by part, the domain to which the part is limited, if there is one.
    """

    def __init__(
        self,
        objective: GroupObjective,
        fill: Fill,
        nodes: LiveNodeTable,
        group: Group,
        pods: Sequence[Pod],
        domains: Mapping[str, Domain],
    ) -> None:
        self._objective, self._fill, self._nodes = objective, fill, nodes
        self._group, self._domains = group, domains
        self._pods = {pod.uid: pod for pod in pods}
        self._end = fill.attempts + MOST_ATTEMPTS

    @property
    def may_help(self) -> bool:
        """Whether Pods of the group may move at all."""
        parts = self._group.walk()
        sliced = any(part.topology is not None and part.topology.slices for part in parts)
        pods = self._pods.values()
        return not sliced and not any(pod.shape.memo(shape_terms).affinity for pod in pods)

    def run(self) -> bool:
        """Whether all Pods have a node still; where not, the plan is to be made anew."""
        helps = True
        while helps and self._fill.attempts < self._end:
            helps = False
            for change in (self._moves, self._swaps):
                for outcome in change():
                    if outcome is None:
                        return False
                    helps |= outcome
                if helps:
                    break
        return True

    def _moves(self) -> Iterator[bool | None]:
        """Move each Pod once: True if it helped, None if a Pod has no node any more."""
        for uid in self._pods:
            if self._fill.attempts >= self._end:
                return
            placed = self._placed(uid)
            if placed is not None:
                yield self._move(placed)

    def _move(self, placed: Placed) -> bool | None:
        pod, row = self._pods[placed.member.pod.uid], self._row(placed)
        self._fill.give_back(placed)
        costs = np.where(self._rows(pod), self._objective.costs(pod), np.inf)
        cheaper = costs[costs < costs[row] - _LITTLE]
        for level in np.unique(cheaper)[:MOST_LEVELS].tolist():
            if self._place(pod, costs == level):
                return True
        return False if self._put_back(placed) else None

    def _swaps(self) -> Iterator[bool | None]:
        """Let pairs change places, up to the first one that this helps."""
        for pair in combinations(self._pods, 2):
            one, other = map(self._placed, pair)
            if one is None or other is None:
                continue
            if self._fill.attempts >= self._end:
                return
            outcome = self._swap(one, other)
            yield outcome
            if outcome is not False:
                return

    def _swap(self, one: Placed, other: Placed) -> bool | None:
        first, second = (self._pods[each.member.pod.uid] for each in (one, other))
        a, b = self._row(one), self._row(other)
        alike = first.shape is second.shape and first.annotations == second.annotations
        if a == b or alike or not (self._rows(first)[b] and self._rows(second)[a]):
            return False
        self._fill.give_back(one)
        self._fill.give_back(other)
        # What both cost together, such as their traffic, is the same before and after.
        costs, others = self._objective.costs(first), self._objective.costs(second)
        if costs[b] + others[a] < costs[a] + others[b] - _LITTLE and self._place(
            first, self._only(b)
        ):
            if self._place(second, self._only(a)):
                return True
            self._fill.give_back(self._fill.placed[-1])
        return False if self._put_back(one) and self._put_back(other) else None

    def _put_back(self, placed: Placed) -> bool:
        """Take the node again, by the notes of the attempt; all else is as before."""
        pod = self._pods[placed.member.pod.uid]
        return self._fill.take(pod, placed.member.state, placed.placement) is None

    def _place(self, pod: Pod, rows: BoolArray) -> bool:
        return self._fill.place(pod, rows) is None

    def _placed(self, uid: str) -> Placed | None:
        return next((p for p in self._fill.placed if p.member.pod.uid == uid), None)

    def _row(self, placed: Placed) -> int:
        row = self._nodes.row(placed.member.pod.node_name)
        assert row is not None, "a Pod of a plan is on a node"
        return row

    def _rows(self, pod: Pod) -> BoolArray:
        for part in reversed(self._group.path(sub_group_of(pod.shape))):
            domain = self._domains.get(part.name)
            if domain is not None and domain.rows is not None:
                return domain.rows
        return self._nodes.exists

    def _only(self, row: int) -> BoolArray:
        rows = np.zeros(len(self._nodes), np.bool_)
        rows[row] = True
        return rows
