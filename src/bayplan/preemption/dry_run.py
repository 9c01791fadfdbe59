"""DryRun: the victims on a node, computed for many nodes at once.

Every candidate node is a row of a what-if table; rows are independent. First all Pods that the
policy permits to evict (of lower priority, for DefaultPreemption) are removed from all rows. Then,
in rounds, each row gets its next Pod back: first Pods that a group cannot do without, then Pods
whose budget would be violated, then the most important ones. The Filter plugins and the policy
evaluate all rows in one call. If the preemptor no longer fits on a row, the Pod is removed again
and is a victim. Without groups, the result for each row is that of kube-scheduler's
``SelectVictimsOnNode``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Status
from bayplan.framework.what_if import WhatIf
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.policy import VictimPolicy
from bayplan.preemption.ranking import Candidate, most_important_first

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")

Outcome = Candidate | Status
"""What evicting Pods of one node would lead to: room, or why not."""


@dataclass
class _World:
    """One row.

    Attributes:
        row: in the full table.
        evictable: the Pods that may go, the most important first.
        protected: uids of those whose budget would be violated.
        needed: by uid, the group of those that it cannot do without.
        victims: uids of those that have to go, as far as is known.
    """

    row: int
    evictable: list[Pod]
    protected: set[str]
    needed: Mapping[str, str]
    victims: set[str]

    def turns(self) -> list[Pod]:
        """The order in which Pods get their chance to stay."""

        def less_protected(pod: Pod) -> tuple[bool, bool]:
            return pod.uid not in self.needed, pod.uid not in self.protected

        return sorted(self.evictable, key=less_protected)

    def outcome(self, node_name: str) -> Outcome:
        """What is left when all have had their chance."""
        victims = tuple(pod for pod in self.evictable if pod.uid in self.victims)
        if not victims:
            return Status.error(f'expected at least one victim pod on node "{node_name}"')
        broken = {self.needed[uid] for uid in self.victims & self.needed.keys()}
        violations = len(self.victims & self.protected)
        return Candidate(self.row, node_name, victims, violations, len(broken))


class DryRun:
    """The dry run for one Pod in one cycle.

    Args:
        state: of the cycle; it is not changed.
        nodes: the full table; neither is it.
    """

    def __init__(
        self,
        what_if: WhatIf,
        budgets: Budgets,
        gangs: Gangs,
        policy: VictimPolicy,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
    ) -> None:
        self._what_if = what_if
        self._budgets = budgets
        self._gangs = gangs
        self._policy = policy
        self._pod = pod
        self._full = nodes
        self._cycle = state
        self._state = state
        self._table: NodeTable = nodes
        self._worlds: list[_World] = []

    def run(self, rows: IntArray) -> dict[int, Outcome]:
        """The outcome by row, for each of ``rows``.

        Raises:
            AttemptFault: a plugin broke.
        """
        outcomes: dict[int, Outcome] = dict.fromkeys(rows.tolist(), NO_VICTIMS)
        worlds = [self._world(row) for row in outcomes]
        self._worlds = [world for world in worlds if world.evictable]
        if not self._worlds:
            return outcomes
        rows = np.array([world.row for world in self._worlds])
        self._state, self._table = self._cycle.what_if(rows), self._full.take(rows)
        outcomes.update(self._evict_all())
        self._reprieve()
        for world in self._worlds:
            outcomes[world.row] = world.outcome(self._full.names[world.row] or "")
        return outcomes

    def _world(self, row: int) -> _World:
        on_node = self._full.pods[row].values()
        ordered = most_important_first(self._policy.evictable(self._cycle, self._pod, on_node))
        protected, needed = self._budgets.violations(ordered), self._gangs.needed(ordered)
        return _World(row, ordered, protected, needed, set())

    def _evict_all(self) -> dict[int, Outcome]:
        """Take all that may go away; go on with the rows where that helps, say why for the rest."""
        gone = [(index, pod) for index, world in enumerate(self._worlds) for pod in world.evictable]
        self._move(self._what_if.remove_pods, gone)
        diagnosis = self._what_if.filter(self._state, self._pod, self._table)
        fits = self._admitted(diagnosis.fits, beside_nominated=False)
        hopeless: dict[int, Outcome] = {}
        for index in np.flatnonzero(~fits).tolist():
            refused = bool(diagnosis.fits[index])
            status = self._policy.refusal if refused else diagnosis.status(index)
            hopeless[self._worlds[index].row] = status
        self._keep(fits)
        return hopeless

    def _admitted(self, fits: BoolArray, *, beside_nominated: bool) -> BoolArray:
        """Where the Pod fits and the policy admits it."""
        admits = self._policy.admits(self._state, beside_nominated=beside_nominated)
        return fits if admits is None else fits & admits

    def _keep(self, wanted: BoolArray) -> None:
        rows = np.flatnonzero(wanted)
        if len(rows) == len(self._worlds):
            return
        self._worlds = [self._worlds[index] for index in rows.tolist()]
        self._state, self._table = self._state.what_if(rows), self._table.take(rows)

    def _reprieve(self) -> None:
        rivals = self._what_if.rivals(self._pod, self._table)
        turns = [world.turns() for world in self._worlds]
        for turn in range(max(map(len, turns), default=0)):
            back = [(i, pods[turn]) for i, pods in enumerate(turns) if turn < len(pods)]
            self._move(self._what_if.add_pods, back)
            diagnosis = self._what_if.filter(self._state, self._pod, self._table, rivals)
            fits = self._admitted(diagnosis.fits, beside_nominated=True)
            gone = [(index, pod) for index, pod in back if not fits[index]]
            self._move(self._what_if.remove_pods, gone)
            for index, pod in gone:
                self._worlds[index].victims.add(pod.uid)

    def _move(self, move: Callable[..., None], pods: list[tuple[int, Pod]]) -> None:
        rows = [index for index, _ in pods]
        move(self._state, self._pod, [pod for _, pod in pods], self._table, rows)
