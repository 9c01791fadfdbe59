"""Outcomes: cached results of dry runs, by row, for Pods of the same shape.

The outcome for a row depends on the Pod's shape, the Pods of the row, the budgets and the Pods
nominated to the row, if all Filter plugins that do not skip the Pod are row-local. Then it is valid
until one of these changes, and a thousand Pods of one template need one dry run per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable
from bayplan.cache.shape_cache import ShapeCache
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import AsksWhatIf
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.node_victims import Outcome
from bayplan.preemption.ranking import Candidate

SHAPES_KEPT = 16
"""Shapes whose outcomes are kept; at 5,000 nodes one takes some 2 MB."""

Nominees = Mapping[int, tuple[str, ...]]
"""Row -> uids of the nominated Pods that count there."""


class Outcomes:
    """Outcomes by row.

    Attributes:
        valid: (n,) rows with an outcome.
        possible: (n,) rows where it is a candidate.
        ranks: (n, 5), the candidates' ranks.
    """

    def __init__(self, n: int) -> None:
        self.valid: BoolArray = np.zeros(n, np.bool_)
        self.possible: BoolArray = np.zeros(n, np.bool_)
        self.ranks: IntArray = np.zeros((n, 5), np.int64)
        self._by_row: dict[int, Outcome] = {}

    def copy(self) -> Outcomes:
        """The same outcomes, to record more."""
        copy = Outcomes(0)
        copy.valid, copy.possible = self.valid.copy(), self.possible.copy()
        copy.ranks, copy._by_row = self.ranks.copy(), self._by_row.copy()
        return copy

    def record(self, outcomes: Mapping[int, Outcome]) -> None:
        """Store the results of a dry run."""
        self._by_row.update(outcomes)
        self.valid[list(outcomes)] = True
        candidates = [c for c in outcomes.values() if isinstance(c, Candidate)]
        if candidates:
            rows = [c.row for c in candidates]
            self.possible[rows] = True
            self.ranks[rows] = [c.rank for c in candidates]

    def forget(self, rows: Iterable[int]) -> None:
        """Invalidate these rows."""
        moved = list(rows)
        self.valid[moved] = False
        self.possible[moved] = False

    def __getitem__(self, row: int) -> Outcome:
        """The outcome of a row that is in `valid`."""
        return self._by_row[row]


class _Kept:
    """The outcomes for one shape, and the versions of their inputs."""

    def __init__(self, nodes: LiveNodeTable, version: tuple[int, ...]) -> None:
        self.outcomes = Outcomes(len(nodes))
        self.version = version
        self._nominees: Nominees = {}
        self._journals = nodes.node_journal, nodes.pod_journal, nodes.start_journal
        self._positions = [journal.position for journal in self._journals]

    def refresh(self, nominees: Nominees) -> bool:
        """Invalidate rows that changed; False if a journal no longer has all changes."""
        for index, journal in enumerate(self._journals):
            moved = journal.since(self._positions[index])
            if moved is None:
                return False
            self._positions[index] = journal.position
            self.outcomes.forget(moved)
        old, self._nominees = self._nominees, nominees
        self.outcomes.forget(
            r for r in old.keys() | nominees.keys() if old.get(r) != nominees.get(r)
        )
        return True


class OutcomeBook:
    """The outcomes of one profile."""

    def __init__(
        self, what_if: AsksWhatIf, nodes: LiveNodeTable, budgets: Budgets, gangs: Gangs
    ) -> None:
        self._nodes = nodes
        self._budgets = budgets
        self._gangs = gangs
        self._what_if = what_if
        self._kept = ShapeCache[_Kept](SHAPES_KEPT, lambda _: None)

    def of(self, state: CycleState, pod: Pod) -> Outcomes:
        """The valid outcomes for ``pod``."""
        if not self._what_if.is_local(state):
            return Outcomes(len(self._nodes))
        version = (
            len(self._nodes),
            self._budgets.version,
            self._gangs.version,
            *self._what_if.epochs(pod),
        )
        nominees = self._nominees(pod)
        kept = self._kept.get(pod.shape)
        if kept is None or kept.version != version or not kept.refresh(nominees):
            kept = _Kept(self._nodes, version)
            kept.refresh(nominees)
            self._kept.put(pod.shape, kept)
        return kept.outcomes

    def keep(self, pod: Pod, outcomes: Outcomes) -> None:
        """Cache ``outcomes``, a superset of what `of` has returned for ``pod``.

        Nothing that outcomes depend on may have changed since.
        """
        kept = self._kept.get(pod.shape)
        if kept is not None:
            kept.outcomes = outcomes

    def _nominees(self, pod: Pod) -> Nominees:
        nominees = self._what_if.nominees(pod, self._nodes)
        return {row: tuple(p.uid for p in pods) for row, pods in nominees.items()}
