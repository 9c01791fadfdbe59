"""Arithmetic and order: the operators that depend on the types of both operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from bayplan.cel.budget import check_length
from bayplan.cel.equality import compare, contains
from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.golang.times import SECOND, checked_timestamp
from bayplan.cel.values import (
    COMPARABLE,
    INT_MAX,
    INT_MIN,
    LISTS,
    MISSING,
    UINT_MAX,
    Accumulator,
    Concatenation,
    Duration,
    Map,
    Timestamp,
    Uint,
    Value,
)

Operator = Callable[[Value, Value], Value]
# Types on which cel-go can call any method: what these lack has an error without the name.
RECEIVERS: Final = frozenset({str, Duration, Timestamp})


def undefined(name: str, operand: Value) -> EvaluationError:
    """The error of an operator or function that the type of `operand` does not have."""
    suffix = "" if type(operand) in RECEIVERS else f": {name}"
    return EvaluationError(f"no such overload{suffix}")


def checked_int(number: int) -> int:
    """An int result.

    Raises:
        EvaluationError: it does not fit into 64 bits.
    """
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvaluationError("integer overflow")


def checked_uint(number: int) -> Uint:
    """A uint result.

    Raises:
        EvaluationError: it does not fit into 64 bits.
    """
    if 0 <= number <= UINT_MAX:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def _modulo(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise EvaluationError("integer overflow")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _divide_doubles(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _concatenate(left: Value, right: Value) -> Value:
    check_length(len(left) + len(right))
    return left + right


def _span(left: Timestamp, right: Timestamp) -> Duration:
    seconds = left.nanoseconds // SECOND - right.nanoseconds // SECOND
    checked_int(seconds * SECOND)  # cel-go computes the seconds on their own first
    return Duration(checked_int(left.nanoseconds - right.nanoseconds))


_ADD: dict[type, Operator] = {
    int: lambda a, b: checked_int(a + b),
    Uint: lambda a, b: checked_uint(int(a) + b),
    float: lambda a, b: a + b,
    str: _concatenate,
    bytes: _concatenate,
    Duration: lambda a, b: Duration(checked_int(int(a) + b)),
}
_SUBTRACT: dict[type, Operator] = {
    int: lambda a, b: checked_int(a - b),
    Uint: lambda a, b: checked_uint(int(a) - b),
    float: lambda a, b: a - b,
    Duration: lambda a, b: Duration(checked_int(int(a) - b)),
    Timestamp: _span,
}
_MULTIPLY: dict[type, Operator] = {
    int: lambda a, b: checked_int(a * b),
    Uint: lambda a, b: checked_uint(int(a) * b),
    float: lambda a, b: a * b,
}
_DIVIDE: dict[type, Operator] = {
    int: _divide,
    Uint: lambda a, b: Uint(int(a) // b) if b else _divide(a, b),
    float: _divide_doubles,
}
_MODULO: dict[type, Operator] = {
    int: _modulo,
    Uint: lambda a, b: Uint(int(a) % b) if b else _modulo(a, b),
}


def _shift(timestamp: Timestamp, duration: int) -> Timestamp:
    return checked_timestamp(timestamp.nanoseconds + duration, timestamp.offset)


def add(left: Value, right: Value) -> Value:
    """`left + right`."""
    kind, other = type(left), type(right)
    if kind in LISTS:
        return _add_lists(left, right)
    if kind is Timestamp and other is Duration:
        return _shift(left, right)
    if kind is Duration and other is Timestamp:
        return _shift(right, left)
    return _arithmetic("_+_", _ADD, left, right, known=kind is Timestamp)


def _add_lists(left: Value, right: Value) -> Value:
    if type(right) not in LISTS:
        no_such_overload()
    if type(left) is Accumulator:
        left.extend(right)
        return left
    if not left:
        return right
    return Concatenation([*left, *right]) if right else left


def subtract(left: Value, right: Value) -> Value:
    """`left - right`."""
    if type(left) is Timestamp and type(right) is Duration:
        if right == INT_MIN:
            raise EvaluationError("integer overflow")
        return _shift(left, -right)
    return _arithmetic("_-_", _SUBTRACT, left, right)


def _arithmetic(
    name: str, table: dict[type, Operator], left: Value, right: Value, known: bool = False
) -> Value:
    kind = type(left)
    operator = table.get(kind)
    if operator is None and not known:
        raise undefined(name, left)
    if operator is None or kind is not type(right):
        no_such_overload()
    return operator(left, right)


def _ordered(name: str, holds: Callable[[int], bool]) -> Operator:
    def operator(left: Value, right: Value) -> bool:
        if type(left) not in COMPARABLE:
            raise undefined(name, left)
        return holds(compare(left, right))

    return operator


def membership(value: Value, container: Value) -> bool:
    """`value in container`."""
    if type(container) in LISTS:
        return contains(container, value)
    if not isinstance(container, Map):
        no_such_overload()
    return container.lookup(value) is not MISSING


def negate(value: Value) -> Value:
    """`-value`."""
    kind = type(value)
    if kind is int:
        return checked_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return Duration(checked_int(-value))
    if kind is bool:
        no_such_overload()
    raise undefined("-_", value)


def invert(value: Value) -> bool:
    """`!value`."""
    if type(value) is not bool:
        no_such_overload()
    return not value


BINARY: Final[dict[str, Operator]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": lambda a, b: _arithmetic("_*_", _MULTIPLY, a, b),
    "_/_": lambda a, b: _arithmetic("_/_", _DIVIDE, a, b),
    "_%_": lambda a, b: _arithmetic("_%_", _MODULO, a, b),
    "_<_": _ordered("_<_", lambda order: order < 0),
    "_<=_": _ordered("_<=_", lambda order: order <= 0),
    "_>_": _ordered("_>_", lambda order: order > 0),
    "_>=_": _ordered("_>=_", lambda order: order >= 0),
    "@in": membership,
}
UNARY: Final[dict[str, Callable[[Value], Value]]] = {"-_": negate, "!_": invert}
