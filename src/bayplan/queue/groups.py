"""QueuedGroups: the Pods that wait for each group, and the groups with bound Pods.

A group *has begun* while one of its Pods has a node, or is being deleted from one only if others
stay: then Pods that come later, more than the minimum or in place of lost ones, go singly. Before
that its Pods wait together under one entry of the queue, a `QueuedGroup`. The same holds for each
sub-group: the Pods of one that has lost all that had nodes wait together again. Scheduling thread
only.

The policy of a group (`bayplan.cache.group_policy`) may say otherwise: that its Pods always wait
together, whether others have nodes or not, or that a Pod that a PreEnqueue plugin holds back holds
the group back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from bayplan.api.pod import Pod
from bayplan.cache.group_policy import Collects, Words
from bayplan.cache.index import discard
from bayplan.cache.sub_groups import sub_group_of
from bayplan.framework.groups import GroupSource
from bayplan.framework.status import Status
from bayplan.queue.queued_group import QueuedGroup, group_uid
from bayplan.queue.queued_pod import QueuedPod


class QueuedGroups:
    """All entries of groups, and what is known of Pods that have a node.

    Args:
        plugins: by profile, those that have Pods placed together.
        key_of: the group of a Pod that has a node, if it is not a PodGroup of Kubernetes.
    """

    def __init__(
        self, plugins: Mapping[str, Sequence[GroupSource]], key_of: Callable[[Pod], str]
    ) -> None:
        self._plugins = plugins
        self._key_of = key_of
        self._entries: dict[str, QueuedGroup] = {}
        self._by_key: dict[str, list[QueuedGroup]] = {}
        self._bound: dict[str, dict[str, set[str]]] = {}
        """By group and sub-group, the uids of Pods with a node."""
        self._counted: dict[str, tuple[str, str]] = {}
        """By uid, where a Pod is in `_bound`."""
        self._held: dict[str, dict[str, Status]] = {}

    def adopt(self, plugins: Mapping[str, Sequence[GroupSource]]) -> None:
        """By profile, these plugins have Pods placed together from now on; no entry is left."""
        self._plugins = plugins
        self._held.clear()

    def __iter__(self) -> Iterator[QueuedGroup]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def counts(self) -> dict[str, int]:
        """How many groups are in each state; any thread may ask."""
        return Counter(str(entry.state) for entry in self)

    def waits_with_group(self, queued: QueuedPod) -> bool:
        """Whether the Pod has to wait for its group."""
        if not self._plugins or isinstance(queued, QueuedGroup):
            return False
        plugin, key = self.group_of(queued.pod)
        if plugin is None:
            return False
        always = plugin.policy.collects is Collects.ALWAYS
        return always or self._has_to_gather(plugin, key, queued.pod)

    def group_of(self, pod: Pod) -> tuple[GroupSource | None, str]:
        """The plugin that groups the Pod, and the key of the group."""
        for plugin in self._plugins.get(pod.shape.spec.scheduler_name, ()):
            if key := plugin.key_of(pod):
                return plugin, key
        return None, ""

    def has_begun(self, key: str) -> bool:
        """Whether a Pod of the group has a node."""
        return key in self._bound

    def _has_to_gather(self, plugin: GroupSource, key: str, pod: Pod) -> bool:
        """Whether no Pod of the group, or of a sub-group that ``pod`` is in, has a node yet."""
        bound = self._bound.get(key)
        if bound is None:
            return True
        name = sub_group_of(pod.shape)
        if not name or name in bound:
            return False
        group, counts = plugin.find(key), self._scheduled(key)
        return group is not None and not all(part.count(counts) for part in group.path(name))

    def _scheduled(self, key: str) -> dict[str, int]:
        """By sub-group, how many Pods of the group have a node."""
        return {name: len(uids) for name, uids in self._bound.get(key, {}).items()}

    def completes_group(self, queued: QueuedPod) -> bool:
        """Whether the Pod's group has begun, has lost its minimum, and so needs this Pod."""
        if not self._bound or not self._plugins:
            return False
        plugin, key = self.group_of(queued.pod)
        if plugin is None or key not in self._bound:
            return False
        if plugin.policy.collects is Collects.ALWAYS:
            return False
        group = plugin.find(key)
        name = sub_group_of(queued.pod.shape)
        return group is not None and group.lacks(self._scheduled(key), name)

    def entry_of_pod(self, pod: Pod) -> QueuedGroup | None:
        """The entry of the Pod's group, where there is one."""
        if not self._entries:
            return None
        plugin, key = self.group_of(pod)
        return None if plugin is None else self._entries.get(group_uid(plugin, key, pod))

    def add_member(self, queued: QueuedPod, now: float) -> QueuedGroup:
        """The Pod waits for its group from now on; returns the entry, made where there is none."""
        entry = self.entry_of_pod(queued.pod)
        if entry is None:
            plugin, key = self.group_of(queued.pod)
            assert plugin is not None
            always = plugin.policy.collects is Collects.ALWAYS
            scheduled = dict if always else partial(self._scheduled, key)
            since = queued.timestamp if always else now
            entry = QueuedGroup(key, queued.pod, plugin, since, scheduled)
            entry.held = self._held.get(entry.uid, {})
            if queued.consecutive_errors_count:
                entry.continue_backoff(queued)
            self._entries[entry.uid] = entry
            self._by_key.setdefault(key, []).append(entry)
        entry.add_member(queued)
        self._ungate_member(queued)
        return entry

    def gate_member(self, queued: QueuedPod, status: Status) -> QueuedGroup | None:
        """A PreEnqueue plugin gates the Pod; returns the entry that is gated, too."""
        if not self._plugins or isinstance(queued, QueuedGroup):
            return None
        plugin, key = self.group_of(queued.pod)
        if plugin is None or not plugin.policy.gates_whole:
            return None
        uid = group_uid(plugin, key, queued.pod)
        held = self._held.setdefault(uid, {})
        held[queued.uid] = status
        entry = self._entries.get(uid)
        if entry is not None:
            entry.held = held
        return entry

    def _ungate_member(self, queued: QueuedPod) -> bool:
        """Nothing holds the Pod back any more; whether something did."""
        if not self._held:
            return False
        plugin, key = self.group_of(queued.pod)
        uid = "" if plugin is None else group_uid(plugin, key, queued.pod)
        held = self._held.get(uid)
        if held is None or held.pop(queued.uid, None) is None:
            return False
        if not held:
            del self._held[uid]
        return True

    def remove_member(self, queued: QueuedPod) -> QueuedGroup | None:
        """The Pod no longer waits for its group; returns the changed entry."""
        ungated = self._ungate_member(queued)
        entry = self.entry_of_pod(queued.pod)
        if entry is None or (entry.drop_member(queued.uid) is None and not ungated):
            return None
        if entry.pod.uid == queued.uid and entry.members:
            entry.pod = next(iter(entry.members.values())).pod
        return entry

    def remove_entry(self, entry: QueuedGroup) -> None:
        """The entry is no more."""
        del self._entries[entry.uid]
        siblings = self._by_key[entry.key]
        siblings.remove(entry)
        if not siblings:
            del self._by_key[entry.key]

    def why_gathering(self, entry: QueuedGroup) -> str:
        """Why the group gathers, and how many of its Pods name another profile; "" for no reason.

        The first word is the reason, also where kube-scheduler's text has none.
        """
        others = [other for other in self._by_key[entry.key] if other is not entry]
        sentence = entry.gating_reason
        if sentence and entry.plugin.policy.words is Words.CONDITION:
            sentence = f"WaitingForMembers: {sentence}"
        if not sentence or not others:
            return sentence
        count = sum(len(other.members) for other in others)
        names = " and ".join(sorted(other.profile for other in others))
        return f"{sentence}; {count} Pods of it ask for the scheduler {names}"

    # Pods with a node

    def recount(self, pods: Collection[Pod], assumed: Callable[[str], bool]) -> None:
        """Pods belong to other groups than before; ``pods`` are all that count on a node.

        An assumed Pod has its node once its binding has ended well, which it has if it was counted.
        """
        counted = set(self._counted)
        self._bound.clear()
        self._counted.clear()
        for pod in pods:
            if not assumed(pod.uid) or pod.uid in counted:
                self.pod_bound(pod)

    def pod_bound(self, pod: Pod) -> str:
        """The Pod has a node, or another group than before; returns the group's key, "" for none.

        ``pod`` is as it counts in the cache: one that is terminating is about to leave its node.
        """
        self.pod_unbound(pod)
        key = self._key_of(pod)
        if key and pod.deleted is None:
            name = sub_group_of(pod.shape)
            self._bound.setdefault(key, {}).setdefault(name, set()).add(pod.uid)
            self._counted[pod.uid] = key, name
        return key

    def pod_unbound(self, pod: Pod) -> None:
        """The Pod has left its node, or is about to."""
        if pod.uid in self._counted:
            key, name = self._counted.pop(pod.uid)
            discard(parts := self._bound[key], name, pod.uid)
            if not parts:
                del self._bound[key]
