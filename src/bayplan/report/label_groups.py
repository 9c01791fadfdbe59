"""The report on a group of the label: one sentence on the group, a condition on each Pod.

The sentence is an event on the PodGroup, on the Job or JobSet that the group is inferred from, or
else on its first Pod; its first word is the event's reason. It is written when it changes. Events
of one reason become one series, which keeps the first sentence: then only the count goes on.

The condition of a Pod has no figures, and is written when it changes: a group of 10,000 Pods that
is tried again and again writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import structlog

from bayplan.support import logs
from bayplan.api.meta import Condition, ObjectReference
from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason
from bayplan.engine.runtime import Framework
from bayplan.framework.handle import EventRecorder
from bayplan.groups.decision import GroupDecision, GroupRejection
from bayplan.queue.nominator import Nominator
from bayplan.queue.queued_group import QueuedGroup
from bayplan.report.pods import StatusWriter, cut_note
from bayplan.report.records import Records
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("groups")


class LabelGroupReport:
    """Events, conditions, metrics and logs about groups of the label and inferred ones."""

    def __init__(
        self,
        events: EventRecorder,
        statuses: StatusWriter,
        nominator: Nominator,
        instrument: Instrument,
        records: Records,
    ) -> None:
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
        sentence = rejection.sentence or entry.last_report
        if entry.last_report != sentence:
            entry.last_report = sentence
            self._event(entry, "Warning", reason_of(sentence), sentence, framework.name)
        previous, entry.conditions = entry.conditions, {}
        for uid, queued in entry.members.items():
            node, reason = nodes.get(uid, ""), str(rejection.reason)
            self._records.add(queued.pod, framework.name, reason, rejection.message, node)
            news = entry.conditions[uid] = rejection.message, node
            if previous.get(uid) != news:
                self._condition(queued.pod, rejection, node)

    def _condition(self, pod: Pod, rejection: GroupRejection, nominated: str) -> None:
        condition = Condition(
            type="PodScheduled",
            status="False",
            reason=str(rejection.reason),
            message=rejection.message,
            observed_generation=pod.generation,
        )
        self._statuses.patch(pod, condition, nominated)

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
            if sentence and entry.last_report != sentence:
                entry.last_report = sentence
                self._event(entry, "Warning", reason_of(sentence), sentence, entry.profile)

    def _event(self, entry: QueuedGroup, type_: str, reason: str, note: str, profile: str) -> None:
        group = entry.group
        subject: Pod | ObjectReference = entry.pod
        if group is not None and group.subject is not None:
            subject = group.subject
        self._events.event(subject, None, type_, reason, "Scheduling", cut_note(note), profile)


def reason_of(sentence: str) -> str:
    """The machine's word for it: NoRoom, WaitingForMembers."""
    return sentence.partition(" ")[0].rstrip(":")
