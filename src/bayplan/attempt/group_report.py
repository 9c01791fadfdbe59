"""What the world is told about a group: one sentence on it, a condition on each Pod.

The sentence is an event on the PodGroup, on the Job or JobSet that the group is inferred from, or
else on its first Pod; its first word is the event's reason. It is written when it changes. Events
of one reason become one series, which keeps the first sentence: then only the count goes on.

The condition of a Pod has no figures, and is written when it changes: a group of 10,000 Pods that
is tried again and again writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.api.meta import Condition, ObjectReference
from bayplan.api.pod import Pod
from bayplan.attempt.levels import Domain
from bayplan.attempt.plan import GroupRejection
from bayplan.attempt.report import StatusWriter, cut_note
from bayplan.framework.handle import EventRecorder
from bayplan.queue.queued_group import QueuedGroup

Domains = Mapping[str, Domain]
"""By sub-group, the topology domain that it is in; "" is the group itself."""


class GroupReport:
    """Events and conditions about groups."""

    def __init__(self, events: EventRecorder, statuses: StatusWriter) -> None:
        self._events = events
        self._statuses = statuses

    def scheduled(
        self,
        entry: QueuedGroup,
        profile: str,
        bound: int,
        minimum: int,
        domains: Domains,
        failure: str,
    ) -> None:
        """So many Pods are bound, in these domains; ``failure`` says why another is not."""
        note = f"Bound: {bound} Pods, of which {minimum} are needed"
        for name, domain in sorted(domains.items()):
            note += f", {name} in {domain}" if name else f", in {domain}"
        if failure:
            note += f"; another one goes singly: {failure}"
        self._event(entry, "Warning" if failure else "Normal", "Scheduled", note, profile)

    def failed(self, entry: QueuedGroup, profile: str, rejection: GroupRejection) -> None:
        """The group cannot be placed now."""
        sentence = rejection.sentence or entry.told
        if entry.told != sentence:
            entry.told = sentence
            self._event(entry, "Warning", reason_of(sentence), sentence, profile)
        nodes = rejection.room.nodes if rejection.room is not None else {}
        told, entry.conditions = entry.conditions, {}
        for uid, queued in entry.members.items():
            news = entry.conditions[uid] = rejection.message, nodes.get(uid, "")
            if told.get(uid) != news:
                self._condition(queued.pod, rejection, nodes.get(uid, ""))

    def _condition(self, pod: Pod, rejection: GroupRejection, nominated: str) -> None:
        condition = Condition(
            type="PodScheduled",
            status="False",
            reason=str(rejection.reason),
            message=rejection.message,
            observed_generation=pod.generation,
        )
        self._statuses.patch(pod, condition, nominated)

    def nominations_ended(self, pods: Iterable[Pod]) -> None:
        """No node is kept for these Pods any more."""
        for pod in pods:
            self._statuses.patch(pod, None, "")

    def gathering(self, entries: Iterable[tuple[QueuedGroup, str]]) -> None:
        """These groups have gathered for long; with each why it does so still."""
        for entry, sentence in entries:
            if sentence and entry.told != sentence:
                entry.told = sentence
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
