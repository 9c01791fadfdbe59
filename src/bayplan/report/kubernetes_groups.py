"""The report on a PodGroup of Kubernetes: its condition, and an event and condition on each Pod.

The condition PodGroupInitiallyScheduled says whether the group was placed once, and never goes back
from True. Reasons and messages are those of ``updatePodGroupCondition`` in kube-scheduler's
``pkg/scheduler/schedule_one_podgroup.go``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog

from bayplan.support import logs
from bayplan.api.meta import Condition
from bayplan.api.scheduling import INITIALLY_SCHEDULED
from bayplan.attempt.outcome import Reason
from bayplan.engine.runtime import Framework
from bayplan.groups.decision import GroupDecision
from bayplan.groups.words_kubernetes import condition_text, failures, reason_of
from bayplan.queue.nominator import Nominator
from bayplan.queue.queued_group import QueuedGroup
from bayplan.report.pods import Report, StatusWriter
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("groups")


class KubernetesGroupReport:
    """Conditions, events, metrics and logs about PodGroups of Kubernetes."""

    def __init__(
        self,
        report: Report,
        statuses: StatusWriter,
        nominator: Nominator,
        instrument: Instrument,
    ) -> None:
        self._report, self._statuses = report, statuses
        self._nominator, self._instrument = nominator, instrument

    def begins(self, entry: QueuedGroup, _pods: int) -> None:
        """An attempt to place the group begins."""
        if logs.enabled(3):
            log.info("Attempting to schedule pod group", v=3, podGroup=entry.key)

    def decided(
        self, entry: QueuedGroup, framework: Framework, decision: GroupDecision, started: float
    ) -> None:
        """Count the decision, for the group and for each Pod without a node."""
        if decision.searched_at is not None:
            self._instrument.kubernetes_group_planned(decision.searched_at - started)
        seconds = time.perf_counter() - started
        for pod, rejection in failures(decision):
            failed = rejection.reason is Reason.SCHEDULER_ERROR
            result = "error" if failed else "unschedulable"
            self._instrument.attempt(pod, framework.name, result, seconds)
        self._instrument.kubernetes_group_attempt(framework.name, _result(decision), seconds)
        status = decision.status
        if not (status.ok or status.rejected):
            log.error("Error scheduling pod group", podGroup=entry.key, err=status.message)
        elif logs.enabled(2):
            text = "Unable to schedule a pod group"
            if status.ok:
                text = "Successfully scheduled a pod group"
            placed, err = len(decision.members), status.message
            log.info(text, v=2, podGroup=entry.key, scheduledPods=placed, err=err)

    def tell(self, entry: QueuedGroup, framework: Framework, decision: GroupDecision) -> None:
        """Say of each Pod why it has no node, and of the group what came of the attempt."""
        for pod, rejection in failures(decision):
            if rejection.nominated is not None:
                self._nominator.nominate(pod, rejection.nominated)
            self._report.failed(pod, framework.name, rejection)
        entry.conditions = {}  # what was said while it gathered
        lines = entry.last_report.split("\n")
        entry.last_report = "\n".join(self._publish(leaf, lines) for leaf in decision.leaves())

    def _publish(self, decision: GroupDecision, told: Sequence[str]) -> str:
        """Write the condition unless one of the lines of ``told`` says so; returns that line."""
        pod_group, status = decision.group.pod_group, decision.status
        assert pod_group is not None
        condition = Condition(
            type=INITIALLY_SCHEDULED,
            status="True" if status.ok else "False",
            reason=reason_of(status),
            message=status.message,
            observed_generation=pod_group.metadata.generation,
        )
        if pod_group.is_scheduled:
            return ""
        text = f"{pod_group.name}: {condition_text(status)}"
        if text not in told:
            self._statuses.patch_group(pod_group, condition)
        return text


def _result(decision: GroupDecision) -> str:
    if decision.status.ok:
        return "scheduled"
    if not decision.status.rejected:
        return "error"
    return "unschedulable" if decision.room is None else "waiting_on_preemption"
