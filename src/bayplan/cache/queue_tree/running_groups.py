"""RunningGroups: which groups have Pods on nodes, while any queue is draining.

A draining queue takes the Pods that such a group lacks, and no others; so these alone are demand.
Pods of a group may be of several queues, so those of all queues count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from bayplan.api.pod import Pod
from bayplan.cache.counted_pods import CountedPods
from bayplan.cache.groups import Groups
from bayplan.cache.index import discard
from bayplan.cache.kubernetes_groups import pod_group_key


class RunningGroups:
    """See the module's docstring.

    Args:
        groups: say which Pods belong together.
        pods: those on nodes.
        changed: is called with a Pod that is the first of a group, or was the last one; and with
            the uid of a Pod that is not to be asked again, as it counts on a node.
    """

    def __init__(
        self, groups: Groups, pods: CountedPods, changed: Callable[[Pod, str], None]
    ) -> None:
        self._groups, self._pods, self._changed = groups, pods, changed
        self._uids: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        """By group, its Pods that count on a node."""
        for pod in pods.pods():
            self._add(pod)
        pods.listen(self)

    def has(self, pod: Pod) -> bool:
        """Whether Pods of the group of ``pod`` count on nodes."""
        return self._key(pod) in self._uids

    def pod_counted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        if self._add(pod):
            self._changed(pod, pod.uid)

    def pod_uncounted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        was_there = self.has(pod)
        discard(self._uids, self._key(pod), pod.uid)
        if was_there and not self.has(pod):
            # A Pod that moves counts again at once.
            self._changed(pod, pod.uid if self._pods.pod(pod.uid) is not None else "")

    def _add(self, pod: Pod) -> bool:
        """Whether the Pod is the first of a group."""
        key = self._key(pod)
        is_first = any(key) and key not in self._uids
        if any(key):
            self._uids[key][pod.uid] = None
        return is_first

    def same(self, one: Pod, other: Pod) -> bool:
        """Whether both are of one group."""
        return self._key(one) == self._key(other)

    def _key(self, pod: Pod) -> tuple[str, str]:
        """Of the PodGroup of Kubernetes, or else of the group of the label or of the owner."""
        of_kubernetes = pod_group_key(pod)
        return of_kubernetes, "" if of_kubernetes else self._groups.key_of(pod)
