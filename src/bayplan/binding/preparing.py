"""Pods in PreBind: preemption can cancel such a Pod instead of deleting it.

The scheduling thread cancels, a binding worker finishes; the first of the two wins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping


class PreparingPod:
    """One Pod, from the moment that it is handed to a worker until its PreBind is over.

    Attributes:
        called_back: why it was called back; "" while it was not.
    """

    def __init__(self) -> None:
        self.called_back = ""
        self._over = False
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def call_back(self, reason: str) -> bool:
        """Let its preparation come to nothing: it goes back to the queue.

        False when it is too late for that.
        """
        with self._lock:
            if self._over:
                return False
            callbacks, self._callbacks = self._callbacks, []
            self.called_back = self.called_back or reason
        for callback in callbacks:
            callback()
        return True

    def on_call_back(self, callback: Callable[[], None]) -> None:
        """Have a PreBind plugin told, which then need not go on; at once if it has happened."""
        with self._lock:
            if not self.called_back:
                self._callbacks.append(callback)
                return
        callback()

    def finish(self) -> bool:
        """PreBind is over; False when the Pod was called back before."""
        with self._lock:
            self._over = not self.called_back
            return self._over


class PreparingPods(Mapping[str, PreparingPod]):
    """All Pods in PreBind, by uid. Any thread.

    With a lock: binding workers take Pods in and out while the scheduling thread looks for victims.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, PreparingPod] = {}

    def begin(self, uid: str) -> PreparingPod:
        """That Pod is handed to a worker."""
        preparing = PreparingPod()
        with self._lock:
            self._pods[uid] = preparing
        return preparing

    def end(self, uid: str) -> PreparingPod | None:
        """Its PreBind is over."""
        with self._lock:
            return self._pods.pop(uid, None)

    def __getitem__(self, uid: str) -> PreparingPod:
        with self._lock:
            return self._pods[uid]

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._pods))

    def __len__(self) -> int:
        with self._lock:
            return len(self._pods)
