"""The table of functions: their overloads by name, and how a call finds one when it runs.

A call with one candidate of its form (function or method, number of arguments) checks the types of
its arguments against that one. With more candidates, the first overload of the name that takes the
arguments is called, as in cel-go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from bayplan.cel.errors import EvaluationError
from bayplan.cel.values import (
    LISTS,
    Duration,
    Extension,
    Map,
    Optional,
    Timestamp,
    Uint,
    Value,
    type_name,
)

Kind = Callable[[Value], bool]
Function = TypeVar("Function", bound=Callable[..., Value])


def exactly(*types: type) -> Kind:
    """Values of exactly one of `types`."""
    kinds = frozenset(types)
    return lambda value: type(value) in kinds


def anything(_: Value) -> bool:
    """Every value."""
    return True


def list_of(kind: Kind) -> Kind:
    """Lists that are empty, or whose first element is of `kind`: cel-go looks no further."""
    return lambda value: type(value) in LISTS and (not value or kind(value[0]))


INT, UINT, DOUBLE, BOOL = exactly(int), exactly(Uint), exactly(float), exactly(bool)
STRING, BYTES = exactly(str), exactly(bytes)
TIMESTAMP, DURATION = exactly(Timestamp), exactly(Duration)
LIST, MAP, OPTIONAL = list_of(anything), exactly(Map), exactly(Optional)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    Args:
        kinds: of its arguments, the target of a method first.
        method: whether it is called on a target.
        call: computes the result from arguments of those kinds.
        cost: steps that a call takes, from its arguments; None for one.
    """

    kinds: tuple[Kind, ...]
    method: bool
    call: Callable[..., Value]
    cost: Callable[..., int] | None = None

    def takes(self, arguments: Sequence[Value]) -> bool:
        """Whether all arguments are of its kinds."""
        if len(arguments) != len(self.kinds):
            return False
        return all(kind(value) for kind, value in zip(self.kinds, arguments, strict=True))


FUNCTIONS: Final[dict[str, list[Overload]]] = {}


def function(
    name: str, *kinds: Kind, cost: Callable[..., int] | None = None
) -> Callable[[Function], Function]:
    """Register the decorated function as `name(...)`."""
    return _register(name, kinds, False, cost)


def method(
    name: str, *kinds: Kind, cost: Callable[..., int] | None = None
) -> Callable[[Function], Function]:
    """Register the decorated function as `target.name(...)`; the target comes first."""
    return _register(name, kinds, True, cost)


def _register(
    name: str, kinds: tuple[Kind, ...], is_method: bool, cost: Callable[..., int] | None
) -> Callable[[Function], Function]:
    def register(call: Function) -> Function:
        FUNCTIONS.setdefault(name, []).append(Overload(kinds, is_method, call, cost))
        return call

    return register


def takes_what(parse: Callable[..., Value]) -> Callable[..., bool]:
    """A function: whether `parse` takes the arguments without an error."""

    def accepts(*arguments: Value) -> bool:
        try:
            parse(*arguments)
        except EvaluationError:
            return False
        return True

    return accepts


def define_order(kind: Kind) -> None:
    """Register the comparisons of values of `kind`, which have a method `compare`."""
    method("compareTo", kind, kind)(lambda value, other: value.compare(other))
    method("isGreaterThan", kind, kind)(lambda value, other: value.compare(other) > 0)
    method("isLessThan", kind, kind)(lambda value, other: value.compare(other) < 0)


def no_overload_for(name: str, arguments: Sequence[Value]) -> EvaluationError:
    """The error of a call that no overload takes."""
    types = ", ".join(type_name(argument) for argument in arguments)
    return EvaluationError(f"no such overload: {name}({types})")


def go_string(value: Value) -> str | None:
    """The value as a Go string, if it is one inside: a string, or a type's name."""
    if type(value) is str:
        return value
    return None if isinstance(value, Extension) else getattr(value, "name", None)
