"""Literals that are checked when compiling: durations, timestamps, regular expressions, formats.

Source: cel-go cel/validator.go, ext/formatting.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bayplan.cel.errors import EvaluationError
from bayplan.cel.functions.formatting import check_format
from bayplan.cel.functions.regex import compile_pattern
from bayplan.cel.functions.standard import (
    int_to_timestamp,
    string_to_duration,
    string_to_timestamp,
)
from bayplan.cel.syntax import Call, ListNode, Literal, MapNode, Node
from bayplan.cel.values import Value, type_name

_CHECKS: Final[dict[tuple[str, type], Callable[[Value], object]]] = {
    ("duration", str): string_to_duration,
    ("timestamp", str): string_to_timestamp,
    ("timestamp", int): int_to_timestamp,
    ("matches", str): compile_pattern,  # for matches(text, pattern), cel-go checks the text
}


def invalid_literal(name: str, target: Node | None, call: Call) -> tuple[int, str] | None:
    """The position of a literal in a call that is not valid, and what to say; None if all are."""
    if name == "format":
        return _invalid_format(target, call)
    argument = call.arguments[0] if call.arguments else None
    if not isinstance(argument, Literal):
        return None
    check = _CHECKS.get((name, type(argument.value)))
    if check is None:
        return None
    try:
        check(argument.value)
    except EvaluationError:
        return argument.position, f"invalid {name} argument"
    return None


def _invalid_format(target: Node | None, call: Call) -> tuple[int, str] | None:
    if not isinstance(target, Literal) or type(target.value) is not str or not call.arguments:
        return None
    arguments = call.arguments[0]
    if not isinstance(arguments, ListNode):
        return None
    kinds = [_kind(element) for element in arguments.elements]
    problem = check_format(target.value, kinds)
    if problem is None:
        return None
    index, message = problem
    at = call.position if index is None else arguments.elements[index].position
    return at, message


def _kind(node: Node) -> str:
    """The name of the type of a node, as far as its form tells; else "dyn"."""
    if isinstance(node, Literal):
        value: Value = node.value
        return type_name(value)
    if isinstance(node, ListNode):
        return "list"
    return "map" if isinstance(node, MapNode) else "dyn"
