"""Selection: from a Pod to its node, or to the reason why there is none.

This is the scheduling cycle up to the choice of a node. `simulate` and `explain` run the same code,
with another source of objects and another tie-break.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import structlog

from bayplan.support import logs
from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.extenders import REJECTOR, NodeExtenders
from bayplan.engine.faults import AttemptFault
from bayplan.engine.row_answers import RowAnswers
from bayplan.engine.runtime import Framework
from bayplan.engine.sampling import NodeSampler
from bayplan.engine.search import Fit
from bayplan.engine.ties import Ties, highest
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Status
from bayplan.rejections.node_backoff import NodeBackoff

log = structlog.get_logger("selection")

NO_NODES = "no nodes available to schedule pods"
KEPT_OFF = (
    "all nodes that fit have just rejected a Pod of the same owner; they are tried again later"
)
TieBreak = Callable[[LiveNodeTable, Ties], int]
"""Picks one row among the best ones."""


def pick_at_random(_: LiveNodeTable, best: Ties) -> int:
    """Any of the best rows, all equally likely; what kube-scheduler does."""
    return best.row(random.randrange(best.count))


@dataclass
class Selection:
    """Where a Pod goes, or why nowhere.

    Attributes:
        node_name: the chosen node; "" where nothing fits.
        best: rows of all nodes as good as the chosen one; all of these can be listed until the
            next attempt, those of an attempt that is explained also later.
        fit: the feasible nodes.
        diagnosis: why nothing fits; None where something does.
        rejection: why, where there is no node at all to diagnose.
    """

    node_name: str = ""
    best: Ties | None = None
    fit: Fit | None = None
    diagnosis: Diagnosis | None = None
    rejection: Status | None = None


class NodeChooser:
    """Selects nodes. One per scheduler.

    Attributes:
        nodes: the table.
        sampler: with percentageOfNodesToScore, the nodes to look at.
    """

    def __init__(
        self,
        nodes: LiveNodeTable,
        extenders: NodeExtenders,
        backoff: NodeBackoff,
        tie_break: TieBreak = pick_at_random,
    ) -> None:
        self.nodes = nodes
        self._extenders = extenders
        self._backoff = backoff
        self._tie_break = tie_break
        self.sampler = NodeSampler(nodes)

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """The next sample of nodes begins after the ``with`` block where it would have before."""
        start = self.sampler.start
        try:
            yield
        finally:
            self.sampler.start = start

    @property
    def asks_extenders(self) -> bool:
        """Whether there are any extenders."""
        return bool(self._extenders)

    def pick(self, count: int) -> int:
        """Index of one of so many equally good choices, which are in the order of their names."""
        return random.randrange(count) if self._tie_break is pick_at_random else 0

    def by_rows_alone(self, framework: Framework, pod: Pod) -> RowAnswers | None:
        """See `NodeSearch`; None also where extenders, a sample or a backoff of nodes decide."""
        if self._extenders or self._backoff or framework.percentage < 100:
            return None
        return framework.search.by_rows_alone(pod)

    def select(self, framework: Framework, state: CycleState, pod: Pod) -> Selection:
        """Choose a node for ``pod``; fills in ``state``.

        Raises:
            AttemptFault: a plugin or extender broke or reported an error.
        """
        if self.nodes.node_count == 0:
            return Selection(rejection=Status.unresolvable(NO_NODES))
        fit = self._find(framework, state, pod)
        if fit.count == 0:
            assert fit.diagnosis is not None
            return Selection(fit=fit, diagnosis=fit.diagnosis)
        if self._backoff and not self._keep_off(pod, fit):
            return Selection(rejection=Status.unschedulable(KEPT_OFF))
        best = self._best(framework, state, pod, fit)
        row = best.row(0) if best.count == 1 else self._tie_break(self.nodes, best)
        if state.explained:
            best = Ties(best.rows, best.total)
        return Selection(self.nodes.names[row] or "", best, fit)

    def _find(self, framework: Framework, state: CycleState, pod: Pod) -> Fit:
        """The feasible nodes: only the nominated node if feasible, else all other nodes."""
        fit = framework.search.find(state, pod)
        if fit.nominated is not None:
            if self._agree(pod, fit):
                return fit
            fit = framework.search.find(state, pod, nominated_first=False)
        self._narrow(framework, state, pod, fit)
        return fit

    def _agree(self, pod: Pod, fit: Fit) -> bool:
        """Whether no extender objects to the nominated node; one that breaks does."""
        try:
            self._extenders.filter(pod, self.nodes, fit)
        except AttemptFault as exc:
            log.warning("Evaluation failed on nominated node", pod=pod.key, err=str(exc))
            return False
        return fit.count > 0

    def _narrow(self, framework: Framework, state: CycleState, pod: Pod, fit: Fit) -> None:
        """percentageOfNodesToScore, then extenders."""
        if framework.percentage < 100 and fit.count:
            fit.feasible, fit.evaluated = self.sampler.restrict(
                fit.feasible, framework.percentage, fit.among
            )
            fit.count = int(np.count_nonzero(fit.feasible))
        if self._extenders and fit.count:
            rejected = self._extenders.filter(pod, self.nodes, fit)
            if fit.count == 0:
                fit.diagnosis, _ = framework.search.diagnose(state, pod)
                for row, status in rejected.items():
                    fit.diagnosis.override(row, status)
                fit.diagnosis.unschedulable_plugins.add(REJECTOR)

    def _keep_off(self, pod: Pod, fit: Fit) -> bool:
        """Leave out nodes that have just rejected a Pod of the same owner; whether any is left."""
        fit.feasible = fit.feasible.copy()
        fit.feasible[self._backoff.rows(pod, self.nodes)] = False
        elsewhere = fit.feasible.copy()
        elsewhere[self._backoff.suspected_rows(pod, self.nodes)] = False
        if elsewhere.any():
            fit.feasible = elsewhere
        fit.count = int(np.count_nonzero(fit.feasible))
        return fit.count > 0

    def _best(self, framework: Framework, state: CycleState, pod: Pod, fit: Fit) -> Ties:
        """Rows with the highest total; a single feasible node is not scored."""
        if fit.count == 1:
            return Ties(np.flatnonzero(fit.feasible))
        search = framework.search
        if search.scores_anything and not self._extenders and not logs.enabled(10):
            return search.best(state, pod, fit)
        if search.scores_anything:
            totals = search.score(state, pod, fit)
        else:
            totals = np.where(fit.feasible, 0, -1)
        if self._extenders:
            totals = self._extenders.add_scores(pod, self.nodes, fit, totals)
        if logs.enabled(10):
            self._log_scores(framework, state, pod, fit, totals)
        return highest(totals)

    def _log_scores(
        self, framework: Framework, state: CycleState, pod: Pod, fit: Fit, totals: IntArray
    ) -> None:
        """One line a plugin and node, and one a node. Asks the plugins once more."""
        names = self.nodes.names
        parts = framework.search.score_parts(state, pod, fit)
        for part in parts:
            for row, score in zip(part.rows.tolist(), part.scores.tolist(), strict=True):
                text = "Plugin scored node for pod"
                log.info(text, v=10, pod=pod.key, plugin=part.plugin, node=names[row], score=score)
        for row in np.flatnonzero(fit.feasible).tolist():
            text = "Calculated node's final score for pod"
            log.info(text, v=10, pod=pod.key, node=names[row], score=int(totals[row]))
