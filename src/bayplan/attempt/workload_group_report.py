"""The condition PodGroupInitiallyScheduled of PodGroups of Kubernetes.

It says whether the group was placed once, and never goes back from True. Reasons and messages are
those of ``updatePodGroupCondition`` in kube-scheduler's ``pkg/scheduler/schedule_one_podgroup.go``.
"""

from __future__ import annotations

from typing import Protocol

from bayplan.api.meta import Condition
from bayplan.api.scheduling import WorkloadPodGroup
from bayplan.framework.status import Status
from bayplan.queue.queued_group import QueuedGroup

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


class GroupStatusWriter(Protocol):
    """Writes a PodGroup's condition to the API server, later, and reports trouble."""

    def patch_group(self, pod_group: WorkloadPodGroup, condition: Condition) -> None:
        """The condition comes without its transition time."""


def publish(
    statuses: GroupStatusWriter, entry: QueuedGroup, pod_group: WorkloadPodGroup, status: Status
) -> None:
    """What came of an attempt of the group; nothing is written where it was said before."""
    condition = _condition(status, pod_group)
    said = next((c for c in pod_group.status.conditions if c.type == condition.type), None)
    if said is not None and said.status == "True":
        return
    text = f"{condition.status} {condition.reason} {condition.message}"
    if entry.told == text:
        return
    entry.told = text
    statuses.patch_group(pod_group, condition)


def _condition(status: Status, pod_group: WorkloadPodGroup) -> Condition:
    return Condition(
        type=INITIALLY_SCHEDULED,
        status="True" if status.ok else "False",
        reason=_reason(status),
        message=status.message,
        observed_generation=pod_group.metadata.generation,
    )


def _reason(status: Status) -> str:
    if status.ok:
        return "Scheduled"
    return "Unschedulable" if status.rejected else "SchedulerError"


def condition_text(status: Status) -> str:
    """The condition as one line: status, reason and message."""
    return f"{bool(status.ok)} {_reason(status)}: {status.message}"
