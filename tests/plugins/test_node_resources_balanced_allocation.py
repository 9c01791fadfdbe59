from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugins.harness import make, scored, table_of

from bayplan.framework.status import SKIP
from bayplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from bayplan.testing import PodBuilder, make_node, make_pod

GPU = "nvidia.com/gpu"


def resources(*names: str) -> dict[str, Any]:
    return {"resources": [{"name": name, "weight": 1} for name in names]}


@pytest.mark.parametrize(
    ("pod", "args"),
    [
        pytest.param(make_pod(), {}, id="no-containers"),
        pytest.param(make_pod().container(), {}, id="no-requests"),
        pytest.param(make_pod().req(cpu=0, memory=0), {}, id="zero-requests"),
        pytest.param(make_pod().req({GPU: 1}), {}, id="another-resource"),
        pytest.param(make_pod().req(cpu=1), resources("memory", GPU), id="not-scored"),
    ],
)
def test_a_pod_that_requests_nothing_that_counts_is_not_scored(
    pod: PodBuilder, args: dict[str, Any]
) -> None:
    plugin = make(NodeResourcesBalancedAllocation, **args)
    assert scored(plugin, pod.obj(), table_of(make_node())) is SKIP


NODE = make_node().capacity({GPU: 4}, cpu=10, memory=1000)
THREE = resources("cpu", "memory", GPU)


@pytest.mark.parametrize(
    ("pod", "there", "args", "expected"),
    [
        pytest.param(make_pod().req(cpu=5, memory=500), None, {}, 75, id="stays-even"),
        pytest.param(
            make_pod().req(cpu=5, memory=100), None, {}, 50 + (50 + 80 - 100) // 2, id="gets-uneven"
        ),
        pytest.param(
            make_pod().req(cpu=4),
            make_pod().req(cpu=1, memory=500),
            {},
            50 + (50 + 100 - 80) // 2,
            id="gets-even",
        ),
        pytest.param(
            make_pod().req(cpu=20, memory=100),
            None,
            {},
            50 + (50 + 55 - 100) // 2,
            id="a-fraction-is-at-most-1",
        ),
        pytest.param(
            make_pod().req(cpu=1).pod_level(cpu=5, memory=100),
            None,
            {},
            50 + (50 + 80 - 100) // 2,
            id="pod-level-counts",
        ),
        pytest.param(
            make_pod().req(memory=100).container(),
            make_pod().container(),
            {},
            50 + (50 + 95 - 100) // 2,
            id="missing-requests-count-nothing",
        ),
        pytest.param(make_pod().req(cpu=5), None, resources("cpu"), 75, id="one-resource"),
        pytest.param(
            make_pod().req(cpu=5, memory=500),
            None,
            THREE,
            75,
            id="extended-resource-not-asked-for",
        ),
        pytest.param(
            make_pod().req({GPU: 4}, cpu=5, memory=100),
            None,
            THREE,
            50 + (50 + int(100 * (1 - 0.3681787006)) - 100) // 2,
            id="three-resources",
        ),
        pytest.param(
            make_pod().req(cpu=5),
            None,
            resources("cpu", "ephemeral-storage"),
            75,
            id="one-of-two-offered",
        ),
        pytest.param(
            make_pod().req({"ephemeral-storage": 1}, cpu=5, memory=100),
            None,
            resources("cpu", "memory", "ephemeral-storage"),
            50 + (50 + 80 - 100) // 2,
            id="two-of-three-offered",
        ),
    ],
)
def test_nodes_score_by_how_the_pod_changes_the_balance(
    pod: PodBuilder, there: PodBuilder | None, args: dict[str, Any], expected: int
) -> None:
    nodes = table_of(NODE)
    row = nodes.row("n")
    assert row is not None
    if there is not None:
        nodes.add_pod(row, there.obj())
    plugin = make(NodeResourcesBalancedAllocation, **args)
    assert scored(plugin, pod.obj(), nodes) == {"n": expected}


def reference(used: list[int], asked: list[int], capacity: list[int]) -> int:
    """The documented formula, one node at a time, in 64-bit floats."""

    def balance(amounts: list[int]) -> int:
        offered = [(a, c) for a, c in zip(amounts, capacity, strict=True) if c]
        fractions = [min(1.0, a / c) for a, c in offered]
        if len(fractions) < 2:
            deviation = 0.0
        elif len(fractions) == 2:
            deviation = abs((fractions[0] - fractions[1]) / 2)
        else:
            mean = sum(fractions) / len(fractions)
            deviation = math.sqrt(sum((f - mean) * (f - mean) for f in fractions) / len(fractions))
        return int((1 - deviation) * 100)

    after = [u + a for u, a in zip(used, asked, strict=True)]
    return 50 + (50 + balance(after) - balance(used)) // 2


AMOUNTS = st.lists(st.integers(0, 40), min_size=4, max_size=4)


@given(
    count=st.integers(1, 4),
    capacity=st.lists(AMOUNTS, min_size=1, max_size=5),
    used=AMOUNTS,
    asked=st.lists(st.integers(1, 20), min_size=4, max_size=4),
)
def test_scores_equal_a_plain_computation_node_by_node(
    count: int, capacity: list[list[int]], used: list[int], asked: list[int]
) -> None:
    names = ("cpu", "memory", GPU, "ephemeral-storage")[:count]

    def amounts(values: list[int]) -> dict[str, Any]:
        return {n: f"{v}m" if n == "cpu" else v for n, v in zip(names, values, strict=False)}

    nodes = table_of(*(make_node(f"{i}").capacity(amounts(c)) for i, c in enumerate(capacity)))
    for i in range(len(capacity)):
        row = nodes.row(f"{i}")
        assert row is not None
        nodes.add_pod(row, make_pod().req(amounts(used)).obj())
    plugin = make(NodeResourcesBalancedAllocation, **resources(*names))
    scores = scored(plugin, make_pod().req(amounts(asked)).obj(), nodes)
    expected = {
        f"{i}": reference(used[:count], asked[:count], c[:count]) for i, c in enumerate(capacity)
    }
    assert scores == expected
