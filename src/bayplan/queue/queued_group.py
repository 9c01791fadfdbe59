"""QueuedGroup: a group of Pods, which moves through the queue like one Pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import sub_group_of
from bayplan.framework.groups import GroupSource
from bayplan.framework.room import Leaving
from bayplan.framework.status import Status
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import QueueState


class QueuedGroup(QueuedPod):
    """The entry of one group, under a uid of its own.

    Attributes:
        key: ``namespace/name`` of the group.
        members: by uid, its Pods that wait for a node; each is in the state `QueueState.GROUPED`.
        scheduled: by sub-group, how many Pods of the group have nodes.
        held: by uid, what holds Pods of the group back that hold the group back with them.
        pod: one of them, which stands for the group in the order of the queue; after a rejection,
            one that was rejected.
        also_rejected: the others that were, one of each shape: what may help them may wake the
            group.
        plugin: the plugin that has the group placed together.
        last_report: the sentence or condition about the group that was written last.
        reported_at: when that was, where it is a sentence.
        conditions: by uid, the message and the nominated node that each member was given last.
    """

    __slots__ = (
        "_facts",
        "_priorities",
        "_waiting",
        "also_rejected",
        "conditions",
        "held",
        "key",
        "last_report",
        "leaving",
        "members",
        "plugin",
        "reported_at",
        "scheduled",
    )

    also_rejected: Sequence[Pod]
    leaving: Leaving | None

    def __init__(
        self,
        key: str,
        pod: Pod,
        plugin: GroupSource,
        now: float,
        scheduled: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        super().__init__(pod, now)
        self.uid = group_uid(plugin, key, pod)
        self.key = key
        self.plugin = plugin
        self.scheduled = scheduled
        self.members: dict[str, QueuedPod] = {}
        self._facts: dict[str, tuple[str | None, int]] = {}
        self._waiting: Counter[str] = Counter()
        self._priorities: Counter[int] = Counter()
        self.held: Mapping[str, Status] = {}
        self.also_rejected = ()
        self.leaving = None
        self.last_report = ""
        self.reported_at = now
        self.conditions: dict[str, tuple[str, str]] = {}
        self.least_backoff = plugin.backoff

    @property
    def size(self) -> int:
        """How many Pods wait for a node together."""
        return len(self.members)

    # Members; what is counted of them makes `gathering` cost the same however many there are

    def add_member(self, queued: QueuedPod) -> None:
        """The Pod waits with the group, or has changed meanwhile."""
        self.drop_member(queued.uid)
        self.members[queued.uid] = queued
        pod = queued.pod
        sub_group = sub_group_of(pod.shape) if pod.deleted is None else None
        self._facts[queued.uid] = sub_group, pod.priority
        self._priorities[pod.priority] += 1
        if sub_group is not None:
            self._waiting[sub_group] += 1

    def drop_member(self, uid: str) -> QueuedPod | None:
        """The Pod no longer waits with the group; None where it did not."""
        queued = self.members.pop(uid, None)
        if queued is not None:
            sub_group, priority = self._facts.pop(uid)
            if sub_group is not None:
                self._waiting[sub_group] -= 1
                if not self._waiting[sub_group]:
                    del self._waiting[sub_group]
            self._priorities[priority] -= 1
            if not self._priorities[priority]:
                del self._priorities[priority]
        return queued

    @property
    def group(self) -> Group | None:
        """The group's spec for the waiting Pods; None while there is no object."""
        group = self.plugin.find(self.key)
        return None if group is None else group.rest(self.scheduled())

    @property
    def pods(self) -> list[Pod]:
        """The members that can be placed, in the order of the attempts.

        As many as the group's minimum come first that make up the minimum of each sub-group, too.
        """
        members = [m for m in self.members.values() if m.pod.deleted is None]
        pods = [member.pod for member in sorted(members, key=self.plugin.order)]
        group = self.group
        return pods if group is None else group.needed_first(pods)

    def gathering(self) -> Status | None:
        """What is missing before the group can be tried at all; None when nothing is."""
        missing = self.plugin.missing(self.key, self._waiting, self.scheduled())
        if missing is not None:
            return missing.by(self.plugin.name)
        if len(self._priorities) > 1 and not self.plugin.policy.refuses_mixed:
            listed = " and ".join(map(str, sorted(self._priorities)))
            text = f"UnequalPriorities: its Pods have the priorities {listed}; they need the same"
            return Status.unresolvable(text).by(self.plugin.name)
        return next(iter(self.held.values()), None)

    @property
    def is_gathering(self) -> bool:
        """Whether Pods are missing or gated; False if the group only waits for victims to leave."""
        return self.state is QueueState.GATED and (
            self.gating_plugin == self.plugin.name or bool(self.held)
        )

    def continue_backoff(self, queued: QueuedPod) -> None:
        """The group begins with a Pod whose binding has failed: it backs off as the Pod would."""
        self.attempts = queued.attempts
        self.timestamp = queued.timestamp
        self.consecutive_errors_count = queued.consecutive_errors_count

    def has_rejected(self, pod: Pod) -> bool:
        """Whether a Pod of that shape was rejected in the last attempt."""
        if self.rejectors == {self.plugin.name}:
            return False
        return any(other.shape is pod.shape for other in (self.pod, *self.also_rejected))


def group_uid(plugin: GroupSource, key: str, pod: Pod) -> str:
    """The uid of the entry of the group of ``pod``; no Pod has one like it.

    Pods of several profiles are apart, unless it is for the group's cycle to refuse them.
    """
    profile = "" if plugin.policy.refuses_mixed else pod.shape.spec.scheduler_name
    return f"group {plugin.name} {profile} {key}"
