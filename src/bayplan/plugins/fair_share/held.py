"""HeldPods: Pods held back by limits, and which Pods are woken when there is room again.

When a Pod of a queue with 10,000 held ones ends, there is room for one, not for 10,000. So for each
event as many are woken as fit within the limits together, beside nominated Pods, for which others
may just have been evicted (`bayplan.plugins.fair_share.promised`). The others are not forgotten: a
Pod that was woken, fits within the limits and then fits on no node leaves that room to the next one
of its queue (`next_after`); so does a group, which is woken where one of its Pods fits within the
limits. What happens to a woken Pod otherwise (it is bound, or its binding fails) is an event again;
one that is deleted before its turn leaves the room until the next event.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from bayplan.api.pod import Pod
from bayplan.cache.amounts import Rows, add_amounts
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.plugins.fair_share.promised import Promised

_LEAST_SWEEP = 1024
"""Pods that are held anew before those are forgotten that are gone."""
_LOOKED_AT = 16
"""Held Pods that are looked at for one that fits into the room that was left."""


class HeldPods:
    """See the module's docstring."""

    def __init__(self, queues: QueueTree, promised: Promised) -> None:
        self._queues, self._promised = queues, promised
        self._held: dict[str, dict[str, Pod]] = defaultdict(dict)
        """By the name of the queue."""
        self._added = 0
        self._event: tuple[object, object, int] = (None, None, -1)
        self._woken: Rows = []

    def add(self, pod: Pod) -> None:
        """A limit holds the Pod back."""
        held = self._held[self._queue_of(pod)]
        held[pod.uid] = pod
        self._added += 1
        if self._added > _LEAST_SWEEP + len(held):
            self._added = 0
            gone = [uid for uid in held if not self._queues.waits(uid)]
            for uid in gone:
                del held[uid]

    def __contains__(self, pod: Pod) -> bool:
        """Whether a limit holds the Pod back, as far as is known."""
        return bool(self._held) and pod.uid in self._held.get(self._queue_of(pod), ())

    def discard(self, pod: Pod) -> None:
        """No limit does."""
        if self._held and (held := self._held.get(self._queue_of(pod))):
            held.pop(pod.uid, None)

    def is_woken(self, pod: Pod, old: object, new: object) -> bool:
        """Whether the Pod fits together with Pods woken by the same event (``old`` became ``new``).

        A nominated one has to fit beside the Pods on nodes only: if somebody else is to get the
        room that was made for it, it may make room once more.
        """
        queues = self._queues
        row = queues.leaf(pod)
        if row == NO_QUEUE:
            return True
        if self._event[0] is not old or self._event[1] is not new or self._is_outdated():
            self._event = old, new, queues.version
            self._woken = queues.sums.zeros()
        requests = queues.requests(pod)
        if self._promised.to(pod):
            return queues.excess(row, requests) is None
        if queues.excess(row, requests, self._woken, self._promised.besides([pod])) is not None:
            return False
        add_amounts(self._woken, queues.structure.links[row], requests)
        return True

    def _is_outdated(self) -> bool:
        return self._event[2] != self._queues.version

    def next_after(self, pod: Pod) -> Pod | None:
        """A held Pod of the same queue, in place of one that fits on no node."""
        queues = self._queues
        held = self._held.get(self._queue_of(pod), {})
        for other in list(islice(held.values(), _LOOKED_AT)):
            if not queues.waits(other.uid):
                del held[other.uid]
            elif self._fits(other):
                del held[other.uid]
                return other
        return None

    def _fits(self, pod: Pod) -> bool:
        queues = self._queues
        row, promised = queues.leaf(pod), self._promised.besides([pod])
        return queues.excess(row, queues.requests(pod), promised=promised) is None

    def _queue_of(self, pod: Pod) -> str:
        return self._queues.structure.name(self._queues.leaf(pod))
