"""NodeSearch: PreFilter and Filter, then PreScore, Score and NormalizeScore of one profile.

It joins the kept `RowAnswers` of row-local plugins with fresh answers of all others. Everything it
says about a node - feasible, why not, how good - comes out of the same arrays.

A Pod's way through `find`, in the order of kube-scheduler's ``schedulePod``:

1. The kept answers of the row-local plugins are brought up to date: ``answers.fits``.
2. PreFilter. A row-local plugin's answer is kept, the others are asked if the Pod concerns them.
   The `PreFilterOutcome` may reject the Pod everywhere, or leave some nodes.
3. If the Pod has a nominated node, that one is evaluated alone, and taken if the Pod fits.
4. Filter: ``feasible`` begins as the kept fits among the nodes that are left, and every other
   Filter plugin removes from it.
5. Nodes with nominated Pods of equal or higher priority: the Pod must fit beside them as well. The
   rows where it does not are ``reserved``.
6. If nothing is feasible, all Filter plugins run once more into a `Diagnosis`, which remembers the
   first plugin that rejected each node. The kept answers know only that some plugin did. To
   explain (``state.explained``) they run into a `Diagnosis` at once, in place of steps 4 and 5.

An example with three nodes: the Pod requests 1 CPU and must be apart from Pods like itself::

                                           row 0  row 1  row 2
    answers.fits    kept (resources)         1      1      0
    feasible        & InterPodAffinity       1      0      0     asked in every cycle
    feasible        & not reserved           0      0      0     a nominated Pod needs row 0
    diagnosis       row 0: Insufficient cpu (beside the nominated Pod), row 1: didn't match pod
                    anti-affinity rules, row 2: Insufficient cpu

`score` then adds the fresh scores of the plugins that are not row-local to ``answers.totals()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable
from bayplan.config.points import Point
from bayplan.engine.capacity import CapacityCache
from bayplan.engine.diagnosis import NOT_LOOKED_AT, Diagnosis, SingleMisses
from bayplan.engine.faults import AttemptFault
from bayplan.engine.pre_filter import PreFilterOutcome
from bayplan.engine.profile_plugins import ProfilePlugins
from bayplan.engine.row_answers import AnswerCache, RowAnswers, masked
from bayplan.engine.stages import FilterStage, ScoreStage, has_error
from bayplan.engine.ties import Ties, highest
from bayplan.engine.what_if import WhatIf
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.interface import MAX_NODE_SCORE, Integers
from bayplan.framework.status import SKIP, SUCCESS, Code, Status

# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_PRE_FILTER = Point.PRE_FILTER
_FILTER = Point.FILTER
_SCORE = Point.SCORE
_ERROR = Code.ERROR

Reserved = list[tuple[Status, IntArray]]
"""Rows that a Pod must leave to nominated Pods, by the status of these rows."""


@dataclass
class Fit:
    """Where a Pod can go.

    Attributes:
        feasible: (n,) bool. Read only.
        count: how many nodes are feasible.
        evaluated: how many nodes were looked at.
        nominated: the row of the nominated node, where the Pod is taken there unscored.
        among: (n,) bool, the nodes that PreFilter left; None where it left all.
        diagnosis: why not elsewhere; made only where nothing is feasible, or to explain.
        answers: what the row-local plugins said.
    """

    feasible: BoolArray
    count: int
    evaluated: int
    nominated: int | None = None
    among: BoolArray | None = None
    diagnosis: Diagnosis | None = None
    answers: RowAnswers | None = None


@dataclass
class PluginScores:
    """One Score plugin's weighted, normalized scores: ``scores[i]`` is that of ``rows[i]``."""

    plugin: str
    rows: IntArray
    scores: IntArray


class NodeSearch:
    """Finds and scores the nodes for a Pod.

    Methods raise `AttemptFault` when a plugin broke or reported an error.

    Attributes:
        capacity: at most how many Pods of one kind fit.
        what_if: what if Pods were on a node, or gone from it?
    """

    def __init__(
        self, plugins: ProfilePlugins, nodes: LiveNodeTable, what_if: WhatIf, pool: Executor | None
    ) -> None:
        self._plugins = plugins
        self._nodes = nodes
        call, weights = plugins.call, plugins.weights
        self._filters = [FilterStage(p, call, pool) for p in plugins.filter]
        self._total_type = np.min_scalar_type(-1 - MAX_NODE_SCORE * sum(weights.values()))
        self._scores = [
            ScoreStage(p, weights[p.name], call, pool, trusted=p.name in plugins.trusted)
            for p in plugins.score
        ]
        self._one_node_filters = [f for f in self._filters if f.one_node]
        self._fresh_filters = [f for f in self._filters if f.name not in plugins.local]
        self._fresh_scores = [s for s in self._scores if s.name not in plugins.local]
        self._fresh_pre_scores = [p for p in plugins.pre_score if p.name not in plugins.local]
        self._unprepared = _unprepared(plugins)
        self._book = AnswerCache(plugins, self._filters, self._scores, self._nodes)
        self.capacity = CapacityCache(plugins, self._filters, self._book, self._nodes)
        self.what_if = what_if
        self.what_if.adopt(plugins, self._filters)

    @property
    def scores_anything(self) -> bool:
        """Whether the profile has Score plugins."""
        return bool(self._scores)

    # Who decides

    def by_rows_alone(self, pod: Pod) -> RowAnswers | None:
        """The kept answers for ``pod``, if at present nothing else decides about it.

        What comes of it on some nodes is then a matter of these nodes and of the Pod's shape. The
        others are asked whether they skip it; what a plugin of a user answers elsewhere may depend
        on anything.
        """
        plugins, nodes = self._plugins, self._nodes
        answers = self._book.answers(pod)
        unconcerned = answers.state.unconcerned
        pre_filters = [p for p in plugins.pre_filter if p.name not in answers.pre_filter]
        pre_scores = [p for p in self._fresh_pre_scores if p.name not in unconcerned]
        if (
            self.what_if.anybody_nominated
            or any(p.name not in unconcerned for p in plugins.reserve)
            or any(p.name not in plugins.trusted for p in (*pre_filters, *pre_scores))
        ):
            return None
        state = CycleState(timed=False)
        state.adopt(answers.state)
        for pre_filter in pre_filters:
            plugins.ask_pre_filter(pre_filter, state, pod, nodes)
        for pre_score in pre_scores:
            plugins.ask_pre_score(pre_score, state, pod, nodes, answers.fits)
        return None if self.asked_others(state) else answers

    def kept_and_fresh(self, pod: Pod) -> tuple[RowAnswers, RowAnswers]:
        """The kept answers for ``pod``, and those of somebody who has kept nothing: a check."""
        fresh = AnswerCache(self._plugins, self._filters, self._scores, self._nodes)
        return self._book.answers(pod, once=True), fresh.answers(pod)

    def asked_others(self, state: CycleState, *, scored: bool = True) -> bool:
        """Whether more than kept answers had a say about the Pod of ``state``.

        Args:
            state: after the attempt.
            scored: whether nodes were scored.
        """
        local, skipped = self._plugins.local, state.skip_filter
        unscored = state.skip_score | state.unconcerned
        deciding = [p.name for p in self._plugins.pre_filter if p.name not in local]
        deciding += [stage.name for stage in self._fresh_filters]
        scoring = [stage.name for stage in self._fresh_scores] if scored else []
        return not (skipped.issuperset(deciding) and unscored.issuperset(scoring))

    # PreFilter and Filter

    def find(self, state: CycleState, pod: Pod, *, nominated_first: bool = True) -> Fit:
        """The nodes that ``pod`` fits on; fills in ``state``.

        ``nominated_first``: if the Pod fits its nominated node, evaluate no other.
        """
        started, nodes = perf_counter(), self._nodes
        for stage in self._one_node_filters:
            stage.begin()
        answers = self._book.answers(pod, once=not state.explained)
        outcome = self._pre_filter(state, pod, answers)
        self._plugins.time(state, _PRE_FILTER, started, str((outcome.status or SUCCESS).code))
        if outcome.status is not None:
            diagnosis = self._diagnosis(state, pod, outcome, [])
            return Fit(diagnosis.fits, 0, 0, diagnosis=diagnosis)
        started = perf_counter()
        if nominated_first and (row := self._nominated_row(state, pod, outcome)) is not None:
            feasible = np.zeros(len(nodes), np.bool_)
            feasible[row] = True
            self._plugins.time(state, _FILTER, started)
            return Fit(feasible, 1, 1, nominated=row, answers=answers)
        among = outcome.mask(nodes)
        if state.explained and (whole := self._explained(state, pod, outcome)) is not None:
            feasible = whole.fits.copy()
            count = int(np.count_nonzero(feasible))
            return Fit(feasible, count, nodes.node_count, None, among, whole, answers)
        feasible = answers.fits if among is None else answers.fits & among
        failed = answers.failed
        for stage in self._fresh_filters:
            if stage.name not in state.skip_filter:
                codes = stage.codes(state, pod, nodes, feasible)
                failed = failed or has_error(codes)
                feasible = feasible & (codes == 0)
        reserved = self._reserved(state, pod)
        if reserved:
            feasible = feasible.copy()
            feasible[np.concatenate([rows for _, rows in reserved])] = False
            failed = failed or any(status.code is _ERROR for status, _ in reserved)
        all_fit = feasible is answers.fits
        count = answers.count if all_fit else int(np.count_nonzero(feasible))
        fit = Fit(feasible, count, nodes.node_count, among=among, answers=answers)
        if count == 0 or failed:
            fit.diagnosis = self._diagnosis(state, pod, outcome, reserved)
            if (fault := fit.diagnosis.fault()) is not None:
                raise fault
        self._plugins.time(state, _FILTER, started)
        return fit

    def diagnose(
        self, state: CycleState, pod: Pod, *, with_nominated: bool = True
    ) -> tuple[Diagnosis, Status | None]:
        """Every node's status, for `explain`; with the PreFilter rejection if there is one.

        ``with_nominated``: if PreFilter excludes the nominated node, its status is what evaluating
        it gave.
        """
        outcome = self._pre_filter(state, pod, self._book.answers(pod))
        reserved: Reserved = []
        if outcome.status is None:
            if with_nominated:
                self._nominated_row(state, pod, outcome)
            reserved = self._reserved(state, pod)
        return self._diagnosis(state, pod, outcome, reserved), outcome.status

    def misses(self, diagnosis: Diagnosis, pod: Pod) -> list[tuple[Status, IntArray]]:
        """By status, the rows that one Filter plugin alone rejects."""
        alone = SingleMisses(diagnosis, pod)
        self.what_if.run_filters(diagnosis.state, pod, self._nodes, alone)
        return alone.groups()

    def fitting_without(self, diagnosis: Diagnosis, pod: Pod, without: frozenset[str]) -> IntArray:
        """Rows rejected by no Filter plugin, or only by plugins called ``without``."""
        state, fits = diagnosis.state, diagnosis.nodes.exists & diagnosis.filtered
        for stage in self._filters:
            if stage.name not in without and stage.name not in state.skip_filter:
                fits = fits & (stage.codes(state, pod, self._nodes, fits) == 0)
        return np.flatnonzero(fits)

    def _explained(
        self, state: CycleState, pod: Pod, outcome: PreFilterOutcome
    ) -> Diagnosis | None:
        """Every node's status; None where it would not decide alone.

        That is where the nominated node was evaluated first, and where a plugin fails for a node:
        the search does not ask about nodes that another plugin rejects.
        """
        if outcome.nominated is not None:
            return None
        try:
            diagnosis = self._diagnosis(state, pod, outcome, self._reserved(state, pod))
        except AttemptFault:
            return None
        return diagnosis if diagnosis.fault() is None else None

    def _pre_filter(self, state: CycleState, pod: Pod, answers: RowAnswers) -> PreFilterOutcome:
        outcome = PreFilterOutcome(domain=state.domain)
        kept = answers.pre_filter
        for index, plugin in enumerate(self._plugins.pre_filter):
            name = plugin.name
            if name in kept:
                answer = kept[name]
            else:
                answer = self._plugins.ask_pre_filter(plugin, state, pod, self._nodes)
            if answer is SKIP or answer is None:
                continue
            if not outcome.merge(name, answer):
                # The plugins after this one write no state: PostFilter sees the difference.
                before = {p.name for p in self._plugins.pre_filter[:index]}
                state.skip_filter |= before & answers.state.unconcerned
                return outcome
        state.adopt(answers.state)
        return outcome

    def _nominated_row(self, state: CycleState, pod: Pod, outcome: PreFilterOutcome) -> int | None:
        """The row of the Pod's nominated node, if the Pod fits there; else ``outcome`` says why."""
        name = pod.status.nominated_node_name
        row = self._nodes.row(name) if name else None
        if row is None or (outcome.domain is not None and not outcome.domain[row]):
            return None
        rows = np.array([row])
        diagnosis = self.what_if.filter(state.what_if(rows), pod, self._nodes.take(rows))
        if diagnosis.fits[0]:
            return row
        outcome.nominated = row, diagnosis.status(0)
        return None

    def _reserved(self, state: CycleState, pod: Pod) -> Reserved:
        beside_nominees = self.what_if.with_nominees(state, pod, self._nodes)
        if beside_nominees is None:
            return []
        rows, diagnosis = beside_nominees
        return [(status, rows[rejected]) for status, rejected in diagnosis.groups()]

    def _diagnosis(
        self, state: CycleState, pod: Pod, outcome: PreFilterOutcome, reserved: Reserved
    ) -> Diagnosis:
        diagnosis = Diagnosis(self._nodes, state, pod)
        diagnosis.unschedulable_plugins |= outcome.narrowed_by
        if outcome.status is not None:
            diagnosis.reject_all(outcome.status)
            return diagnosis
        among = outcome.mask(self._nodes)
        if among is not None:
            if outcome.names is not None:
                diagnosis.exclude(~among, outcome.excluding)
            if outcome.domain is not None:
                diagnosis.exclude(~outcome.domain, state.outside or NOT_LOOKED_AT)
            reserved = [(status, rows[among[rows]]) for status, rows in reserved]
            if outcome.nominated is not None:
                row, status = outcome.nominated
                if not any(row in rows for _, rows in reserved):
                    reserved.append((status, np.array([row])))
        self.what_if.run_filters(state, pod, self._nodes, diagnosis)
        for status, rows in reserved:
            if len(rows):
                diagnosis.override(rows, status)
        return diagnosis

    # PreScore, Score, NormalizeScore

    def score(self, state: CycleState, pod: Pod, fit: Fit) -> IntArray:
        """Total scores, ``(n,)``, -1 where not feasible. Read only."""
        answers, totals = self._scored(state, pod, fit)
        return answers.totals() if totals is None else totals

    def best(self, state: CycleState, pod: Pod, fit: Fit) -> Ties:
        """The rows with the highest total score; valid until the next attempt."""
        answers, totals = self._scored(state, pod, fit)
        return answers.best() if totals is None else highest(totals)

    def _scored(self, state: CycleState, pod: Pod, fit: Fit) -> tuple[RowAnswers, IntArray | None]:
        """The kept answers, and total scores; None where these are the kept ones."""
        started = perf_counter()
        answers, feasible = self._pre_score(state, pod, fit), fit.feasible
        # Feasible nodes are some of those that fit.
        everywhere = feasible is answers.fits or fit.count == answers.count
        totals = local = None if everywhere else answers.totals(feasible)
        where = answers.where if feasible is answers.fits else None
        for stage, scores in self._fresh(state, pod, feasible, where):
            if scores is not None:
                before = answers.totals() if totals is None else totals
                totals = before + stage.weight * scores.astype(self._total_type, copy=False)
        if totals is not None and totals is not local:
            totals = masked(feasible, totals)
        self._plugins.time(state, _SCORE, started)
        return answers, totals

    def score_parts(
        self, state: CycleState, pod: Pod, fit: Fit, rows: IntArray | None = None
    ) -> list[PluginScores]:
        """What `score` adds up, plugin by plugin, in the profile's order.

        Args:
            state: after `find`.
            pod: the Pod.
            fit: what `find` returned, on the tables as they were then.
            rows: the feasible nodes to score; None for all.
        """
        answers, feasible = self._pre_score(state, pod, fit), fit.feasible
        rows = np.flatnonzero(feasible) if rows is None else rows
        parts = [
            PluginScores(
                s.name, rows, s.weight * answers.normalized(s, pod, self._nodes, feasible, rows)
            )
            for s in answers.scores
        ]
        for stage, scores in self._fresh(state, pod, fit.feasible):
            picked = np.zeros(len(rows), np.int64) if scores is None else scores[rows]
            parts.append(PluginScores(stage.name, rows, stage.weight * picked.astype(np.int64)))
        order = {s.name: i for i, s in enumerate(self._scores)}
        return sorted(parts, key=lambda part: order[part.plugin])

    def _pre_score(self, state: CycleState, pod: Pod, fit: Fit) -> RowAnswers:
        answers = fit.answers
        assert answers is not None, "score comes after find"
        fault = answers.score_fault
        for plugin in self._fresh_pre_scores:
            if plugin.name not in state.unconcerned:
                fault = fault or self._plugins.ask_pre_score(
                    plugin, state, pod, self._nodes, fit.feasible
                )
        fault = fault or self._unprepared
        if fault is not None:
            raise fault.with_traceback(None)  # it may have been raised before
        return answers

    def _fresh(
        self, state: CycleState, pod: Pod, feasible: BoolArray, where: int | None = None
    ) -> Iterator[tuple[ScoreStage, Integers | None]]:
        """The plugins that are asked in every cycle; see `ScoreStage.scores`."""
        for stage in self._fresh_scores:
            if stage.name in state.unconcerned:
                yield stage, None
            elif stage.name not in state.skip_score:
                yield stage, stage.scores(state, pod, self._nodes, feasible, where)


def _unprepared(plugins: ProfilePlugins) -> AttemptFault | None:
    """The fault of the first Score plugin whose PreScore is off and cannot be done without."""
    prepared = {plugin.name for plugin in plugins.pre_score}
    for plugin in plugins.score:
        trust = plugins.trusted.get(plugin.name)
        if trust and trust.unprepared and plugin.name not in prepared:
            return AttemptFault(_SCORE, plugin.name, MissingStateError(trust.unprepared))
    return None
