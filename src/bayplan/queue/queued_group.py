"""QueuedGroup: a group of Pods, which the queue moves as if it were one Pod."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import Group
from bayplan.framework.groups import GroupsPods
from bayplan.framework.status import Status
from bayplan.queue.queued_pod import QueuedPod


class QueuedGroup(QueuedPod):
    """The entry of one group, under a uid of its own.

    Attributes:
        key: ``namespace/name`` of the group.
        members: by uid, its Pods that wait for a node; each is in the place `Place.GROUPED`.
        pod: one of them, which stands for the group in the order of the queue; after a rejection,
            one that was rejected.
        also_rejected: the others that were, one of each shape: what may help them may wake the
            group.
        plugin: the plugin that has the group placed together.
        told: what was said of the group last.
        conditions: by uid, the message of the condition that each member was given last.
    """

    __slots__ = ("also_rejected", "conditions", "key", "members", "plugin", "told")

    also_rejected: Sequence[Pod]

    def __init__(self, key: str, pod: Pod, plugin: GroupsPods, now: float) -> None:
        super().__init__(pod, now)
        self.uid = group_uid(pod.shape.spec.scheduler_name, key)
        self.key = key
        self.plugin = plugin
        self.members: dict[str, QueuedPod] = {}
        self.also_rejected = ()
        self.told = ""
        self.conditions: dict[str, str] = {}
        self.least_backoff = plugin.backoff

    @property
    def group(self) -> Group | None:
        """What it asks for; None while its object does not exist."""
        return self.plugin.find(self.key)

    @property
    def pods(self) -> list[Pod]:
        """The members that can be placed, in the order in which they are tried."""
        pods = [member.pod for member in self.members.values() if member.pod.deleted is None]
        return sorted(pods, key=lambda pod: (-pod.priority, pod.key))

    def gathering(self) -> Status | None:
        """What is missing before the group can be tried at all; None when nothing is."""
        group = self.group
        if group is None:
            text = f"WaitingForPodGroup: there is no PodGroup {self.key}"
        else:
            count = sum(member.pod.deleted is None for member in self.members.values())
            if count >= group.minimum:
                return None
            text = f"WaitingForMembers {count}/{group.minimum}"
        return Status.unresolvable(text).by(self.plugin.name)

    def has_rejected(self, pod: Pod) -> bool:
        """Whether a Pod of that shape was rejected in the last attempt."""
        return any(other.shape is pod.shape for other in (self.pod, *self.also_rejected))


def group_uid(profile: str, key: str) -> str:
    """The uid of a group's entry; no Pod has one like it."""
    return f"group {profile} {key}"
