"""Reach: the nodes from which a volume can be used, as written in PVs, classes and CSI capacities.

A `Reach` is a tuple of terms of which one must hold; a term is a tuple of requirements on labels,
all of which must hold. Every volume has a reach of its own, so a requirement is not judged per
distinct value of its label but looked up by value: three NumPy operations for a volume of one zone
or host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from typing import NamedTuple

import numpy as np

from bayplan.api import selectors
from bayplan.api.meta import LabelSelector, LabelSelectorRequirement
from bayplan.api.pod_spec import NodeSelectorTerm
from bayplan.api.storage import TopologySelectorTerm, VolumeNodeAffinity
from bayplan.cache.node_table import ABSENT, BoolArray, CodedColumn, IntArray, NodeTable


class LabelRequirement(NamedTuple):
    """A requirement on one label of a node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


Term = tuple[LabelRequirement, ...]
Reach = tuple[Term, ...]

ANYWHERE: Reach = ((),)
NOWHERE: Reach = ()

_NODE_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_LABEL_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


def of_affinity(affinity: VolumeNodeAffinity | None) -> Reach:
    """The reach of a PersistentVolume. Terms without a requirement or with a faulty one are void.

    Requirements on fields hold for every node: volumes are matched with nodes by labels alone.
    """
    if affinity is None or affinity.required is None:
        return ANYWHERE
    terms = affinity.required.node_selector_terms
    return tuple(_term(t.match_expressions) for t in terms if _is_sound(t))


def _is_sound(term: NodeSelectorTerm) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = all(f.operator in ("In", "NotIn") and len(f.values) == 1 for f in term.match_fields)
    return fields and all(_is_valid(r, _NODE_OPERATORS) for r in term.match_expressions)


def of_topologies(terms: Iterable[TopologySelectorTerm]) -> Reach:
    """The reach of a StorageClass: its allowedTopologies; none at all means anywhere."""
    terms = tuple(terms)
    if not terms:
        return ANYWHERE
    return tuple(
        tuple(LabelRequirement(e.key, "In", e.values) for e in term.match_label_expressions)
        for term in terms
        if term.match_label_expressions and all(e.values for e in term.match_label_expressions)
    )


def of_selector(selector: LabelSelector | None) -> Reach:
    """The reach of a CSIStorageCapacity: the nodeTopology; without one there is no reach."""
    if selector is None:
        return NOWHERE
    if not all(_is_valid(r, _LABEL_OPERATORS) for r in selector.match_expressions):
        return NOWHERE
    labels = (LabelRequirement(k, "In", (v,)) for k, v in selector.match_labels.items())
    return ((*labels, *_term(selector.match_expressions)),)


def _term(requirements: Iterable[LabelSelectorRequirement]) -> Term:
    return tuple(LabelRequirement(r.key, r.operator, r.values) for r in requirements)


def _is_valid(requirement: LabelSelectorRequirement, operators: frozenset[str]) -> bool:
    values = requirement.values
    match requirement.operator:
        case operator if operator not in operators:
            return False
        case "In" | "NotIn":
            return bool(values)
        case "Gt" | "Lt":
            return len(values) == 1 and selectors.integer(values[0]) is not None
    return not values


def includes(reach: Reach, labels: Mapping[str, str]) -> bool:
    """Whether a node with ``labels`` is within ``reach``."""
    return any(all(selectors.requirement(*r)(labels) for r in term) for term in reach)


def rows(reach: Reach, nodes: NodeTable) -> BoolArray:
    """Which rows are within ``reach``, ``(n,)``."""
    reachable = np.zeros(len(nodes), np.bool_)
    for term in reach:
        fits = np.ones(len(nodes), np.bool_)
        for requirement in term:
            fits &= _requirement_rows(requirement, nodes)
        reachable |= fits
    return reachable


def _requirement_rows(requirement: LabelRequirement, nodes: NodeTable) -> BoolArray:
    key, operator, values = requirement
    column = nodes.label(key)
    if operator in ("Exists", "DoesNotExist"):
        there: BoolArray = column.codes != ABSENT
        return there if operator == "Exists" else ~there
    if operator in ("Gt", "Lt"):
        holds = selectors.requirement(key, operator, values)
        answers = np.array([*(holds({key: v}) for v in column.values), False], np.bool_)
        compared: BoolArray = answers[column.codes]
        return compared
    same = rows_with(column, values)
    return same if operator == "In" else ~same


def rows_with(column: CodedColumn, values: Iterable[str]) -> BoolArray:
    """Which rows have one of ``values``, ``(n,)``."""
    codes = [code for code in map(column.find, values) if code != ABSENT]
    same: BoolArray = column.codes == codes[0] if len(codes) == 1 else np.isin(column.codes, codes)
    return same


class FirstReach:
    """Which of several reaches, in order of preference, is the first to include each row.

    Reaches of a single value (a host, a zone) cost a dictionary entry each, not a pass over rows:
    thousands of local volumes or capacities are one pass together.
    """

    def __init__(self, nodes: NodeTable, reaches: Iterable[Reach]) -> None:
        self._nodes = nodes
        self._anywhere: list[int] = []
        self._by_value: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._others: list[tuple[int, BoolArray]] = []
        self._count = 0
        for reach in reaches:
            self._add(self._count, reach)
            self._count += 1

    def _add(self, index: int, reach: Reach) -> None:
        match reach:
            case ((),):
                self._anywhere.append(index)
            case ((LabelRequirement(key, "In", values),),):
                for value in values:
                    self._by_value[key][value].append(index)
            case _:
                self._others.append((index, rows(reach, self._nodes)))

    def best(self) -> IntArray:
        """Index of the first reach that includes each row, -1 where none does, ``(n,)``."""
        nothing = self._count
        best = np.full(len(self._nodes), nothing, np.int64)
        if self._anywhere:
            best[:] = self._anywhere[0]
        for key, by_value in self._by_value.items():
            column = self._nodes.label(key)
            first = np.full(len(column.values) + 1, nothing, np.int64)
            for value, indices in by_value.items():
                if (code := column.find(value)) != ABSENT:
                    first[code] = indices[0]
            np.minimum(best, first[column.codes], out=best)
        for index, included in self._others:
            best[included] = np.minimum(best[included], index)
        best[best == nothing] = -1
        return best

    def at(self, row: int) -> Iterator[int]:
        """Indices of all reaches that include ``row``, in order, each once."""
        lists = [self._anywhere, [i for i, included in self._others if included[row]]]
        for key, by_value in self._by_value.items():
            column = self._nodes.label(key)
            if (code := column.codes[row]) != ABSENT:
                lists.append(by_value.get(column.values[code], []))
        return merge(*lists)
