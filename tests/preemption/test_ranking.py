"""The order of victims on a node, and of nodes."""

from __future__ import annotations

import pytest
from tests.preemption.world import NOW, victim

from bayplan.preemption.ranking import Candidate, best_candidates, most_important_first
from bayplan.testing import PodBuilder


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(
            [victim("low", priority=1), victim("high", priority=2)],
            ["high", "low"],
            id="higher priority first",
        ),
        pytest.param(
            [victim("young", started=9), victim("old", started=5)],
            ["old", "young"],
            id="then longer running",
        ),
        pytest.param(
            [victim("pending", started=None), victim("runs", started=5)],
            ["runs", "pending"],
            id="one that has not started counts as started now",
        ),
        pytest.param(
            [victim("a", started=5), victim("b", started=5), victim("c", started=5)],
            ["a", "b", "c"],
            id="equals stay in the order in which they came",
        ),
        pytest.param(
            [victim("a", started=None), victim("b", started=None), victim("c", started=None)],
            ["a", "b", "c"],
            id="of those not started, the first that came is first",
        ),
    ],
)
def test_victims_are_ordered_by_importance(pods: list[PodBuilder], expected: list[str]) -> None:
    assert [p.name for p in most_important_first(p.obj() for p in pods)] == expected


def candidate(name: str, *victims: PodBuilder, violations: int = 0) -> Candidate:
    return Candidate(0, name, tuple(v.obj() for v in victims), violations)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            [
                candidate("a", victim("a1", priority=1), violations=1),
                candidate("b", victim("b1", priority=9)),
            ],
            ["b"],
            id="fewest budgets violated",
        ),
        pytest.param(
            [
                candidate("a", victim("a1", priority=5)),
                candidate("b", victim("b1", priority=4), victim("b2", priority=4)),
            ],
            ["b"],
            id="lowest of the highest priorities",
        ),
        pytest.param(
            [
                candidate("a", victim("a1", priority=5), victim("a2", priority=3)),
                candidate("b", victim("b1", priority=5), victim("b2", priority=2)),
            ],
            ["b"],
            id="lowest sum of priorities",
        ),
        pytest.param(
            [
                candidate("a", victim("a1", priority=-5), victim("a2", priority=-5)),
                candidate("b", victim("b1", priority=-5)),
            ],
            ["b"],
            id="with negative priorities fewer victims are the lower sum",
        ),
        pytest.param(
            [
                candidate("a", *(victim(f"a{i}", priority=-(2**31)) for i in range(2))),
                candidate("b", victim("b1", priority=-(2**31))),
            ],
            ["b"],
            id="fewest victims",
        ),
        pytest.param(
            [
                candidate("a", victim("a1", started=5), victim("a2", started=9)),
                candidate("b", victim("b1", started=6), victim("b2", started=7)),
            ],
            ["b"],
            id="latest of the earliest starts",
        ),
        pytest.param(
            [
                candidate("a", victim("a1", priority=1, started=9), victim("a2", started=1)),
                candidate("b", victim("b1", priority=1, started=8), victim("b2", started=2)),
            ],
            ["a"],
            id="starts of the highest priority alone count",
        ),
        pytest.param(
            [
                candidate("a", victim("a1", started=9)),
                candidate("b", victim("b1", started=None)),
            ],
            ["b"],
            id="not started counts as now",
        ),
        pytest.param(
            [
                candidate("c", victim("c1", started=7)),
                candidate("a", victim("a1", started=7)),
                candidate("b", victim("b1", started=8), violations=1),
            ],
            ["a", "c"],
            id="a tie is named in the order of names",
        ),
    ],
)
def test_the_best_node_is_found_by_the_criteria_in_their_order(
    found: list[Candidate], expected: list[str]
) -> None:
    assert [c.node_name for c in best_candidates(found, NOW)] == expected
