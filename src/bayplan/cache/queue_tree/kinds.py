"""Kinds of nodes: the NodeKind of each node, and the kinds to which a Pod may go.

A node is of one kind at most: of the NodeKinds that select it, the one with the most requirements,
then the older one, then by name. A kind is a number, its place in that order; `NO_KIND` is that of
nodes of no kind. Whether there is any node for a Pod is asked alike, of all kinds at once
(`ANY_KIND`).

What a queue uses of a resource on nodes of a kind is a column of its own beside the column of the
resource, called ``resource@kind`` (`bayplan.cache.queue_tree.structure`).

A Pod that waits asks for one kind: the first, in the order of its queue, that has an open node
which the Pod's node selector, affinity and tolerations admit and which is large enough. One such
node is remembered as *witness*. While the witness does not change, nor a node comes where there is
none, the answer stays. On nodes of a kind that is divided by itself each Pod is demand that may go
there, wherever it runs: so what is demanded does not depend on who was placed where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

import numpy as np

from bayplan.api.kinds import NODE_KIND
from bayplan.api.meta import LabelSelectorRequirement, ObjectFault
from bayplan.api.node import Node
from bayplan.api.pod import PodShape, SpecPart
from bayplan.api.pod_spec import NodeSelectorTerm
from bayplan.api.queues import NodeKind
from bayplan.api.selectors import (
    Predicate,
    SelectorError,
    all_of,
    equals,
    label_selector,
    nothing,
    requirement,
)
from bayplan.api.tolerations import repels
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.cache.requests import spec_requests, units

NO_KIND = -1
"""The kind of a node that no NodeKind selects."""
ANY_KIND = -2
"""Stands for all kinds, `NO_KIND` included."""
_NOBODY = -1
_NAME_FIELD = "metadata.name"
_QUESTIONS_KEPT = 65536


class _Question(NamedTuple):
    """Whether Pods with such a spec may go to nodes of a kind."""

    constraints: SpecPart
    requests: SpecPart
    kind: int


class NodeKinds:
    """See the module's docstring. Follows the node table; for other NodeKinds make another one.

    Attributes:
        names: the kinds, by number.
        codes: (n,) the kind of each node as of the last `refresh`.
        faults: what is wrong with the objects.
    """

    def __init__(self, kinds: Iterable[NodeKind], nodes: LiveNodeTable) -> None:
        self._nodes = nodes
        self._kinds = sorted(kinds, key=_precedence)
        self.names = tuple(kind.name for kind in self._kinds)
        self._faulty: list[ObjectFault] = []
        self._selects = [self._selector(kind) for kind in self._kinds]
        self._beaten: dict[int, dict[int, int]] = {}
        """By row, the kinds that select the node as precisely as its kind, and its kind."""
        self._witnesses: dict[_Question, int] = {}
        self.codes: IntArray = np.zeros(0, np.int64)
        self._node_names: list[str | None] = []
        self.faults: tuple[ObjectFault, ...] = ()
        self._position = -1
        if self.names:
            self.refresh()

    def __len__(self) -> int:
        return len(self.names)

    def of(self, node_name: str) -> int:
        """The kind of a node as of the last `refresh`; one that is not there has none."""
        row = self._nodes.row(node_name)
        return NO_KIND if row is None or row >= len(self.codes) else int(self.codes[row])

    def admits(self, shape: PodShape, kind: int) -> bool:
        """Whether such a Pod may go to an open node of a kind, by itself, and is small enough."""
        if self._position < 0:
            self.refresh()
        question = _Question(shape.constraints, shape.requests, kind)
        if question not in self._witnesses:
            self._witnesses[question] = self._search(question, range(len(self.codes)))
        return self._witnesses[question] != _NOBODY

    def _search(self, question: _Question, rows: Iterable[int]) -> int:
        demands = question.constraints.memo(_demands)
        exact = question.requests.memo(spec_requests)
        amounts = {name: units(name, amount) for name, amount in exact.items() if amount}
        nodes, codes = self._nodes, self.codes
        for row in rows:
            node = nodes.nodes[row]
            if node is None or question.kind not in (codes[row], ANY_KIND) or not demands(node):
                continue
            if all(nodes.allocatable(name)[row] >= amount for name, amount in amounts.items()):
                return row
        return _NOBODY

    # Nodes that change

    @property
    def is_outdated(self) -> bool:
        """Whether `refresh` is due."""
        return bool(self.names or self._witnesses) and (
            self._position != self._nodes.node_journal.position or self._is_full
        )

    @property
    def _is_full(self) -> bool:
        return len(self._witnesses) > _QUESTIONS_KEPT

    def refresh(self) -> tuple[bool, bool]:
        """Follow the nodes.

        Returns:
            Whether Pods on nodes may be on another kind than before; whether Pods that wait may
            find nodes of other kinds than before.
        """
        nodes, journal = self._nodes, self._nodes.node_journal
        rows = journal.since(self._position) if self._position >= 0 else None
        self._position = journal.position
        changed = range(len(nodes)) if rows is None else sorted(set(rows))
        new = len(nodes) - len(self.codes)
        self.codes = np.concatenate([self.codes, np.full(new, NO_KIND)])
        self._node_names += [None] * new
        moved = [self._set(row, nodes.nodes[row]) for row in changed]
        self._tell()
        return any(moved), self._ask_again(frozenset(changed)) or self._is_full

    def _set(self, row: int, node: Node | None) -> bool:
        """Find the kind of a node; returns whether Pods on it, or on the node before, notice."""
        selecting = (
            [] if node is None else [k for k, s in enumerate(self._selects) if s(node.labels)]
        )
        before, code = int(self.codes[row]), selecting[0] if selecting else NO_KIND
        name, self._node_names[row] = self._node_names[row], None if node is None else node.name
        self.codes[row] = code
        self._beaten.pop(row, None)
        beaten = {
            k for k in selecting[1:] if _precision(self._kinds[k]) == _precision(self._kinds[code])
        }
        if beaten:
            self._beaten[row] = dict.fromkeys(beaten, code)
        if name != self._node_names[row]:
            return before != NO_KIND or (code != NO_KIND and bool(self._nodes.pods[row]))
        return code != before and bool(self._nodes.pods[row])

    def _ask_again(self, changed: Set[int]) -> bool:
        """Whether the answer to a question is another one since these nodes have changed."""
        differs = False
        for question, before in self._witnesses.items():
            again = range(len(self.codes)) if before in changed else changed
            if before == _NOBODY or before in changed:
                after = self._witnesses[question] = self._search(question, again)
                differs |= (before == _NOBODY) != (after == _NOBODY)
        return differs

    # What is wrong

    def _selector(self, kind: NodeKind) -> Predicate:
        try:
            return label_selector(kind.spec.node_selector)
        except SelectorError as error:
            self._fault(self._faulty, kind, "InvalidSelector", str(error))
            return nothing

    def _tell(self) -> None:
        faults = list(self._faulty)
        invalid = {fault.regarding.name for fault in faults}
        there = set(self.codes.tolist())
        taken = {code: owner for beaten in self._beaten.values() for code, owner in beaten.items()}
        for code, kind in enumerate(self._kinds):
            if code in taken:
                text = f"nodes that it selects are of the kind {self.names[taken[code]]}"
                self._fault(faults, kind, "NodesTaken", text)
            elif code not in there and kind.name not in invalid:
                self._fault(faults, kind, "NoNodes", "no node is of this kind")
        if tuple(faults) != self.faults:
            self.faults = tuple(faults)

    def _fault(self, faults: list[ObjectFault], kind: NodeKind, reason: str, text: str) -> None:
        reference = NODE_KIND.reference(kind)
        faults.append(ObjectFault(reference, reason, f"spec.nodeSelector: {text}"))


def _precision(kind: NodeKind) -> int:
    """How many requirements a node has to meet."""
    selector = kind.spec.node_selector
    if selector is None:
        return 0
    return len(selector.match_labels) + len(selector.match_expressions)


def _precedence(kind: NodeKind) -> tuple[int, float, str]:
    created = kind.metadata.creation_timestamp
    return -_precision(kind), 0.0 if created is None else created.timestamp(), kind.name


# What Pods demand of their nodes


def is_choosy(constraints: SpecPart) -> bool:
    """For ``constraints.memo``: whether such Pods demand labels of their node."""
    affinity = constraints.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    return bool(constraints.spec.node_selector) or required is not None


def _demands(constraints: SpecPart) -> Callable[[Node], bool]:
    """For ``constraints.memo``: whether such Pods may go to a node, whoever is there."""
    spec = constraints.spec
    labels = all_of([equals(key, value) for key, value in spec.node_selector.items()])
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    terms = None if required is None else [_term(term) for term in required.node_selector_terms]

    def admits(node: Node) -> bool:
        if node.spec.unschedulable or repels(node.spec.taints, spec.tolerations):
            return False
        return labels(node.labels) and (terms is None or any(term(node) for term in terms))

    return admits


def _term(term: NodeSelectorTerm) -> Callable[[Node], bool]:
    """Whether a term selects a node; an empty one, and one with a fault, selects none."""
    if not term.match_expressions and not term.match_fields:
        return lambda _: False
    labels, fields = _all(term.match_expressions), _all(term.match_fields)
    return lambda node: labels(node.labels) and fields({_NAME_FIELD: node.name})


def _all(requirements: Sequence[LabelSelectorRequirement]) -> Predicate:
    try:
        return all_of([requirement(r.key, r.operator, r.values) for r in requirements])
    except SelectorError:
        return nothing
