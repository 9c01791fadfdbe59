"""Judgement: what a decision about one Pod says of nodes, for those who ask.

Plain data, in the format of docs/why.md. Whoever may not see nodes gets their numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.requests import pod_requests
from bayplan.decide.deciding import Decision
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.report.pods import cut_note

Answer = dict[str, Any]

NEAREST = 5
"""Nodes that are named with their scores, and almost-fits."""
FIT = "NodeResourcesFit"


def judgement(framework: Framework, pod: Pod, decision: Decision, *, names: bool) -> Answer:
    """What was decided, and by which nodes; all but who would be evicted."""
    rejection, placement = decision.rejection, decision.placement
    answer: Answer = {}
    diagnosis = rejection.diagnosis if rejection is not None else None
    if placement is not None and decision.detail is not None:
        diagnosis = decision.detail.diagnosis
        answer["fitting"] = placement.feasible
        if names:
            answer["node"] = placement.node_name
            answer["best"] = _best(decision)
    if rejection is not None:
        answer["message"] = cut_note(rejection.message)
        answer["reason"] = str(rejection.reason)
    if diagnosis is not None and diagnosis.pre_filter is None:
        answer["rejected"] = _rejected(diagnosis, names=names)
        if placement is None:
            answer |= _nearly(framework, pod, diagnosis, names=names)
    return {key: value for key, value in answer.items() if value}


def of_verdict(verdict: Answer) -> Answer:
    """The gist of a verdict of `bayplan.explain.explanation`, with the fields of `judgement`."""
    if gate := verdict.get("preEnqueue"):
        return {"heldBy": gate["plugin"], "message": ", ".join(gate.get("reasons", ()))}
    now: Answer = {"message": verdict["message"]} if "message" in verdict else {}
    if best := verdict.get("best"):
        fitting = sum(status["code"] == "Success" for status in verdict["nodes"].values())
        totals = verdict.get("totals", {})
        now |= {"node": best[0], "fitting": fitting}
        now["best"] = [{"node": name, "total": totals.get(name, 0)} for name in best[:NEAREST]]
    return now


def changed(answer: Answer) -> str:
    """What has changed since the last attempt; "" for nothing known."""
    last, now, state = answer.get("last"), answer.get("now", {}), answer["state"]
    if state == "Running" and now:
        if "fitting" not in now:
            return f"as if it were pending now it would fit nowhere: {now.get('message', '')}"
        rated = now.get("best", ())
        among = [one["node"] for one in rated if one["total"] == rated[0]["total"]]
        if "node" not in now or answer["node"] in (among or [now["node"]]):
            return ""
        return f"as if it were pending now it would go to {now['node']}"
    if last is None or state != "Pending" or not last.get("message") or "group" in answer:
        return ""
    if "fitting" in now:
        return f"{now['fitting']} nodes fit now, none did at the last attempt"
    message = now.get("message", "")
    return f"now: {message}" if message and message != last["message"] else ""


def _rejected(diagnosis: Diagnosis, *, names: bool) -> list[Answer]:
    """How many nodes each plugin rejects, and for what; the most first."""
    groups = sorted(diagnosis.groups(), key=lambda group: -len(group[1]))
    answers = []
    for status, rows in groups:
        answer = {"plugin": status.plugin, "nodes": len(rows), "reasons": list(status.reasons)}
        if names:
            answer["some"] = _names(diagnosis.nodes, rows[:NEAREST])
        answers.append(answer)
    return answers


def _best(decision: Decision) -> list[Answer]:
    """The nodes with the highest scores."""
    detail = decision.detail
    if detail is None or not detail.scores:
        return []
    nodes = detail.diagnosis.nodes
    totals = np.zeros(len(nodes), np.int64)
    rated = np.zeros(len(nodes), np.bool_)
    for part in detail.scores:
        totals[part.rows] += part.scores
        rated[part.rows] = True
    rows = np.flatnonzero(rated)
    first = rows[np.argsort(-totals[rows], kind="stable")[:NEAREST]]
    names = _names(nodes, first)
    return [
        {
            "node": name,
            "total": int(totals[row]),
            "scores": {
                part.plugin: int(part.scores[part.rows == row][0])
                for part in detail.scores
                if (part.rows == row).any()
            },
        }
        for name, row in zip(names, first.tolist(), strict=True)
    ]


# Nodes that nearly fit


def _nearly(framework: Framework, pod: Pod, diagnosis: Diagnosis, *, names: bool) -> Answer:
    """Nodes rejected by one Filter plugin alone: by plugin, and what resources they lack."""
    try:
        misses = framework.search.misses(diagnosis, pod)
    except AttemptFault:  # it is logged
        return {}
    single = [
        {"plugin": status.plugin, "reasons": list(status.reasons), "nodes": len(rows)}
        | ({"some": _names(diagnosis.nodes, rows[:NEAREST])} if names else {})
        for status, rows in sorted(misses, key=lambda miss: -len(miss[1]))
    ]
    fits = [rows for status, rows in misses if status.plugin == FIT]
    rows = np.concatenate(fits) if fits else np.empty(0, np.int64)
    return {"single": single, "almost": _almost(pod, diagnosis.nodes, rows, names=names)}


def _almost(pod: Pod, nodes: NodeTable, rows: IntArray, *, names: bool) -> list[Answer]:
    """Of ``rows``, the nodes that lack only some of one resource, the smallest lack first."""
    asked = {name: amount for name, amount in pod_requests(pod).amounts.items() if amount}
    lacking = {name: amount - free(nodes, name)[rows] for name, amount in asked.items()}
    lacking["pods"] = 1 - (nodes.allowed_pods - nodes.pod_count)[rows]
    asked["pods"] = 1
    by_one = np.sum([lack > 0 for lack in lacking.values()], axis=0) == 1
    found: list[tuple[float, Answer]] = []
    for name, lack in lacking.items():
        alone = np.flatnonzero(by_one & (lack > 0))
        least = alone[np.argsort(lack[alone], kind="stable")[:NEAREST]]
        for place in least.tolist():
            row, short = int(rows[place]), int(lack[place])
            answer = {"resource": name, "requested": asked[name], "free": asked[name] - short}
            if names:
                answer["node"] = nodes.names[row] or ""
            found.append((short / asked[name], answer))
    found.sort(key=lambda one: one[0])
    return [answer for _, answer in found[:NEAREST]]


def free(nodes: NodeTable, resource: str) -> IntArray:
    """What is not requested of each node."""
    amounts: IntArray = nodes.allocatable(resource) - nodes.requested(resource)
    return amounts


def _names(nodes: NodeTable, rows: IntArray) -> list[str]:
    return [nodes.names[row] or "" for row in rows.tolist()]
