"""Compares the answers of both allocators, and counts what they were."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from e2e.allocations.judge import our_answers

if TYPE_CHECKING:
    from e2e.allocations.generator import Problem
    from e2e.allocations.judge import Answer, Judge

Outcome = str


def compare(judge: Judge, problem: Problem, outcomes: Counter[Outcome] | None = None) -> str | None:
    """What is different, node by node; None where nothing is.

    A search that takes kube-scheduler longer than the judge allows is counted, and not compared.
    """
    expected = judge.answers(problem)
    try:
        timed_out = [bool(answer.get("timeout")) for answer in expected]
        actual = our_answers(problem, timed_out)
    except Exception as error:  # noqa: BLE001 - whatever we raise is a finding
        return f"{type(error).__name__}: {error}"
    lines = []
    for theirs, ours in zip(expected, actual, strict=True):
        if outcomes is not None:
            outcomes[_outcome(theirs)] += 1
        if theirs != ours and ours is not None:
            lines += [f"kube-scheduler: {json.dumps(theirs)}", f"bayplan: {json.dumps(ours)}"]
    return "\n".join(lines) or None


def _outcome(answer: Answer) -> Outcome:
    if answer.get("timeout"):
        return "kube-scheduler timed out"
    if "error" in answer:
        return "this node fails" if answer.get("onNode") else "error"
    return "fits" if answer["results"] is not None else "does not fit"
