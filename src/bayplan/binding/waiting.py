"""Pods that Permit plugins make wait: allowed by every one of them, rejected by any, or timed out.

The one part of the pipeline that plugins reach from any thread, and so the one with a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from bayplan.api.pod import Pod
from bayplan.framework.status import SUCCESS, Status


class WaitingPod:
    """One Pod and the plugins that it waits for.

    Args:
        pod: the assumed Pod.
        waits: seconds until a plugin's silence counts as no, by plugin.
    """

    def __init__(self, pod: Pod, waits: Mapping[str, float]) -> None:
        self.pod = pod
        self._changed = threading.Condition()
        self._pending = dict(waits)
        self._verdict: Status | None = None

    @property
    def node_name(self) -> str:
        """Where it will go."""
        return self.pod.node_name

    def pending_plugins(self) -> list[str]:
        """The plugins that it still waits for."""
        with self._changed:
            return sorted(self._pending)

    def allow(self, plugin: str) -> None:
        """``plugin`` no longer makes it wait; the last one lets it go."""
        with self._changed:
            self._pending.pop(plugin, None)
            if not self._pending and self._verdict is None:
                self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        """Turn it down for ``plugin``."""
        with self._changed:
            if self._verdict is None:
                self._decide(Status.unschedulable(message).by(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Take its place away, as an error: it is tried again after a backoff.

        False when its fate was sealed already.
        """
        with self._changed:
            if self._verdict is not None:
                return False
            self._decide(Status.error(f"waiting on permit for pod: {message}").by(plugin))
            return True

    def wait(self) -> Status:
        """Wait for the verdict. Blocks: for binding workers only."""
        with self._changed:
            if not self._pending and self._verdict is None:
                return SUCCESS
            plugin, seconds = min(self._pending.items(), key=lambda w: w[1], default=("", 0.0))
            self._changed.wait_for(lambda: self._verdict is not None, timeout=seconds)
            if self._verdict is None:
                text = f"rejected due to timeout after waiting {_go_duration(seconds)} at plugin "
                self._decide(Status.unschedulable(text + plugin).by(plugin))
            assert self._verdict is not None
            return self._verdict

    def _decide(self, verdict: Status) -> None:
        self._verdict = verdict
        self._changed.notify_all()


class WaitingPods:
    """All waiting Pods, by uid."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: WaitingPod) -> None:
        """``pod`` waits from now on."""
        with self._lock:
            self._pods[pod.pod.uid] = pod

    def remove(self, uid: str) -> None:
        """That Pod waits no longer."""
        with self._lock:
            self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting Pod with that uid."""
        with self._lock:
            return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        with self._lock:
            pods = list(self._pods.values())
        return iter(pods)


def _go_duration(seconds: float) -> str:
    """``seconds`` as Go prints a duration: 1m30s, 2s, 1.5s, 300ms."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{head}{rest:g}s"
