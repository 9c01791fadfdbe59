"""bayplan decides as kube-scheduler does on a fixed set of small random clusters.

`python -m e2e.conformance` judges as many and as large ones as you like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.conformance.generator import Size
from e2e.conformance.run import Plan, run
from e2e.provider.programs import ORACLE

if TYPE_CHECKING:
    from e2e.conformance.run import Findings

pytestmark = pytest.mark.e2e

SEEDS = range(40)
SMALL = Size(nodes=(3, 40), pods=(5, 40))


@pytest.fixture(scope="module")
def findings() -> Findings:
    plan = Plan(SMALL, simulate=True)
    return [found for _, found in run(ORACLE.binary(), SEEDS, plan)][-1]


def test_every_decision_agrees_with_kube_scheduler(findings: Findings) -> None:
    assert not findings.differences, "\n".join(
        f"{case}: {difference}" for case, difference in findings.differences[:20]
    )


def test_generated_clusters_are_valid(findings: Findings) -> None:
    assert not findings.invalid


@pytest.mark.parametrize(
    "outcome",
    ["placed, scored", "fits nowhere", "rejected by PreFilter", "preemption: nominatedNode"],
)
def test_the_clusters_reach_every_outcome(findings: Findings, outcome: str) -> None:
    assert findings.reach.outcomes[outcome]


QUOTAS = Plan(Size(nodes=(2, 6), pods=(4, 12)), quotas=True, simulate=True)


def test_every_decision_under_quotas_agrees_with_the_judge() -> None:
    *_, (_, findings) = run(ORACLE.binary(), range(30), QUOTAS)
    assert not findings.invalid
    assert not findings.differences, "\n".join(
        f"{case}: {difference}" for case, difference in findings.differences[:20]
    )
    for outcome in ("rejected by PreFilter", "preemption: nominatedNode"):
        assert findings.reach.outcomes[outcome]
