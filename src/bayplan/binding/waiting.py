"""Pods in WaitOnPermit: allowed by all Permit plugins, rejected by one, or timed out.

Plugins use this from any thread, so it has a lock. A waiting Pod occupies no thread: `allow` and
`reject` notify the binding cycle, and the scheduling thread calls `WaitingPods.expire` at the time
that `next_timer` gives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from bayplan.api.pod import Pod
from bayplan.framework.status import SUCCESS, Status

Decided = Callable[[Status, bool], None]


class WaitingPod:
    """One Pod in WaitOnPermit, and the plugins that have not allowed the Pod yet.

    Args:
        pod: the assumed Pod.
        waits: seconds until a plugin's silence counts as no, by plugin; at least one.
        decided: called once, with the verdict, and whether it is that its time was up, by the
            thread that decides.
        now: the time by the clock of `WaitingPods`.
    """

    def __init__(self, pod: Pod, waits: Mapping[str, float], decided: Decided, now: float) -> None:
        self.pod = pod
        self._lock = threading.Lock()
        self._pending = {plugin: (now + seconds, seconds) for plugin, seconds in waits.items()}
        self._verdict: Status | None = None
        self._decided = decided

    @property
    def node_name(self) -> str:
        """Where it will go."""
        return self.pod.node_name

    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the Pod yet."""
        with self._lock:
            return sorted(self._pending)

    def allow(self, plugin: str) -> None:
        """``plugin`` allows the Pod; the last plugin to do so ends the wait."""
        with self._lock:
            self._pending.pop(plugin, None)
            if self._pending:
                return
        self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        """Turn it down for ``plugin``."""
        self._decide(Status.unschedulable(message).by(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error, so that the Pod is tried again after a backoff.

        False when its fate was sealed already.
        """
        return self._decide(Status.error(f"waiting on permit for pod: {message}").by(plugin))

    def deadline(self) -> float:
        """When the first of the pending plugins will have been silent for too long."""
        with self._lock:
            return min((deadline for deadline, _ in self._pending.values()), default=float("inf"))

    def expire(self, now: float) -> None:
        """Turn it down if a plugin has been silent for too long."""
        with self._lock:
            late = sorted((d, s, plugin) for plugin, (d, s) in self._pending.items() if d <= now)
        for _, seconds, plugin in late[:1]:
            text = f"rejected due to timeout after waiting {_go_duration(seconds)} at plugin "
            self._decide(Status.unschedulable(text + plugin).by(plugin), timed_out=True)

    def _decide(self, verdict: Status, *, timed_out: bool = False) -> bool:
        with self._lock:
            if self._verdict is not None:
                return False
            self._verdict = verdict
        self._decided(verdict, timed_out)
        return True


class WaitingPods:
    """All waiting Pods, by uid.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: dict[str, WaitingPod] = {}
        self._next = float("inf")

    def add(self, pod: Pod, waits: Mapping[str, float], decided: Decided) -> None:
        """``pod`` waits from now on; see `WaitingPod`. Scheduling thread only."""
        waiting = WaitingPod(pod, waits, decided, self._clock())
        with self._lock:
            self._pods[pod.uid] = waiting
        self._next = min(self._next, waiting.deadline())

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

    def next_timer(self) -> float | None:
        """Seconds until `expire` may have something to do; None while it has not."""
        return max(self._next - self._clock(), 0.0) if self._pods else None

    def expire(self) -> None:
        """Turn down the Pods that waited for too long. Scheduling thread only."""
        now = self._clock()
        if now < self._next:
            return
        for pod in self:
            pod.expire(now)
        self._next = min((pod.deadline() for pod in self), default=float("inf"))


def _go_duration(seconds: float) -> str:
    """``seconds`` as Go prints a duration: 1m30s, 2s, 1.5s, 300ms."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{head}{rest:g}s"
