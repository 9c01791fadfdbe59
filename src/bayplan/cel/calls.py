"""Code for operators and functions: closures over the code of their operands."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from bayplan.cel.access import Code, Frame
from bayplan.cel.comprehensions import decide, new_frame, spend
from bayplan.cel.equality import equal, surely_equal
from bayplan.cel.errors import CelError, EvaluationError, no_such_overload
from bayplan.cel.functions.regex import all_matches, compile_pattern
from bayplan.cel.functions.registry import FUNCTIONS, Overload, go_string, no_overload_for
from bayplan.cel.golang.quoting import printable
from bayplan.cel.operators import BINARY, UNARY
from bayplan.cel.values import (
    LISTS,
    MISSING,
    Map,
    Optional,
    Uint,
    Value,
    map_key,
    same_numbers,
    weight,
)

OPERATORS: Final = frozenset({*BINARY, *UNARY, "_==_", "_!=_"})
_CONVERSIONS: Final = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
_PRIMITIVES: Final = frozenset({bool, int, Uint, float, str})
_SIZED: Final = frozenset({str, bytes, *LISTS})


class NoOverloadError(Exception):
    """A function is called with arguments of types for which no overload exists."""


@dataclass(slots=True, eq=False)
class Known:
    """Code whose value was computed when compiling, where cel-go does that at each evaluation."""

    value: Value

    def __call__(self, _: Frame) -> Value:
        """The value."""
        return self.value


class Constant(Known):
    """Code that is known to give always the same value."""

    __slots__ = ()


def precomputed(code: Code, arguments: tuple[Code, ...]) -> Code:
    """`code` as a precomputed value, if all arguments are known and the value is no error."""
    if not all(isinstance(argument, Known) for argument in arguments):
        return code
    try:
        return Known(code(new_frame(None, 0)))
    except CelError:
        return code


# -- operators


def _both(frame: Frame, left: Code, right: Code) -> tuple[Value, Value]:
    # Like cel-go, evaluate the right side in any case: the evaluation may end there.
    try:
        value = left(frame)
    except EvaluationError:
        with suppress(EvaluationError):
            right(frame)
        raise
    return value, right(frame)


def operator(name: str, operands: tuple[Code, ...]) -> Code:
    """An operator other than the logical ones."""
    if name in UNARY:
        unary, operand = UNARY[name], operands[0]
        return lambda frame: unary(operand(frame))
    left, right = operands
    if name in ("_==_", "_!=_"):

        def compare(frame: Frame) -> bool:
            one, other = _both(frame, left, right)
            spend(frame, weight(one))
            return equal(one, other) if name == "_==_" else not surely_equal(one, other)

        return compare
    binary = BINARY[name]
    if name == "@in":
        return _membership(left, right)
    if name != "_+_":
        return lambda frame: binary(*_both(frame, left, right))

    def add(frame: Frame) -> Value:
        result = binary(*_both(frame, left, right))
        if type(result) in _SIZED:
            spend(frame, len(result) // 10)
        return result

    return add


def _membership(left: Code, right: Code) -> Code:
    binary = BINARY["@in"]
    if isinstance(right, Constant) and type(right.value) in LISTS:
        if not right.value:
            return Constant(False)
        if all(type(element) in _PRIMITIVES for element in right.value):
            return _membership_in_constants(left, right.value)

    def run(frame: Frame) -> Value:
        value, container = _both(frame, left, right)
        if type(container) in LISTS:
            spend(frame, weight(container))
        return binary(value, container)

    return run


def _membership_in_constants(left: Code, elements: list[Value]) -> Code:
    # cel-go makes a map of the elements here, so it cannot take values that Go cannot hash.
    equal_numbers = (number for element in elements for number in same_numbers(element))
    constants = Map({map_key(element): (element, True) for element in equal_numbers})
    return lambda frame: constants.lookup(left(frame)) is not MISSING


def logic(decisive: bool, terms: tuple[Code, ...]) -> Code:
    """`||` (decided by True) or `&&`."""
    return lambda frame: decide(frame, decisive, terms)


def conditional(condition: Code, then: Code, otherwise: Code) -> Code:
    """`condition ? then : otherwise`."""

    def run(frame: Frame) -> Value:
        value = condition(frame)
        if type(value) is not bool:
            no_such_overload()
        return then(frame) if value else otherwise(frame)

    return run


def optional_or(left: Code, right: Code, unwrap: bool) -> Code:
    """`left.or(right)`, or orValue() to `unwrap`: the right side is evaluated when needed."""

    def run(frame: Frame) -> Value:
        value = left(frame)
        if not isinstance(value, Optional):
            no_such_overload()
        if not value.present:
            return right(frame)
        return value.value if unwrap else value

    return run


# -- functions


def call(name: str, method: bool, arguments: tuple[Code, ...]) -> Code:
    """A call of a function or method that exists.

    Raises:
        NoOverloadError: not with so many arguments, or not as a method.
        EvaluationError: its constant arguments are not valid.
    """
    forms = [each for each in FUNCTIONS[name] if len(each.kinds) == len(arguments)]
    candidates = [each for each in forms if each.method is method]
    if not candidates:
        shown = ", ".join(["dyn"] * len(arguments))
        raise NoOverloadError(f"found no matching overload for '{name}' applied to '({shown})'")
    if len(candidates) > 1:
        candidates = forms
    if name in ("matches", "find", "findAll"):
        pattern = arguments[1]
        if isinstance(pattern, Constant) and type(pattern.value) is str:
            return _with_pattern(name, arguments, compile_pattern(pattern.value))
    code = _dispatch(name, candidates, arguments)
    if name in _CONVERSIONS and isinstance(arguments[0], Constant):
        return Constant(code(new_frame(None, 0)))
    return precomputed(code, arguments)


def _dispatch(name: str, candidates: list[Overload], arguments: tuple[Code, ...]) -> Code:
    if len(candidates) == 1 and candidates[0].cost is None:
        only = candidates[0]
        if len(arguments) == 1:
            return _call_one(name, only, arguments[0])
        if len(arguments) == 2:
            return _call_two(name, only, *arguments)

    def run(frame: Frame) -> Value:
        values = [argument(frame) for argument in arguments]
        for candidate in candidates:
            if candidate.takes(values):
                if candidate.cost is not None:
                    spend(frame, candidate.cost(*values))
                return candidate.call(*values)
        raise no_overload_for(name, values)

    return run


def _call_one(name: str, overload: Overload, argument: Code) -> Code:
    function, kind = overload.call, overload.kinds[0]

    def run(frame: Frame) -> Value:
        value = argument(frame)
        if kind(value):
            return function(value)
        raise no_overload_for(name, [value])

    return run


def _call_two(name: str, overload: Overload, first: Code, second: Code) -> Code:
    function, (one, two) = overload.call, overload.kinds

    def run(frame: Frame) -> Value:
        left, right = _both(frame, first, second)
        if one(left) and two(right):
            return function(left, right)
        raise no_overload_for(name, [left, right])

    return run


def _with_pattern(name: str, arguments: tuple[Code, ...], pattern: Any) -> Code:
    # cel-go replaces the function: the types of its arguments have errors of their own.
    def run(frame: Frame) -> Value:
        text, *rest = (argument(frame) for argument in arguments)
        text = go_string(text)
        if text is None:
            no_such_overload()
        text = printable(text)
        if name == "matches":
            return pattern.search(text) is not None
        if name == "find":
            match = pattern.search(text)
            return match[0] if match else ""
        count = rest[1] if len(rest) > 1 else -1
        if type(count) is not int:
            no_such_overload()
        return all_matches(pattern, text, count)

    return run
