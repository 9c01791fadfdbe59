"""VictimSearch: the victims on a node, computed for many nodes at once.

Every candidate node is a row of a what-if table; rows are independent. First all Pods that the
rule permits to evict (of lower priority, for DefaultPreemption) are removed from all rows. Then,
in rounds, each row gets its next Pod back: first Pods that a group cannot do without, then Pods
whose budget would be violated, then the most important ones, at last those whose eviction is
decided already. The Filter plugins and the rule evaluate all rows in one call. If the preemptor
no longer fits on a row, the Pod is removed again and is a victim. A PodGroup of Kubernetes whose
disruption mode is "all" is one victim: its Pods on the row come back together or not at all, and
its Pods on other nodes leave with them. Without groups of the label, the result for each row is
that of kube-scheduler's ``SelectVictimsOnNode``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, WhatIfTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.status import Status
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.ranking import Candidate, by_importance
from bayplan.preemption.rule import YieldsOnNodes

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")

Victim = tuple[Pod, ...]
"""Pods that stay or go together, at least one of them on the node."""

Outcome = Candidate | Status
"""What evicting Pods of one node would lead to: room, or why not."""


@dataclass
class _World:
    """One row.

    Attributes:
        row: in the full table.
        node_name: of the row.
        evictable: who may go, the most important first.
        protected: uids of the Pods whose budget would be violated.
        needed: by uid, the group of those that it cannot do without.
        victims: those of `evictable` that have to go, as far as is known.
        leaving: uids of the Pods whose eviction is decided already, of all rows.
    """

    row: int
    node_name: str
    evictable: list[Victim]
    protected: set[str]
    needed: Mapping[str, str]
    victims: set[Victim]
    leaving: frozenset[str]

    def turns(self) -> list[Victim]:
        """The order in which Pods get their chance to stay."""
        if not (self.needed or self.protected or self.leaving):
            return self.evictable

        def less_protected(victim: Victim) -> tuple[bool, bool, bool]:
            uids = {pod.uid for pod in victim}
            needed, protected = (
                not uids.isdisjoint(self.needed),
                not uids.isdisjoint(self.protected),
            )
            return uids <= self.leaving, not needed, not protected

        return sorted(self.evictable, key=less_protected)

    def outcome(self) -> Outcome:
        """What is left when all have had their chance."""
        chosen = [victim for victim in self.evictable if victim in self.victims]
        victims = tuple(chain.from_iterable(chosen))
        if not victims:
            return Status.error(f'expected at least one victim pod on node "{self.node_name}"')
        if not (self.needed or self.protected or self.leaving):
            return Candidate(self.row, self.node_name, victims, 0)
        uids = {pod.uid for pod in victims}
        broken = {self.needed[uid] for uid in uids & self.needed.keys()}
        violations, leaving = len((uids & self.protected) - self.leaving), uids & self.leaving
        return Candidate(
            self.row, self.node_name, victims, violations, len(broken), frozenset(leaving)
        )


class VictimSearch:
    """The dry run for one Pod in one cycle; neither its state nor the node table is changed."""

    def __init__(
        self,
        handle: InTreeHandle,
        budgets: Budgets,
        gangs: Gangs,
        rule: YieldsOnNodes,
        state: CycleState,
        pod: Pod,
    ) -> None:
        self._what_if = handle.what_if
        self._budgets = budgets
        self._gangs = gangs
        self._rule = rule
        self._services, self._evictions = handle.services, handle.evictions
        self._pod = pod
        self._full = handle.nodes
        self._cycle = state
        self._state = state
        self._table: WhatIfTable
        self._worlds: list[_World] = []

    def run(self, rows: IntArray) -> dict[int, Outcome]:
        """The outcome by row, for each of ``rows``.

        Raises:
            AttemptFault: a plugin broke.
        """
        outcomes: dict[int, Outcome] = dict.fromkeys(rows.tolist(), NO_VICTIMS)
        pods = self._full.pods
        evictable = {row: self._evictable(pods[row].values()) for row in outcomes}
        going = chain.from_iterable(chain.from_iterable(evictable.values()))
        leaving = self._evictions.leaving(going)
        self._worlds = [self._world(row, v, leaving) for row, v in evictable.items() if v]
        if not self._worlds:
            return outcomes
        rows = np.array([world.row for world in self._worlds])
        self._state, self._table = self._cycle.what_if(rows), self._full.take(rows)
        outcomes.update(self._evict_all())
        self._reprieve()
        for world in self._worlds:
            outcomes[world.row] = world.outcome()
        return outcomes

    def _world(self, row: int, evictable: list[Victim], leaving: frozenset[str]) -> _World:
        ordered = by_importance(evictable, leaving, self._gangs.rank)
        pods = [pod for victim in ordered for pod in victim]
        protected, needed = self._budgets.violations(pods), self._gangs.needed(pods)
        node_name = self._full.names[row] or ""
        return _World(row, node_name, ordered, protected, needed, set(), leaving)

    def _evictable(self, on_node: Iterable[Pod]) -> list[Victim]:
        """Who may go of the Pods of a node, a group of mode "all" as a whole."""
        alone = self._may_go(on_node)
        if not self._gangs.any_of_kubernetes:
            return [(pod,) for pod in alone]
        evictable: dict[str, Victim] = {}
        for pod in alone:
            group = self._gangs.whole(pod)
            if group is None:
                evictable[pod.uid] = (pod,)
            elif group.uid not in evictable:
                members = self._gangs.members(group)
                may_go = self._may_go(members)
                evictable[group.uid] = members if len(may_go) == len(members) else ()
        return [victim for victim in evictable.values() if victim]

    def _may_go(self, pods: Iterable[Pod]) -> list[Pod]:
        may_go = self._rule.evictable(self._cycle, self._pod, pods)
        if not self._services.any_never_evicted:
            return may_go
        return [pod for pod in may_go if not self._services.is_never_evicted(pod)]

    def _evict_all(self) -> dict[int, Outcome]:
        """Remove all evictable Pods; go on with rows where the Pod fits then, say why elsewhere."""
        gone = [
            (index, victim)
            for index, world in enumerate(self._worlds)
            for victim in world.evictable
        ]
        self._move(gone, back=False)
        diagnosis = self._what_if.filter(self._state, self._pod, self._table)
        fits = self._admitted(diagnosis.fits, beside_nominated=False)
        hopeless: dict[int, Outcome] = {}
        for index in np.flatnonzero(~fits).tolist():
            refused = bool(diagnosis.fits[index])
            status = self._rule.refusal if refused else diagnosis.status(index)
            hopeless[self._worlds[index].row] = status
        self._keep(fits)
        return hopeless

    def _admitted(self, fits: BoolArray, *, beside_nominated: bool) -> BoolArray:
        """Where the Pod fits and the rule admits it."""
        admits = self._rule.admits(self._state, beside_nominated=beside_nominated)
        return fits if admits is None else fits & admits

    def _keep(self, wanted: BoolArray) -> None:
        rows = np.flatnonzero(wanted)
        if len(rows) == len(self._worlds):
            return
        self._worlds = [self._worlds[index] for index in rows.tolist()]
        self._state, self._table = self._state.what_if(rows), self._table.take(rows)

    def _reprieve(self) -> None:
        nominees = self._what_if.nominees(self._pod, self._table)
        turns = [world.turns() for world in self._worlds]
        for turn in range(max(map(len, turns), default=0)):
            back = [(i, pods[turn]) for i, pods in enumerate(turns) if turn < len(pods)]
            self._move(back, back=True)
            diagnosis = self._what_if.filter(self._state, self._pod, self._table, nominees)
            fits = self._admitted(diagnosis.fits, beside_nominated=True)
            gone = [(index, victim) for index, victim in back if not fits[index]]
            self._move(gone, back=False)
            for index, victim in gone:
                self._worlds[index].victims.add(victim)

    def _move(self, victims: list[tuple[int, Victim]], *, back: bool) -> None:
        """Add or remove the Pods of the victims, each in the world of its row."""
        here = [(index, pod) for index, victim in victims for pod in victim]
        elsewhere: list[tuple[int, Pod]] = []
        if len(here) > len(victims):  # a Pod that goes alone is on the row
            names = [world.node_name for world in self._worlds]
            elsewhere = [(index, pod) for index, pod in here if pod.node_name != names[index]]
            here = [(index, pod) for index, pod in here if pod.node_name == names[index]]
        state, table, what_if = self._state, self._table, self._what_if
        move = what_if.add_pods if back else what_if.remove_pods
        move(state, self._pod, [pod for _, pod in here], table, [index for index, _ in here])
        if elsewhere:
            pods, rows = [pod for _, pod in elsewhere], [index for index, _ in elsewhere]
            what_if.move_elsewhere(state, self._pod, pods, table, rows, back=back)
