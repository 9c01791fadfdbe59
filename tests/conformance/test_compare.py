from __future__ import annotations

import copy
from typing import Any

import pytest
from e2e.conformance.compare import compare_explanations, compare_simulations

PLACED = {
    "pod": "default/a",
    "nodes": {
        "n1": {"code": "Success"},
        "n2": {"code": "Success"},
        "n3": {
            "code": "Unschedulable",
            "plugin": "NodeResourcesFit",
            "reasons": ["Insufficient cpu", "Insufficient memory"],
        },
    },
    "scores": {"n1": {"NodeResourcesFit": 57}, "n2": {"NodeResourcesFit": 40}},
    "totals": {"n1": 57, "n2": 40},
    "best": ["n1"],
}
PREEMPTING = {
    "pod": "default/a",
    "nodes": {"n1": {"code": "Unschedulable", "plugin": "NodePorts", "reasons": ["taken"]}},
    "message": "0/1 nodes are available: 1 taken.",
    "postFilter": {
        "nominatedNode": "n1",
        "victims": ["default/b"],
        "tied": ["n1", "n2"],
        "candidates": {
            "n1": {"victims": ["default/b"]},
            "n2": {"victims": ["default/c"], "pdbViolations": 1},
        },
    },
}


def changed(verdict: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copied = copy.deepcopy(verdict)
    parent = copied
    *above, last = path.split("/")
    for key in above:
        parent = parent[key]
    parent[last] = value
    return copied


@pytest.mark.parametrize(
    ("verdict", "path", "value", "named"),
    [
        pytest.param(PLACED, "nodes/n3/plugin", "NodePorts", "nodes.plugin", id="plugin"),
        pytest.param(PLACED, "nodes/n2", {"code": "Error"}, "nodes.code", id="code"),
        pytest.param(PLACED, "nodes/n3/reasons", ["x"], "nodes.reasons", id="reasons"),
        pytest.param(PLACED, "scores/n2/NodeResourcesFit", 41, "scores", id="score"),
        pytest.param(PLACED, "totals/n2", 41, "totals", id="total"),
        pytest.param(PLACED, "best", ["n1", "n2"], "best", id="best"),
        pytest.param(PLACED, "nominated", "n1", "nominated", id="nominated"),
        pytest.param(PLACED, "message", "no", "message", id="message"),
        pytest.param(
            PLACED,
            "preFilter",
            {"code": "Unschedulable", "plugin": "P"},
            "preFilter.code",
            id="preFilter",
        ),
        pytest.param(
            PREEMPTING,
            "postFilter/nominatedNode",
            "n3",
            "postFilter.nominatedNode",
            id="none of the tied nodes",
        ),
        pytest.param(
            PREEMPTING, "postFilter/nominatedNode", None, "postFilter.nominatedNode", id="nobody"
        ),
        pytest.param(
            PREEMPTING, "postFilter/victims", ["default/c"], "postFilter.victims", id="victims"
        ),
        pytest.param(PREEMPTING, "postFilter/tied", ["n1"], "postFilter.tied", id="tied"),
        pytest.param(
            PREEMPTING,
            "postFilter/candidates/n2/pdbViolations",
            0,
            "postFilter.candidates.pdbViolations",
            id="budget",
        ),
        pytest.param(PREEMPTING, "postFilter/message", "no", "postFilter.message", id="told"),
        pytest.param(PREEMPTING, "pod", "default/other", "pod", id="another pod"),
    ],
)
def test_a_difference_is_named(verdict: dict[str, Any], path: str, value: Any, named: str) -> None:
    found = compare_explanations([verdict], [changed(verdict, path, value)])
    assert named in {difference.what for difference in found}


@pytest.mark.parametrize(
    ("verdict", "path", "value"),
    [
        pytest.param(PLACED, "message", "", id="an empty message"),
        pytest.param(PLACED, "preFilter", {}, id="an empty status"),
        pytest.param(
            PLACED,
            "nodes/n3/reasons",
            ["Insufficient memory", "Insufficient cpu"],
            id="reasons in another order",
        ),
        pytest.param(
            PREEMPTING,
            "postFilter",
            {"nominatedNode": "n2", "victims": ["default/c"]},
            id="another of the tied nodes with its victims",
        ),
    ],
)
def test_what_means_the_same_is_no_difference(
    verdict: dict[str, Any], path: str, value: Any
) -> None:
    assert compare_explanations([verdict], [changed(verdict, path, value)]) == []


def test_any_nodes_error_may_be_the_message() -> None:
    faults = {name: {"code": "Error", "reasons": [f"fault of {name}"]} for name in ("n1", "n2")}
    expected = {"pod": "default/a", "nodes": faults, "message": "fault of n1"}
    actual = {**expected, "message": "fault of n2"}
    assert compare_explanations([expected], [actual]) == []


def test_a_simulation_differs_at_its_first_wrong_step_only() -> None:
    expected = [{"pod": f"default/{name}", "node": "n1", "message": ""} for name in "abc"]
    actual = [{**step, "node": "n2"} if step["pod"] != "default/a" else step for step in expected]
    (difference,) = compare_simulations(expected, actual)
    assert (difference.pod, difference.what) == ("default/b", "simulate.node")


def test_only_ours_says_why_a_pod_is_held_back() -> None:
    expected = [{"pod": "default/a", "node": None, "message": ""}]
    held = {"pod": "default/a", "node": None, "message": "held back by Gates: later"}
    assert compare_simulations(expected, [held]) == []
    (difference,) = compare_simulations(expected, [held | {"message": "no nodes"}])
    assert difference.what == "simulate.message"


def test_of_the_errors_that_preemption_lists_a_simulation_may_name_others() -> None:
    def step(what: str) -> list[dict[str, Any]]:
        return [{"pod": "default/a", "message": f"0/2 nodes. preemption: [running {what}]"}]

    assert compare_simulations(step("a on n1, running b on n2"), step("b on n2")) == []
    (difference,) = compare_simulations(step("a"), [{"pod": "default/a", "message": "0/3 nodes."}])
    assert difference.what == "simulate.message"


def test_which_of_its_pods_the_error_of_a_group_names_is_left_to_chance() -> None:
    def step(why: str, victims: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        text = f"cannot determine domain for already scheduled pods: {why}"
        group = {"name": "g", "condition": f"False SchedulerError: {text}", "victims": victims}
        return [{"pod": "default/a", "message": text, "podGroup": group}]

    assert compare_simulations(step("of a"), step("of b")) == []
    (difference,) = compare_simulations(step("of a"), step("of b", ("c",)))
    assert difference.what == "simulate.podGroup"
    other = step("of a")
    other[0]["podGroup"]["condition"] = "False SchedulerError: no"
    (difference,) = compare_simulations(step("of a"), other)
    assert difference.what == "simulate.podGroup"


def test_a_simulation_that_leaves_out_pods_differs() -> None:
    expected = [{"pod": "default/a", "node": None, "message": "no"}]
    (difference,) = compare_simulations(expected, [])
    assert difference.what == "simulate.length"


def test_the_errors_that_parallel_dry_runs_met_come_in_any_order() -> None:
    def judged(*errors: str) -> list[dict[str, Any]]:
        told = f"preemption: [{', '.join(f'running {e}' for e in errors)}]"
        message = f"0/9 nodes are available: 9 x. {told}"
        return [{"pod": "a/b", "message": message, "postFilter": {"message": told}}]

    assert not compare_explanations(
        judged("p: one, or two", "q: 3"), judged("q: 3", "p: one, or two")
    )
    (difference,) = compare_explanations(judged("p: 1", "q: 3"), judged("q: 3", "p: 2"))
    assert difference.what == "postFilter.message"
