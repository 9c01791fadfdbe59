"""bayplan gives claims the devices that kube-scheduler's allocator gives them.

`make conformance-devices` judges as many problems as you like.
"""

from __future__ import annotations

from collections import Counter

import pytest

from e2e.allocations.compare import compare
from e2e.allocations.generator import generate
from e2e.allocations.judge import Judge
from e2e.provider.programs import ALLOCJUDGE

pytestmark = pytest.mark.e2e

SEEDS = range(300)


@pytest.fixture(scope="module")
def outcomes() -> Counter[str]:
    return Counter()


def test_every_allocation_agrees_with_kube_scheduler(outcomes: Counter[str]) -> None:
    with Judge(ALLOCJUDGE.binary()) as judge:
        compared = ((seed, compare(judge, generate(seed), outcomes)) for seed in SEEDS)
        differences = [f"seed {seed}: {text}" for seed, text in compared if text]
    assert not differences, "\n".join(differences[:5])


@pytest.mark.parametrize("outcome", ["fits", "does not fit", "error", "this node fails"])
def test_the_problems_reach_every_outcome(outcomes: Counter[str], outcome: str) -> None:
    assert outcomes[outcome]
