"""What the world is told about a group: one sentence on it, a condition on each Pod.

The sentence is an event on the PodGroup, and on the first Pod where there is no PodGroup; its first
word is the event's reason. It is written when it changes. Events of one reason become one series,
which keeps the first sentence: then only the count goes on.

The condition of a Pod has no figures, and is written when it changes: a group of 10,000 Pods that
is tried again and again writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.kinds import POD_GROUP
from bayplan.api.meta import ObjectReference
from bayplan.api.pod import Pod, PodCondition
from bayplan.attempt.group import GroupRejection
from bayplan.attempt.report import StatusWriter, cut_note
from bayplan.framework.handle import EventRecorder
from bayplan.queue.queued_group import QueuedGroup


class GroupReport:
    """Events and conditions about groups."""

    def __init__(self, events: EventRecorder, statuses: StatusWriter) -> None:
        self._events = events
        self._statuses = statuses

    def scheduled(self, entry: QueuedGroup, profile: str, bound: int, failure: str) -> None:
        """So many Pods of the group are bound; ``failure`` says why another is not."""
        group = entry.group
        minimum = group.minimum if group is not None else bound
        note = f"Bound: {bound} Pods, of which {minimum} are needed"
        if failure:
            note += f"; another one goes singly: {failure}"
        self._event(entry, "Warning" if failure else "Normal", "Scheduled", note, profile)

    def failed(self, entry: QueuedGroup, profile: str, rejection: GroupRejection) -> None:
        """The group cannot be placed now."""
        if entry.told != rejection.sentence:
            entry.told = rejection.sentence
            self._event(entry, "Warning", _reason(rejection.sentence), rejection.sentence, profile)
        told, entry.conditions = entry.conditions, dict.fromkeys(entry.members, rejection.message)
        for uid, queued in entry.members.items():
            if told.get(uid) != rejection.message:
                self._condition(queued.pod, rejection)

    def _condition(self, pod: Pod, rejection: GroupRejection) -> None:
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason=str(rejection.reason),
            message=rejection.message,
            observed_generation=pod.generation,
        )
        self._statuses.patch(pod, condition, None)

    def gathering(self, entries: Iterable[QueuedGroup]) -> None:
        """These groups have gathered for long, and Pods are still missing."""
        for entry in entries:
            sentence = entry.gating_reason
            if sentence and entry.told != sentence:
                entry.told = sentence
                self._event(entry, "Warning", _reason(sentence), sentence, entry.profile)

    def _event(self, entry: QueuedGroup, type_: str, reason: str, note: str, profile: str) -> None:
        group = entry.group
        subject: Pod | ObjectReference = entry.pod
        if group is not None:
            namespace, _, name = group.key.partition("/")
            subject = ObjectReference(
                POD_GROUP.name, namespace, name, group.uid, POD_GROUP.api_version
            )
        self._events.event(subject, None, type_, reason, "Scheduling", cut_note(note), profile)


def _reason(sentence: str) -> str:
    """The machine's word for it: NoRoom, WaitingForMembers."""
    return sentence.partition(" ")[0].rstrip(":")
