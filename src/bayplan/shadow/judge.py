"""Judge: our decision about a Pod, made and dropped, beside that of the other scheduler.

The state is what the cache holds: the Pod is in the queue, not on its node. Scheduling thread only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.cache.node_table import IntArray
from bayplan.decide.deciding import Decision, deciding
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.runtime import Framework
from bayplan.engine.search import PluginScores
from bayplan.explain.explanation import eviction, gate_status
from bayplan.groups.placers import Placers
from bayplan.profiles import Profiles
from bayplan.shadow.verdict import Ours, Outcome, Scores, Theirs, Verdict, owner_of
from bayplan.world import World


class Judgement(NamedTuple):
    """A verdict, and what it depends on.

    Attributes:
        failed: whether a plugin of ours broke: there is nothing to compare.
        rows: the nodes where a Pod more or less might change the verdict; None for all.
    """

    verdict: Verdict
    failed: bool = False
    rows: frozenset[int] | None = None


class Judge:
    """See the module's docstring."""

    def __init__(self, world: World, profiles: Profiles, placers: Placers) -> None:
        self._world, self._profiles, self._placers = world, profiles, placers

    def judge(self, pod: Pod, theirs: Theirs, at: float, *, commits: bool = True) -> Judgement:
        """Compare their decision about ``pod``, which has no node yet, with ours.

        ``commits``: whether Reserve and Permit are asked; not of a Pod of a group.
        """
        framework = self._profiles[pod.spec.scheduler_name]
        gate = gate_status(framework, pod)
        if gate is not None:
            ours = Ours(message=gate.message)
            outcome = Outcome.PENDING_HERE if theirs.node else both_wait(theirs, ours)
            return Judgement(_verdict(pod, theirs, at, outcome, ours, plugin=gate.plugin))
        with deciding(self._placers, framework, pod, commits=commits) as decision:
            agreed = self._agreed(decision, theirs)
            if agreed is not None:
                return Judgement(_verdict(pod, theirs, at, *agreed))
            if decision.rejection is not None:
                return self._waits(pod, decision.rejection, theirs, at)
        assert decision.placement is not None
        best = decision.placement.best
        ours = Ours(self._first(best.rows), best.count)
        if not theirs.node:
            return Judgement(_verdict(pod, theirs, at, Outcome.PLACED_HERE, ours))
        if decision.placement.fit.nominated is not None:
            return Judgement(_verdict(pod, theirs, at, Outcome.NOMINATED, ours))
        row = self._world.cache.nodes.row(theirs.node)
        if row is not None and decision.placement.fit.feasible[row]:
            verdict = self._scored(framework, decision, theirs, ours, row, at)
        else:
            verdict = self._infeasible(framework, pod, theirs, ours, row, at)
        everywhere = framework.search.asked_others(decision.state)
        near = {-1 if row is None else row, *best.rows.tolist()}
        return Judgement(verdict, rows=None if everywhere else frozenset(near))

    def agrees(self, pod: Pod, theirs: Theirs) -> bool:
        """Whether both decide alike: what `judge` finds out, without the details."""
        framework = self._profiles[pod.spec.scheduler_name]
        with deciding(self._placers, framework, pod) as decision:
            if self._agreed(decision, theirs) is not None:
                return True
            if decision.rejection is None or theirs.node:
                return False
            return self._waits(pod, decision.rejection, theirs, 0.0).verdict.agreed

    def best(self, pod: Pod) -> frozenset[str]:
        """The best nodes for ``pod``, a Pod of a group; none where nothing fits."""
        framework, names = self._profiles[pod.spec.scheduler_name], self._world.cache.nodes.names
        with deciding(self._placers, framework, pod, commits=False) as decision:
            if decision.placement is None:
                return frozenset()
            return frozenset(names[row] or "" for row in decision.placement.best.rows.tolist())

    def _agreed(self, decision: Decision, theirs: Theirs) -> tuple[Outcome, Ours] | None:
        """The outcome if their node is one of our best; None if not."""
        if decision.placement is None or decision.rejection is not None:
            return None
        best = decision.placement.best
        row = self._world.cache.nodes.row(theirs.node) if theirs.node else None
        if row is None or row not in best.rows:
            return None
        outcome = Outcome.SAME if best.count == 1 else Outcome.EQUAL
        return outcome, Ours(theirs.node, best.count)

    # A node here

    def _scored(
        self,
        framework: Framework,
        decision: Decision,
        theirs: Theirs,
        ours: Ours,
        row: int,
        at: float,
    ) -> Verdict:
        """How much more our node scores, and by which plugins; the decision is given back."""
        mine, pod = self._world.cache.nodes.row(ours.node), decision.pod
        assert mine is not None
        assert decision.placement is not None
        rows, fit = np.array([mine, row]), decision.placement.fit
        parts = framework.search.score_parts(decision.state, pod, fit, rows)
        scores = _scores(parts, mine, row)
        gains = {plugin: here - there for plugin, (here, there) in scores.items()}
        most = max(gains, key=lambda name: gains[name], default="")
        outcome, more = Outcome.BETTER, sum(gains.values())
        return _verdict(pod, theirs, at, outcome, ours, plugin=most, difference=more, scores=scores)

    def _infeasible(
        self, framework: Framework, pod: Pod, theirs: Theirs, ours: Ours, row: int | None, at: float
    ) -> Verdict:
        """Which plugin rejects their node."""
        with deciding(self._placers, framework, pod, detailed=True, commits=False) as decision:
            detail = decision.detail
        plugin, reasons = _rejected(None if detail is None else detail.diagnosis, row)
        return _verdict(pod, theirs, at, Outcome.INFEASIBLE, ours, plugin=plugin, reasons=reasons)

    def _first(self, best: IntArray) -> str:
        names = self._world.cache.nodes.names
        return min(names[row] or "" for row in best.tolist())

    # No node here

    def _waits(self, pod: Pod, rejection: Rejection, theirs: Theirs, at: float) -> Judgement:
        result = rejection.post_filter
        shown = eviction(result) if result is not None and rejection.nominated else {}
        victims = frozenset(shown.get("victims", ()))
        ours = Ours(rejection.nominated or "", 0, rejection.message, victims)
        failed = rejection.reason is Reason.SCHEDULER_ERROR
        if theirs.node:
            row = self._world.cache.nodes.row(theirs.node)
            plugin, reasons = _rejected(rejection.diagnosis, row)
            if rejection.point is not None and rejection.status is not None:
                plugin, reasons = rejection.status.plugin, rejection.status.reasons
            outcome = Outcome.PENDING_HERE
            verdict = _verdict(pod, theirs, at, outcome, ours, plugin=plugin, reasons=reasons)
        elif theirs.nominated or ours.node:
            outcome = _evictions(theirs, ours, shown)
            verdict = _verdict(pod, theirs, at, outcome, ours)
        else:
            verdict = _verdict(pod, theirs, at, both_wait(theirs, ours), ours)
        return Judgement(verdict, failed)


def _verdict(
    pod: Pod,
    theirs: Theirs,
    at: float,
    outcome: Outcome,
    ours: Ours,
    *,
    plugin: str = "",
    difference: int = 0,
    scores: Scores | None = None,
    reasons: tuple[str, ...] = (),
) -> Verdict:
    owner = owner_of(pod)
    made = scores or {}
    return Verdict(
        pod.key, owner, at, outcome, theirs, ours, plugin, difference, made, tuple(reasons)
    )


def both_wait(theirs: Theirs, ours: Ours) -> Outcome:
    """The outcome where a Pod has no node there and here, and evicts nobody here."""
    if theirs.nominated:
        return Outcome.EVICTS_THERE
    return Outcome.SAME_MESSAGE if theirs.message == ours.message else Outcome.OTHER_MESSAGE


def _evictions(theirs: Theirs, ours: Ours, shown: dict[str, Any]) -> Outcome:
    if not ours.node:
        return Outcome.EVICTS_THERE
    if not theirs.nominated:
        return Outcome.EVICTS_HERE
    if theirs.nominated not in shown.get("tied", (ours.node,)):
        return Outcome.OTHER_EVICTIONS
    candidate = shown.get("candidates", {}).get(theirs.nominated, {})
    same = frozenset(candidate.get("victims", ())) == theirs.victims
    return Outcome.SAME_EVICTIONS if same else Outcome.OTHER_EVICTIONS


def _rejected(diagnosis: Diagnosis | None, row: int | None) -> tuple[str, tuple[str, ...]]:
    """Which plugin rejects the node, and for what."""
    if row is None:
        return "", ("the node is not there",)
    if diagnosis is None:
        return "", ()
    status = diagnosis.status(row)
    return status.plugin, tuple(status.reasons)


def _scores(parts: Iterable[PluginScores], here: int, there: int) -> Scores:
    """By plugin the scores of two rows, where they differ."""
    scores: Scores = {}
    for part in parts:
        ours, theirs = (int(part.scores[part.rows == row][0]) for row in (here, there))
        if ours != theirs:
            scores[part.plugin] = (ours, theirs)
    return scores
