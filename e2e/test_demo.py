"""What `make run` shows is what examples/expected.yaml says."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from e2e.demo import differences, reason
from e2e.provider.choose import chosen
from e2e.provider.golang import ROOT

EXPECTED = {
    "nodes": {"db": "n1"},
    "placed": ["job"],
    "apart": [["w1", "w2"]],
    "waiting": {"big": "Insufficient cpu"},
    "tenants": {"lender": {"placed": 1, "waiting": 1}},
}
ZONES = {"n1": "a", "n2": "b"}


def shown(node: str = "", message: Any = "") -> Any:
    condition = {"type": "PodScheduled", "reason": "Unschedulable", "message": message}
    return {"spec": {"nodeName": node}, "status": {"conditions": [condition]}}


RIGHT = {
    "db": shown("n1"),
    "job": shown("n2"),
    "w1": shown("n1"),
    "w2": shown("n2"),
    "big": shown(message="0/2 nodes are available: 2 Insufficient cpu."),
    "lender/a": shown("n1"),
    "lender/b": shown(),
}


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        pytest.param({}, None, id="all right"),
        pytest.param({"db": shown("n2")}, "db: expected on n1, is on n2", id="another node"),
        pytest.param(
            {"db": shown()}, "db: expected on n1, is waiting (Unschedulable)", id="no node"
        ),
        pytest.param(
            {"job": shown()}, "job: expected on a node, is waiting (Unschedulable)", id="unplaced"
        ),
        pytest.param(
            {"w2": shown("n1")},
            "w1, w2: expected in different zones, are on n1, on n1",
            id="one zone for two",
        ),
        pytest.param(
            {"big": shown("n2")},
            "big: expected to wait (Insufficient cpu), is on n2",
            id="placed though it should wait",
        ),
        pytest.param(
            {"big": shown(message="too many pods")},
            "big: expected to wait (Insufficient cpu), is waiting (too many pods)",
            id="another reason",
        ),
        pytest.param(
            {"lender/b": shown("n1")},
            "lender: expected {'placed': 1, 'waiting': 1}, found {'placed': 2, 'waiting': 0}",
            id="more than a tenant has a right to",
        ),
    ],
)
def test_each_difference_is_named(change: dict[str, Any], difference: str | None) -> None:
    found = differences(EXPECTED, RIGHT | change, ZONES)
    assert found == ([difference] if difference else [])


def test_a_pod_that_is_missing_is_named() -> None:
    pods = {name: pod for name, pod in RIGHT.items() if name != "w2"}
    assert differences(EXPECTED, pods, ZONES) == ["w2: does not exist"]


def test_a_gated_pod_waits_for_its_gates() -> None:
    pod = {"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}, "status": {}}
    assert reason(pod) == "gated by a, b"


@pytest.mark.e2e
@pytest.mark.skipif(not chosen().owns_parts, reason="the tests use this cluster at the same time")
def test_the_demo_ends_well_by_itself_without_a_terminal() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "e2e.demo"],
        cwd=ROOT,
        env=os.environ | {"ONCE": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "all 20 Pods are as expected" in run.stdout
