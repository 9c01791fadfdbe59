"""Macros at run time: what they do with each element, and with errors on the way.

An error of one element is a value like any other: all() and exists() may still be decided by
another element, the others end with an error. Which one, is cel-go's: exists_one() and conditions
keep the last error, transformations the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from bayplan.cel.access import Code, Frame
from bayplan.cel.budget import BUDGET, over_budget
from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.functions.registry import no_overload_for
from bayplan.cel.golang.printing import text_of
from bayplan.cel.values import (
    LISTS,
    MISSING,
    Accumulator,
    Map,
    Value,
    go_type,
    map_key,
)

STEPS: Final = 1  # the index of the steps left in a frame


def spend(frame: Frame, steps: int) -> None:
    """Take steps from the budget of the evaluation.

    Raises:
        AbortedError: there are not that many left.
    """
    frame[STEPS] -= steps
    if frame[STEPS] < 0:
        raise over_budget()


def new_frame(device: Value, slots: int) -> Frame:
    """The frame of an evaluation, with as many slots for variables."""
    return [device, BUDGET, *[None] * slots]


def _iterate(frame: Frame, container: Value, slots: tuple[int, ...]) -> Iterator[None]:
    # Puts the elements into the slots, one after another.
    if type(container) not in LISTS and not isinstance(container, Map):
        name = go_type(container)
        if len(slots) == 2:
            raise EvaluationError(f"unsupported comprehension range type: {name}")
        raise EvaluationError(f"got '{name}', expected iterable type")
    if len(slots) == 1:
        for element in list(container):
            spend(frame, 1)
            frame[slots[0]] = element
            yield
        return
    entries = container.entries.values() if isinstance(container, Map) else enumerate(container)
    for first, second in list(entries):
        spend(frame, 1)
        frame[slots[0]], frame[slots[1]] = first, second
        yield


def decide(frame: Frame, decisive: bool, terms: Iterable[Code]) -> bool:
    """The answer of `||` (decided by True) or `&&`: errors count if no other term decides.

    Raises:
        EvaluationError: the first one, where none decides.
    """
    error: EvaluationError | None = None
    for term in terms:
        try:
            value = term(frame)
        except EvaluationError as reason:
            error = error or reason
            continue
        if type(value) is not bool:
            error = error or EvaluationError("no such overload")
        elif value == decisive:
            return decisive
    if error:
        raise error
    return not decisive


def quantifier(
    kind: Literal["all", "exists"], container: Code, slots: tuple[int, ...], predicate: Code
) -> Code:
    """Code for all() or exists()."""
    decisive = kind == "exists"

    def run(frame: Frame) -> bool:
        elements = _iterate(frame, container(frame), slots)
        return decide(frame, decisive, (predicate for _ in elements))

    return run


def _condition(frame: Frame, condition: Code) -> bool:
    value = condition(frame)
    if type(value) is not bool:
        no_such_overload()
    return bool(value)


def exists_one(container: Code, slots: tuple[int, ...], predicate: Code) -> Code:
    """Code that tells whether exactly one element satisfies the predicate."""

    def run(frame: Frame) -> bool:
        error: EvaluationError | None = None
        count = 0
        for _ in _iterate(frame, container(frame), slots):
            try:
                count += _condition(frame, predicate)
            except EvaluationError as reason:
                error = reason
        if error:
            raise error
        return count == 1

    return run


def transform(
    kind: Literal["list", "map", "entries"],
    container: Code,
    slots: tuple[int, ...],
    condition: Code | None,
    result: Code,
) -> Code:
    """Code for map(), filter() and the transformations of two variables."""

    def run(frame: Frame) -> Value:
        error: EvaluationError | None = None
        elements: list[Value] = []
        entries = Map({})
        for _ in _iterate(frame, container(frame), slots):
            try:
                if condition is not None and not _condition(frame, condition):
                    continue
            except EvaluationError as reason:
                error = reason
                continue
            if error:
                continue
            try:
                value = result(frame)
                if kind == "list":
                    elements.append(value)
                elif kind == "map":
                    _insert(entries, frame[slots[0]], value)
                else:
                    _insert_all(entries, value)
            except EvaluationError as reason:
                error = reason
        if error:
            raise error
        return elements if kind == "list" else entries

    return run


def _insert(entries: Map, key: Value, value: Value) -> None:
    if entries.lookup(key) is not MISSING:
        raise EvaluationError(f"insert failed: key {text_of(key)} already exists")
    entries.entries[map_key(key)] = key, value


def _insert_all(entries: Map, additions: Value) -> None:
    if not isinstance(additions, Map):
        raise no_overload_for("cel.@mapInsert", [entries, additions])
    for key, value in additions.entries.values():
        _insert(entries, key, value)


def bind(slot: int, body: Code) -> Code:
    """Code for cel.bind(): the variable has no value until it is first read."""

    def run(frame: Frame) -> Value:
        frame[slot] = MISSING
        value = body(frame)
        if type(value) is Accumulator and type(frame[slot]) is Accumulator:
            return list(value)
        return value

    return run


def bound_variable(slot: int, value: Code) -> Code:
    """Code for the variable of a cel.bind()."""

    def read(frame: Frame) -> Value:
        current = frame[slot]
        if current is MISSING:
            try:
                current = value(frame)
            except EvaluationError as reason:
                current = reason
            if type(current) in LISTS and not current:
                current = Accumulator()
            frame[slot] = current
        if isinstance(current, EvaluationError):
            raise current
        return current

    return read
