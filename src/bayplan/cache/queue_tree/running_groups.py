"""RunningGroups: which groups have Pods on nodes, while any queue is draining.

A draining queue takes the Pods that such a group lacks, and no others; so these alone are demand.
Pods of a group may be of several queues, so those of all queues count.
"""

from __future__ import annotations

from collections import defaultdict

from bayplan.api.pod import Pod
from bayplan.cache.groups import Groups
from bayplan.cache.index import discard
from bayplan.cache.kubernetes_groups import pod_group_key


class RunningGroups:
    """See the module's docstring. Whoever keeps it up to date says when Pods come and go."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._uids: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        """By group, its Pods that count on a node."""

    def has(self, pod: Pod) -> bool:
        """Whether Pods of the group of ``pod`` count on nodes."""
        return self._key(pod) in self._uids

    def add(self, pod: Pod) -> bool:
        """The Pod counts; whether it is the first of a group."""
        key = self._key(pod)
        is_first = any(key) and key not in self._uids
        if any(key):
            self._uids[key][pod.uid] = None
        return is_first

    def remove(self, pod: Pod) -> bool:
        """The Pod does not count; whether it was the last of a group."""
        was_there = self.has(pod)
        discard(self._uids, self._key(pod), pod.uid)
        return was_there and not self.has(pod)

    def same(self, one: Pod, other: Pod) -> bool:
        """Whether both are of one group."""
        return self._key(one) == self._key(other)

    def _key(self, pod: Pod) -> tuple[str, str]:
        """Of the PodGroup of Kubernetes, or else of the group of the label or of the owner."""
        of_kubernetes = pod_group_key(pod)
        return of_kubernetes, "" if of_kubernetes else self._groups.key_of(pod)
