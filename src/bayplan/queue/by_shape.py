"""PodsByShape: single Pods, those of one shape together."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.pod import PodShape
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod


class PodsByShape:
    """See the module's docstring. Entries of groups are left out."""

    def __init__(self) -> None:
        self._pods: dict[PodShape, dict[str, QueuedPod]] = {}
        self._shapes: dict[str, PodShape] = {}

    def add(self, queued: QueuedPod) -> None:
        """Put a Pod in, or move one that has changed."""
        self.discard(queued)
        if not isinstance(queued, QueuedGroup):
            shape = self._shapes[queued.uid] = queued.pod.shape
            self._pods.setdefault(shape, {})[queued.uid] = queued

    def discard(self, queued: QueuedPod) -> None:
        """Take the Pod out, if it is in."""
        shape = self._shapes.pop(queued.uid, None)
        if shape is not None:
            alike = self._pods[shape]
            del alike[queued.uid]
            if not alike:
                del self._pods[shape]

    def firsts(self) -> Iterator[QueuedPod]:
        """Of each shape, the Pod that came first."""
        return (next(iter(alike.values())) for alike in self._pods.values())

    def __len__(self) -> int:
        return len(self._shapes)
