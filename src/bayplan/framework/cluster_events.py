"""Cluster events and queueing hints: which changes may make a waiting Pod schedulable.

A plugin registers the events that could undo its rejection, each with an optional hint that looks
at the changed object. The queue moves a Pod only when a plugin that rejected it wants it moved.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Never

from bayplan.api.kinds import Kind
from bayplan.api.pod import Pod


class Action(enum.Flag):
    """What happened to an object; the updates say which part of the object changed."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    UPDATE_NODE_TAINT = enum.auto()
    UPDATE_NODE_CONDITION = enum.auto()
    UPDATE_NODE_ANNOTATION = enum.auto()
    UPDATE_NODE_DECLARED_FEATURE = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_SCALE_UP = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = enum.auto()
    UPDATE_POD_OTHER = enum.auto()
    UPDATE_OTHER = enum.auto()
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_SCALE_UP
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_POD_OTHER
        | UPDATE_OTHER
    )
    ALL = ADD | DELETE | UPDATE


class Resource(enum.Enum):
    """The subject of an event, where it is no `Kind`: some kind of Pod, or anything.

    ASSIGNED_POD is a Pod on a node, TARGET_POD the rejected Pod itself, and UNSCHEDULED_POD any
    other Pod that waits for a node.
    """

    ANY = "*"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"


class Hint(enum.Enum):
    """Whether an event may make the Pod schedulable."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


_OTHER_UPDATES = frozenset({Action.UPDATE_POD_OTHER, Action.UPDATE_OTHER})


def _label(resource: Resource | Kind[object], action: Action) -> str:
    """The event's name in kube-scheduler's metrics, e.g. NodeUpdateNodeTaint."""
    name = "UPDATE" if action in _OTHER_UPDATES else str(action.name)
    words = "".join(word.capitalize() for word in name.replace("|", "_").split("_"))
    if isinstance(resource, Kind):
        return resource.resource + words
    return resource.value + words


HintFn = Callable[[Pod, Never, Never], Hint]
"""``hint(pod, old, new)``: old is None for an added object, new is None for a deleted one.

Both have the type that the event's kind decodes to; a hint declares that type, or None."""


@dataclass(frozen=True)
class ClusterEvent:
    """A change, or the pattern of changes that a plugin registers for.

    Attributes:
        resource: a Node or another object (its `Kind`), or a Pod by where it stands.
        label: what metrics and logs call it; AssignedPodDelete and the like unless given.
    """

    resource: Resource | Kind[object]
    action: Action
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", _label(self.resource, self.action))

    def __hash__(self) -> int:
        # Equal events have equal labels; hashing the enums, too, would cost a microsecond.
        return hash(self.label)

    @property
    def wildcard(self) -> bool:
        """Whether this stands for every change of everything."""
        return self.resource is Resource.ANY and self.action is Action.ALL

    def matches(self, event: ClusterEvent) -> bool:
        """Whether ``event`` is one of the changes that this pattern names.

        A wildcard event is matched by a wildcard pattern alone: the queue treats it apart.
        """
        if event.wildcard:
            return self.wildcard
        same = self.resource in (Resource.ANY, event.resource)
        return same and bool(self.action & event.action)


@dataclass(frozen=True)
class HintIndex:
    """The Pods that a hint is asked about: Pods with a key of the event.

    For a plugin that may reject thousands of Pods, each for a reason of its own.

    Attributes:
        pod_keys: ``pod_keys(pod)``: keys of a Pod, taken when it begins to wait. They must stay the
            same meanwhile, unless what changes them is an event for which the hint answers Queue:
            then the Pod gets new ones if it has to wait again.
        event_keys: ``event_keys(old, new)``: keys of an event; None where it may concern any Pod.
    """

    pod_keys: Callable[[Pod], Iterable[Hashable]]
    event_keys: Callable[[Never, Never], Collection[Hashable] | None]


@dataclass(frozen=True)
class EventRegistration:
    """A pattern of events and the hint asked when one comes; no hint means always Queue.

    With an ``index`` the hint is asked about some of the rejected Pods only. It must answer Skip
    for all others.

    Attributes:
        gates: whether the event may also end what the plugin's PreEnqueue said. If not, it costs
            nothing for the Pods that PreEnqueue holds back.
    """

    event: ClusterEvent
    hint: HintFn | None = None
    index: HintIndex | None = None
    gates: bool = True
