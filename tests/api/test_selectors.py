"""Label selectors over label dicts."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.meta import LabelSelector, LabelSelectorRequirement
from bayplan.api.selectors import SelectorError, integer, label_selector, requirement

HERE = {"a": "1", "b": "x", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("a", "In", ("0", "1"), True),
        ("a", "In", ("0",), False),
        ("c", "In", ("1",), False),
        ("empty", "In", ("",), True),
        ("a", "NotIn", ("1",), False),
        ("a", "NotIn", ("0",), True),
        ("c", "NotIn", ("1",), True),
        ("a", "Exists", (), True),
        ("empty", "Exists", (), True),
        ("c", "Exists", (), False),
        ("a", "DoesNotExist", (), False),
        ("c", "DoesNotExist", (), True),
        ("a", "Gt", ("0",), True),
        ("a", "Gt", ("1",), False),
        ("a", "Lt", ("2",), True),
        ("a", "Lt", ("-5",), False),
        ("b", "Gt", ("0",), False),
        ("b", "Lt", ("0",), False),
        ("c", "Gt", ("0",), False),
    ],
)
def test_a_requirement(key: str, operator: str, values: tuple[str, ...], holds: bool) -> None:
    assert requirement(key, operator, values)(HERE) is holds


@pytest.mark.parametrize(
    ("operator", "values", "text"),
    [
        ("In", (), "must not be empty for operator In"),
        ("NotIn", (), "must not be empty for operator NotIn"),
        ("Gt", ("x",), "operator Gt takes exactly one integer"),
        ("Lt", ("1", "2"), "operator Lt takes exactly one integer"),
        ("Gt", (), "operator Gt takes exactly one integer"),
        ("Like", ("x",), '"Like" is not a valid label selector operator'),
    ],
)
def test_what_the_api_would_refuse(operator: str, values: tuple[str, ...], text: str) -> None:
    with pytest.raises(SelectorError, match=text):
        requirement("a", operator, values)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        (str(-(2**63)), -(2**63)),
        ("1.0", None),
        ("1_0", None),
        (" 1", None),
        ("٣", None),
        ("", None),
    ],
)
def test_integers_are_those_of_go(text: str, number: int | None) -> None:
    assert integer(text) == number


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        pytest.param(None, False, id="none matches nothing"),
        pytest.param(LabelSelector(), True, id="an empty one everything"),
        pytest.param(LabelSelector({"a": "1"}), True, id="one label"),
        pytest.param(LabelSelector({"a": "1", "b": "y"}), False, id="all labels"),
        pytest.param(
            LabelSelector({"a": "1"}, (LabelSelectorRequirement("b", "Exists"),)),
            True,
            id="labels and expressions",
        ),
        pytest.param(
            LabelSelector({}, (LabelSelectorRequirement("b", "NotIn", ("x",)),)),
            False,
            id="an expression alone",
        ),
    ],
)
def test_a_selector(selector: Any, holds: bool) -> None:
    assert label_selector(selector)(HERE) is holds
