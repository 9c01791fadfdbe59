"""QueuedGroups: which Pods wait for which group, and which groups have begun.

A group *has begun* while one of its Pods has a node, or is being deleted from one only if others
stay: then Pods that come later, more than the minimum or in place of lost ones, go singly. Before
that its Pods wait together under one entry of the queue, a `QueuedGroup`. Scheduling thread only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import group_key
from bayplan.framework.groups import GroupsPods
from bayplan.queue.queued_group import QueuedGroup, group_uid
from bayplan.queue.queued_pod import QueuedPod


class QueuedGroups:
    """All entries of groups, and what is known of Pods that have a node."""

    def __init__(self, plugins: Mapping[str, GroupsPods]) -> None:
        self._plugins = plugins
        self._entries: dict[str, QueuedGroup] = {}
        self._bound: dict[str, set[str]] = {}

    def adopt(self, plugins: Mapping[str, GroupsPods]) -> None:
        """By profile, these plugins have Pods placed together from now on; no entry is left."""
        self._plugins = plugins

    def __iter__(self) -> Iterator[QueuedGroup]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def holds(self, queued: QueuedPod) -> bool:
        """Whether the Pod has to wait for its group."""
        if not self._plugins or isinstance(queued, QueuedGroup):
            return False
        key = group_key(queued.pod)
        return bool(key) and queued.profile in self._plugins and self.gathers(key)

    def gathers(self, key: str) -> bool:
        """Whether no Pod of the group has a node yet."""
        return key not in self._bound

    def entry_of(self, pod: Pod) -> QueuedGroup | None:
        """The entry of the Pod's group, where there is one."""
        if not self._entries:
            return None
        return self._entries.get(group_uid(pod.shape.spec.scheduler_name, group_key(pod)))

    def join(self, queued: QueuedPod, now: float) -> QueuedGroup:
        """The Pod waits for its group from now on; returns the entry, made where there is none."""
        entry = self.entry_of(queued.pod)
        if entry is None:
            plugin = self._plugins[queued.profile]
            entry = QueuedGroup(group_key(queued.pod), queued.pod, plugin, now)
            self._entries[entry.uid] = entry
        entry.members[queued.uid] = queued
        return entry

    def part(self, queued: QueuedPod) -> QueuedGroup | None:
        """The Pod no longer waits for its group; returns the entry that it was in."""
        entry = self.entry_of(queued.pod)
        if entry is None or entry.members.pop(queued.uid, None) is None:
            return None
        if entry.pod.uid == queued.uid and entry.members:
            entry.pod = next(iter(entry.members.values())).pod
        return entry

    def forget(self, entry: QueuedGroup) -> None:
        """The entry is no more."""
        del self._entries[entry.uid]

    # Pods with a node

    def bound(self, pod: Pod) -> str:
        """The Pod has a node; returns the key of its group, "" for none."""
        key = group_key(pod)
        if key:
            if pod.deleted is None:
                self._bound.setdefault(key, set()).add(pod.uid)
            else:
                self.unbound(pod)
        return key

    def unbound(self, pod: Pod) -> None:
        """The Pod has left its node, or is about to."""
        key = group_key(pod)
        uids = self._bound.get(key) if key else None
        if uids is not None:
            uids.discard(pod.uid)
            if not uids:
                del self._bound[key]
