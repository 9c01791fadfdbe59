"""InterPodAffinity: Pods are placed near other Pods, or far from other Pods.

Filter honours required terms, the incoming Pod's own and the anti-affinity of Pods on nodes. Score
adds up the weights of preferred terms of both sides, and of required affinity of Pods on nodes. All
counts come from `bayplan.cache.counters`, so a cycle costs a few look-ups by topology domain. The
reasons and their order are those of kube-scheduler's ``interpodaffinity`` package.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.api.kinds import NODE
from bayplan.api.node import Node
from bayplan.api.pod import Pod, PodShape
from bayplan.cache.counters import DomainCounter, Integers, PodTerm, shape_terms
from bayplan.cache.shape_cache import ShapeCache
from bayplan.config.args import InterPodAffinityArgs
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.handle import Handle
from bayplan.framework.interface import UNBOUNDED, BoolArray, CycleState, NodeTable, Plugin
from bayplan.framework.points import (
    BoundsCopies,
    EnqueueExtensions,
    FilterNodes,
    MovesElsewhere,
    PreFilter,
    PreScore,
    ScoreNodes,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.inter_pod_affinity.state import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    AffinityScore,
    AffinityState,
    AffinityView,
)

SHAPES_KEPT = 2048
_SCORE_KEY = "PreScoreInterPodAffinity"
_REASONS = {
    AFFINITY: Status.unresolvable("node(s) didn't match pod affinity rules"),
    ANTI_AFFINITY: Status.unschedulable("node(s) didn't match pod anti-affinity rules"),
    EXISTING_ANTI_AFFINITY: Status.unschedulable(
        "node(s) didn't satisfy existing pods anti-affinity rules"
    ),
}


class InterPodAffinity(
    Plugin,
    PreFilter,
    FilterNodes,
    BoundsCopies,
    PreScore,
    ScoreNodes,
    MovesElsewhere,
    EnqueueExtensions,
):
    """See the module's docstring."""

    Args = InterPodAffinityArgs
    args: InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._counters = handle.counters
        self._views = ShapeCache[AffinityView](SHAPES_KEPT, self._forget)

    def _forget(self, view: AffinityView) -> None:
        view.release(self._counters)

    def _view(self, shape: PodShape) -> AffinityView:
        view = self._views.get(shape)
        if view is None:
            view = AffinityView.of(shape, self._counters)
            self._views.put(shape, view)
        view.matches = self._counters.matching(shape, view.matches)
        return view

    def _concerns(self, pod: Pod) -> bool:
        """Whether ``pod`` or any Pod on a node has a term at all."""
        return bool(self._counters.carried) or pod.shape.memo(shape_terms).any

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Skip a Pod without required terms, if no Pod's anti-affinity selects the Pod."""
        if not self._concerns(pod):
            return SKIP
        terms = pod.shape.memo(shape_terms)
        if terms.errors:
            return Status.unresolvable(f"parsing pod: {terms.error}")
        view = self._view(pod.shape)
        required = terms.affinity or terms.anti
        if not required and not any(counter.total for counter in view.matches.anti):
            return SKIP
        state.write(self.name, AffinityState.of(pod.shape, self._counters, view))
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int) -> None:
        """What if ``other`` were on ``row``."""
        self._filter_state(state).count(other.shape, nodes, row, 1)

    def remove_pod(
        self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int
    ) -> None:
        """What if ``other`` were not on ``row``."""
        self._filter_state(state).count(other.shape, nodes, row, -1)

    def move_elsewhere(
        self, pods: int, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int
    ) -> None:
        """What if ``pods`` more like ``other`` were on its own node, in the world of ``row``?"""
        elsewhere = nodes.live.row(other.node_name)
        if elsewhere is not None:
            self._filter_state(state).count(other.shape, nodes, row, pods, elsewhere)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """Reason codes, the first reason of each node that does not fit."""
        return self._filter_state(state).judge(nodes)

    def copies(self, state: CycleState, pod: Pod, nodes: NodeTable) -> dict[str, Integers] | None:
        """One on each node of a topology in which such Pods have to be apart from each other."""
        anti = pod.shape.memo(shape_terms).anti
        labels = self._counters.namespace_labels(pod.namespace) if anti else {}
        own = [term for term in anti if term.selects(pod.shape, labels)]
        apart = np.zeros(len(nodes), np.bool_)
        for term in own:
            apart |= nodes.label(term.topology_key).codes >= 0
        return {"pod anti-affinity": np.where(apart, 1, UNBOUNDED)} if own else None

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """The status of a reason code."""
        return _REASONS[code]

    def _filter_state(self, state: CycleState) -> AffinityState:
        return state.read(self.name, AffinityState)

    # Score

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> Status | None:
        """Skip where no Pod on a node is preferred or avoided, nor prefers or avoids this one."""
        if not self._concerns(pod):
            return SKIP
        terms = pod.shape.memo(shape_terms)
        if self.args.ignore_preferred_terms_of_existing_pods and not terms.preferred:
            return SKIP
        if terms.errors:
            return Status.error(f"failed to parse pod: {terms.error}")
        weighted = self._weighted(self._view(pod.shape))
        if not weighted:
            return SKIP
        state.write(_SCORE_KEY, AffinityScore(weighted, feasible))
        return None

    def _weighted(self, view: AffinityView) -> list[tuple[int, DomainCounter]]:
        """What counts for the Pod, with its weight; counters of no Pods are left out."""
        weighted: list[tuple[int, DomainCounter]] = [(w, c) for w, c in view.preferred if c.total]
        weighted += [(c.weight, c) for c in view.matches.preferred if c.total]
        hard: int = self.args.hard_pod_affinity_weight
        if hard > 0:
            weighted += [(hard, c) for c in view.matches.affinity if c.total]
        return weighted

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """Normalized already: PreScore has seen the feasible nodes."""
        score = state.read(_SCORE_KEY, AffinityScore)
        return score.normalized(nodes)

    # Queueing hints

    def events_to_register(self) -> list[EventRegistration]:
        """Pods added, deleted or with new labels; nodes added or with new labels."""
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        nodes = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, pods), self._after_pod_change),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)),
            EventRegistration(nodes, _after_node_change),
        ]

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> Hint:
        if any(p is not None and _nowhere(p) for p in (old, new)):
            return Hint.SKIP
        terms = pod.shape.memo(shape_terms)
        came = new is not None and self._all_mean(terms.affinity, new)
        helps = came and not (old is not None and self._all_mean(terms.affinity, old))
        if old is not None and not helps:
            left = self._meaning(terms.anti, old) - self._meaning(terms.anti, new)
            avoided = self._meaning(old.shape.memo(shape_terms).anti, pod) if new is None else ()
            helps = bool(left or avoided)
        return Hint.QUEUE if helps or terms.errors else Hint.SKIP

    def _all_mean(self, terms: Sequence[PodTerm], pod: Pod) -> bool:
        """Whether there are terms and all of them mean ``pod``."""
        return bool(terms) and len(self._meaning(terms, pod)) == len(terms)

    def _meaning(self, terms: Sequence[PodTerm], pod: Pod | None) -> set[PodTerm]:
        """The ``terms`` that select ``pod``."""
        if pod is None:
            return set()
        labels = self._counters.namespace_labels(pod.namespace)
        return {term for term in terms if term.selects(pod.shape, labels)}


def _nowhere(pod: Pod) -> bool:
    return not pod.node_name and not pod.status.nominated_node_name


def _after_node_change(pod: Pod, old: Node | None, new: Node) -> Hint:
    terms = pod.shape.memo(shape_terms)
    for term in terms.affinity:
        value = new.labels.get(term.topology_key)
        if value is not None and (old is None or old.labels.get(term.topology_key) != value):
            return Hint.QUEUE
    for term in terms.anti:
        before = None if old is None else old.labels.get(term.topology_key)
        if old is None or (before is not None and new.labels.get(term.topology_key) != before):
            return Hint.QUEUE
    return Hint.SKIP
