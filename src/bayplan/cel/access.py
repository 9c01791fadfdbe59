"""Access to fields, keys and indexes: chains such as `device.attributes["a"].?b.c`.

A chain is evaluated as a whole, because a `?` in it, or an optional value at its start, makes
everything behind it optional: the first missing part then ends the chain without an error.
Source: cel-go interpreter/attributes.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from bayplan.cel.errors import EvaluationError
from bayplan.cel.golang.printing import text_of
from bayplan.cel.values import (
    INT_MAX,
    LISTS,
    MISSING,
    NONE,
    Map,
    Optional,
    Uint,
    Value,
    go_type,
    optional_of,
    type_name,
)

# What an evaluation works on: the device, the steps left, and then a slot for each variable.
Frame: TypeAlias = list[Value]
Code: TypeAlias = Callable[[Frame], Value]

KEYS: Final = frozenset({str, int, Uint, bool, float})


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One step of a chain.

    Args:
        key: computes the field, key or index.
        optional: whether it has a `?`.
        test: whether it is the field that `has()` asks for.
    """

    key: Code
    optional: bool = False
    test: bool = False


def check_key(key: Value) -> None:
    """Refuse values that cannot be keys or indexes.

    Raises:
        EvaluationError: it is one.
    """
    if type(key) not in KEYS:
        raise EvaluationError(f"invalid qualifier type: {go_type(key)}")


def find(container: Value, key: Value) -> Value:
    """The element of `container` at `key`, or `MISSING`, whatever the container is.

    Raises:
        EvaluationError: the key cannot be an index of a list.
    """
    if type(container) is Map:
        return container.find(key)
    if type(container) in LISTS:
        index = _index(key)
        return container[index] if 0 <= index < len(container) else MISSING
    return MISSING


def get(container: Value, key: Value) -> Value:
    """The element of `container` at `key`.

    Raises:
        EvaluationError: there is none.
    """
    value = find(container, key)
    if value is MISSING:
        problem = "index out of bounds" if type(container) in LISTS else "no such key"
        raise EvaluationError(f"{problem}: {text_of(key)}")
    return value


def _index(key: Value) -> int:
    kind = type(key)
    if kind is int:
        return int(key)
    if kind not in (Uint, float):
        raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
    whole = key <= INT_MAX if kind is Uint else -(2.0**63) < key < 2.0**63 and key == int(key)
    if not whole:
        raise EvaluationError(f"unsupported index value {text_of(key)} in list")
    return int(key)


def chain(base: Code, qualifiers: tuple[Qualifier, ...]) -> Code:
    """Code for `base` with the qualifiers applied; `has()` gives a bool, or an optional one."""
    if not any(each.optional or each.test for each in qualifiers):
        return _plain_chain(base, tuple(each.key for each in qualifiers))
    return lambda frame: _walk(frame, base(frame), qualifiers)


def _plain_chain(base: Code, keys: tuple[Code, ...]) -> Code:
    qualifiers = tuple(Qualifier(key) for key in keys)

    def run(frame: Frame) -> Value:
        value = base(frame)
        if type(value) is Optional:
            return _walk(frame, value, qualifiers)
        for code in keys:
            key = code(frame)
            if type(key) is str and type(value) is Map:
                entry = value.find(key)
                if entry is MISSING:
                    raise EvaluationError(f"no such key: {key}")
                value = entry
            else:
                check_key(key)
                value = get(value, key)
        return value

    return run


def _walk(frame: Frame, value: Value, qualifiers: tuple[Qualifier, ...]) -> Value:
    optional = type(value) is Optional
    if optional:
        if not value.present:
            return value
        value = value.value
    for qualifier in qualifiers:
        key = qualifier.key(frame)
        check_key(key)
        optional = optional or qualifier.optional
        if optional:
            value = find(value, key)
            if value is MISSING:
                return NONE
        elif qualifier.test:
            value = find(value, key) is not MISSING
        else:
            value = get(value, key)
    return optional_of(value) if optional else value
