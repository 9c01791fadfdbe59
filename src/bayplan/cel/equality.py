"""Equality and order of CEL values, as cel-go defines them for each pair of types.

Values of different types are not equal, and numbers are compared by value. The exceptions are
cel-go's: a value of a Kubernetes type on the left side compared with any other type is an error,
and lists and maps take elements that cannot be compared as equal (except lists made by `+`).
"""

from __future__ import annotations

from math import isnan

from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.values import (
    INT_MAX,
    INT_MIN,
    LISTS,
    MISSING,
    UINT_MAX,
    Concatenation,
    Duration,
    Extension,
    Map,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Value,
)

NUMBERS = frozenset({int, Uint, float})


def equal(left: Value, right: Value) -> bool:
    """Whether `left == right`.

    Raises:
        EvaluationError: the two types cannot be compared.
    """
    kind = type(left)
    other = type(right)
    if kind in (str, bool, bytes, Duration):
        return kind is other and bool(left == right)
    if left is None or right is None:
        return left is right
    if kind in NUMBERS:
        return other in NUMBERS and _compare_numbers(left, right) == 0
    if kind in LISTS:
        return other in LISTS and _equal_lists(left, right)
    if kind is Map:
        return other is Map and _equal_maps(left, right)
    if isinstance(left, Extension):
        if not left.same_type(right):
            no_such_overload()
        return left.equals(right)
    if kind is not other:
        return False
    return _equal_others(left, right)


def _equal_others(left: Value, right: Value) -> bool:
    if isinstance(left, Timestamp):
        return bool(left.nanoseconds == right.nanoseconds)
    if isinstance(left, TypeValue):
        return bool(left.name == right.name)
    assert isinstance(left, Optional)
    if not (left.present and right.present):
        return left.present is right.present
    return equal(left.value, right.value)


def surely_equal(left: Value, right: Value) -> bool:
    """Whether both are equal, where an error counts as no."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def _equal_lists(left: list[Value], right: list[Value]) -> bool:
    if len(left) != len(right):
        return False
    error: EvaluationError | None = None
    for one, other in zip(left, right, strict=True):
        try:
            if not equal(one, other):
                return False
        except EvaluationError as reason:
            error = error or reason
    if error and type(left) is Concatenation:
        raise error
    return True


def _equal_maps(left: Map, right: Map) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.entries.values():
        other = right.find(key)
        if other is MISSING:
            return False
        try:
            if not equal(value, other):
                return False
        except EvaluationError:
            continue
    return True


def contains(elements: list[Value], value: Value) -> bool:
    """Whether `value in elements`."""
    return any(surely_equal(value, element) for element in elements)


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1 for `left` less than, equal to or greater than `right`.

    Both must be of one of the types in `COMPARABLE`.

    Raises:
        EvaluationError: they are of types that have no order between them.
    """
    kind = type(left)
    if kind in NUMBERS:
        if kind is float and isnan(left):
            raise EvaluationError("NaN values cannot be ordered")
        if type(right) not in NUMBERS:
            no_such_overload()
        if type(right) is float and isnan(right):
            raise EvaluationError("NaN values cannot be ordered")
        return _compare_numbers(left, right)
    if kind is not type(right):
        no_such_overload()
    if isinstance(left, Timestamp):
        left, right = left.nanoseconds, right.nanoseconds
    return int(left > right) - int(left < right)


def _compare_numbers(left: float, right: float) -> int:
    # NaN is equal to nothing; a double meets an integer as doubles, within the integer's range.
    if isnan(left) or isnan(right):
        return 2
    if type(left) is float and type(right) is not float:
        return _compare_double(left, right)
    if type(right) is float and type(left) is not float:
        return -_compare_double(right, left)
    return (left > right) - (left < right)


def _compare_double(double: float, integer: float) -> int:
    low, high = (0, UINT_MAX) if type(integer) is Uint else (INT_MIN, INT_MAX)
    if double < low:
        return -1
    if double > float(high):
        return 1
    other = float(integer)
    return (double > other) - (double < other)
