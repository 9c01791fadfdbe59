"""NeverEvicted: the Pods that yield to nobody, as far as what is guaranteed to their queue goes.

Such a Pod is admitted only within the guarantee, so the guarantee covers all of them. It does not
where a guarantee was lowered, or a Pod got its label, or its queue, while it ran. Then they stand
in a line, by priority, then who started first, and who does not fit into what is left of the
guarantee may be evicted like others: a label that anybody may write protects no more than that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.counted_pods import CountedPods
from bayplan.cache.node_table import BoolArray, LiveNodeTable
from bayplan.cache.node_table.pod_table import start
from bayplan.cache.queue_tree import QueueTree
from bayplan.plugins.fair_share.guarantees import fit_one_by_one
from bayplan.preemption.running_pods import RunningPods


class NeverEvicted:
    """See the module's docstring, and `bayplan.framework.services.Services.never_evicted`."""

    def __init__(self, queues: QueueTree, pods: CountedPods, nodes: LiveNodeTable) -> None:
        self._queues, self._pods, self._nodes = queues, pods, nodes
        self._kept: tuple[object, Collection[str]] = None, ()
        """The last answer of `_beyond`, and what that depends on."""

    @property
    def any(self) -> bool:
        """Whether there may be such Pods."""
        return self._queues.active and self._queues.any_never_evicted

    def __contains__(self, pod: Pod) -> bool:
        return self.any and self._queues.is_never_evicted(pod) and pod.uid not in self._beyond()

    def among(self, running: RunningPods) -> BoolArray:
        """(p,) which Pods are such."""
        if not self.any:
            return np.zeros(len(running), np.bool_)
        marked = [self._queues.is_never_evicted(pod) for pod in running.examples]
        never = np.array(marked, np.bool_)[running.codes]
        if beyond := self._beyond():
            never &= [pod.uid not in beyond for pod in running.pods]
        return never

    def _beyond(self) -> Collection[str]:
        """Uids of Pods beyond the guarantee."""
        queues = self._queues
        seen = queues.sums, self._nodes.pods_version
        if self._kept[0] == seen:
            return self._kept[1]
        beyond: set[str] = set()
        for user, row in queues.sums.users.items():
            used = queues.sums.used_rows[row]
            if user.never_evicted and any(used[column] > most for column, most in user.limits):
                beyond.update(self._beyond_of(row, [most for _, most in user.limits]))
        self._kept = seen, beyond
        return beyond

    def _beyond_of(self, row: int, limit: Sequence[int]) -> Iterator[str]:
        """The same of the Pods that count in a row of the sums, for ``limit`` by column."""
        charges = ((pod, self._queues.charge(pod)) for pod in self._pods.pods())
        line = [pod for pod, charge in charges if charge is not None and row in charge.links]
        line.sort(key=lambda pod: (-pod.priority, start(pod), pod.uid))
        requests = np.array([self._queues.requests(pod) for pod in line], np.int64)
        fitting = set(fit_one_by_one(np.array(limit, np.int64), requests).tolist())
        yield from (pod.uid for index, pod in enumerate(line) if index not in fitting)
