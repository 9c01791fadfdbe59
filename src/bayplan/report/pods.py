"""Report: publishes the result of an attempt. The only writer of events and conditions.

Texts, reasons and actions are kube-scheduler's, see ``handleSchedulingFailure`` in its
``pkg/scheduler/schedule_one.go``. Nothing here blocks: events and writes are sent later.
"""

from __future__ import annotations

from typing import Protocol

from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.attempt.outcome import Rejection
from bayplan.engine.faults import PLUGIN_TIMEOUT, AttemptFault
from bayplan.engine.ties import Choice
from bayplan.framework.handle import EventRecorder
from bayplan.report.records import Records

NOTE_LIMIT = 1024
"""Longest note of an event, in bytes of UTF-8."""


class StatusWriter(Protocol):
    """Writes conditions and nominations to the API server, later, and reports trouble."""

    def patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        """None leaves the condition or the nomination as it is; "" clears the nomination."""

    def patch_group(self, pod_group: KubernetesPodGroup, condition: Condition) -> None:
        """The condition comes without its transition time."""


class Report:
    """Events and conditions about Pods; ``profile`` is the schedulerName of the reporter."""

    def __init__(
        self, events: EventRecorder, statuses: StatusWriter, records: Records | None = None
    ) -> None:
        self._events = events
        self._statuses = statuses
        self._records = records

    def scheduled(self, pod: Pod, profile: str, choice: Choice) -> None:
        """``pod`` is bound to its node."""
        if self._records is not None:
            self._records.add(pod, profile, "Scheduled", node=pod.node_name, choice=choice)
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node_name}"
        self._events.event(pod, None, "Normal", "Scheduled", "Binding", note, profile)

    def failed(self, pod: Pod, profile: str, rejection: Rejection) -> None:
        """No node for ``pod``: event, condition and nomination."""
        self.failed_scheduling(pod, profile, cut_note(rejection.message))
        fault = rejection.fault
        timed_out = isinstance(fault, AttemptFault) and fault.timed_out
        reason = PLUGIN_TIMEOUT if timed_out else str(rejection.reason)
        if self._records is not None:
            self._records.add(pod, profile, reason, rejection.message, rejection.nominated or "")
        condition = not_scheduled(pod, reason, rejection.message)
        self._statuses.patch(pod, condition, rejection.nominated)

    def skipped(self, pod: Pod, profile: str) -> None:
        """``pod`` is being deleted, so it is not scheduled."""
        self.failed_scheduling(pod, profile, skip_note(pod))

    def nominated(self, pod: Pod) -> None:
        """The binding of the assumed ``pod`` may take a while: tell others where it will go."""
        self._statuses.patch(pod, None, pod.node_name)

    def failed_scheduling(self, pod: Pod, profile: str, note: str) -> None:
        """The event alone; the note is not shortened."""
        self._events.event(pod, None, "Warning", "FailedScheduling", "Scheduling", note, profile)


def not_scheduled(pod: Pod, reason: str, message: str) -> Condition:
    """The condition of a Pod that has no node."""
    return Condition(
        type="PodScheduled",
        status="False",
        reason=reason,
        message=message,
        observed_generation=pod.generation,
    )


def skip_note(pod: Pod) -> str:
    """What is said of a Pod that is being deleted."""
    return f"skip schedule deleting pod: {pod.namespace}/{pod.name}"


def cut_note(message: str) -> str:
    """``message`` as the note of an event: cut at `NOTE_LIMIT`."""
    encoded = message.encode()
    if len(encoded) <= NOTE_LIMIT:
        return message
    return encoded[: NOTE_LIMIT - 4].decode(errors="ignore") + " ..."
