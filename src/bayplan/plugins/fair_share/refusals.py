"""Refusals: Pods without room, woken when they may be entitled to some.

What a queue may take depends on what others use, on shares (which follow demand) and on time
(`minRuntimeSeconds`). None of these is an event of the Pod that waits. So every few seconds it is
looked whether Pods on nodes, nominations, shares or Queues have changed since a refusal; if so, a
few Pods of each queue try again, each unlike the others, and with each that makes room the next
one. While nothing changes, those try that are unlike all that were refused since the change; then
nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import inf

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.framework.handle import PodNominator

_AT_ONCE = 4
"""Pods of one queue that try again together."""


class Refusals:
    """See the module's docstring."""

    def __init__(self, queues: QueueTree, nodes: LiveNodeTable, nominator: PodNominator) -> None:
        self._queues, self._nodes, self._nominator = queues, nodes, nominator
        self._refused: dict[int, dict[str, Pod]] = {}
        """By leaf and uid, the longest refused first."""
        self._tried: set[PodShape] = set()
        """Refused, or woken, since something changed."""
        self._seen: object = None
        self._placed: object = None
        """Versions of Pods on nodes and of nominations, at the last refusal."""
        self._moved = False
        """Whether there were changes between two refusals."""
        self._version = -1
        self._due = inf

    def add(self, pod: Pod, due: float) -> None:
        """``pod`` found no room; at ``due`` (seconds since the epoch) time alone changes that."""
        self._start_over_if_outdated()
        leaf = self._queues.leaf(pod)
        if leaf != NO_QUEUE:
            placed = self._placed_now()
            self._moved |= bool(self._refused) and placed != self._placed
            if not self._refused:
                self._seen = self._state()
            self._placed = placed
            self._refused.setdefault(leaf, {})[pod.uid] = pod
            self._tried.add(pod.shape)
            self._due = min(self._due, due)

    def round(self, now: float) -> list[Pod]:
        """Pods to try again: since the last change one of each shape, a few at a time."""
        self._start_over_if_outdated()
        self._forget_who_waits_no_more()
        if not self._refused:
            self._tried.clear()
            return []
        state = self._state()
        if state != self._seen or self._moved or now >= self._due:
            self._seen, self._moved, self._due = state, False, inf
            self._tried.clear()
        return [pod for leaf in list(self._refused) for pod in self._unlike(leaf)]

    def after(self, pod: Pod) -> list[Pod]:
        """Who tries again as room was made for a Pod of the same queue; one or nobody."""
        self._start_over_if_outdated()
        return self._wake(self._queues.leaf(pod), lambda _pod: True, 1)

    def _unlike(self, leaf: int) -> list[Pod]:
        def is_unlike(pod: Pod) -> bool:
            tried = len(self._tried)
            self._tried.add(pod.shape)
            return len(self._tried) > tried

        return self._wake(leaf, is_unlike, _AT_ONCE)

    def _wake(self, leaf: int, is_next: Callable[[Pod], bool], number: int) -> list[Pod]:
        refused = self._refused.get(leaf, {})
        pods = list(islice(filter(is_next, refused.values()), number))
        for pod in pods:
            del refused[pod.uid]
        return [pod for pod in pods if self._queues.waits(pod.uid)]

    def _forget_who_waits_no_more(self) -> None:
        for leaf, refused in list(self._refused.items()):
            for uid in [uid for uid in refused if not self._queues.waits(uid)]:
                del refused[uid]
            if not refused:
                del self._refused[leaf]

    def _state(self) -> object:
        shares = self._queues.shares()
        return self._placed_now(), shares.whole.tobytes(), shares.guaranteed.tobytes()

    def _placed_now(self) -> object:
        return self._nodes.pods_version, self._nominator.version

    def _start_over_if_outdated(self) -> None:
        """Sort the Pods anew when Queues or namespaces have changed; the next round wakes all."""
        if self._version != self._queues.version:
            refused = [pod for pods in self._refused.values() for pod in pods.values()]
            self._refused.clear()
            self._version, self._seen = self._queues.version, None
            for pod in refused:
                if (leaf := self._queues.leaf(pod)) != NO_QUEUE:
                    self._refused.setdefault(leaf, {})[pod.uid] = pod
