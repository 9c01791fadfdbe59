"""Shown: what a message shows of a decision of the other scheduler."""

from __future__ import annotations

from typing import NamedTuple

from bayplan.api.meta import Condition
from bayplan.api.pod import DISRUPTION_TARGET, PREEMPTED, Pod
from bayplan.attempt.outcome import Reason
from bayplan.inbox.messages import WatchMessage
from bayplan.shadow.verdict import Theirs


class Seen(NamedTuple):
    """A message: the how-manieth, and when it came, seconds of the clock."""

    number: int
    at: float
    message: WatchMessage


def _scheduled(pod: Pod) -> Condition | None:
    return next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)


def has_failed(old: Pod, pod: Pod, reason: Reason) -> bool:
    """Whether ``pod`` shows a failed attempt for this reason, and ``old`` does not."""
    condition = _scheduled(pod)
    if condition is None or condition == _scheduled(old):
        return False
    return condition.status == "False" and condition.reason == reason


def failed(old: Pod, pod: Pod) -> Theirs | None:
    """What the other scheduler has decided, where it found no node."""
    condition = _scheduled(pod)
    if condition is None or not has_failed(old, pod, Reason.UNSCHEDULABLE):
        return None
    node = pod.status.nominated_node_name
    nominated = node if node != old.status.nominated_node_name else ""
    return Theirs(message=condition.message, nominated=nominated)


def preempted(pod: Pod) -> bool:
    """Whether a scheduler evicts the Pod."""
    return any(c.type == DISRUPTION_TARGET and c.reason == PREEMPTED for c in pod.status.conditions)
