"""Cluster events and queueing hints: what may make a waiting Pod schedulable, and who says so.

A plugin registers the events that could undo its rejection, each with an optional hint that looks
at the changed object. The queue moves a Pod only when a plugin that rejected it wants it moved.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayplan.api.pod import Pod


class Action(enum.Flag):
    """What happened to an object; the finer ones say which part of it changed."""

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
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_POD_OTHER
        | UPDATE_OTHER
    )
    ALL = ADD | DELETE | UPDATE


class Resource(enum.StrEnum):
    """What the event is about: a kind, or a Pod by where it stands."""

    ANY = "*"
    NODE = "Node"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    SERVICE = "Service"
    REPLICATION_CONTROLLER = "ReplicationController"
    REPLICA_SET = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"


class Hint(enum.Enum):
    """Whether an event may make the Pod schedulable."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


HintFn = Callable[[Pod, Any, Any], Hint]
"""``hint(pod, old, new)``: old is None for an added object, new is None for a deleted one."""


@dataclass(frozen=True)
class ClusterEvent:
    """A change, or the pattern of changes that a plugin registers for.

    Attributes:
        label: what metrics and logs call it, e.g. AssignedPodDelete.
    """

    resource: Resource
    action: Action
    label: str = ""

    def matches(self, event: ClusterEvent) -> bool:
        """Whether ``event`` is one of the changes that this pattern names."""
        same = self.resource in (Resource.ANY, event.resource) or event.resource is Resource.ANY
        return same and bool(self.action & event.action)


@dataclass(frozen=True)
class EventRegistration:
    """A pattern of events and the hint asked when one comes; no hint means always Queue."""

    event: ClusterEvent
    hint: HintFn | None = None
