from __future__ import annotations

from typing import Any

import pytest
from tests.handles import make_handle
from tests.plugins.harness import make, table_of
from tests.plugins.normalizing import feasible_scores

from bayplan.plugins.low_risk_over_commitment import LowRiskOverCommitment
from bayplan.testing import PodBuilder, make_node, make_pod


def pod(request: str = "", limit: str = "", memory: str = "") -> PodBuilder:
    resources: dict[str, Any] = {}
    if request:
        resources["requests"] = {"cpu": request}
    limits = {"cpu": limit, "memory": memory}
    resources["limits"] = {name: amount for name, amount in limits.items() if amount}
    return make_pod().spec(containers=[{"resources": resources}])


@pytest.mark.parametrize(
    ("running", "placed", "args", "expected"),
    [
        pytest.param([], pod("1", "4"), {}, 100, id="the-limits-fit"),
        pytest.param([], pod("1", "5"), {}, 88, id="a-quarter-of-what-is-lent"),
        pytest.param([pod("1", "2")], pod("1", "4"), {}, 75, id="others-count"),
        pytest.param(
            [], pod("1", "5"), {"riskLimitWeights": {"cpu": 1.0}}, 75, id="all-weight-on-limits"
        ),
        pytest.param([], pod("1", "5"), {"riskLimitWeights": {"cpu": 0.0}}, 100, id="no-weight"),
        pytest.param([], pod("1", "1", "16Gi"), {}, 75, id="the-riskier-resource-counts"),
        pytest.param([pod("8", "8")], pod("1", "8"), {}, 50, id="requests-end-at-the-node"),
        pytest.param([], pod("2"), {}, 100, id="the-limit-is-at-least-the-request"),
        pytest.param([pod("1", "8")], make_pod(), {}, 0, id="best-effort"),
    ],
)
def test_scores(running: list[PodBuilder], placed: PodBuilder, args: Any, expected: int) -> None:
    nodes = table_of(make_node("n").capacity(cpu="4", memory="8Gi", pods=110))
    for builder in running:
        nodes.add_pod(0, builder.obj())
    plugin = make(LowRiskOverCommitment, make_handle(nodes), **args)
    assert feasible_scores(plugin, placed.obj(), nodes) == {"n": expected}


def test_the_column_follows_pods_that_come_and_go() -> None:
    nodes = table_of(make_node("n").capacity(cpu="4", memory="8Gi", pods=110))
    plugin = make(LowRiskOverCommitment, make_handle(nodes))
    running = pod("1", "2").obj()
    nodes.add_pod(0, running)
    assert feasible_scores(plugin, pod("1", "4").obj(), nodes) == {"n": 75}
    nodes.remove_pod(0, running)
    assert feasible_scores(plugin, pod("1", "4").obj(), nodes) == {"n": 100}
    assert not any(nodes.recount().values())
