"""The cluster events of a changed object: plugins register for events, the queue reacts.

Answers to kube-scheduler's ``pkg/scheduler/framework/events.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from bayplan.api import quantity
from bayplan.api.kinds import NODE, Kind
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.api.pod_spec import Resources
from bayplan.cache.requests import Requests, pod_requests
from bayplan.framework.cluster_events import Action, ClusterEvent, Resource

ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULED_POD_ADD = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD)
UNSCHEDULED_POD_DELETE = ClusterEvent(Resource.UNSCHEDULED_POD, Action.DELETE)
NODE_ADD = ClusterEvent(NODE, Action.ADD)
NODE_DELETE = ClusterEvent(NODE, Action.DELETE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.ANY, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.ANY, Action.ALL, "ForceActivate")
CONFIGURATION_RELOADED = ClusterEvent(Resource.ANY, Action.ALL, "ConfigurationReloaded")

SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"


@cache
def event_of(resource: Resource | Kind[object], action: Action) -> ClusterEvent:
    """The event, made once."""
    return ClusterEvent(resource, action)


def pod_update_events(old: Pod, new: Pod) -> list[ClusterEvent]:
    """What the update of a Pod changed that may matter to itself (not assigned) or to others."""
    resource = Resource.ASSIGNED_POD if new.node_name else Resource.TARGET_POD
    actions = list(_pod_actions(old, new)) or [Action.UPDATE_POD_OTHER]
    return [event_of(resource, action) for action in actions]


def _pod_actions(old: Pod, new: Pod) -> Iterator[Action]:
    if old.labels != new.labels:
        yield Action.UPDATE_POD_LABEL
    before, after = pod_requests(old), pod_requests(new)
    if before is not after:
        if _exceeds(before, after):
            yield Action.UPDATE_POD_SCALE_DOWN
        if _exceeds(after, before):
            yield Action.UPDATE_POD_SCALE_UP
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        yield Action.UPDATE_POD_TOLERATION
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        yield Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM


def _exceeds(one: Requests, other: Requests) -> bool:
    """Whether ``one`` asks for more of anything than ``other`` does."""
    return any(other.amounts.get(name, -1) < amount for name, amount in one.amounts.items())


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    """What the update of a node changed that may let a Pod fit; each kind of change once."""
    actions = dict.fromkeys(_node_actions(old, new))
    return [event_of(NODE, action) for action in actions]


def _node_actions(old: Node, new: Node) -> Iterator[Action]:
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield Action.UPDATE_NODE_TAINT
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        yield Action.UPDATE_NODE_ALLOCATABLE
    if old.labels != new.labels:
        yield Action.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints:
        yield Action.UPDATE_NODE_TAINT
    if _condition_statuses(old) != _condition_statuses(new):
        yield Action.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        yield Action.UPDATE_NODE_ANNOTATION
    if old.status.declared_features != new.status.declared_features:
        yield Action.UPDATE_NODE_DECLARED_FEATURE


def _same_amounts(old: Resources, new: Resources) -> bool:
    if old == new:
        return True
    return {n: quantity.parse(a) for n, a in old.items()} == {
        n: quantity.parse(a) for n, a in new.items()
    }


def _condition_statuses(node: Node) -> dict[str, str]:
    return {c.type: c.status for c in node.status.conditions}
