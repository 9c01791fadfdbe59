"""Every library of the environment: the cases that Kubernetes' own CEL is asked about, too."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.cel.devices import GPU
from tests.cel.test_selectors import answer

# b has a million elements, but making it takes few steps.
MILLION = (
    "cel.bind(a, lists.range(100).map(i, lists.range(100)),"
    " cel.bind(b, lists.range(100).map(i, a), {}))"
)
CASES = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())


@pytest.mark.parametrize("expression", CASES["holds"])
def test_what_each_function_gives(expression: str) -> None:
    assert answer(expression, GPU) is True


@pytest.mark.parametrize("case", CASES["fails"], ids=lambda case: case["expression"])
def test_what_each_function_refuses(case: dict[str, str]) -> None:
    assert answer(case["expression"], GPU) == case["error"]


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))",
        "lists.range(5000).distinct().size() == 5000",
        "sets.contains(lists.range(2000), lists.range(2000))",
        "cel.bind(a, 'x'.replace('x', '0123456789'), " * 3
        + "lists.range(900000).map(i, a).join(a).size() > 0"
        + ")" * 3,
        "'%.999999999f'.format([1.0]) == ''",
        *[MILLION.format(use) for use in ("b == b", "b in [b]", "b.distinct() == []")],
        *[MILLION.format(use) for use in ("'%s'.format([b]) == ''", "b.indexOf(1) == 0")],
        MILLION.format("optional.unwrap([optional.none(), dyn(b)]) == []"),
    ],
)
def test_an_endless_expression_ends_by_its_budget(expression: str) -> None:
    assert answer(expression) == "operation cancelled: actual cost limit exceeded"


def test_doubling_a_string_over_and_over_ends_by_its_budget() -> None:
    expression = "'0123456789'"
    for name in "abcdefghijklmnopqrstuvwxyz":
        expression = f"cel.bind({name}, {expression}, {name} + {name})"
    assert answer(f"{expression} == ''") == "operation cancelled: actual cost limit exceeded"
