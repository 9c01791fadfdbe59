"""What is refused before any device is looked at."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cel.devices import GPU

from bayplan.cel import CelError, CompileError, Program


def problem(expression: str) -> str:
    with pytest.raises(CompileError) as raised:
        Program(expression)
    return str(raised.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("reverse_engineer(device)", "1:17: undeclared reference to 'reverse_engineer'"),
        ('"a".base64()', "1:11: undeclared reference to 'base64'"),
        ("math.greatest(1, 2) == 2", "1:1: undeclared reference to 'math'"),
        ("gpu.driver == 1", "1:1: undeclared reference to 'gpu'"),
        ("device.model", "1:7: undefined field 'model'"),
        ("size(1, 2) == 1", "1:5: found no matching overload for 'size'"),
        ('duration("1 hour") > duration("1s")', "1:10: invalid duration argument"),
        ('timestamp("today") == timestamp(0)', "1:11: invalid timestamp argument"),
        ('device.driver.matches("(")', "1:23: invalid matches argument"),
        ('"%d".format(["a"]) == ""', "1:14: error during formatting: decimal clause"),
        ("[1].all(device.driver, true)", "1:15: argument must be a simple name"),
        ("has(device)", "1:5: invalid argument to has() macro"),
        ("[1].all(x, x, true)", "1:12: duplicate variable name: x"),
        ("9223372036854775808 > 1", "1:1: invalid int literal"),
        ('"\\ud800" == ""', "1:1: invalid unicode code point"),
        ("for == 1", "1:1: reserved identifier: for"),
    ],
)
def test_mistakes_are_shown_at_their_place(expression: str, message: str) -> None:
    assert problem(expression).startswith(f"compilation failed: ERROR: <input>:{message}")


@pytest.mark.parametrize("expression", ["", "1 +", "(1", "a..b", "1 ? 2", "'a", "a b", "@", "{1}"])
def test_text_that_is_no_expression_is_a_syntax_error(expression: str) -> None:
    assert "Syntax error" in problem(expression)


def test_the_line_is_shown_with_a_mark() -> None:
    lines = problem("true &&\n\tfoo").splitlines()
    assert lines[1:] == [" |  foo", " | .^"]


def test_constants_are_converted_when_compiling() -> None:
    assert problem('int("x") == 1') == (
        "program instantiation failed: type conversion error from 'string' to 'int'"
    )
    Program('quantity("x").isInteger()')  # other functions fail when they are called


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ('[uint("x")][dyn(duration("0"))] > 0u', "uint"),
        ('(true ? [uint("x")] : [1u])[dyn(duration("0"))] > 0u', "uint"),
        ('[[1]][int("x")][dyn(duration("0"))] > 0', "int"),
    ],
)
def test_what_is_selected_from_is_planned_before_the_key(expression: str, kind: str) -> None:
    assert problem(expression) == (
        f"program instantiation failed: type conversion error from 'string' to '{kind}'"
    )


def test_expressions_nest_no_deeper_than_upstream() -> None:
    Program("(" * 249 + "true" + ")" * 249)
    assert "recursion limit exceeded: 250" in problem("(" * 250 + "true" + ")" * 250)
    assert "recursion limit" in problem("[" * 5000)


@given(
    st.text(alphabet=st.sampled_from("aA1.0x\"'\\()[]{}?:,+-*/%!&|<>= \nurbin`_@é"), max_size=40)
)
def test_any_text_compiles_or_is_refused(text: str) -> None:
    try:
        program = Program(text)
    except CompileError:
        return
    with contextlib.suppress(CelError):
        program.evaluate(GPU)


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ("size(", ")"), ("!(", ")"), ("{1: ", "}")]
)
@pytest.mark.parametrize("depth", [100, 245, 5000])
def test_deep_nesting_never_ends_a_thread(opening: str, closing: str, depth: int) -> None:
    with contextlib.suppress(CelError):
        Program(opening * depth + "1" + closing * depth).evaluate(GPU)
