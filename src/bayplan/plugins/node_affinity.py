"""NodeAffinity: spec.nodeSelector, node affinity, and the affinity that the profile adds.

Nodes that affinity names by metadata.name are given to the framework as the only ones worth looking
at. A faulty term never matches where it is required; where it is preferred, the attempt fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bayplan.api.kinds import NODE
from bayplan.api.node import Node
from bayplan.api.pod import Pod, SpecPart
from bayplan.api.pod_spec import NodeAffinity as NodeAffinitySpec
from bayplan.api.pod_spec import NodeSelectorTerm
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.args import NodeAffinityArgs
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import Handle
from bayplan.framework.interface import Depends, Normalizer, Plugin, PodPart, PreFilterResult
from bayplan.framework.points import EnqueueExtensions, FilterNodes, PreFilter, PreScore, ScoreNodes
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.shared.node_selectors import (
    NAME_FIELD,
    Preferences,
    compile_preferences,
    compile_selector,
    required_node_affinity,
)
from bayplan.plugins.shared.selector_faults import joined

_ENFORCED, _UNMATCHED = 1, 2
_REASONS = {
    _ENFORCED: Status.unresolvable("node(s) didn't match scheduler-enforced node affinity"),
    _UNMATCHED: Status.unresolvable("node(s) didn't match Pod's node affinity/selector"),
}
_CONFLICT = Status.unresolvable("pod affinity terms conflict")


class NodeAffinity(Plugin, PreFilter, FilterNodes, PreScore, ScoreNodes, EnqueueExtensions):
    """Filters by required terms, scores by the weights of preferred ones that match."""

    Args = NodeAffinityArgs
    filter_depends = Depends.NODE
    score_depends = Depends.NODE
    reads = PodPart.CONSTRAINTS
    normalizer = Normalizer()

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.node_affinity() or NodeAffinitySpec()
        self._added = compile_selector(added.required) if added.required is not None else None
        self._added_preferences = compile_preferences(added.preferred) if added.preferred else None

    def pre_filter(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
    ) -> PreFilterResult | Status | None:
        """Skip where nothing is required; name the nodes where affinity does."""
        required = _affinity(pod.shape.constraints).required
        if required is None and self._added is None and not pod.spec.node_selector:
            return SKIP
        names = _named_nodes(required.node_selector_terms) if required else None
        return _CONFLICT if names == frozenset() else PreFilterResult(names)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """1 where the added affinity does not match, else 2 where the Pod's own does not."""
        codes: IntArray = np.where(
            pod.shape.constraints.memo(required_node_affinity).mask(nodes), 0, _UNMATCHED
        )
        if self._added is not None:
            codes[~self._added.mask(nodes)] = _ENFORCED
        return codes

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What a code of `filter_nodes` means."""
        return _REASONS[code]

    def pre_score(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeTable,
        feasible: BoolArray,
    ) -> Status | None:
        """Skip where nothing is preferred; an error for faulty preferences."""
        if not _affinity(pod.shape.constraints).preferred and self._added_preferences is None:
            return SKIP
        faults = pod.shape.constraints.memo(_preferences).faults
        return Status.error(joined(faults)) if faults else None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """The weights of the preferred terms that match, summed."""
        scores = pod.shape.constraints.memo(_preferences).scores(nodes)
        if self._added_preferences is not None:
            scores += self._added_preferences.scores(nodes)
        return scores

    def events_to_register(self) -> list[EventRegistration]:
        """A node that is new or has new labels."""
        node = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return [EventRegistration(node, self._node_matches_now)]

    def _node_matches_now(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        if self._added is not None and not self._added.matches(new):
            return Hint.SKIP
        required = pod.shape.constraints.memo(required_node_affinity)
        if not required.matches(new):
            return Hint.SKIP
        return Hint.SKIP if old is not None and required.matches(old) else Hint.QUEUE


def _affinity(constraints: SpecPart) -> NodeAffinitySpec:
    affinity = constraints.spec.affinity
    return affinity.node_affinity or _NONE if affinity else _NONE


_NONE = NodeAffinitySpec()


def _preferences(constraints: SpecPart) -> Preferences:
    return compile_preferences(_affinity(constraints).preferred)


def _named_nodes(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """The nodes that the terms name; None if a term names none: then any node may match."""
    named: frozenset[str] | None = None
    for term in terms:
        sets = [
            frozenset(r.values)
            for r in term.match_fields
            if r.key == NAME_FIELD and r.operator == "In"
        ]
        if not sets:
            return None
        named = (named or frozenset()).union(frozenset.intersection(*sets))
    return named
