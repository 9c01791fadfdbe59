"""Failover: room is kept for the Pods of any one failure domain (N+1).

If a domain is lost, its protected Pods (those of a priority of at least a number) have to fit
elsewhere, where Pods of lower priority may be evicted for them. That can only be where, of every
resource::

    requests of protected Pods  <=  allocatable of all nodes - allocatable of the largest domain

which does not depend on where Pods are: what a domain loses of protected Pods, it loses of room.
A protected Pod that would break this is not placed. It is a bound on sums; `simulate --lose` says
whether each Pod has a node.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from bayplan.api import quantity
from bayplan.api.pod import Pod
from bayplan.cache.node_table import ABSENT, IntArray
from bayplan.cache.requests import pod_requests
from bayplan.config.args import FailoverArgs
from bayplan.framework.in_tree_handle import InTreeHandle


class Failover:
    """See the module's docstring. Scheduling thread only."""

    def __init__(self, handle: InTreeHandle, args: FailoverArgs) -> None:
        self._nodes, self._pods, self._args = handle.nodes, handle.pods, args
        self._protected: dict[str, int] = {}
        self._seen = -1
        self._most: dict[str, tuple[int, str]] = {}
        handle.pods.listen(self)
        for pod in handle.pods.pods():
            self.pod_counted(pod)

    def protects(self, pod: Pod) -> bool:
        """Whether room is kept for ``pod``."""
        return pod.priority >= self._args.priority_at_least

    def pod_counted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        self._add(pod, 1)

    def pod_uncounted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        self._add(pod, -1)

    def _add(self, pod: Pod, sign: int) -> None:
        if self.protects(pod):
            for name, amount in pod_requests(pod).amounts.items():
                self._protected[name] = self._protected.get(name, 0) + sign * amount

    def recount(self) -> int:
        """How many resources differ from the sum over all Pods."""
        fresh: Counter[str] = Counter()
        for pod in filter(self.protects, self._pods.pods()):
            fresh.update(pod_requests(pod).amounts)
        return sum(
            fresh[name] != self._protected.get(name, 0) for name in {*fresh, *self._protected}
        )

    def refusal(self, pod: Pod) -> str:
        """Why ``pod`` must not be placed; "" if there is no reason."""
        if not self.protects(pod):
            return ""
        for name, amount in pod_requests(pod).amounts.items():
            after = self._protected.get(name, 0) + amount
            most, domain = self._room(name)
            if amount and after > most:
                used, there = quantity.shown(name, after), quantity.shown(name, most)
                key = self._args.domain
                return f"without {key}={domain}, {there} of {name} are left, {used} are needed"
        return ""

    def _room(self, name: str) -> tuple[int, str]:
        """What is allocatable without the largest domain, and which this is."""
        position = self._nodes.node_journal.position
        if position != self._seen:
            self._seen = position
            self._most.clear()
        if name not in self._most:
            self._most[name] = self._largest(name)
        return self._most[name]

    def _largest(self, name: str) -> tuple[int, str]:
        nodes = self._nodes
        amounts: IntArray = np.where(nodes.exists, nodes.allocatable(name), 0)
        column = nodes.label(self._args.domain)
        codes = np.where(nodes.exists, column.codes, ABSENT)
        by_domain = np.zeros(len(column.values) + 1, np.int64)
        np.add.at(by_domain, codes, amounts)
        by_domain[-1] = 0  # nodes without the label are not lost
        largest = int(by_domain.argmax())
        named = column.values[largest] if by_domain[largest] else "(none)"
        return int(amounts.sum() - by_domain[largest]), named
