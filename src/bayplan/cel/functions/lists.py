"""Lists and sets: cel-go's extensions and Kubernetes' own functions.

Source: cel-go ext/lists.go and ext/sets.go, k8s.io/apiserver/pkg/cel/library/lists.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key

from bayplan.cel.equality import compare, contains, surely_equal
from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.functions.registry import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    LIST,
    STRING,
    TIMESTAMP,
    UINT,
    Kind,
    anything,
    function,
    list_of,
    method,
)
from bayplan.cel.operators import add, undefined
from bayplan.cel.values import (
    COMPARABLE,
    LISTS,
    Duration,
    Extension,
    Uint,
    Value,
    type_name,
    weight,
)

_MAX_RANGE = 1_000_000
_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_WITHOUT_SUM = frozenset({"null_type", "map", "type", "optional_type"})
_PARAMETERS = {"list": "(dyn)", "map": "(dyn, dyn)", "optional_type": "(dyn)"}


def _length(elements: Value, *_: Value) -> int:
    return weight(elements)


def _product(elements: list[Value], others: list[Value]) -> int:
    return weight(elements) * len(others)


@method("slice", LIST, INT, INT, cost=_length)
def slice_of(elements: list[Value], start: int, end: int) -> list[Value]:
    """The elements from a position up to another."""
    asked = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        raise EvaluationError(f"{asked}negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{asked}start index must be less than or equal to end index")
    if len(elements) < end:
        raise EvaluationError(f"{asked}list is length {len(elements)}")
    return elements[start:end]


def _type_text(value: Value) -> str:
    name = type_name(value)
    return name + _PARAMETERS.get(name, "")


@method("flatten", anything, cost=_length)
def flatten(elements: Value) -> list[Value]:
    """The elements, with nested lists replaced by their elements, one level deep."""
    if type(elements) not in LISTS:
        raise EvaluationError(f"no such overload: {_type_text(elements)}.flatten()")
    return _flatten(elements, 1)


@method("flatten", anything, anything, cost=_length)
def flatten_to(elements: Value, depth: Value) -> list[Value]:
    """The same for lists within lists, `depth` times."""
    if type(elements) not in LISTS or type(depth) is not int:
        asked = f"{_type_text(elements)}.flatten({_type_text(depth)})"
        raise EvaluationError(f"no such overload: {asked}")
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    return _flatten(elements, depth)


def _flatten(elements: list[Value], depth: int) -> list[Value]:
    result: list[Value] = []
    for element in elements:
        if depth > 0 and type(element) in LISTS:
            result.extend(_flatten(element, depth - 1))
        else:
            result.append(element)
    return result


@method("sort", anything, cost=_length)
def sort(elements: Value) -> list[Value]:
    """The elements in order."""
    if type(elements) not in LISTS:
        raise undefined("sort", elements)
    return _sorted(elements, elements)


@method("@sortByAssociatedKeys", anything, anything)
def sort_by_keys(elements: Value, keys: list[Value]) -> list[Value]:
    """The elements in the order of their keys: what `sortBy` stands for."""
    if type(elements) not in LISTS:
        raise undefined("@sortByAssociatedKeys", elements)
    return _sorted(elements, keys)


def _sorted(elements: list[Value], keys: list[Value]) -> list[Value]:
    if not elements:
        return elements
    if type(keys[0]) not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    first = type_name(keys[0])
    if any(type_name(key) != first for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = cmp_to_key(_order)
    pairs = sorted(zip(keys, elements, strict=True), key=lambda pair: order(pair[0]))
    return [element for _, element in pairs]


def _order(left: Value, right: Value) -> int:
    try:
        return compare(left, right)
    except EvaluationError:  # NaN
        return 0


@function("lists.range", INT, cost=lambda count: max(0, min(count, _MAX_RANGE)))
def range_of(count: int) -> list[Value]:
    """The numbers from 0 up to `count`."""
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _MAX_RANGE:
        message = f"lists.range: size {count} exceeds maximum allowed ({_MAX_RANGE})"
        raise EvaluationError(message)
    return list(range(count))


method("reverse", LIST, cost=_length)(lambda elements: elements[::-1])


@method("distinct", LIST, cost=lambda elements: _product(elements, elements))
def distinct(elements: list[Value]) -> list[Value]:
    """The elements without those equal to one before."""
    if not elements:
        return elements
    result: list[Value] = []
    for element in elements:
        if not any(surely_equal(element, other) for other in result):
            result.append(element)
    return result


@method("indexOf", LIST, anything, cost=_length)
def index_of(elements: list[Value], value: Value) -> int:
    """The position of the first element equal to `value`, or -1."""
    found = (index for index, each in enumerate(elements) if surely_equal(each, value))
    return next(found, -1)


@method("lastIndexOf", LIST, anything, cost=_length)
def last_index_of(elements: list[Value], value: Value) -> int:
    """The position of the last element equal to `value`, or -1."""
    backwards = range(len(elements) - 1, -1, -1)
    return next((index for index in backwards if surely_equal(elements[index], value)), -1)


@method("includes", anything, anything, cost=_length)
def includes(target: Value, value: Value) -> bool:
    """Whether a list has `value`, or a single value is equal to it."""
    if type(target) in LISTS:
        return any(surely_equal(element, value) for element in target)
    return surely_equal(target, value)


def is_sorted(elements: list[Value]) -> bool:
    """Whether no element is greater than the one behind it."""
    previous: Value = None
    for position, element in enumerate(elements):
        if type(element) not in COMPARABLE:
            no_such_overload()
        if position and _order(previous, element) > 0:
            return False
        previous = element
    return True


def _extreme(name: str, sign: int) -> Callable[[list[Value]], Value]:
    def extreme(elements: list[Value]) -> Value:
        if not elements:
            raise EvaluationError(f"{name} called on empty list")
        for element in elements:
            if type(element) not in COMPARABLE:
                no_such_overload()
        result = elements[0]
        for element in elements[1:]:
            if _order(element, result) * sign > 0:
                result = element
        return result

    return extreme


def _sum_from(zero: Value) -> Callable[[list[Value]], Value]:
    def total(elements: list[Value]) -> Value:
        result = zero
        for element in elements:
            if isinstance(element, (bool, Extension)) or type_name(element) in _WITHOUT_SUM:
                no_such_overload()
            result = add(result, element)
        return result

    return total


def _define(kind: Kind) -> None:
    elements = list_of(kind)
    method("isSorted", elements, cost=_length)(is_sorted)
    method("max", elements, cost=_length)(_extreme("max", 1))
    method("min", elements, cost=_length)(_extreme("min", -1))


for _kind in _COMPARABLE:
    _define(_kind)
for _kind, _zero in ((INT, 0), (UINT, Uint(0)), (DOUBLE, 0.0), (DURATION, Duration(0))):
    method("sum", list_of(_kind), cost=_length)(_sum_from(_zero))


def _contains_all(elements: list[Value], others: list[Value]) -> bool:
    return all(contains(elements, other) for other in others)


function("sets.contains", LIST, LIST, cost=_product)(_contains_all)
function("sets.equivalent", LIST, LIST, cost=_product)(
    lambda elements, others: _contains_all(elements, others) and _contains_all(others, elements)
)
function("sets.intersects", LIST, LIST, cost=_product)(
    lambda elements, others: any(contains(others, element) for element in elements)
)
