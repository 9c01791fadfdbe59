"""NodeSearch: PreFilter and Filter, then PreScore, Score and NormalizeScore of one profile.

It joins the kept `RowAnswers` of row-local plugins with fresh answers of all others. Everything it
says about a node - feasible, why not, how good - comes out of the same arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.points import Point
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.diagnosis import Diagnosis
from bayplan.framework.faults import AttemptFault
from bayplan.framework.handle import InTreeHandle
from bayplan.framework.interface import MAX_NODE_SCORE, Integers, PreFilterResult
from bayplan.framework.plugin_set import PluginSet
from bayplan.framework.row_answers import AnswerBook, RowAnswers, masked
from bayplan.framework.row_answers.part import PreFilterAnswer
from bayplan.framework.stages import FilterStage, ScoreStage
from bayplan.framework.status import SKIP, SUCCESS, Code, Status

# Looking up a member of an enum takes 0.2 us (Python 3.11), ten times as long as a global.
_PRE_FILTER = Point.PRE_FILTER
_FILTER = Point.FILTER
_SCORE = Point.SCORE
_SKIP = Code.SKIP
_ERROR = Code.ERROR


@dataclass
class Fit:
    """Where a Pod can go.

    Attributes:
        feasible: (n,) bool. Read only.
        count: how many nodes are feasible.
        evaluated: how many nodes were looked at.
        nominated: the row of the nominated node, where the Pod is taken there unscored.
        among: (n,) bool, the nodes that PreFilter left; None where it left all.
        diagnosis: why not elsewhere; made only where nothing is feasible.
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


@dataclass
class _Allowed:
    """What PreFilter leaves: ``names`` (None: all nodes), or the status that rejects the Pod.

    Attributes:
        with_set: the plugins that narrowed ``names``.
        tried: the row of the nominated node and its status, where the Pod did not fit there; it
            counts even where ``names`` leaves that node out.
    """

    names: frozenset[str] | None = None
    status: Status | None = None
    with_set: set[str] = field(default_factory=set)
    tried: tuple[int, Status] | None = None

    @property
    def to_blame(self) -> set[str]:
        """The plugins that the reason of excluded nodes lists.

        kube-scheduler keeps them in one set with the plugin that rejected the nominated node.
        """
        if self.tried is None or not self.tried[1].rejected:
            return self.with_set
        return self.with_set | {self.tried[1].plugin}

    def take(self, plugin: str, answer: PreFilterAnswer) -> bool:
        """Merge one plugin's answer; False when the search for more is pointless."""
        if isinstance(answer, PreFilterResult):
            return self._narrow(plugin, answer.node_names)
        if answer is None or answer.ok or answer.code is _SKIP:
            return True
        if not answer.rejected or answer.code is Code.PENDING:
            raise AttemptFault(_PRE_FILTER, plugin, answer)
        self.status = answer.by(plugin)
        if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self.with_set = set()
            return False
        return True

    def _narrow(self, plugin: str, names: frozenset[str] | None) -> bool:
        if names is None:
            return True
        self.with_set.add(plugin)
        self.names = names if self.names is None else self.names & names
        if self.names:
            return True
        listed = " ".join(sorted(self.with_set))
        one = len(self.with_set) == 1
        self.status = Status.unresolvable(
            f"node(s) didn't satisfy plugin {listed}"
            if one
            else f"node(s) didn't satisfy plugin(s) [{listed}] simultaneously"
        )
        return False


class NodeSearch:
    """Finds and scores the nodes for a Pod.

    Methods raise `AttemptFault` when a plugin broke or reported an error.
    """

    def __init__(self, plugins: PluginSet, handle: InTreeHandle, pool: Executor | None) -> None:
        self._plugins = plugins
        self._nodes = handle.nodes
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
        self._pre_filters = [(p, p.name in plugins.local) for p in plugins.pre_filter]
        self._fresh_pre_scores = [p for p in plugins.pre_score if p.name not in plugins.local]
        self._unprepared = _unprepared(plugins)
        self._book = AnswerBook(plugins, self._filters, self._scores, self._nodes)
        self.what_if = handle.what_if
        self.what_if.adopt(plugins, self._filters)

    @property
    def scores_anything(self) -> bool:
        """Whether the profile has Score plugins."""
        return bool(self._scores)

    # PreFilter and Filter

    def find(self, state: CycleState, pod: Pod, *, nominated_first: bool = True) -> Fit:
        """The nodes that ``pod`` fits on; fills in ``state``.

        ``nominated_first``: where the Pod fits its nominated node, look no further.
        """
        started = perf_counter()
        for stage in self._one_node_filters:
            stage.begin()
        answers = self._book.answers(pod)
        allowed = self._pre_filter(state, pod, answers)
        self._plugins.time(state, _PRE_FILTER, started, str((allowed.status or SUCCESS).code))
        if allowed.status is not None:
            diagnosis = self._diagnosis(state, pod, allowed)
            return Fit(diagnosis.fits, 0, 0, diagnosis=diagnosis)
        started = perf_counter()
        nominated = self._nominated_row(state, pod, allowed) if nominated_first else None
        if nominated is not None:
            feasible = np.zeros(len(self._nodes), np.bool_)
            feasible[nominated] = True
            fit = Fit(feasible, 1, 1, nominated=nominated, answers=answers)
        else:
            fit = self._filter(state, pod, answers, allowed)
        self._plugins.time(state, _FILTER, started)
        return fit

    def _pre_filter(self, state: CycleState, pod: Pod, answers: RowAnswers) -> _Allowed:
        allowed = _Allowed()
        for plugin, local in self._pre_filters:
            answer = (
                answers.pre_filter[plugin.name]
                if local
                else self._plugins.ask_pre_filter(plugin, state, pod, self._nodes)
            )
            if answer is SKIP or answer is None:
                continue
            if not allowed.take(plugin.name, answer):
                # What the plugins after this one know is not known: PostFilter sees the difference.
                return allowed
        state.adopt(answers.state)
        return allowed

    def _filter(self, state: CycleState, pod: Pod, answers: RowAnswers, allowed: _Allowed) -> Fit:
        nodes = self._nodes
        feasible = answers.fits
        failed = answers.failed
        among = None if allowed.names is None else _rows_named(nodes, allowed.names)
        if among is not None:
            feasible = feasible & among
        for stage in self._fresh_filters:
            if stage.name not in state.skip_filter:
                codes = stage.codes(state, pod, nodes, feasible)
                failed = failed or bool(codes.min(initial=0) < 0)
                feasible = feasible & (codes == 0)
        taken = self._taken_by_nominated(state, pod)
        if taken:
            feasible = feasible.copy()
            feasible[list(taken)] = False
            failed = failed or any(status.code is _ERROR for status in taken.values())
        fit = Fit(feasible, int(np.count_nonzero(feasible)), nodes.node_count, among=among)
        fit.answers = answers
        if fit.count == 0 or failed:
            fit.diagnosis = self._diagnosis(state, pod, allowed, taken)
            fault = fit.diagnosis.fault()
            if fault is not None:
                raise fault
        return fit

    def diagnose(
        self, state: CycleState, pod: Pod, *, tried: bool = True
    ) -> tuple[Diagnosis, Status | None]:
        """Every node's status, for `explain`; with the PreFilter rejection if there is one.

        ``tried``: where PreFilter excludes the nominated node, tell what trying it came to.
        """
        answers = self._book.answers(pod)
        allowed = self._pre_filter(state, pod, answers)
        taken = {}
        if allowed.status is None:
            if tried:
                self._nominated_row(state, pod, allowed)
            taken = self._taken_by_nominated(state, pod)
        return self._diagnosis(state, pod, allowed, taken), allowed.status

    def _diagnosis(
        self,
        state: CycleState,
        pod: Pod,
        allowed: _Allowed,
        taken: Mapping[int, Status] | None = None,
    ) -> Diagnosis:
        diagnosis = Diagnosis(self._nodes, state, pod)
        diagnosis.unschedulable_plugins |= allowed.with_set
        if allowed.status is not None:
            diagnosis.reject_all(allowed.status)
            return diagnosis
        taken = dict(taken or {})
        if allowed.names is not None:
            listed = " ".join(sorted(allowed.to_blame))
            status = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}]")
            looked_at = _rows_named(self._nodes, allowed.names)
            diagnosis.exclude(~looked_at, status)
            taken = {row: status for row, status in taken.items() if looked_at[row]}
            if allowed.tried is not None:
                taken.setdefault(*allowed.tried)
        self.what_if.run_filters(state, pod, self._nodes, diagnosis)
        for row, status in taken.items():
            diagnosis.override(row, status)
        return diagnosis

    def _nominated_row(self, state: CycleState, pod: Pod, allowed: _Allowed) -> int | None:
        """The row of the Pod's nominated node, if the Pod fits there now."""
        name = pod.status.nominated_node_name
        row = self._nodes.row(name) if name else None
        if row is None:
            return None
        rows = np.array([row])
        diagnosis = self.what_if.filter(state.what_if(rows), pod, self._nodes.take(rows))
        if diagnosis.fits[0]:
            return row
        allowed.tried = row, diagnosis.status(0)
        return None

    def _taken_by_nominated(self, state: CycleState, pod: Pod) -> dict[int, Status]:
        """Rows that ``pod`` must leave to Pods nominated there, with the status that says so."""
        crowded = self.what_if.crowded(state, pod, self._nodes)
        if crowded is None:
            return {}
        rows, diagnosis = crowded
        groups = diagnosis.groups()
        return {row: status for status, found in groups for row in rows[found].tolist()}

    # PreScore, Score, NormalizeScore

    def score(self, state: CycleState, pod: Pod, fit: Fit) -> IntArray:
        """Total scores, ``(n,)``, -1 where not feasible. Read only."""
        started = perf_counter()
        answers = self._pre_score(state, pod, fit)
        feasible, fits = fit.feasible, answers.fits
        everywhere = feasible is fits or np.array_equal(feasible, fits)
        local = totals = answers.totals(None if everywhere else feasible)
        for stage, scores in self._fresh(state, pod, feasible):
            if scores is not None:
                totals = totals + stage.weight * scores.astype(self._total_type, copy=False)
        if totals is not local:
            totals = masked(feasible, totals)
        self._plugins.time(state, _SCORE, started)
        return totals

    def score_parts(self, state: CycleState, pod: Pod, fit: Fit) -> list[PluginScores]:
        """What `score` adds up, plugin by plugin, in the profile's order."""
        answers = self._pre_score(state, pod, fit)
        rows = np.flatnonzero(fit.feasible)
        parts = [
            PluginScores(
                s.name, rows, s.weight * answers.normalized(s, pod, self._nodes, fit.feasible)
            )
            for s in answers.scores
        ]
        for stage, scores in self._fresh(state, pod, fit.feasible):
            found = np.zeros(len(rows), np.int64) if scores is None else scores[rows]
            parts.append(PluginScores(stage.name, rows, stage.weight * found.astype(np.int64)))
        order = {s.name: i for i, s in enumerate(self._scores)}
        return sorted(parts, key=lambda part: order[part.plugin])

    def _pre_score(self, state: CycleState, pod: Pod, fit: Fit) -> RowAnswers:
        answers = fit.answers
        assert answers is not None, "score comes after find"
        fault = answers.score_fault
        for plugin in self._fresh_pre_scores:
            fault = fault or self._plugins.ask_pre_score(
                plugin, state, pod, self._nodes, fit.feasible
            )
        fault = fault or self._unprepared
        if fault is not None:
            raise fault.with_traceback(None)  # it may have been raised before
        return answers

    def _fresh(
        self, state: CycleState, pod: Pod, feasible: BoolArray
    ) -> Iterator[tuple[ScoreStage, Integers | None]]:
        """The plugins that are asked in every cycle; see `ScoreStage.scores`."""
        for stage in self._fresh_scores:
            if stage.name not in state.skip_score:
                yield stage, stage.scores(state, pod, self._nodes, feasible)


def _unprepared(plugins: PluginSet) -> AttemptFault | None:
    """The fault of the first Score plugin whose PreScore is off and cannot be done without."""
    prepared = {plugin.name for plugin in plugins.pre_score}
    for plugin in plugins.score:
        trust = plugins.trusted.get(plugin.name)
        if trust and trust.unprepared and plugin.name not in prepared:
            return AttemptFault(_SCORE, plugin.name, MissingStateError(trust.unprepared))
    return None


def _rows_named(nodes: NodeTable, names: frozenset[str]) -> BoolArray:
    mask = np.zeros(len(nodes), np.bool_)
    mask[[row for name in names if (row := nodes.row(name)) is not None]] = True
    return mask
