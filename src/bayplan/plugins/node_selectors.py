"""Node selectors and node affinity, compiled to masks over the node table.

A requirement on a label is judged once per distinct value of that label; a term is the AND of its
requirements, a selector the OR of its terms. As in ``k8s.io/component-helpers``, an empty term
matches no node, and a term with a faulty requirement (Gt with a value that is no integer) matches
none either; its faults are kept for who has to report them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol

import msgspec
import numpy as np

from bayplan.api import selectors
from bayplan.api.meta import LabelSelectorRequirement
from bayplan.api.node import Node
from bayplan.api.pod import NodeSelector, NodeSelectorTerm, PodShape, PreferredSchedulingTerm
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.plugins.coded_answers import CodedAnswers

NAME_FIELD = "metadata.name"

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_VALID_VALUE = re.compile(_LABEL_VALUE)
_MAX_VALUE = 63
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    f"'12345', regex used for validation is '{_LABEL_VALUE}')"
)


class _Condition(Protocol):
    def mask(self, nodes: NodeTable) -> BoolArray: ...
    def matches(self, node: Node) -> bool: ...


class _LabelCondition:
    """One requirement on a node label."""

    def __init__(self, key: str, predicate: selectors.Predicate) -> None:
        self._key = key
        self._predicate = predicate
        self._answers = CodedAnswers(lambda value: predicate({key: value}), predicate({}))

    def mask(self, nodes: NodeTable) -> BoolArray:
        return self._answers.of(nodes.label(self._key))

    def matches(self, node: Node) -> bool:
        return self._predicate(node.labels)


@dataclass(frozen=True)
class _FieldCondition:
    """One requirement on a node field; every field but the name is empty."""

    key: str
    value: str
    equal: bool

    def mask(self, nodes: NodeTable) -> BoolArray:
        same = np.zeros(len(nodes), np.bool_)
        if self.key != NAME_FIELD:
            same[:] = self.value == ""
        elif (row := nodes.row(self.value)) is not None:
            same[row] = True
        return same if self.equal else ~same

    def matches(self, node: Node) -> bool:
        actual = node.name if self.key == NAME_FIELD else ""
        return (actual == self.value) == self.equal


@dataclass(frozen=True)
class Term:
    """A compiled NodeSelectorTerm.

    Attributes:
        faults: what is wrong with it, in the words of the API; it matches nothing if there is any.
    """

    conditions: tuple[_Condition, ...]
    faults: tuple[str, ...] = ()

    def mask(self, nodes: NodeTable) -> BoolArray:
        """Which rows match, ``(n,)``."""
        if self.faults:
            return np.zeros(len(nodes), np.bool_)
        return _all(nodes, self.conditions)

    def matches(self, node: Node) -> bool:
        """Whether ``node`` matches."""
        return not self.faults and all(c.matches(node) for c in self.conditions)


@dataclass(frozen=True)
class Selector:
    """A compiled NodeSelector: any of its terms."""

    terms: tuple[Term, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with any of the terms."""
        return tuple(fault for term in self.terms for fault in term.faults)

    def mask(self, nodes: NodeTable) -> BoolArray:
        """Which rows match, ``(n,)``."""
        masks = (term.mask(nodes) for term in self.terms)
        return reduce(np.logical_or, masks, np.zeros(len(nodes), np.bool_))

    def matches(self, node: Node) -> bool:
        """Whether ``node`` matches."""
        return any(term.matches(node) for term in self.terms)


@dataclass(frozen=True)
class RequiredNodeAffinity:
    """What a Pod demands of its node: spec.nodeSelector and required node affinity."""

    labels: tuple[_Condition, ...]
    affinity: Selector | None

    def mask(self, nodes: NodeTable) -> BoolArray:
        """Which rows match, ``(n,)``."""
        labels = _all(nodes, self.labels)
        return labels if self.affinity is None else labels & self.affinity.mask(nodes)

    def matches(self, node: Node) -> bool:
        """Whether ``node`` matches."""
        selected = all(c.matches(node) for c in self.labels)
        return selected and (self.affinity is None or self.affinity.matches(node))


@dataclass(frozen=True)
class Preferences:
    """Compiled preferred terms with their weights."""

    terms: tuple[tuple[int, Term], ...]
    faults: tuple[str, ...] = field(default=())

    def scores(self, nodes: NodeTable) -> IntArray:
        """The sum of the weights of the terms that match, ``(n,)``."""
        total = np.zeros(len(nodes), np.int64)
        for weight, term in self.terms:
            total += weight * term.mask(nodes)
        return total


def compile_selector(spec: NodeSelector, path: str = "") -> Selector:
    """Compile a NodeSelector; ``path`` is what its faults begin with."""
    terms = (
        compile_term(t, f"{path}nodeSelectorTerms[{i}]")
        for i, t in enumerate(spec.node_selector_terms)
        if not _is_empty(t)
    )
    return Selector(tuple(terms))


def required_node_affinity(shape: PodShape) -> RequiredNodeAffinity:
    """For `PodShape.memo`: what Pods of ``shape`` demand of their node."""
    spec = shape.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    labels = (_LabelCondition(k, selectors.equals(k, v)) for k, v in spec.node_selector.items())
    return RequiredNodeAffinity(tuple(labels), compile_selector(required) if required else None)


def compile_preferences(terms: Iterable[PreferredSchedulingTerm], path: str = "") -> Preferences:
    """Compile preferred terms; those without weight or requirements are left out unread."""
    compiled = [
        (t.weight, compile_term(t.preference, f"{path}[{i}]"))
        for i, t in enumerate(terms)
        if t.weight and not _is_empty(t.preference)
    ]
    faults = tuple(fault for _, t in compiled for fault in t.faults)
    return Preferences(tuple(compiled), faults)


def compile_term(spec: NodeSelectorTerm, path: str) -> Term:
    """Compile one term; ``path`` is what its faults begin with."""
    faults: list[str] = []
    conditions: list[_Condition] = []
    for i, requirement in enumerate(spec.match_expressions):
        wrong = _label_faults(requirement, f"{path}.matchExpressions[{i}]")
        faults += wrong
        if not wrong:
            conditions.append(_label_condition(requirement))
    for i, requirement in enumerate(spec.match_fields):
        wrong = _field_faults(requirement, f"{path}.matchFields[{i}]")
        faults += wrong
        if not wrong:
            equal = requirement.operator == "In"
            conditions.append(_FieldCondition(requirement.key, requirement.values[0], equal))
    return Term(tuple(conditions), tuple(faults))


def joined(faults: Sequence[str]) -> str:
    """Several faults as one message, as Kubernetes joins errors."""
    distinct = list(dict.fromkeys(faults))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _is_empty(spec: NodeSelectorTerm) -> bool:
    return not spec.match_expressions and not spec.match_fields


def _all(nodes: NodeTable, conditions: Iterable[_Condition]) -> BoolArray:
    masks = (condition.mask(nodes) for condition in conditions)
    return reduce(np.logical_and, masks, np.ones(len(nodes), np.bool_))


def _label_condition(requirement: LabelSelectorRequirement) -> _LabelCondition:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    return _LabelCondition(key, selectors.requirement(key, operator, values))


def _label_faults(requirement: LabelSelectorRequirement, path: str) -> list[str]:
    operator, values = requirement.operator, requirement.values
    if operator not in _LABEL_OPERATORS:
        return [_unsupported(operator, _LABEL_OPERATORS, path)]
    faults = []
    if operator in ("In", "NotIn") and not values:
        faults.append(
            f"{path}.values: Invalid value: null: for 'in', 'notin' operators, values "
            "set can't be empty"
        )
    if operator in ("Exists", "DoesNotExist") and values:
        faults.append(
            f"{path}.values: Invalid value: {_listed(values)}: values set must be empty "
            "for exists and does not exist"
        )
    if operator in ("Gt", "Lt"):
        faults += _comparison_faults(values, path)
    faults += [
        f'{path}.values[{i}][{requirement.key}]: Invalid value: "{value}": {why}'
        for i, value in enumerate(values)
        for why in _value_faults(value)
    ]
    return faults


def _comparison_faults(values: Sequence[str], path: str) -> list[str]:
    faults = []
    if len(values) != 1:
        faults.append(
            f"{path}.values: Invalid value: {_listed(values)}: for 'Gt', 'Lt' operators, "
            "exactly one value is required"
        )
    return faults + [
        f"{path}.values[{i}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must "
        "be an integer"
        for i, value in enumerate(values)
        if selectors.integer(value) is None
    ]


def _value_faults(value: str) -> list[str]:
    faults = []
    if len(value) > _MAX_VALUE:
        faults.append(f"must be no more than {_MAX_VALUE} bytes")
    if not _VALID_VALUE.fullmatch(value):
        faults.append(_BAD_VALUE)
    return ["; ".join(faults)] if faults else []


def _field_faults(requirement: LabelSelectorRequirement, path: str) -> list[str]:
    if requirement.operator not in _FIELD_OPERATORS:
        return [_unsupported(requirement.operator, _FIELD_OPERATORS, path)]
    if len(requirement.values) != 1:
        listed = _listed(requirement.values)
        return [f"{path}.values: Invalid value: {listed}: must have one element"]
    return []


def _unsupported(operator: str, known: Iterable[str], path: str) -> str:
    listed = ", ".join(f'"{name}"' for name in known)
    return f'{path}.operator: Unsupported value: "{operator}": supported values: {listed}'


def _listed(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode() if values else "null"
