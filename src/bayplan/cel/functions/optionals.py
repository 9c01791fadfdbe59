"""Optional values: making, testing and unwrapping them.

Source: cel-go cel/library.go. `or` and `orValue` are lazy, so they are part of the compiler.
"""

from __future__ import annotations

from bayplan.cel.errors import EvaluationError
from bayplan.cel.functions.registry import (
    LIST,
    OPTIONAL,
    anything,
    function,
    list_of,
    method,
)
from bayplan.cel.golang.printing import text_of
from bayplan.cel.values import (
    LISTS,
    NONE,
    Duration,
    Map,
    Optional,
    Timestamp,
    Uint,
    Value,
    optional_of,
)

_ZEROES = (bool, int, Uint, float, str, bytes, Duration)
_YEAR_ONE = -62_135_596_800 * 10**9


@function("optional.of", anything)
def of(value: Value) -> Optional:
    """An optional with a value."""
    return optional_of(value)


@function("optional.none")
def none() -> Optional:
    """The optional without a value."""
    return NONE


@function("optional.ofNonZeroValue", anything)
def of_non_zero_value(value: Value) -> Optional:
    """An optional with a value, unless that is zero or empty."""
    return NONE if _is_zero(value) else optional_of(value)


def _is_zero(value: Value) -> bool:
    if value is None:
        return True
    if type(value) in LISTS or isinstance(value, Map):
        return len(value) == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == _YEAR_ONE
    return type(value) in _ZEROES and not value


@method("value", OPTIONAL)
def value_of(optional: Optional) -> Value:
    """The value that must be there."""
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


@method("hasValue", OPTIONAL)
def has_value(optional: Optional) -> bool:
    """Whether there is a value."""
    return optional.present


@method("first", LIST)
def first(elements: list[Value]) -> Optional:
    """The first element, if there is one."""
    return optional_of(elements[0]) if elements else NONE


@method("last", LIST)
def last(elements: list[Value]) -> Optional:
    """The last element, if there is one."""
    return optional_of(elements[-1]) if elements else NONE


@function("optional.unwrap", list_of(OPTIONAL))
@method("unwrapOpt", list_of(OPTIONAL))
def unwrap(elements: list[Value]) -> list[Value]:
    """The values of a list of optionals that have one."""
    for element in elements:
        if not isinstance(element, Optional):
            raise EvaluationError(f"value {text_of(element)} is not optional")
    return [element.value for element in elements if element.present]
