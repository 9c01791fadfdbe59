"""The report on a group of the label: one sentence on the group, a condition on each Pod.

The sentence is an event on the PodGroup, on the Job or JobSet that the group is inferred from, or
else on its first Pod; its first word is the event's reason. It is written when it changes, and
again after `RENEWED_SECONDS`. Events of one reason become one series, which keeps the first
sentence until nothing was written for six minutes: then the next one begins a series of its own.

The condition of a Pod has no figures, and is written when it changes: a group of 10,000 Pods that
is tried again and again writes nothing. While the group gathers, its reason is the sentence's, not
Unschedulable: an autoscaler adds no nodes for that.

PodGroups of Kubernetes gather in the same way, and are told so here, too; of their attempts tells
`bayplan.report.kubernetes_groups`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import structlog

from bayplan.support import logs
from bayplan.api.meta import Condition, ObjectReference
from bayplan.api.pod import Pod
from bayplan.api.scheduling import INITIALLY_SCHEDULED
from bayplan.attempt.outcome import Reason
from bayplan.engine.runtime import Framework
from bayplan.framework.handle import EventRecorder
from bayplan.groups.decision import GroupDecision
from bayplan.queue.nominator import Nominator
from bayplan.queue.queued_group import QueuedGroup
from bayplan.report.pods import StatusWriter, cut_note, not_scheduled
from bayplan.report.records import Records
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("groups")

MOST_SHARES = 8
"""Domains of slices that the event names, whose text has an end."""
RENEWED_SECONDS = 400.0
"""After which a sentence that is still true is written again: an event lives for an hour."""


class LabelGroupReport:
    """Events, conditions, metrics and logs about groups of the label and inferred ones."""

    def __init__(
        self,
        events: EventRecorder,
        statuses: StatusWriter,
        nominator: Nominator,
        instrument: Instrument,
        records: Records,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._events, self._statuses, self._records = events, statuses, records
        self._nominator, self._instrument = nominator, instrument

    def begins(self, entry: QueuedGroup, pods: int) -> None:
        """An attempt to place so many Pods begins."""
        if logs.enabled(3):
            log.info("Attempting to schedule group", v=3, group=entry.key, pods=pods)

    def decided(
        self, entry: QueuedGroup, framework: Framework, decision: GroupDecision, started: float
    ) -> None:
        """Count the decision; a success is counted only after all bindings."""
        if decision.searched_at is not None:
            self._instrument.group_planned(decision.searched_at - started)
        rejection = decision.rejection
        if rejection is None:
            return
        failed = rejection.reason is Reason.SCHEDULER_ERROR
        result = "error" if failed else "unschedulable"
        reason = reason_of(rejection.sentence)
        self._instrument.group_attempt(framework.name, result, reason, 0.0)
        if failed:
            log.error("Error scheduling group; retrying", group=entry.key, err=rejection.sentence)
        elif logs.enabled(2):
            text = "Unable to schedule group; no fit; waiting"
            log.info(text, v=2, group=entry.key, err=rejection.sentence)

    def tell(self, entry: QueuedGroup, framework: Framework, decision: GroupDecision) -> None:
        """The group cannot be placed now: say why; its Pods are nominated to the room, if any."""
        rejection = decision.rejection
        if rejection is None:
            return
        nodes = decision.room.nodes if decision.room is not None else {}
        for uid, queued in entry.members.items():
            self._nominator.nominate(queued.pod, nodes.get(uid, ""))
        self._say(entry, rejection.sentence or entry.last_report, framework.name)
        previous, entry.conditions = entry.conditions, {}
        reason, message = str(rejection.reason), rejection.message
        for uid, queued in entry.members.items():
            node = nodes.get(uid, "")
            self._records.add(queued.pod, framework.name, reason, message, node)
            news = entry.conditions[uid] = message, node
            if previous.get(uid) != news:
                condition = not_scheduled(queued.pod, reason, message)
                self._statuses.patch(queued.pod, condition, node)

    def _say(self, entry: QueuedGroup, sentence: str, profile: str) -> None:
        now = self._clock()
        if entry.last_report != sentence or now - entry.reported_at >= RENEWED_SECONDS:
            entry.last_report, entry.reported_at = sentence, now
            self._event(entry, "Warning", reason_of(sentence), sentence, profile)

    def scheduled(
        self,
        entry: QueuedGroup,
        framework: Framework,
        decision: GroupDecision,
        bound: int,
        failure: str,
        started: float,
    ) -> None:
        """So many Pods are bound; ``failure`` says why another is not."""
        seconds = time.perf_counter() - started
        self._instrument.group_attempt(framework.name, "scheduled", "Scheduled", seconds)
        note = f"Bound: {bound} Pods, of which {decision.group.minimum} are needed"
        for name, domain in sorted(decision.domains.items()):
            note += f", {name} in {domain}" if name else f", in {domain}"
        for name, shares in sorted(decision.slices.items()):
            listed = ", ".join(f"{pods} in {domain}" for domain, pods in shares[:MOST_SHARES])
            if (more := len(shares) - MOST_SHARES) > 0:
                listed += f" and {more} more"
            note += f"; {name}: {listed}" if name else f"; {listed}"
        if failure:
            note += f"; another one goes singly: {failure}"
        type_ = "Warning" if failure else "Normal"
        self._event(entry, type_, "Scheduled", note, framework.name)
        if logs.enabled(2):
            log.info("Successfully bound group", v=2, group=entry.key, pods=bound)

    def nominations_ended(self, pods: Iterable[Pod]) -> None:
        """No node is kept for these Pods any more."""
        for pod in pods:
            self._statuses.patch(pod, None, "")

    def gathering(self, entries: Iterable[tuple[QueuedGroup, str]]) -> None:
        """These groups have gathered for long; with each why it does so still."""
        for entry, sentence in entries:
            if not sentence:
                continue
            self._say(entry, sentence, entry.profile)
            reason, news = reason_of(sentence), (f"waits with its group {entry.key}", "")
            self._waits(entry, reason, sentence)
            for uid, queued in entry.members.items():
                if entry.conditions.get(uid) != news:
                    entry.conditions[uid] = news
                    self._records.add(queued.pod, entry.profile, reason, news[0])
                    self._statuses.patch(
                        queued.pod, not_scheduled(queued.pod, reason, news[0]), None
                    )

    def _waits(self, entry: QueuedGroup, reason: str, sentence: str) -> None:
        """The condition of a PodGroup of Kubernetes that was never placed."""
        group = entry.group
        obj = None if group is None or group.is_composite else group.pod_group
        if obj is None or obj.is_scheduled or entry.conditions.get(entry.uid) == (sentence, ""):
            return
        entry.conditions[entry.uid] = sentence, ""
        condition = Condition(
            type=INITIALLY_SCHEDULED,
            status="False",
            reason=reason,
            message=sentence,
            observed_generation=obj.metadata.generation,
        )
        self._statuses.patch_group(obj, condition)

    def _event(self, entry: QueuedGroup, type_: str, reason: str, note: str, profile: str) -> None:
        group = entry.group
        subject: Pod | ObjectReference = entry.pod
        if group is not None and group.subject is not None:
            subject = group.subject
        self._events.event(subject, None, type_, reason, "Scheduling", cut_note(note), profile)


def reason_of(sentence: str) -> str:
    """The machine's word for it: NoRoom, WaitingForMembers."""
    return sentence.partition(" ")[0].rstrip(":")
