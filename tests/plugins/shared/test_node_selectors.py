from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.plugins.harness import table_of

from bayplan.api.pod_spec import NodeSelectorTerm, PreferredSchedulingTerm
from bayplan.plugins.shared.node_selectors import (
    compile_preferences,
    compile_term,
    required_node_affinity,
)
from bayplan.plugins.shared.selector_faults import joined
from bayplan.testing import PodBuilder, expressions, fields, make_node, make_pod, requirement

NODES = (
    make_node("a").labels({"zone": "x", "rank": "5"}),
    make_node("b").labels({"zone": "y", "rank": "-7", "ssd": ""}),
    make_node("c").labels({"rank": "five"}),
)


def term(spec: dict[str, Any]) -> NodeSelectorTerm:
    return msgspec.convert(spec, NodeSelectorTerm)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(expressions(requirement("zone", "In", "x", "z")), "a", id="in"),
        pytest.param(expressions(requirement("zone", "In", "z")), "", id="in-unknown-value"),
        pytest.param(expressions(requirement("zone", "NotIn", "x")), "bc", id="not-in"),
        pytest.param(expressions(requirement("zone", "Exists")), "ab", id="exists"),
        pytest.param(expressions(requirement("ssd", "Exists")), "b", id="empty-value-exists"),
        pytest.param(expressions(requirement("zone", "DoesNotExist")), "c", id="does-not-exist"),
        pytest.param(expressions(requirement("rank", "Gt", "4")), "a", id="gt"),
        pytest.param(expressions(requirement("rank", "Gt", "5")), "", id="gt-is-strict"),
        pytest.param(expressions(requirement("rank", "Lt", "5")), "b", id="lt"),
        pytest.param(
            expressions(requirement("rank", "Lt", "9")), "ab", id="no-integer-is-not-less"
        ),
        pytest.param(
            expressions(requirement("zone", "Exists"), requirement("rank", "Gt", "0")),
            "a",
            id="all-must-hold",
        ),
        pytest.param(fields(requirement("metadata.name", "In", "b")), "b", id="name"),
        pytest.param(fields(requirement("metadata.name", "In", "z")), "", id="name-unknown"),
        pytest.param(fields(requirement("metadata.name", "NotIn", "b")), "ac", id="not-the-name"),
        pytest.param(fields(requirement("metadata.other", "In", "b")), "", id="other-field"),
        pytest.param(fields(requirement("metadata.other", "NotIn", "b")), "abc", id="not-other"),
        pytest.param(
            expressions(requirement("zone", "Exists"))
            | fields(requirement("metadata.name", "NotIn", "b")),
            "a",
            id="labels-and-fields",
        ),
        pytest.param(expressions(requirement("rank", "Gt", "x")), "", id="faulty-never-matches"),
    ],
)
def test_a_term_matches_the_same_nodes_in_columns_and_one_by_one(
    spec: dict[str, Any], expected: str
) -> None:
    compiled = compile_term(term(spec), "")
    table = table_of(*NODES)
    mask = compiled.mask(table)
    assert "".join(sorted(info.name for info in table if mask[info.row])) == expected
    one_by_one = [node.obj().name for node in NODES if compiled.matches(node.obj())]
    assert "".join(one_by_one) == expected


def test_a_term_matches_in_a_table_taken_from_another_as_in_that() -> None:
    table = table_of(*NODES)
    rows = np.array([table.row("b"), table.row("a")])
    for spec in (
        expressions(requirement("zone", "In", "y")),
        fields(requirement("metadata.name", "In", "b")),
    ):
        compiled = compile_term(term(spec), "")
        assert compiled.mask(table.take(rows)).tolist() == [True, False]
        assert compiled.mask(table)[rows].tolist() == [True, False]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod(), "abc", id="nothing-required"),
        pytest.param(make_pod().node_selector({"zone": "x"}), "a", id="selector"),
        pytest.param(make_pod().node_selector({"zone": "x", "rank": "6"}), "", id="all-labels"),
        pytest.param(
            make_pod().node_affinity(
                expressions(requirement("zone", "In", "x")),
                expressions(requirement("ssd", "Exists")),
            ),
            "ab",
            id="any-term",
        ),
        pytest.param(make_pod().node_affinity(), "", id="no-terms"),
        pytest.param(make_pod().node_affinity({}), "", id="empty-term"),
        pytest.param(
            make_pod().node_affinity({}, expressions(requirement("ssd", "Exists"))),
            "b",
            id="empty-term-and-another",
        ),
        pytest.param(
            make_pod()
            .node_selector({"rank": "5"})
            .node_affinity(expressions(requirement("zone", "Exists"))),
            "a",
            id="selector-and-affinity",
        ),
        pytest.param(
            make_pod().node_affinity(
                expressions(requirement("rank", "Gt", "x")),
                expressions(requirement("ssd", "Exists")),
            ),
            "b",
            id="a-faulty-term-leaves-the-others",
        ),
    ],
)
def test_required_affinity_is_selector_and_any_term(pod: PodBuilder, expected: str) -> None:
    required = pod.obj().shape.constraints.memo(required_node_affinity)
    table = table_of(*NODES)
    mask = required.mask(table)
    assert "".join(sorted(info.name for info in table if mask[info.row])) == expected
    one_by_one = [node.obj().name for node in NODES if required.matches(node.obj())]
    assert "".join(one_by_one) == expected


LONG = "x" * 64
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            expressions(requirement("k", "Gt", "x")),
            "t.matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the "
            "value must be an integer",
            id="no-integer",
        ),
        pytest.param(
            expressions(requirement("k", "Lt", "1", "2")),
            "t.matchExpressions[0].values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, "
            "exactly one value is required",
            id="two-bounds",
        ),
        pytest.param(
            expressions(requirement("k", "Exists"), requirement("k", "In")),
            "t.matchExpressions[1].values: Invalid value: null: for 'in', 'notin' operators, "
            "values set can't be empty",
            id="in-nothing",
        ),
        pytest.param(
            expressions(requirement("k", "Exists", "x")),
            't.matchExpressions[0].values: Invalid value: ["x"]: values set must be empty for '
            "exists and does not exist",
            id="exists-with-values",
        ),
        pytest.param(
            expressions(requirement("k", "Near", "x")),
            't.matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", '
            '"NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
            id="unknown-operator",
        ),
        pytest.param(
            expressions(requirement("k", "In", "-x")),
            f't.matchExpressions[0].values[0][k]: Invalid value: "-x": {VALUE_RULE}',
            id="bad-label-value",
        ),
        pytest.param(
            expressions(requirement("k", "In", LONG)),
            f't.matchExpressions[0].values[0][k]: Invalid value: "{LONG}": must be no more '
            "than 63 bytes",
            id="long-label-value",
        ),
        pytest.param(
            fields(requirement("metadata.name", "In", "a", "b")),
            't.matchFields[0].values: Invalid value: ["a","b"]: must have one element',
            id="two-names",
        ),
        pytest.param(
            fields(requirement("metadata.name", "Exists")),
            't.matchFields[0].operator: Unsupported value: "Exists": supported values: "In", '
            '"NotIn"',
            id="field-operator",
        ),
    ],
)
def test_faults_are_told_in_the_words_of_kubernetes(spec: dict[str, Any], expected: str) -> None:
    assert compile_term(term(spec), "t").faults == (expected,)


def test_preferences_add_the_weights_of_terms_that_match_and_keep_faults() -> None:
    spec = [
        {"weight": 3, "preference": expressions(requirement("zone", "Exists"))},
        {"weight": 4, "preference": expressions(requirement("zone", "In", "y"))},
        {"weight": 0, "preference": expressions(requirement("rank", "Gt", "unread"))},
        {"weight": 5, "preference": {}},
        {"weight": 6, "preference": expressions(requirement("rank", "Gt", "x"))},
    ]
    compiled = compile_preferences(msgspec.convert(spec, list[PreferredSchedulingTerm]))
    table = table_of(*NODES)
    scores = compiled.scores(table)
    assert {info.name: int(scores[info.row]) for info in table} == {"a": 3, "b": 7, "c": 0}
    assert len(compiled.faults) == 1
    assert compiled.faults[0].startswith("[4].matchExpressions[0].values[0]: ")


def test_several_faults_are_listed_once_each() -> None:
    assert joined(["x"]) == "x"
    assert joined(["x", "x"]) == "x"
    assert joined(["x", "y", "x"]) == "[x, y]"
