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


def _is_zero(value: Value) -> bool:
    if value is None:
        return True
    if type(value) in LISTS or isinstance(value, Map):
        return len(value) == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == _YEAR_ONE
    return type(value) in _ZEROES and not value


def _value(optional: Optional) -> Value:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(elements: list[Value]) -> list[Value]:
    for element in elements:
        if not isinstance(element, Optional):
            raise EvaluationError(f"value {text_of(element)} is not optional")
    return [element.value for element in elements if element.present]


function("optional.of", anything)(optional_of)
function("optional.none")(lambda: NONE)
function("optional.ofNonZeroValue", anything)(
    lambda value: NONE if _is_zero(value) else optional_of(value)
)
method("value", OPTIONAL)(_value)
method("hasValue", OPTIONAL)(lambda optional: optional.present)
method("first", LIST)(lambda elements: optional_of(elements[0]) if elements else NONE)
method("last", LIST)(lambda elements: optional_of(elements[-1]) if elements else NONE)
function("optional.unwrap", list_of(OPTIONAL))(_unwrap)
method("unwrapOpt", list_of(OPTIONAL))(_unwrap)
