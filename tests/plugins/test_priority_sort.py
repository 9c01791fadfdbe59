from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.plugins.harness import make

from bayplan.api.pod import Pod
from bayplan.plugins.priority_sort import PrioritySort
from bayplan.testing import make_pod


@dataclass
class Queued:
    pod: Pod
    timestamp: float
    attempts: int = 0
    completes_group: bool = False


def queued(priority: int, timestamp: float) -> Queued:
    return Queued(make_pod().priority(priority).obj(), timestamp)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param((5, 2.0), (4, 1.0), True, id="higher-priority-first"),
        pytest.param((4, 1.0), (5, 2.0), False, id="lower-priority-later"),
        pytest.param((5, 1.0), (5, 2.0), True, id="equal-priority-earlier-first"),
        pytest.param((5, 2.0), (5, 1.0), False, id="equal-priority-later-later"),
        pytest.param((5, 1.0), (5, 1.0), False, id="equal-in-both"),
        pytest.param((-1, 1.0), (0, 2.0), False, id="negative-priority"),
    ],
)
def test_pods_are_ordered_by_priority_and_then_by_time(
    first: tuple[int, float], second: tuple[int, float], expected: bool
) -> None:
    plugin = make(PrioritySort)
    a, b = queued(*first), queued(*second)
    assert (plugin.sort_key(a) < plugin.sort_key(b)) is expected
