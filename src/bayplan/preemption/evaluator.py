"""Evaluator: whether preemption helps a Pod without a feasible node, and on which node.

It changes nothing: `Analysis` has the result, or the reason why there is none. A search stops at as
many candidates as kube-scheduler evaluates; offline, for simulate and explain, it evaluates all
nodes. Messages are kube-scheduler's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import structlog

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray
from bayplan.engine.extenders import ExtenderError
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle, NamedVictims, PreemptionExtender
from bayplan.framework.interface import FilterFailure, PostFilterResult
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.status import Code, Status
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.gangs import gangs_of
from bayplan.preemption.node_victims import NO_VICTIMS, VictimSearch
from bayplan.preemption.outcomes import OutcomeBook, Outcomes
from bayplan.preemption.ranking import Candidate, best, best_candidates
from bayplan.preemption.rule import YieldsOnNodes
from bayplan.support.collector import collector_paused

log = structlog.get_logger("preemption")

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_CANDIDATE = Status.unschedulable("no candidate node for preemption")


@dataclass(frozen=True)
class Analysis:
    """What preemption can do for a Pod.

    Attributes:
        result: what PostFilter answers.
        make_candidates: makes `candidates`, which only explanations need.
        tied: those between which no criterion decides, by node name; the first is taken.
        next_row: where the next search begins.
        outcomes: those of the dry runs, for the next search.
    """

    result: PostFilterResult
    make_candidates: Callable[[], tuple[Candidate, ...]] = tuple
    tied: tuple[Candidate, ...] = ()
    next_row: int = 0
    outcomes: Outcomes | None = None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every node that was found to do, in row order, after extenders had their say."""
        return self.make_candidates()

    @property
    def best(self) -> Candidate | None:
        """The node to make room on, and whom to evict; None where there is none."""
        return self.tied[0] if self.tied else None

    def explanation(self) -> dict[str, Any]:
        """Plain data: candidates by node, the victims on the best one, and the nodes tied with it.

        Empty where there is no room to be made.
        """
        if self.best is None:
            return {}
        by_name = sorted(self.candidates, key=lambda c: c.node_name)
        explanation: dict[str, Any] = {"candidates": {c.node_name: _plain(c) for c in by_name}}
        best = explanation["candidates"].get(self.best.node_name)
        if best is not None:
            explanation["victims"] = best["victims"]
        if len(self.tied) > 1:
            explanation["tied"] = [candidate.node_name for candidate in self.tied]
        return explanation


class _Failed(Exception):  # noqa: N818 - the outcome of an attempt, not a bug
    """The attempt ends with a status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class Evaluator:
    """Looks for room; one per profile.

    Args:
        rule: which Pods may be evicted.
        enough: how many candidates a search looks for among so many nodes.
    """

    def __init__(
        self, handle: InTreeHandle, rule: YieldsOnNodes, enough: Callable[[int], int]
    ) -> None:
        self._handle = handle
        self._rule = rule
        self._enough = enough
        self._nodes = handle.nodes
        self._budgets = handle.objects.shared(Budgets, handle.objects)
        self._gangs = gangs_of(handle)
        self._book = OutcomeBook(handle.what_if, self._nodes, self._budgets, self._gangs)
        self._next_row = 0

    def remember(self, pod: Pod, analysis: Analysis) -> None:
        """The next search goes on where this one ended, and need not repeat its dry runs.

        For the moment at which the decision is applied: what a question has found out is dropped,
        else it would change which candidates the next search chooses among.
        """
        self._next_row = analysis.next_row
        if analysis.outcomes is not None:
            self._book.keep(pod, analysis.outcomes)

    def analyse(self, state: CycleState, pod: Pod, failure: FilterFailure) -> Analysis:
        """What preemption can do for ``pod``, which ``failure`` says fits nowhere.

        Raises:
            AttemptFault: a plugin broke.
        """
        reason = self._not_eligible(state, pod, failure)
        if reason:
            return replace(_nothing(Status.unschedulable(reason)), next_row=self._next_row)
        self._gangs.refresh()
        rows, next_row = failure.candidates, self._next_row
        outcomes = self._outcomes(state, pod)
        if self._rule.has_victims(Preemptor.single(pod)):
            search = VictimSearch(self._handle, self._budgets, self._gangs, self._rule, state, pod)
            wanted = min(self._enough(len(rows)), len(rows))
            outcomes, next_row = self._try(search, outcomes, rows, wanted)
        else:
            outcomes = outcomes.copy()
            outcomes.record(dict.fromkeys(rows.tolist(), NO_VICTIMS))
        analysis = self._choice(pod, rows, outcomes)
        explain = analysis.explanation if analysis.best is not None else None
        result = replace(analysis.result, explain=explain)
        return replace(analysis, result=result, next_row=next_row, outcomes=outcomes)

    def _choice(self, pod: Pod, rows: IntArray, outcomes: Outcomes) -> Analysis:
        """The best of the candidates that the dry runs have found."""
        candidate_rows = rows[outcomes.possible[rows]]
        if not len(candidate_rows):
            return self._no_candidates(outcomes, rows)
        preemptors = self._handle.extenders.preemptors(pod)
        if preemptors:
            return self._ask(preemptors, pod, _candidates(outcomes, candidate_rows))
        now = self._handle.now()
        tied = _candidates(outcomes, candidate_rows[best(outcomes.ranks[candidate_rows], now)])
        return _room(partial(_candidates, outcomes, candidate_rows), tied)

    def _outcomes(self, state: CycleState, pod: Pod) -> Outcomes:
        """The valid outcomes of earlier dry runs."""
        local = self._rule.is_row_local(state, pod)
        if not local or self._handle.services.any_never_evicted:
            return Outcomes(len(self._nodes))
        return self._book.of(state, pod)

    # Eligibility

    def _not_eligible(self, state: CycleState, pod: Pod, failure: FilterFailure) -> str:
        """Why ``pod`` may not evict others, "" if it may."""
        if pod.spec.preemption_policy == "Never":
            return NEVER
        nominated = pod.status.nominated_node_name or self._handle.nominator.nominated_node(pod.uid)
        row = self._nodes.row(nominated) if nominated else None
        if row is None:
            return ""
        if failure.statuses.status(row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        on_node = self._nodes.pods[row].values()
        leaving = [p for p in on_node if p.deleted is not None]
        eviction = self._handle.evictions.eviction(pod.uid)
        own = eviction.victims.keys() if eviction is not None else ()
        awaited = any(p.uid in own or self._rule.is_awaited(state, pod, p) for p in leaving)
        return TERMINATING if awaited else ""

    # Dry runs

    def _try(
        self, search: VictimSearch, outcomes: Outcomes, rows: IntArray, wanted: int
    ) -> tuple[Outcomes, int]:
        """Dry runs on ``rows`` until there are enough candidates, one of which does no harm.

        None violates a budget then, nor takes what a group cannot do without.

        Each call begins where the last one ended, so that every node gets its turn. Returns the
        outcomes with the new ones, and the row where the next call begins.
        """
        next_row = self._next_row
        first = int(np.searchsorted(rows, next_row))
        rows = np.concatenate([rows[first:], rows[:first]])
        while (missing := _missing(outcomes, rows, wanted)) > 0:
            untried = rows[~outcomes.valid[rows]][:missing]
            if not len(untried):
                break
            outcomes = outcomes.copy()
            with collector_paused():
                outcomes.record(search.run(untried))
            next_row = int(untried[-1]) + 1
        return outcomes, next_row

    def _no_candidates(self, outcomes: Outcomes, rows: IntArray) -> Analysis:
        statuses = [s for row in rows.tolist() if isinstance(s := outcomes[row], Status)]
        errors = dict.fromkeys(s.message for s in statuses if s.code is Code.ERROR)
        if errors:
            text = next(iter(errors)) if len(errors) == 1 else f"[{', '.join(errors)}]"
            return _nothing(Status.error(text))
        counts = Counter(reason for status in statuses for reason in status.reasons)
        untouched = self._nodes.node_count - len(rows)
        if untouched:
            counts[NOT_HELPFUL] += untouched
        text = f"0/{self._nodes.node_count} nodes are available:"
        if counts:
            text += f" {', '.join(sorted(f'{n} {reason}' for reason, n in counts.items()))}."
        return Analysis(PostFilterResult(Status.unschedulable(f"preemption: {text}"), ""))

    # Extenders

    def _ask(
        self, extenders: Iterable[PreemptionExtender], pod: Pod, candidates: tuple[Candidate, ...]
    ) -> Analysis:
        """What is left of ``candidates`` when every extender has had its say."""
        by_node = {c.node_name: c for c in candidates}
        try:
            for extender in extenders:
                by_node = self._approved(extender, pod, by_node)
                if not by_node:
                    return _nothing(NO_CANDIDATE)
        except _Failed as failed:
            return _nothing(failed.status)
        left = tuple(sorted(by_node.values(), key=lambda c: c.row))
        return _room(lambda: left, tuple(best_candidates(left, self._handle.now())))

    def _approved(
        self, extender: PreemptionExtender, pod: Pod, by_node: dict[str, Candidate]
    ) -> dict[str, Candidate]:
        """The nodes accepted by ``extender``, with the victims of its answer."""
        proposed = {name: (list(c.victims), c.violations) for name, c in by_node.items()}
        ignorable = extender.ignorable
        try:
            answer = extender.preempt(pod, proposed)
            chosen = {name: self._named(extender, name, meta) for name, meta in answer.items()}
        except ExtenderError as error:
            if ignorable:
                log.warning("Skipping extender", extender=extender.name, error=str(error))
                return by_node
            raise _Failed(Status.error(str(error))) from error
        idle = [name for name, candidate in chosen.items() if not candidate.victims]
        if idle and not ignorable:
            text = f'expected at least one victim pod on node "{idle[0]}"'
            raise _Failed(Status.error(text))
        return {name: candidate for name, candidate in chosen.items() if candidate.victims}

    def _named(self, extender: PreemptionExtender, name: str, meta: NamedVictims) -> Candidate:
        row = self._nodes.row(name)
        if row is None:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        on_node = self._nodes.pods[row]
        victims = []
        for victim in meta.pods or ():
            if victim.uid not in on_node:
                raise ExtenderError(
                    f"extender: {extender.name} claims to preempt pod (UID: {victim.uid}) on node: "
                    f"{name}, but the pod is not found on that node"
                )
            victims.append(on_node[victim.uid])
        return Candidate(row, name, tuple(victims), meta.pdb_violations)


def _missing(outcomes: Outcomes, rows: IntArray, limit: int) -> int:
    """How many more candidates to look for."""
    candidate_rows = rows[outcomes.possible[rows]]
    harmless = bool((outcomes.ranks[candidate_rows, 0] == 0).any())
    missing = limit - len(candidate_rows)
    return missing if harmless or missing > 0 else limit


def _candidates(outcomes: Outcomes, rows: IntArray) -> tuple[Candidate, ...]:
    return tuple(c for row in rows.tolist() if isinstance(c := outcomes[row], Candidate))


def _plain(candidate: Candidate) -> dict[str, Any]:
    plain: dict[str, Any] = {"victims": sorted(pod.key for pod in candidate.victims)}
    if candidate.violations:
        plain["pdbViolations"] = candidate.violations
    return plain


def _room(
    make_candidates: Callable[[], tuple[Candidate, ...]], tied: tuple[Candidate, ...]
) -> Analysis:
    by_name = tuple(sorted(tied, key=lambda c: c.node_name))
    chosen = by_name[0]
    placement = f"found a potential placement for pod on node {chosen.node_name}"
    text = f"preemption: {placement}, preempting {len(chosen.victims)} victims"
    result = PostFilterResult(Status(reasons=(text,)), chosen.node_name)
    return Analysis(result, make_candidates, by_name)


def _nothing(status: Status) -> Analysis:
    """Nothing can be done; the Pod keeps its nomination."""
    text = f"preemption: {status.message}"
    return Analysis(PostFilterResult(Status(status.code, (text,))))
