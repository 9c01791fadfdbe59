"""Explain: for one pending Pod, the result of every plugin for every node.

It makes the scheduler's decision (`bayplan.decide`) and drops it, so nothing changes. The result is
plain data in the format of the conformance oracle. Empty keys are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Placement, Rejection
from bayplan.cache.node_table import IntArray
from bayplan.config.points import Point
from bayplan.decide.deciding import Decision, Detail, deciding
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.engine.search import Fit, PluginScores
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.interface import PostFilterResult
from bayplan.framework.points import ExplainsFilter, ExplainsScore
from bayplan.framework.status import SUCCESS, Code, Status
from bayplan.groups.placers import Placers
from bayplan.report.pods import cut_note, skip_note

Verdict = dict[str, Any]
_BEST_EXPLAINED = 5
"""Of so many nodes, Score plugins explain their figures."""


def explain(
    framework: Framework,
    placers: Placers,
    pod: Pod,
    *,
    details: bool = False,
    commits: bool = True,
) -> Verdict:
    """Why ``pod`` goes where it goes, or nowhere.

    With ``details``, what Filter plugins can say of the nodes that they reject, and Score plugins
    of the best nodes, for people. ``commits`` as of `deciding`.
    """
    verdict: Verdict = {"pod": pod.key}
    gate = gate_status(framework, pod)
    if gate is not None:
        verdict["preEnqueue"] = _outcome(gate)
        return verdict
    if pod.deleted is not None:
        verdict["message"] = skip_note(pod)
        return verdict
    with deciding(placers, framework, pod, detailed=True, commits=commits) as decision:
        pass
    rejection, diagnosis = decision.rejection, None
    if decision.placement is not None and decision.detail is not None:
        diagnosis = decision.detail.diagnosis
        _add_placement(verdict, decision.placement, decision.detail)
    elif rejection is not None and isinstance(rejection.fault, AttemptFault):
        diagnosis = _add_fault(verdict, framework, pod, rejection.fault)
    elif rejection is not None:
        diagnosis = rejection.diagnosis
        _add_rejection(verdict, rejection)
    if details and "nodes" in verdict and diagnosis is not None:
        verdict["details"] = filter_details(framework, diagnosis, pod)
        if decision.detail is not None and decision.detail.scores:
            verdict["details"] += _score_details(framework, decision.detail, pod)
    if decision.placement is not None:
        _add_commit(verdict, decision)
    return verdict


def filter_details(framework: Framework, diagnosis: Diagnosis, pod: Pod) -> list[str]:
    """What Filter plugins say of rejected nodes, for people."""
    rejected: dict[str, list[IntArray]] = {}
    for status, rows in diagnosis.groups():
        rejected.setdefault(status.plugin, []).append(rows)
    details: list[str] = []
    for plugin in framework.plugins.filter:
        if isinstance(plugin, ExplainsFilter) and plugin.name in rejected:
            rows = np.sort(np.concatenate(rejected[plugin.name]))
            with suppress(AttemptFault):  # it is logged
                details += framework.plugins.ask(
                    (list, tuple),
                    plugin,
                    Point.FILTER,
                    plugin.explain_filter,
                    diagnosis.state,
                    pod,
                    rows,
                )
    return details


def _score_details(framework: Framework, detail: Detail, pod: Pod) -> list[str]:
    totals = sum(part.scores for part in detail.scores or ())
    rows = (detail.scores or ())[0].rows[np.argsort(-totals, kind="stable")[:_BEST_EXPLAINED]]
    details: list[str] = []
    for plugin in framework.plugins.score:
        if isinstance(plugin, ExplainsScore):
            with suppress(AttemptFault):  # it is logged
                details += framework.plugins.ask(
                    (list, tuple),
                    plugin,
                    Point.SCORE,
                    plugin.explain_score,
                    detail.diagnosis.state,
                    pod,
                    rows,
                )
    return details


def gate_status(framework: Framework, pod: Pod) -> Status | None:
    """What the first PreEnqueue plugin that holds ``pod`` back says; None where none does."""
    for name, pre_enqueue in framework.lifecycle.gates():
        status = pre_enqueue(pod)
        if status is not None and not status.ok:
            return status.by(name)
    return None


def _outcome(status: Status) -> Verdict:
    outcome: Verdict = {"code": str(status.code)}
    if status.plugin:
        outcome["plugin"] = status.plugin
    if status.reasons:
        outcome["reasons"] = list(status.reasons)
    return outcome


def node_outcomes(diagnosis: Diagnosis) -> dict[str, Verdict]:
    """Every node's status; nodes with the same one share it."""
    fits = _outcome(SUCCESS)
    outcomes = {node.name: fits for node in diagnosis.nodes}
    for status, rows in diagnosis.groups():
        outcome = _outcome(status)
        for name in _names(diagnosis, rows):
            outcomes[name] = outcome
    return dict(sorted(outcomes.items()))


def _names(diagnosis: Diagnosis, rows: IntArray) -> list[str]:
    names = diagnosis.nodes.names
    return [name for row in rows.tolist() if (name := names[row]) is not None]


# No node fits


def _add_rejection(verdict: Verdict, rejection: Rejection) -> None:
    verdict["message"] = cut_note(rejection.message)
    diagnosis = rejection.diagnosis
    if diagnosis is None:
        return
    if diagnosis.pre_filter is not None:
        verdict["preFilter"] = _outcome(diagnosis.pre_filter)
    else:
        verdict["nodes"] = node_outcomes(diagnosis)
    if rejection.post_filter is not None:
        verdict["postFilter"] = _post_filter(rejection.post_filter)


def _post_filter(result: PostFilterResult) -> Verdict:
    outcome: Verdict = {}
    if result.status.message:
        outcome["message"] = result.status.message
    if result.nominated_node:
        outcome["nominatedNode"] = result.nominated_node
        outcome.update(eviction(result))
    return outcome


def eviction(result: PostFilterResult) -> Verdict:
    """The explanation of the answering PostFilter plugin: the Pods to be evicted."""
    return result.explain() if result.explain is not None else {}


def raised(fault: BaseException | None) -> Verdict:
    """``fault`` of a result: which plugin raised an exception, where one did.

    What kube-scheduler answers with an error status (a plugin was not prepared) is none.
    """
    if not isinstance(fault, AttemptFault) or isinstance(fault.cause, Status | MissingStateError):
        return {}
    where = {"plugin": fault.plugin, "node": fault.node}
    if fault.point is not None:
        where["point"] = fault.point.display
    return {"fault": {key: value for key, value in where.items() if value}}


def _add_fault(
    verdict: Verdict, framework: Framework, pod: Pod, fault: AttemptFault
) -> Diagnosis | None:
    verdict.update(raised(fault))
    details = diagnose_fault(framework, pod, fault)
    verdict["message"] = cut_note(details.message)
    if details.pre_filter is not None:
        verdict["preFilter"] = _outcome(details.pre_filter)
    elif details.diagnosis is not None:
        verdict["nodes"] = node_outcomes(details.diagnosis)
    return details.diagnosis


@dataclass(frozen=True)
class FaultDetails:
    """How far an attempt came that ended in a fault.

    Attributes:
        message: where several nodes have an error, that of the first by name; kube-scheduler
            reports whichever comes first.
        pre_filter: what PreFilter answered, where it went no further.
        diagnosis: the status of every node, where it came to Filter.
    """

    message: str
    pre_filter: Status | None = None
    diagnosis: Diagnosis | None = None


def diagnose_fault(framework: Framework, pod: Pod, fault: AttemptFault) -> FaultDetails:
    """Run PreFilter and Filter once more, and find out about every node."""
    message = str(fault)
    if fault.point is Point.PRE_FILTER:
        return FaultDetails(message, pre_filter=Status.error(message))
    state = CycleState(timed=False)
    try:
        diagnosis, rejection = framework.search.diagnose(state, pod, with_nominated=False)
    except AttemptFault:
        return FaultDetails(message)
    if rejection is not None:
        return FaultDetails(message, pre_filter=rejection)
    errors = {
        name: status.message
        for status, rows in diagnosis.groups()
        if status.code is Code.ERROR
        for name in _names(diagnosis, rows)
    }
    return FaultDetails(errors[min(errors)] if errors else message, diagnosis=diagnosis)


# A node was chosen


def _add_placement(verdict: Verdict, placement: Placement, detail: Detail) -> None:
    nodes = verdict["nodes"] = node_outcomes(detail.diagnosis)
    if placement.fit.nominated is not None:
        nodes[placement.node_name] = _outcome(SUCCESS)
        verdict["nominated"] = placement.node_name
    elif detail.scores is not None:
        _add_scores(verdict, placement.fit, detail.diagnosis, detail.scores)
    verdict["best"] = sorted(_names(detail.diagnosis, placement.best.rows))


def _add_scores(
    verdict: Verdict, fit: Fit, diagnosis: Diagnosis, parts: Sequence[PluginScores]
) -> None:
    names = diagnosis.nodes.names
    rows = np.flatnonzero(fit.feasible).tolist()
    scores: dict[str, dict[str, int]] = {names[row] or "": {} for row in rows}
    for part in parts:
        for row, score in zip(part.rows.tolist(), part.scores.tolist(), strict=True):
            scores[names[row] or ""][part.plugin] = score
    verdict["scores"] = dict(sorted(scores.items()))
    verdict["totals"] = {name: sum(parts.values()) for name, parts in verdict["scores"].items()}


def _add_commit(verdict: Verdict, decision: Decision) -> None:
    """What Reserve and Permit plugins say of the chosen node, where it is not just yes."""
    rejection = decision.rejection
    if rejection is not None:
        # Wherever the Pod was to go, it does not: neither to this node nor, now, to another one.
        for key in ("best", "nominated"):
            verdict.pop(key, None)
        verdict["message"] = cut_note(rejection.message)
        verdict.update(raised(rejection.fault))
        if rejection.point is not None and rejection.status is not None:
            verdict[rejection.point.value] = _outcome(rejection.status)
    elif decision.member is not None and (waits := decision.member.waits):
        verdict["permit"] = {"code": str(Code.WAIT), "seconds": dict(waits)}
