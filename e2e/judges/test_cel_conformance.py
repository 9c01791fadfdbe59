"""Selectors mean the same to bayplan and to Kubernetes' own CEL.

`make conformance-cel` judges as many random ones as you like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.cel.devices import GPU_JSON
from tests.cel.test_functions import CASES

from e2e.cel_conformance.compare import Verdict
from e2e.cel_conformance.judge import Judge
from e2e.cel_conformance.run import run
from e2e.provider.programs import CELJUDGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cel_conformance.run import Findings

pytestmark = pytest.mark.e2e

SEEDS = range(1500)


@pytest.fixture(scope="module")
def findings() -> Findings:
    return run(CELJUDGE.binary(), SEEDS)


def test_random_selectors_have_the_same_answers_and_errors(findings: Findings) -> None:
    assert not findings.differences, "\n".join(map(str, findings.differences[:10]))


def test_random_selectors_reach_every_kind_of_answer(findings: Findings) -> None:
    assert findings.verdicts[Verdict.SAME] > 1000
    assert all(findings.matches[answer] > 300 for answer in ("True", "False", "error"))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(CELJUDGE.binary()) as child:
        yield child


@pytest.mark.parametrize("expression", CASES["holds"])
def test_kubernetes_agrees_with_the_cases_that_hold(judge: Judge, expression: str) -> None:
    assert judge.ask(expression, [GPU_JSON]).results == (True,)


@pytest.mark.parametrize("case", CASES["fails"], ids=lambda case: case["expression"])
def test_kubernetes_agrees_with_the_cases_that_fail(judge: Judge, case: dict[str, str]) -> None:
    assert judge.ask(case["expression"], [GPU_JSON]).results == (case["error"],)
