"""Node selectors and node affinity, compiled to masks over the node table.

A requirement on a label is judged once per distinct value of that label; a term is the AND of its
requirements, a selector the OR of its terms. As in ``k8s.io/component-helpers``, an empty term
matches no node, and a term with a faulty requirement (Gt with a value that is no integer) matches
none either; its faults are kept for who has to report them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np

from bayplan.api import selectors
from bayplan.api.node import Node
from bayplan.api.pod import SpecPart
from bayplan.api.pod_spec import NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.plugins.shared.coded_answers import CodedAnswers
from bayplan.plugins.shared.selector_faults import field_faults, label_faults

NAME_FIELD = "metadata.name"


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
class CompiledNodeSelector:
    """A compiled NodeSelector: any of its terms."""

    terms: tuple[Term, ...]

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
    affinity: CompiledNodeSelector | None

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
    faults: tuple[str, ...] = ()

    def scores(self, nodes: NodeTable) -> IntArray:
        """The sum of the weights of the terms that match, ``(n,)``."""
        total = np.zeros(len(nodes), np.int64)
        for weight, term in self.terms:
            total += weight * term.mask(nodes)
        return total


def compile_selector(spec: NodeSelector, path: str = "") -> CompiledNodeSelector:
    """Compile a NodeSelector; ``path`` is what its faults begin with."""
    terms = (
        compile_term(t, f"{path}nodeSelectorTerms[{i}]")
        for i, t in enumerate(spec.node_selector_terms)
        if not _is_empty(t)
    )
    return CompiledNodeSelector(tuple(terms))


def required_node_affinity(constraints: SpecPart) -> RequiredNodeAffinity:
    """For ``constraints.memo``: what such Pods demand of their node."""
    spec = constraints.spec
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
        wrong = label_faults(requirement, f"{path}.matchExpressions[{i}]")
        faults += wrong
        if not wrong:
            key, operator, values = requirement.key, requirement.operator, requirement.values
            predicate = selectors.requirement(key, operator, values)
            conditions.append(_LabelCondition(key, predicate))
    for i, requirement in enumerate(spec.match_fields):
        wrong = field_faults(requirement, f"{path}.matchFields[{i}]")
        faults += wrong
        if not wrong:
            equal = requirement.operator == "In"
            conditions.append(_FieldCondition(requirement.key, requirement.values[0], equal))
    return Term(tuple(conditions), tuple(faults))


def _is_empty(spec: NodeSelectorTerm) -> bool:
    return not spec.match_expressions and not spec.match_fields


def _all(nodes: NodeTable, conditions: Iterable[_Condition]) -> BoolArray:
    masks = (condition.mask(nodes) for condition in conditions)
    return reduce(np.logical_and, masks, np.ones(len(nodes), np.bool_))
