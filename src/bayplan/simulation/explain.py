"""Explain: for each pending Pod, what every plugin says about every node, on the cluster as given.

The result is plain data in the form that the conformance oracle prints, too. Keys that have nothing
to say are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayplan.api.pod import Pod
from bayplan.app.assembly import Core
from bayplan.attempt.selection import Selection
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.diagnosis import Diagnosis
from bayplan.framework.interface import FilterFailure, PostFilterResult
from bayplan.framework.search import Fit
from bayplan.framework.status import SUCCESS, Status
from bayplan.plugins.default_preemption import DefaultPreemption
from bayplan.preemption.ranking import Candidate
from bayplan.simulation.attempt import Attempt, attempt

Verdict = dict[str, Any]


def explain(core: Core, pod: Pod) -> Verdict:
    """Why ``pod`` goes where it goes, or nowhere."""
    tried = attempt(core, pod)
    verdict: Verdict = {"pod": pod.key}
    if tried.gate is not None:
        verdict["preEnqueue"] = _outcome(tried.gate)
        return verdict
    if tried.message:
        verdict["message"] = tried.note
    selection = tried.selection
    if tried.pre_filter is not None:
        verdict["preFilter"] = _outcome(tried.pre_filter)
    elif tried.fault is not None:
        verdict["nodes"] = _node_outcomes(tried.fault)
    elif selection is not None and selection.node_name:
        _tell_placement(verdict, tried, selection)
    elif selection is not None and selection.diagnosis is not None:
        _tell_misfit(verdict, tried, selection.diagnosis)
    return verdict


def _outcome(status: Status) -> Verdict:
    told: Verdict = {"code": str(status.code)}
    if status.plugin:
        told["plugin"] = status.plugin
    if status.reasons:
        told["reasons"] = list(status.reasons)
    return told


def _node_outcomes(diagnosis: Diagnosis) -> dict[str, Verdict]:
    """Every node's status; nodes with the same one share it."""
    fits = _outcome(SUCCESS)
    told = {node.name: fits for node in diagnosis.nodes}
    for status, rows in diagnosis.groups():
        outcome = _outcome(status)
        for name in _names(diagnosis, rows):
            told[name] = outcome
    return dict(sorted(told.items()))


def _names(diagnosis: Diagnosis, rows: Any) -> list[str]:
    names = diagnosis.nodes.names
    return [name for row in rows.tolist() if (name := names[row]) is not None]


def _tell_misfit(verdict: Verdict, tried: Attempt, diagnosis: Diagnosis) -> None:
    if diagnosis.pre_filter is not None:
        verdict["preFilter"] = _outcome(diagnosis.pre_filter)
    else:
        verdict["nodes"] = _node_outcomes(diagnosis)
    if tried.post_filter is not None:
        verdict["postFilter"] = _post_filter(tried, tried.post_filter, diagnosis)


def _post_filter(tried: Attempt, result: PostFilterResult, diagnosis: Diagnosis) -> Verdict:
    told: Verdict = {}
    if result.status.message:
        told["message"] = result.status.message
    if result.nominated_node:
        told["nominatedNode"] = result.nominated_node
        told.update(_preemption(tried, result.nominated_node, diagnosis))
    return told


def _preemption(tried: Attempt, node_name: str, diagnosis: Diagnosis) -> Verdict:
    """Who would have to leave for the nomination to come true, and what else would do."""
    search = tried.framework.plugins.post_filter
    plugin = next((p for p in search if isinstance(p, DefaultPreemption)), None)
    if plugin is None:
        return {}
    candidates = diagnosis.rows_with(unresolvable=False)
    failure = FilterFailure(diagnosis.nodes, diagnosis, candidates)
    analysis = plugin.analyse(tried.state, tried.pod, failure)
    told: Verdict = {
        "candidates": {
            c.node_name: _candidate(c)
            for c in sorted(analysis.candidates, key=lambda c: c.node_name)
        }
    }
    if node_name in told["candidates"]:
        told["victims"] = told["candidates"][node_name]["victims"]
    if len(analysis.tied) > 1:
        told["tied"] = [candidate.node_name for candidate in analysis.tied]
    return told


def _candidate(candidate: Candidate) -> Verdict:
    told: Verdict = {"victims": sorted(pod.key for pod in candidate.victims)}
    if candidate.violations:
        told["pdbViolations"] = candidate.violations
    return told


def _tell_placement(verdict: Verdict, tried: Attempt, selection: Selection) -> None:
    assert selection.fit is not None
    assert selection.best is not None
    diagnosis, _ = tried.framework.search.diagnose(CycleState(), tried.pod, tried=False)
    nodes = verdict["nodes"] = _node_outcomes(diagnosis)
    if selection.fit.nominated is not None:
        nodes[selection.node_name] = _outcome(SUCCESS)
        verdict["nominated"] = selection.node_name
    elif selection.fit.count > 1 and tried.framework.search.scores_anything:
        _tell_scores(verdict, tried, selection.fit, diagnosis.nodes.names)
    verdict["best"] = sorted(_names(diagnosis, selection.best))


def _tell_scores(verdict: Verdict, tried: Attempt, fit: Fit, names: list[str | None]) -> None:
    rows = np.flatnonzero(fit.feasible).tolist()
    scores: dict[str, dict[str, int]] = {names[row] or "": {} for row in rows}
    for part in tried.framework.search.score_parts(tried.state, tried.pod, fit):
        for row, score in zip(part.rows.tolist(), part.scores.tolist(), strict=True):
            scores[names[row] or ""][part.plugin] = score
    verdict["scores"] = dict(sorted(scores.items()))
    verdict["totals"] = {name: sum(parts.values()) for name, parts in verdict["scores"].items()}
