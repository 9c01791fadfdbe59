"""Pods in PreBind: preemption can cancel such a Pod instead of deleting it.

The scheduling thread cancels, a binding worker finishes; the first of the two wins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping


class PreparingPod:
    """One Pod from the handover to a worker until the end of PreBind.

    Attributes:
        cancelled: the reason; "" if it was not cancelled.
    """

    def __init__(self) -> None:
        self.cancelled = ""
        self._over = False
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def cancel(self, reason: str) -> bool:
        """Cancel the binding: the Pod returns to the queue.

        False if PreBind is over.
        """
        with self._lock:
            if self._over:
                return False
            callbacks, self._callbacks = self._callbacks, []
            self.cancelled = self.cancelled or reason
        for callback in callbacks:
            callback()
        return True

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on cancellation, so that PreBind can stop; at once if cancelled."""
        with self._lock:
            if not self.cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def finish(self) -> bool:
        """PreBind is over; False if the Pod was cancelled before."""
        with self._lock:
            self._over = not self.cancelled
            return self._over


class PreparingPods(Mapping[str, PreparingPod]):
    """All Pods in PreBind, by uid. Any thread.

    It has a lock: binding workers change it while the scheduling thread looks for victims.
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
