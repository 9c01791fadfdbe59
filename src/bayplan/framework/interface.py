"""The plugin API: what a plugin may implement, what it is given, and what it answers.

A plugin is a class derived from `Plugin`. It takes part in an extension point by having the method
of that name; there is nothing to register beside it. Every method gets the `CycleState` of the
attempt and the `Pod`. Answers are `Status` values (None means Success), never exceptions.

Filter and Score exist in two forms, and the framework takes whichever is there:

- one node: ``filter(state, pod, node)`` and ``score(state, pod, node)``, with a `NodeInfo`;
- columns: ``filter_nodes(state, pod, nodes)`` and ``score_nodes(state, pod, nodes)``, with the
  `NodeTable`. They answer for all rows at once in arrays of shape ``(len(nodes),)``.

The methods, in the order in which they are called (``->`` says what is returned):

=====================  ==========================================================================
pre_enqueue            ``(pod) -> Status | None``: may the Pod enter the queue?
less                   ``(a: QueuedPod, b: QueuedPod) -> bool``: queue order; or ``sort_key(a)``
pre_filter             ``(state, pod, nodes) -> PreFilterResult | Status | None``
add_pod, remove_pod    ``(state, pod, other, nodes, row)``: what if ``other`` were (not) on ``row``
                       of ``nodes``, a table made by ``take``? Change the plugin's own state only.
filter | filter_nodes  one node ``-> Status | None``; columns ``-> (n,) int64`` reason codes, 0 fits
reasons                ``(state, pod, code) -> Status``: what a reason code of filter_nodes means
post_filter            ``(state, pod, failure: FilterFailure) -> PostFilterResult``
pre_score              ``(state, pod, nodes, feasible: (n,) bool) -> Status | None``
epoch                  ``(pod) -> int``: for row-local plugins; a number that changes when what
                       was answered for this shape is no longer right for any row
score | score_nodes    one node ``-> int``; columns ``-> (n,) int64`` raw scores
normalize_score        ``(state, pod, scores: (m,) int64) -> (m,) int64``: feasible nodes only,
                       in row order, to 0..100; or the attribute `Plugin.normalizer`
reserve, unreserve     ``(state, pod, node_name) -> Status | None``, ``-> None``
permit                 ``(state, pod, node_name) -> Status | tuple[Status, seconds] | None``
pre_bind_pre_flight    ``(state, pod, node_name) -> Status``: Skip when pre_bind has nothing to do
pre_bind               ``(state, pod, node_name) -> Status | None``, in a binding worker
bind                   ``(state, pod, node_name) -> Status | Future[Status]``; Skip passes it on
post_bind              ``(state, pod, node_name) -> None``
events_to_register     ``() -> list[EventRegistration]``: what may undo this plugin's rejections
=====================  ==========================================================================

Scheduling-cycle methods run on the scheduling thread, which alone changes the tables: what a plugin
sees there is consistent and holds still. pre_bind, bind and post_bind run on binding workers.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray, LiveNodeTable, NodeInfo, NodeTable
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Status
from bayplan.telemetry.instrument import Instrument

if TYPE_CHECKING:
    from bayplan.cache.counters import DomainCounters
    from bayplan.cache.objects import ObjectStore

MAX_NODE_SCORE = 100
"""Highest score of a node after normalizing; the lowest is 0."""


class Depends(enum.Flag):
    """What a plugin's answer for a node depends on, besides the Pod's shape.

    Without CLUSTER an answer is kept per Pod shape and computed again only for rows that
    moved, and so are pre_filter and pre_score; with it (the default) one is asked in every cycle.
    """

    NODE = enum.auto()
    """The node object of that row: labels, taints, allocatable, ..."""
    PODS = enum.auto()
    """The Pods on that row."""
    RESOURCES = enum.auto()
    """What the node of that row offers, and what the Pods there request in sum and how many they
    are: `LiveNodeTable.load`. Alone, it lets an answer serve every row that is as full."""
    CLUSTER = enum.auto()
    """Anything else: other nodes, other objects, time, the Pod's name and those of its claims."""


@dataclass(frozen=True)
class Normalizer:
    """Scales scores so that the highest becomes 100 (``reverse``: becomes 0, and 0 becomes 100).

    All-zero scores stay 0 (``reverse``: become 100).
    """

    reverse: bool = False

    def __call__(self, scores: IntArray, maximum: int) -> IntArray:
        """``scores`` scaled by ``maximum``, the highest score of any feasible node."""
        if maximum == 0:
            return np.full_like(scores, MAX_NODE_SCORE if self.reverse else 0)
        scaled: IntArray = scores * MAX_NODE_SCORE // maximum
        return MAX_NODE_SCORE - scaled if self.reverse else scaled


class Plugin:
    """Base of all plugins; see the module's docstring for the methods that one may have."""

    name: ClassVar[str] = ""
    """What the configuration calls it; the class's name unless set."""
    Args: ClassVar[type | None] = None
    """A pydantic model or dataclass for the plugin's pluginConfig args, or None for no args."""
    filter_depends: ClassVar[Depends] = Depends.CLUSTER
    score_depends: ClassVar[Depends] = Depends.CLUSTER
    normalizer: ClassVar[Normalizer | None] = None
    """How to normalize scores, where dividing by the highest one is all there is to it."""
    blocking: ClassVar[bool] = False
    """Whether filter and score wait for something (a network service): they then run on worker
    threads, several nodes at a time."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle


@dataclass(frozen=True)
class PreFilterResult:
    """The only nodes worth looking at; None means all, any set or list of names will do."""

    node_names: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.node_names is not None:
            object.__setattr__(self, "node_names", frozenset(self.node_names))


class NodeStatuses:
    """Why each node was rejected, kept as arrays and put into words on demand.

    `first` holds, per row, the index of the first Filter plugin that rejected it (-1: none did).
    """

    def status(self, row: int) -> Status:
        """The status of the node at ``row``."""
        raise NotImplementedError

    def rows_with(self, unresolvable: bool) -> IntArray:
        """Rows that were rejected with UnschedulableAndUnresolvable (True) or otherwise (False)."""
        raise NotImplementedError


@dataclass
class FilterFailure:
    """What PostFilter plugins are told: no node fits ``pod``, and why.

    Attributes:
        nodes: the full table.
        statuses: why each node was rejected.
        candidates: (k,) rows whose rejection eviction may resolve (status Unschedulable).
    """

    nodes: NodeTable
    statuses: NodeStatuses
    candidates: IntArray


@dataclass(frozen=True)
class PostFilterResult:
    """What a PostFilter plugin did.

    Attributes:
        status: Success when it made room, Unschedulable with the message for the Pod otherwise.
        nominated_node: the node the Pod will fit on; "" clears a nomination; None leaves it.
    """

    status: Status
    nominated_node: str | None = None


class QueuedPod(Protocol):
    """A Pod in the queue, as queue sort plugins see it."""

    @property
    def pod(self) -> Pod:
        """The Pod."""

    @property
    def timestamp(self) -> float:
        """When it entered the queue last, seconds of the queue's clock."""

    @property
    def attempts(self) -> int:
        """How often it was tried already."""


class WaitingPod(Protocol):
    """A Pod that a Permit plugin makes wait."""

    @property
    def pod(self) -> Pod:
        """The Pod."""

    @property
    def node_name(self) -> str:
        """Where it will go."""

    def pending_plugins(self) -> list[str]:
        """The plugins that it still waits for."""

    def allow(self, plugin: str) -> None:
        """``plugin`` no longer makes it wait; the last one lets it go."""

    def reject(self, plugin: str, message: str) -> None:
        """Turn it down for ``plugin``."""

    def preempt(self, plugin: str, message: str) -> bool:
        """Take its place away, as an error: it is tried again after a backoff.

        False when its fate was sealed already.
        """


class PodNominator(Protocol):
    """Pods that wait for room that is being made on a node."""

    def nominated_pods(self, node_name: str) -> Iterable[Pod]:
        """Pods nominated to that node."""

    def nominated_nodes(self) -> Collection[str]:
        """Nodes with at least one nominated Pod."""

    def nominated_node(self, uid: str) -> str:
        """Where the Pod is nominated to; "" for none."""


class EventRecorder(Protocol):
    """Writes events.k8s.io/v1 events; never blocks."""

    def event(
        self,
        regarding: Pod,
        related: Pod | None,
        type_: str,
        reason: str,
        action: str,
        note: str,
        reporting_controller: str | None = None,
    ) -> None:
        """Record one event; ``type_`` is Normal or Warning, the controller is a schedulerName."""


class WaitingPods(Protocol):
    """All Pods that wait in Permit. Safe to use from any thread."""

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting Pod with that uid."""

    def __iter__(self) -> Iterator[WaitingPod]:
        """All of them."""


class PreparingPod(Protocol):
    """A Pod in PreBind. Safe to use from any thread."""

    def call_back(self, reason: str) -> bool:
        """Let it go back to the queue; False when it is too late for that."""

    def on_call_back(self, callback: Callable[[], None]) -> None:
        """Be told when it is called back; at once if it has been."""


@dataclass
class Handle:
    """What the scheduler gives each plugin.

    Attributes:
        nodes: all nodes and the Pods on them. Scheduling thread only.
        objects: every other object that is watched, by kind and key. Scheduling thread only.
        counters: matching Pods per topology domain. Scheduling thread only.
        nominator: Pods nominated to nodes.
        waiting: Pods that wait in Permit.
        preparing: Pods in PreBind, by uid.
        events: recorder of Kubernetes events.
        extenders: webhooks; DefaultPreemption asks them.
        instrument: where preemptions are reported.
        client: API access (`bayplan.client.writer.Writer`), None where there is no cluster
            (simulate, explain).
        profile: schedulerName of the profile the plugin is configured in.
        now: wall clock, seconds since the epoch.
        activate: move waiting Pods to the active queue at once; safe from any thread.
        framework: the profile's `bayplan.framework.runtime.Framework`, set once it is made.
    """

    nodes: LiveNodeTable
    objects: ObjectStore
    counters: DomainCounters
    nominator: PodNominator
    waiting: WaitingPods
    preparing: Mapping[str, PreparingPod]
    events: EventRecorder
    extenders: Any = None
    instrument: Instrument = field(default_factory=Instrument)
    client: Any = None
    profile: str = ""
    now: Callable[[], float] = field(default=lambda: 0.0)
    activate: Callable[[Iterable[Pod]], None] = field(default=lambda _: None)
    framework: Any = None


__all__ = [
    "MAX_NODE_SCORE",
    "BoolArray",
    "CycleState",
    "Depends",
    "EventRecorder",
    "FilterFailure",
    "Handle",
    "IntArray",
    "NodeInfo",
    "NodeStatuses",
    "NodeTable",
    "Normalizer",
    "Plugin",
    "PodNominator",
    "PostFilterResult",
    "PreFilterResult",
    "PreparingPod",
    "QueuedPod",
    "Status",
    "WaitingPod",
    "WaitingPods",
]
