"""The scheduling framework: what plugin authors import.

>>> from bayplan.framework import Plugin, Status
>>> class AvoidNode(Plugin):
...     def filter(self, state, pod, node):
...         if node.labels.get("avoid") == "true":
...             return Status.unschedulable("node(s) are to be avoided")
"""

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.config.points import Point
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintFn,
    HintIndex,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.handle import (
    ClusterWriter,
    EventRecorder,
    Handle,
    Logger,
    PluginMetrics,
    WaitingPod,
    WaitingPods,
)
from bayplan.framework.interface import (
    MAX_NODE_SCORE,
    BoolArray,
    Depends,
    FilterFailure,
    Integers,
    NodeInfo,
    NodeStatuses,
    NodeTable,
    Normalizer,
    Plugin,
    PodPart,
    PostFilterResult,
    PreFilterResult,
    QueuedPod,
)
from bayplan.framework.placements import GroupPlacement, PlacementProgress, PodGroupInfo
from bayplan.framework.status import SKIP, SUCCESS, WAIT, Code, Status

__all__ = [
    "MAX_NODE_SCORE",
    "SKIP",
    "SUCCESS",
    "WAIT",
    "Action",
    "BoolArray",
    "ClusterEvent",
    "ClusterWriter",
    "Code",
    "CycleState",
    "Depends",
    "Effect",
    "EventRecorder",
    "EventRegistration",
    "FilterFailure",
    "GroupPlacement",
    "Handle",
    "Hint",
    "HintFn",
    "HintIndex",
    "Integers",
    "Logger",
    "Node",
    "NodeInfo",
    "NodeStatuses",
    "NodeTable",
    "Normalizer",
    "PlacementProgress",
    "Plugin",
    "PluginMetrics",
    "Pod",
    "PodGroupInfo",
    "PodPart",
    "Point",
    "PostFilterResult",
    "PreFilterResult",
    "QueuedPod",
    "Resource",
    "Status",
    "WaitingPod",
    "WaitingPods",
]
