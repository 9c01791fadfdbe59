"""PodTopologySpread: Pods that are to lie evenly over zones, hosts or other topology domains.

Filter honours constraints with DoNotSchedule, Score those with ScheduleAnyway. A Pod without
constraints gets the default ones if a Service or its owner says which Pods it belongs with: the
system's (soft, by hostname and zone) or a list from the plugin's args. Counts come from
`bayplan.cache.counters`. Reasons and arithmetic are those of kube-scheduler's
``podtopologyspread`` package.
"""

from __future__ import annotations

from bayplan.api.kinds import NODE
from bayplan.api.node import Node
from bayplan.api.pod import Pod, PodShape
from bayplan.api.selectors import SelectorError
from bayplan.cache.counters import Integers
from bayplan.cache.shape_cache import ShapeCache
from bayplan.config.args import PodTopologySpreadArgs
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.handle import Handle
from bayplan.framework.interface import BoolArray, CycleState, NodeTable, Plugin
from bayplan.framework.points import (
    EnqueueExtensions,
    FilterNodes,
    PreFilter,
    PreScore,
    ScoreNodes,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.pod_topology_spread.constraints import (
    DEFAULT_SELECTOR_KINDS,
    HARD,
    SOFT,
    SYSTEM_CONSTRAINTS,
    DefaultSelectors,
    SpreadConstraint,
    compile_constraints,
    with_selector,
)
from bayplan.plugins.pod_topology_spread.state import (
    NO_LABEL,
    UNEVEN,
    FilterState,
    ScoreState,
    SpreadView,
)
from bayplan.plugins.shared.moved_pods import CountsMoves

SHAPES_KEPT = 2048
_SCORE_KEY = "PreScorePodTopologySpread"
_UNEVEN = "node(s) didn't match pod topology spread constraints"
_REASONS = {
    UNEVEN: Status.unschedulable(_UNEVEN),
    NO_LABEL: Status.unresolvable(f"{_UNEVEN} (missing required label)"),
}


class PodTopologySpread(
    Plugin, PreFilter, FilterNodes, PreScore, ScoreNodes, CountsMoves, EnqueueExtensions
):
    """See the module's docstring."""

    kinds = DEFAULT_SELECTOR_KINDS
    Args = PodTopologySpreadArgs

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._counters = handle.counters
        self._selectors = handle.objects.shared(DefaultSelectors, handle.objects)
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_CONSTRAINTS if self._system else args.constraints()
        self._hard = ShapeCache[SpreadView](SHAPES_KEPT, self._forget)
        self._soft = ShapeCache[SpreadView](SHAPES_KEPT, self._forget)

    def _forget(self, view: SpreadView) -> None:
        view.release(self._counters)

    def _version(self, shape: PodShape) -> int:
        """What a view must be made from; -1 where default selectors play no part."""
        if shape.spec.topology_spread_constraints or not self._defaults:
            return -1
        return self._selectors.version[shape.namespace]

    def _constraints(self, shape: PodShape, action: str) -> list[SpreadConstraint]:
        own = shape.spec.topology_spread_constraints
        constraints = compile_constraints(own or self._defaults, shape.labels, action)
        if own or not constraints:
            return constraints
        return with_selector(constraints, self._selectors.of(shape))

    def _hard_view(self, shape: PodShape) -> SpreadView:
        view, version = self._hard.get(shape), self._version(shape)
        if view is None or view.version != version:
            constraints = self._constraints(shape, HARD)
            view = SpreadView.hard(shape, constraints, self._counters, version)
            self._hard.put(shape, view)
        return view

    def _soft_view(self, shape: PodShape) -> SpreadView:
        view, version = self._soft.get(shape), self._version(shape)
        if view is None or view.version != version:
            strict = bool(shape.spec.topology_spread_constraints) or not self._system
            constraints = self._constraints(shape, SOFT)
            view = SpreadView.soft(shape, constraints, self._counters, version, strict)
            self._soft.put(shape, view)
        return view

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Skip a Pod without hard constraints."""
        try:
            view = self._hard_view(pod.shape)
        except SelectorError as error:
            return Status.error(
                "get constraints from pod: obtaining pod's hard topology spread constraints: "
                f"{error}"
            )
        if not view.spreads:
            return SKIP
        state.write(self.name, FilterState.of(pod.shape, view))
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """Reason codes, from the first constraint that a node does not meet."""
        return self._filter_state(state).judge(nodes)

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """The status of a reason code."""
        return _REASONS[code]

    def _filter_state(self, state: CycleState) -> FilterState:
        return state.read(self.name, FilterState)

    # Score

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> Status | None:
        """Skip a Pod without soft constraints; weigh topologies by the feasible nodes."""
        try:
            view = self._soft_view(pod.shape)
        except SelectorError as error:
            return Status.error(
                "calculating preScoreState: obtaining pod's soft topology spread constraints: "
                f"{error}"
            )
        if not view.spreads:
            return SKIP
        state.write(_SCORE_KEY, ScoreState(view, nodes, feasible))
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """The fewer matching Pods there are around a node, the better.

        Normalized already: PreScore has seen the feasible nodes.
        """
        score = state.read(_SCORE_KEY, ScoreState)
        return score.normalized(nodes)

    # Queueing hints

    def events_to_register(self) -> list[EventRegistration]:
        """Pods added, deleted, with new labels or tolerations; nodes added, deleted or changed."""
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        own = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        node_event = ClusterEvent(NODE, nodes)
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, pods), self._after_pod_change),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, own), self._after_own_change),
            EventRegistration(node_event, self._after_node_change),
        ]

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> Hint:
        if any(p is not None and not _involved(p, pod) for p in (old, new)):
            return Hint.SKIP
        return self._counts_otherwise(pod, old, new)

    def _after_own_change(self, pod: Pod, old: Pod, new: Pod) -> Hint:
        constraints = self._hard_constraints(pod)
        honored = constraints is None or any(c.honor_taints for c in constraints)
        if old.spec.tolerations != new.spec.tolerations and honored:
            return Hint.QUEUE
        return self._counts_otherwise(pod, old, new)

    def _hard_constraints(self, pod: Pod) -> list[SpreadConstraint] | None:
        """None where they cannot be read: an attempt will say so."""
        try:
            return [spread.constraint for spread in self._hard_view(pod.shape).spreads]
        except SelectorError:
            return None

    def _counts_otherwise(self, pod: Pod, old: Pod | None, new: Pod | None) -> Hint:
        """Queue when a constraint of ``pod`` selects only one of ``old`` and ``new``."""
        constraints = self._hard_constraints(pod)
        if constraints is None:
            return Hint.QUEUE
        for constraint in constraints:
            matches = constraint.selector.matches
            was, is_ = (p is not None and matches(p.labels) for p in (old, new))
            if was != is_:
                return Hint.QUEUE
        return Hint.SKIP

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> Hint:
        constraints = self._hard_constraints(pod)
        if constraints is None:
            return Hint.QUEUE
        keys = [c.topology_key for c in constraints]
        was, is_ = (n is not None and all(k in n.labels for k in keys) for n in (old, new))
        if was != is_:
            return Hint.QUEUE
        if not is_ or old is None or new is None:
            return Hint.SKIP
        moved = any(old.labels[key] != new.labels[key] for key in keys)
        return Hint.QUEUE if moved or old.spec.taints != new.spec.taints else Hint.SKIP


def _involved(changed: Pod, pod: Pod) -> bool:
    """Whether a change of ``changed`` may matter to the spreading of ``pod``."""
    placed = changed.node_name or changed.status.nominated_node_name
    return bool(placed) and changed.namespace == pod.namespace
