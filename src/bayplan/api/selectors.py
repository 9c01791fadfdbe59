"""Label selectors and node selector terms, compiled to predicates over label dicts.

Semantics are those of ``k8s.io/apimachinery/pkg/labels`` and of the NodeSelector helpers in
``k8s.io/component-helpers``: a requirement on an absent key holds for NotIn and DoesNotExist only,
Gt and Lt compare integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from bayplan.api.meta import LabelSelector

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INT64 = range(-(2**63), 2**63)


class SelectorError(ValueError):
    """A selector that the API would reject, e.g. Gt with a value other than an integer."""


def integer(text: str) -> int | None:
    """``text`` as a 64-bit integer in Go's notation, or None."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Predicate:
    """The predicate of one requirement.

    Raises:
        SelectorError: unknown operator, or values that do not go with it.
    """
    allowed = frozenset(values)
    match operator:
        case "In" | "NotIn" if not values:
            raise SelectorError(f"values: must not be empty for operator {operator}")
        case "In":
            return lambda labels: labels.get(key) in allowed
        case "NotIn":
            return lambda labels: labels.get(key) not in allowed
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case "Gt" | "Lt":
            return _comparison(key, operator, values)
    raise SelectorError(f'"{operator}" is not a valid label selector operator')


def _comparison(key: str, operator: str, values: tuple[str, ...]) -> Predicate:
    bound = integer(values[0]) if len(values) == 1 else None
    if bound is None:
        raise SelectorError(f"values: operator {operator} takes exactly one integer")

    def compare(labels: Labels) -> bool:
        number = integer(labels[key]) if key in labels else None
        if number is None:
            return False
        return number > bound if operator == "Gt" else number < bound

    return compare


def all_of(predicates: list[Predicate]) -> Predicate:
    """Holds where every predicate holds; an empty list holds everywhere."""
    if len(predicates) == 1:
        return predicates[0]
    return lambda labels: all(p(labels) for p in predicates)


def nothing(_: Labels) -> bool:
    """The selector that matches no object (a nil metav1.LabelSelector)."""
    return False


def label_selector(selector: LabelSelector | None) -> Predicate:
    """The predicate of a metav1.LabelSelector: None matches nothing, an empty one everything.

    Raises:
        SelectorError: see `requirement`.
    """
    if selector is None:
        return nothing
    predicates = [equals(k, v) for k, v in selector.match_labels.items()]
    predicates += [requirement(r.key, r.operator, r.values) for r in selector.match_expressions]
    return all_of(predicates)


def equals(key: str, value: str) -> Predicate:
    """Holds where the label ``key`` is there and has ``value``."""
    return lambda labels: labels.get(key) == value


def parse(text: str) -> Predicate:
    """The predicate of a selector as ``kubectl -l`` takes it; "" holds everywhere.

    Requirements are joined by commas: ``a``, ``!a``, ``a=b``, ``a==b``, ``a!=b``, ``a in (b, c)``,
    ``a notin (b, c)``, ``a>1``, ``a<1``.

    Raises:
        SelectorError: it is none.
    """
    parts = re.split(r",(?![^(]*\))", text) if text.strip() else []
    return all_of([_parsed(part.strip()) for part in parts])


_REQUIREMENT = re.compile(
    r"(?P<not>!)?\s*(?P<key>[^\s!=<>(),]+)\s*"
    r"(?:(?P<sign>==?|!=|>|<)\s*(?P<value>[^\s!=<>(),]*)"
    r"|(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?"
)
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_OPERATORS |= {"in": "In", "notin": "NotIn"}


def _parsed(text: str) -> Predicate:
    match = _REQUIREMENT.fullmatch(text)
    if match is None or (match["not"] and (match["sign"] or match["word"])):
        raise SelectorError(f"{text!r} is no requirement of a label selector")
    operator = _OPERATORS.get(match["sign"] or match["word"] or "")
    if operator is None:
        return requirement(match["key"], "DoesNotExist" if match["not"] else "Exists", ())
    listed = match["values"] if match["word"] else match["value"]
    values = tuple(value.strip() for value in listed.split(","))
    return requirement(match["key"], operator, values)
