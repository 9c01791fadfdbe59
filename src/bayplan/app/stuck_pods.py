"""StuckPods: Pods on which a plugin did not return, stored so other replicas do not hang.

A Pod whose attempt was ended is held in the queue (`bayplan.queue.holds`). If the attempt cannot be
ended, the condition of the Pod is written before the Lease is released: the next leader holds the
Pod by that, and places all others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.app.culprit import Culprit
from bayplan.attempt.outcome import Rejection
from bayplan.client.connection import STRATEGIC_MERGE_PATCH
from bayplan.client.errors import ApiError
from bayplan.client.http import Http
from bayplan.client.writer import status_patch
from bayplan.config.points import Point
from bayplan.engine.faults import PLUGIN_TIMEOUT, AttemptFault, PluginTimeout
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Command
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.report.pods import Report, not_scheduled

log = structlog.get_logger("watchdog")

WRITE_SECONDS = 5.0
"""How long the condition of a stuck Pod may take before the Lease is released anyway."""


@dataclass(frozen=True)
class StuckPods:
    """What is done about a Pod that a plugin does not return for.

    Attributes:
        seconds: how long a plugin's call may take.
        may_write: whether this process may still write to the API server.
        events_waiting: how many events have not been sent.
    """

    queue: SchedulingQueue
    report: Report
    inbox: Inbox
    http: Http
    seconds: float
    may_write: Callable[[], bool]
    events_waiting: Callable[[], int] = lambda: 0

    def ended(self, culprit: Culprit) -> None:
        """The call is being ended. In a handler of signals on the scheduling thread."""
        if culprit.pod is not None:
            self.inbox.post(Hold(culprit.pod, culprit, self))

    def mark(self, pod: Pod, culprit: Culprit) -> None:
        """The scheduling thread is stuck with this Pod: say so on the Pod, and wait for that.

        By its condition, and by an event. After that the Lease is released, and nothing is sent.
        """
        if not self.may_write():
            return
        until = time.monotonic() + WRITE_SECONDS
        why = culprit.timeout(self.seconds)
        self.report.failed_scheduling(pod, pod.spec.scheduler_name, why)
        condition = not_scheduled(pod, PLUGIN_TIMEOUT, why)
        body = status_patch(pod, condition, None, datetime.now(UTC))
        if body is not None:
            self._write(pod, body)
        while self.events_waiting() and time.monotonic() < until:
            time.sleep(0.02)

    def _write(self, pod: Pod, body: bytes) -> None:
        path = f"{POD.path(pod.namespace, pod.name)}/status"
        try:
            self.http.patch(path, body, STRATEGIC_MERGE_PATCH, WRITE_SECONDS)
        except ApiError as error:
            log.warning("Pod status not written", pod=pod.key, error=str(error))


@dataclass(frozen=True)
class Hold(Command):
    """A plugin did not return for this Pod: hold the Pod, and Pods like it."""

    pod: Pod
    culprit: Culprit = field(repr=False)
    stuck_pods: StuckPods = field(repr=False)

    def run(self) -> None:
        """An attempt has said on the Pod why it failed; before an attempt nobody has."""
        pod, culprit, stuck = self.pod, self.culprit, self.stuck_pods
        if pod.uid not in stuck.queue:
            return
        why = culprit.timeout(stuck.seconds)
        log.error("Pod is held: a plugin did not return", pod=pod.key, why=why)
        stuck.queue.hold(pod, why)
        if culprit.point is Point.PRE_ENQUEUE:
            error = PluginTimeout(stuck.seconds)
            fault = AttemptFault(culprit.point, culprit.plugin, error)
            rejection = Rejection.by_error(why, fault)
            stuck.report.failed(pod, pod.spec.scheduler_name, rejection)
