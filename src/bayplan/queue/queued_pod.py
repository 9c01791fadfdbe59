"""QueuedPod: a Pod and what the queue has to remember about its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.api.pod import Pod
from bayplan.framework.room import Leaving
from bayplan.queue.states import QueueState

NONE: frozenset[str] = frozenset()


class QueuedPod:
    """A Pod on its way through the queue; times are seconds of the queue's clock.

    Attributes:
        pod: the Pod; replaced when it is updated, but never while it is in flight.
        uid: the Pod's uid, which never changes.
        state: where it is; see `bayplan.queue.states`.
        timestamp: when it entered the queue last.
        attempts: how often it was popped.
        unschedulable_count: attempts that ended in a rejection; they lengthen the backoff.
        consecutive_errors_count: attempts that ended in an error since the last rejection; while
            there are any, they alone set the backoff.
        initial_attempt_timestamp: when it became active first; None before that.
        completes_group: whether others of its group run, fewer than its minimum.
        full_backoff: whether its backoff has to run to its end, though it was rejected.
        backoff_expiration: the window in which the backoff ends; None while not computed.
        unschedulable_plugins: plugins that rejected it, the gating one included.
        pending_plugins: plugins that rejected it with Pending; their Queue hint skips the backoff.
        gating_plugin: the PreEnqueue plugin that holds it, "" when none does.
        gating_reason: what that plugin says.
        also_rejected: other Pods whose hints may wake it, in an entry that stands for several.
        leaving: the Pods that were evicted for such an entry.
        least_backoff: seconds that it backs off at least; of groups.
        flushed: when it was last flushed, since it entered the queue; None before that.
        was_flushed_from_unschedulable: whether the last wake-up was the flush after five minutes,
            which hints at a plugin that does not register what it waits for.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "completes_group",
        "consecutive_errors_count",
        "flushed",
        "full_backoff",
        "gating_plugin",
        "gating_reason",
        "initial_attempt_timestamp",
        "least_backoff",
        "pending_plugins",
        "pod",
        "state",
        "timestamp",
        "uid",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed_from_unschedulable",
    )

    also_rejected: Sequence[Pod] = ()
    leaving: Leaving | None = None

    def __init__(self, pod: Pod, now: float) -> None:
        self.pod = pod
        self.uid = pod.uid
        self.state = QueueState.OUTSIDE
        self.timestamp = now
        self.attempts = 0
        self.unschedulable_count = 0
        self.consecutive_errors_count = 0
        self.initial_attempt_timestamp: float | None = None
        self.completes_group = False
        self.full_backoff = False
        self.backoff_expiration: float | None = None
        self.unschedulable_plugins = NONE
        self.pending_plugins = NONE
        self.gating_plugin = ""
        self.gating_reason = ""
        self.least_backoff = 0.0
        self.flushed: float | None = None
        self.was_flushed_from_unschedulable = False

    @property
    def size(self) -> int:
        """How many Pods are placed together."""
        return 1

    @property
    def profile(self) -> str:
        """The schedulerName that the Pod asks for."""
        return self.pod.shape.spec.scheduler_name

    @property
    def rejectors(self) -> frozenset[str]:
        """All plugins that rejected the Pod; empty after an error."""
        return self.unschedulable_plugins | self.pending_plugins

    def attempt_failed(
        self,
        now: float,
        unschedulable: Iterable[str],
        pending: Iterable[str],
        *,
        full_backoff: bool = False,
    ) -> None:
        """Record how the attempt ended: which plugins rejected the Pod; none after an error."""
        self.unschedulable_plugins = frozenset(unschedulable)
        self.pending_plugins = frozenset(pending)
        if self.unschedulable_plugins or self.pending_plugins:
            self.unschedulable_count += 1
            self.consecutive_errors_count = 0
        else:
            self.consecutive_errors_count += 1
        self.timestamp = now
        self.full_backoff = full_backoff
        self.backoff_expiration = None
        self.flushed = None
        self.was_flushed_from_unschedulable = False

    def __repr__(self) -> str:
        return f"QueuedPod({self.pod.key}, {self.state.value}, attempts={self.attempts})"
