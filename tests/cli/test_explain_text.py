"""Explanations as text: 80 columns, equal outcomes once, nothing said twice."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from bayplan.cli.explain_text import once, print_group, print_verdicts

NODE = "gke-a-long-cluster-name-default-pool-5d2c8b1f-x{}"
SCORES = {
    "TaintToleration": 300,
    "NodeResourcesFit": 87,
    "NodeResourcesBalancedAllocation": 71,
    "InterPodAffinity": 0,
    "PodTopologySpread": 200,
}


def printed(width: int, *verdicts: dict[str, Any], owners: dict[str, str] | None = None) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, markup=False, highlight=False, emoji=False)
    print_verdicts(console, verdicts, 5, owners=owners or {})
    return out.getvalue()


def fitting(name: str) -> dict[str, Any]:
    nodes = [NODE.format(number) for number in range(3)]
    total = sum(SCORES.values())
    return {
        "pod": f"default/{name}",
        "nodes": {node: {"code": "Success"} for node in nodes}
        | {
            f"{node}-full": {
                "code": "UnschedulableAndUnresolvable",
                "plugin": "NodeResourcesFit",
                "reasons": ["Insufficient cpu"],
            }
            for node in nodes
        },
        "scores": {node: dict(SCORES) for node in nodes},
        "totals": dict.fromkeys(nodes, total),
        "best": nodes,
    }


def test_tables_fit_80_columns_and_break_no_word() -> None:
    text = printed(80, fitting("p"))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    words = text.split()
    for word in (*SCORES, NODE.format(0), "Insufficient"):
        if word != "InterPodAffinity":
            assert any(one.strip(",") == word for one in words), word


def test_a_plugin_that_gives_no_node_points_has_no_column() -> None:
    assert "InterPodAffinity" not in printed(200, fitting("p"))
    assert "NodeResourcesBalancedAllocation" in printed(200, fitting("p"))


def test_equal_outcomes_are_shown_once_for_each_owner() -> None:
    verdicts = [fitting(f"p{number}") for number in range(6)]
    owners = {f"default/p{number}": f"ReplicaSet {'ab'[number > 3]}" for number in range(6)}
    text = printed(140, *verdicts, owners=owners)
    assert "default/p0 and 3 more of ReplicaSet a goes to" in text
    assert "default/p4 and 1 more of ReplicaSet b goes to" in text
    assert text.count("rejected") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "False Unschedulable: pod group is unschedulable, pod group is unschedulable",
            "False Unschedulable: pod group is unschedulable",
        ),
        ("pod group is unschedulable, other", "pod group is unschedulable, other"),
        ("1 Insufficient cpu, 1 Insufficient memory", "1 Insufficient cpu, 1 Insufficient memory"),
        ("0/2 nodes, 2 cpu, 2 cpu", "0/2 nodes, 2 cpu, 2 cpu"),
    ],
)
def test_what_is_said_twice_in_a_row_is_shown_once(text: str, expected: str) -> None:
    assert once(text) == expected


def test_what_each_node_says_to_a_pod_of_a_group_is_a_table() -> None:
    out = io.StringIO()
    outcome = {"code": "Unschedulable", "plugin": "TaintToleration", "reasons": ["had taints"]}
    verdict = {
        "group": "default/g",
        "members": ["default/g-0"],
        "message": "NoRoom: at most 1 of 2 fit",
        "against": {"default/g-0": {"n0": {"code": "Success"}, "n1": outcome}},
    }
    print_group(Console(file=out, width=100, markup=False), verdict)
    text = out.getvalue()
    assert "Alone default/g-0 fits on 1 of 2 nodes." in text
    assert "1         TaintToleration  had taints" in text
