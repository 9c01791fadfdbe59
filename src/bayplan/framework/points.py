"""The plugin contract as types: one Protocol per form in which a plugin can take part in a point.

A plugin implements an extension point by having the methods of one of its Protocols (`FORMS`);
nothing else is registered. Methods are called by position, so parameters may have any name.
`bayplan.engine.contract` checks the plugins of users against these Protocols when they are
loaded. The plugins in `bayplan.plugins` derive from these Protocols, so mypy checks their methods.
The table of methods in docs/plugins.md is made from the Protocols, too: the first paragraph of a
method's docstring is its line there.

The reasons: docs/decisions/0015-typed-plugin-contract.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from inspect import isfunction
from typing import ClassVar, Never, Protocol, runtime_checkable

from bayplan.api.pod import Pod
from bayplan.api.pod_spec import PodSpec
from bayplan.cache.node_table import BoolArray, IntArray, NodeInfo, NodeTable
from bayplan.cache.pod_groups import Group
from bayplan.config.points import Point
from bayplan.framework.cluster_events import EventRegistration
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.interface import (
    Depends,
    FilterFailure,
    Integers,
    Normalizer,
    PostFilterResult,
    PreFilterResult,
    QueuedPod,
)
from bayplan.framework.placements import GroupPlacement, PlacementProgress, PodGroupInfo
from bayplan.framework.room import NoRoom, Room, RoomRequest
from bayplan.framework.status import Status


class Named(Protocol):
    """What every plugin has; `bayplan.framework.Plugin` says what it means."""

    name: ClassVar[str]


class Comparable(Protocol):
    """What sorts: numbers, strings, tuples of them."""

    def __lt__(self, other: Never, /) -> bool:
        """Whether this comes first."""


# Queue


@runtime_checkable
class PreEnqueue(Named, Protocol):
    """Holds Pods back from the queue."""

    def pre_enqueue(self, pod: Pod, /) -> Status | None:
        """May the Pod enter the queue?"""


@runtime_checkable
class QueueKey(Named, Protocol):
    """Orders the queue by a key; the faster form."""

    def sort_key(self, queued: QueuedPod, /) -> Comparable:
        """The Pod's place in the queue: lower keys come first."""


@runtime_checkable
class QueueLess(Named, Protocol):
    """Orders the queue by comparing two Pods."""

    def less(self, a: QueuedPod, b: QueuedPod, /) -> bool:
        """Whether ``a`` comes before ``b`` in the queue; asked where there is no ``sort_key``."""


# Filter


@runtime_checkable
class PreFilter(Named, Protocol):
    """Looks at the Pod before any node."""

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: NodeTable, /
    ) -> PreFilterResult | Status | None:
        """Once a Pod: narrow the nodes, reject the Pod, or Skip the plugin's Filter."""


@runtime_checkable
class Selective(Named, Protocol):
    """Has nothing to do with Pods of many specs, and says which."""

    def concerns(self, spec: PodSpec, /) -> bool:
        """Whether PreFilter might not Skip Pods with this spec; if not, the plugin is not asked.

        Asked once for many Pods, about plugins that are enabled at PreFilter and depend on CLUSTER.
        Nor are PreScore, Reserve and PreBind called where it is False, and every node scores 0.
        """


@runtime_checkable
class PodMoves(Named, Protocol):
    """Has notes on Pods in the CycleState that what-if questions have to change."""

    def add_pod(
        self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int, /
    ) -> None:
        """What if ``other`` were on ``row`` of ``nodes``? Change the plugin's own state only."""

    def remove_pod(
        self, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int, /
    ) -> None:
        """What if ``other`` were gone from ``row`` of ``nodes``?"""


@runtime_checkable
class MovesElsewhere(PodMoves, Protocol):
    """Has notes on Pods of other nodes, too."""

    def move_elsewhere(
        self, pods: int, state: CycleState, pod: Pod, other: Pod, nodes: NodeTable, row: int, /
    ) -> None:
        """What if ``pods`` more like ``other`` were on its own node, in the world of ``row``?"""


class Filtering(Named, Protocol):
    """The attributes of both forms of Filter."""

    filter_depends: Depends
    blocking: ClassVar[bool]


@runtime_checkable
class FilterNodes(Filtering, Protocol):
    """Filters all nodes in one call."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable, /) -> Integers:
        """Reason codes, ``(len(nodes),)`` integers of any width: 0 fits, < 0 is an error."""

    def reasons(self, state: CycleState, pod: Pod, code: int, /) -> Status:
        """What a reason code of ``filter_nodes`` means."""


@runtime_checkable
class FilterOne(Filtering, Protocol):
    """Filters one node per call."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo, /) -> Status | None:
        """Does the Pod fit on this node?"""


@runtime_checkable
class BoundsCopies(Named, Protocol):
    """Knows at most how many Pods of one kind a node takes; spares groups that cannot fit."""

    def copies(
        self, state: CycleState, pod: Pod, nodes: NodeTable, /
    ) -> Mapping[str, Integers] | None:
        """By what limits them, at most how many more Pods like this one each node takes.

        Arrays of ``(len(nodes),)`` integers; None or nothing for no limit. Never less than could be
        placed, whatever other Pods come that are like this one or like those in ``state.beside``:
        ``bayplan.engine.capacity`` says what it is for.
        """


@runtime_checkable
class ExplainsFilter(Named, Protocol):
    """Explains its rejections."""

    def explain_filter(self, state: CycleState, pod: Pod, rows: IntArray, /) -> Sequence[str]:
        """Sentences for people: why the plugin rejected the nodes at ``rows``. No effects."""


@runtime_checkable
class PostFilter(Named, Protocol):
    """Makes room."""

    pure: ClassVar[bool]

    def post_filter(
        self, state: CycleState, pod: Pod, failure: FilterFailure, /
    ) -> PostFilterResult:
        """The Pod fits nowhere: can room be made?"""


@runtime_checkable
class PodGroupPostFilter(Named, Protocol):
    """Makes room for a group."""

    def pod_group_post_filter(self, request: RoomRequest, /) -> Room | NoRoom:
        """The group fits nowhere at once: can room be made? In-tree plugins only."""


# Score


@runtime_checkable
class PreScore(Named, Protocol):
    """Looks at the feasible nodes before Score."""

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray, /
    ) -> Status | None:
        """Once a Pod: prepare Score, or Skip it. ``feasible`` is ``(len(nodes),)`` bool."""


class Scoring(Named, Protocol):
    """The attributes of both forms of Score."""

    score_depends: Depends
    blocking: ClassVar[bool]

    @property
    def normalizer(self) -> Normalizer | None:
        """See `bayplan.framework.Plugin`."""


@runtime_checkable
class ScoreNodes(Scoring, Protocol):
    """Scores all nodes in one call."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable, /) -> Integers | None:
        """Raw scores, ``(len(nodes),)`` integers of any width; None where every node scores 0."""


@runtime_checkable
class ScoreOne(Scoring, Protocol):
    """Scores one node per call."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo, /) -> int:
        """The node's raw score, an integer."""


@runtime_checkable
class ExplainsScore(Named, Protocol):
    """Explains its scores."""

    def explain_score(self, state: CycleState, pod: Pod, rows: IntArray, /) -> Sequence[str]:
        """Sentences for people: the figures behind the scores of the nodes at ``rows``."""


@runtime_checkable
class NormalizeScore(Scoring, Protocol):
    """Scales its own scores, where a `Normalizer` cannot."""

    def normalize_score(self, state: CycleState, pod: Pod, scores: Integers, /) -> Integers:
        """The raw scores of the feasible nodes, in row order, scaled to 0..100."""


@runtime_checkable
class HasEpoch(Named, Protocol):
    """A row-local plugin whose answers also depend on one thing about the whole cluster."""

    def epoch(self, pod: Pod, /) -> int:
        """A number that changes when all cached answers for Pods like this one are stale."""


# Binding


@runtime_checkable
class Reserve(Named, Protocol):
    """Claims something outside of the node table."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str, /) -> Status | None:
        """The node is chosen: claim what the Pod needs there."""


@runtime_checkable
class Unreserve(Named, Protocol):
    """Undoes what `Reserve` did, or anything else that this attempt has done."""

    def unreserve(self, state: CycleState, pod: Pod, node_name: str, /) -> None:
        """The attempt failed after Reserve began: undo it. Must not fail."""


@runtime_checkable
class Permit(Named, Protocol):
    """Approves, denies or delays the binding."""

    def permit(
        self, state: CycleState, pod: Pod, node_name: str, /
    ) -> Status | tuple[Status, float] | None:
        """May the Pod be bound? ``WAIT, seconds`` makes it wait at most so long."""


@runtime_checkable
class PreBindPreFlight(Named, Protocol):
    """Says beforehand whether PreBind has work."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str, /) -> Status | None:
        """Skip when ``pre_bind`` has nothing to do for this Pod."""


@runtime_checkable
class PreBind(Named, Protocol):
    """Prepares the node."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str, /) -> Status | None:
        """Prepare the node; on a worker thread, so it may block."""


BindRequest = Callable[[Callable[[Status], None]], None]
"""Called once, it sends a request, and tells its argument the outcome, once and on any thread."""


@runtime_checkable
class Bind(Named, Protocol):
    """Binds the Pod."""

    def bind(
        self, state: CycleState, pod: Pod, node_name: str, /
    ) -> Status | Future[Status] | BindRequest | None:
        """Assign the Pod to the node, or Skip: then the next Bind plugin is asked."""


@runtime_checkable
class PostBind(Named, Protocol):
    """Called after a binding."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str, /) -> None:
        """The Pod is bound."""


# PodGroups of Kubernetes, with the feature gate TopologyAwareWorkloadScheduling


@runtime_checkable
class PlacementGenerate(Named, Protocol):
    """Says where a group may go. A profile has one such plugin at most."""

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, nodes: NodeTable, /
    ) -> Sequence[GroupPlacement] | Status | None:
        """The sets of nodes of which one has to hold the group; None for all nodes together.

        ``state`` is that of the attempt of the group, not of one of its Pods.
        """


@runtime_checkable
class PlacementScore(Named, Protocol):
    """Scores the placements that hold a group, where there are several."""

    def score_placement(
        self,
        state: CycleState,
        group: PodGroupInfo,
        placement: GroupPlacement,
        pods: Sequence[Pod],
        nodes: NodeTable,
        /,
    ) -> int:
        """The placement's raw score, if ``pods`` go to their ``node_name``; not on them yet."""


@runtime_checkable
class NormalizePlacementScores(Named, Protocol):
    """Scales its own scores of placements."""

    def normalize_placement_scores(
        self, state: CycleState, group: PodGroupInfo, scores: Integers, /
    ) -> Integers:
        """The raw scores of all placements that hold the group, scaled to 0..100."""


@runtime_checkable
class AdmitsGroups(Named, Protocol):
    """Judges a whole group before the search for nodes."""

    def admit_group(self, group: Group, pods: Sequence[Pod], /) -> Status | None:
        """May ``pods`` be placed at once? They are as many as the group needs.

        A rejection may have two reasons: one with figures, for the event on the group, and one
        without, which follows the name of the group in the condition of each Pod.
        """


@runtime_checkable
class PlacementFeasible(Named, Protocol):
    """Ends the attempts of a group on a placement that can no longer hold the group."""

    def placement_feasible(
        self, state: CycleState, group: PodGroupInfo, progress: PlacementProgress, /
    ) -> Status | None:
        """Whether the group can be placed; asked before the first Pod is tried and after each.

        Success: as it stands, and whatever becomes of the Pods that remain. Wait: not yet, but it
        may with these. Unschedulable: no more, so they are not tried.
        """


# Events


@runtime_checkable
class EnqueueExtensions(Named, Protocol):
    """Names the events after which a rejected Pod may become schedulable."""

    def events_to_register(self) -> Sequence[EventRegistration]:
        """The cluster events that may undo this plugin's rejections."""


@runtime_checkable
class CarriesOut(Named, Protocol):
    """Carries out effects of its own: subclasses of `bayplan.framework.effects.Effect`."""

    def carry_out(self, effect: Effect, /) -> None:
        """A decision of which ``effect`` is part is applied. Scheduling thread; must not wait."""


FilterPlugin = FilterNodes | FilterOne
ScorePlugin = ScoreNodes | ScoreOne
QueueSort = QueueKey | QueueLess

FORMS: Mapping[Point, tuple[type, ...]] = {
    Point.PRE_ENQUEUE: (PreEnqueue,),
    Point.QUEUE_SORT: (QueueKey, QueueLess),
    Point.PRE_FILTER: (PreFilter,),
    Point.FILTER: (FilterNodes, FilterOne),
    Point.POST_FILTER: (PostFilter,),
    Point.PRE_SCORE: (PreScore,),
    Point.SCORE: (ScoreNodes, ScoreOne),
    Point.RESERVE: (Reserve, Unreserve),
    Point.PERMIT: (Permit,),
    Point.PRE_BIND: (PreBind,),
    Point.BIND: (Bind,),
    Point.POST_BIND: (PostBind,),
    Point.PLACEMENT_GENERATE: (PlacementGenerate,),
    Point.PLACEMENT_SCORE: (PlacementScore,),
    Point.POD_GROUP_POST_FILTER: (PodGroupPostFilter,),
}
"""Extension point -> the forms in which a plugin can implement it; one is enough."""

EXTRAS: Mapping[type, Point | None] = {
    Selective: Point.PRE_FILTER,
    PodMoves: Point.PRE_FILTER,
    MovesElsewhere: Point.PRE_FILTER,
    AdmitsGroups: Point.PRE_FILTER,
    BoundsCopies: Point.FILTER,
    ExplainsFilter: Point.FILTER,
    ExplainsScore: Point.SCORE,
    HasEpoch: None,
    NormalizeScore: Point.SCORE,
    PreBindPreFlight: Point.PRE_BIND,
    NormalizePlacementScores: Point.PLACEMENT_SCORE,
    PlacementFeasible: None,
    EnqueueExtensions: None,
    CarriesOut: None,
}
"""Forms that make a plugin part of no point -> the point that they belong to."""

REJECTING = (
    Point.PRE_ENQUEUE,
    Point.PRE_FILTER,
    Point.FILTER,
    Point.RESERVE,
    Point.PERMIT,
    Point.PLACEMENT_GENERATE,
)
"""Points whose plugins can reject a Pod, and so are asked what may wake it."""


@cache
def methods(form: type) -> tuple[str, ...]:
    """The methods that a form of `FORMS` or `EXTRAS` asks for."""
    return tuple(name for name, value in vars(form).items() if isfunction(value) and name[0] != "_")


def extension_points(plugin: type) -> frozenset[Point]:
    """The extension points that ``plugin`` implements."""
    return frozenset(point for point, forms in FORMS.items() if any(has(plugin, f) for f in forms))


def has(plugin: type, form: type) -> bool:
    """Whether the class has all methods of ``form``."""
    return all(has_method(plugin, form, method) for method in methods(form))


def has_method(plugin: type, form: type, method: str) -> bool:
    """Whether the class has the method and, if derived from ``form``, overrides the stub."""
    stub = getattr(form, method)
    return getattr(plugin, method, stub) is not stub
