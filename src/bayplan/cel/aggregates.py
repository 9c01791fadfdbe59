"""Code for lists and maps that an expression makes."""

from __future__ import annotations

from bayplan.cel.access import Code, Frame
from bayplan.cel.errors import EvaluationError
from bayplan.cel.golang.printing import text_of
from bayplan.cel.values import Map, Optional, Value, map_key


def make_list(elements: tuple[Code, ...], optional: frozenset[int]) -> Code:
    """A list; the elements at the indexes `optional` are left out when they have no value."""
    if not optional:
        return lambda frame: [element(frame) for element in elements]

    def run(frame: Frame) -> list[Value]:
        result = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index in optional:
                if not isinstance(value, Optional):
                    problem = "cannot initialize optional list element from non-optional value"
                    raise EvaluationError(f"{problem} {text_of(value)}")
                if not value.present:
                    continue
                value = value.value
            result.append(value)
        return result

    return run


def make_map(entries: tuple[tuple[Code, Code], ...], optional: frozenset[int]) -> Code:
    """A map; of equal keys the last one counts, and an optional one without value removes it."""

    def run(frame: Frame) -> Map:
        result = Map({})
        for index, (key_code, value_code) in enumerate(entries):
            key, value = key_code(frame), value_code(frame)
            if index in optional:
                if not isinstance(value, Optional):
                    problem = f"cannot initialize optional entry '{text_of(key)}'"
                    message = f"{problem} from non-optional value {text_of(value)}"
                    raise EvaluationError(message)
                if not value.present:
                    result.entries.pop(map_key(key), None)
                    continue
                value = value.value
            result.entries[map_key(key)] = key, value
        return result

    return run
