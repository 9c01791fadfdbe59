"""Conflicts: Pods that a scheduler placed and the node rejected.

Two schedulers that use the same nodes can take the last room of a node at the same moment, since
neither has seen the other's binding yet. The kubelet admits the Pod that it sees first and fails
the other one (``OutOfcpu`` and so on, see ``pkg/kubelet/lifecycle/predicate.go``). It may also know
more than any scheduler (``TopologyAffinityError``, ``NodeAffinity``).

Pods that have ended are not watched, so such a Pod disappears without a reason. Thus:

1. `Conflicts.pod_left`, when a Pod that never started leaves the watch: who took the room is read
   from the cache while the Pod still counts there, and the Pod is looked up. Its owner's Pods avoid
   that node until the answer comes (`NodeBackoff`). A Pod that was deleted in order, or that has
   started, costs two comparisons.
2. `Conflicts.answered`, when the answer is there: if a kubelet rejected it, it is counted and
   logged. For a Pod of ours an event explains it, and its owner's Pods keep off that node for a
   while.

Who took the room: the Pods of a node are in the order in which they were counted, and a Pod of ours
counts from its attempt on. So a Pod of another scheduler that comes after ours on an overcommitted
node is one that we did not know of when we decided. For a rejected Pod of another scheduler it is
the last Pod of ours before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from bayplan.api.kinds import POD
from bayplan.api.lists import PartialMetadata
from bayplan.api.meta import Wire
from bayplan.api.pod import Pod
from bayplan.cache.cache import Cache
from bayplan.framework.handle import EventRecorder
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import Command
from bayplan.rejections.node_backoff import NodeBackoff
from bayplan.rejections.overcommit import overcommitted
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("conflicts")

REJECTED = "Pod was rejected: "
"""How a kubelet begins status.message of a Pod that it does not admit."""
GONE = "Unknown"
"""The reason for a Pod that is gone when it is looked up: a StatefulSet deletes it at once."""
MAX_LOOKUPS = 200
"""Pods looked up at the same time; what comes beyond in a flood is not counted."""


class PodReader(Protocol):
    """Reads objects from the API server."""

    def read_later(self, path: str, on_answer: Callable[[bytes | None], None], /) -> None:
        """Look the object at ``path`` up; does not wait.

        ``on_answer`` is called on another thread. It gets the object, b"" if there is none, None if
        it cannot be read.
        """


class _Status(Wire, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class _Ended(Wire, frozen=True):
    """What is read of a Pod that has ended."""

    metadata: PartialMetadata
    status: _Status


@dataclass(frozen=True)
class Suspect:
    """A Pod that never started and is no longer watched.

    Attributes:
        pod: as it was last.
        ours: whether one of our profiles placed it.
        taken_by: schedulerName of the Pod that took the room at the same time; "" if none did.
    """

    pod: Pod
    ours: bool
    taken_by: str


@dataclass(frozen=True)
class _Answer(Command):
    conflicts: Conflicts
    suspect: Suspect
    body: bytes | None

    def run(self) -> None:
        """See `Command`."""
        self.conflicts.answered(self.suspect, self.body)


class Conflicts:
    """Finds Pods that a node has rejected; scheduling thread only.

    Args:
        cache: where the Pods count.
        reader: looks Pods up.
        inbox: takes the answers.
        events: records events.
        backoff: remembers the nodes.
        instrument: counts.
    """

    def __init__(
        self,
        cache: Cache,
        reader: PodReader,
        inbox: Inbox,
        events: EventRecorder,
        backoff: NodeBackoff,
        instrument: Instrument,
    ) -> None:
        self._cache = cache
        self._reader = reader
        self._inbox = inbox
        self._events = events
        self._backoff = backoff
        self._instrument = instrument
        self._lookups = 0

    def pod_left(self, pod: Pod, profiles: frozenset[str]) -> None:
        """``pod`` has a node and is no longer watched; the cache still counts the Pod."""
        started = pod.status.phase not in ("", "Pending")
        if started or pod.deleted is not None or self._lookups >= MAX_LOOKUPS:
            return
        ours = pod.spec.scheduler_name in profiles
        taken_by = self._taken_by(pod, profiles, ours=ours)
        if not (ours or taken_by):
            return
        suspect = Suspect(pod, ours, taken_by)
        self._lookups += 1
        if ours:
            self._backoff.suspect(pod)

        def answered(body: bytes | None) -> None:
            self._inbox.post(_Answer(self, suspect, body))

        self._reader.read_later(POD.path(pod.namespace, pod.name), answered)

    def _taken_by(self, pod: Pod, profiles: frozenset[str], *, ours: bool) -> str:
        row = self._cache.nodes.row(pod.node_name)
        if row is None or not overcommitted(self._cache.nodes, row):
            return ""
        pods = list(self._cache.nodes.pods[row].values())
        place = next((i for i, other in enumerate(pods) if other.uid == pod.uid), len(pods))
        rivals: Iterable[Pod] = pods[place + 1 :] if ours else reversed(pods[:place])
        names = (rival.spec.scheduler_name for rival in rivals)
        return next((name for name in names if (name in profiles) is not ours), "")

    def answered(self, suspect: Suspect, body: bytes | None) -> None:
        """``suspect`` was looked up."""
        self._lookups -= 1
        if suspect.ours:
            self._backoff.clear(suspect.pod)
        reason = None if body is None else _reason(suspect, body)
        if reason is None:
            return
        pod, taken_by = suspect.pod, suspect.taken_by
        scheduler = pod.spec.scheduler_name
        self._instrument.rejected_by_node(reason, scheduler, taken_by)
        facts = {"pod": pod.key, "node": pod.node_name, "reason": reason, "scheduler": scheduler}
        log.warning("A node rejected a pod", **facts, takenBy=taken_by)
        if suspect.ours:
            seconds = self._backoff.add(pod, pod.node_name)
            note = _note(suspect, reason, seconds)
            self._events.event(
                pod, None, "Warning", "RejectedByNode", "Scheduling", note, scheduler
            )


def _reason(suspect: Suspect, body: bytes) -> str | None:
    """Why a kubelet rejected it; None where none did, or the answer is no Pod."""
    try:
        ended = msgspec.json.decode(body, type=_Ended) if body else None
    except msgspec.DecodeError:
        return None
    if ended is None or ended.metadata.uid != suspect.pod.uid:
        return GONE if suspect.taken_by else None
    status = ended.status
    rejected = status.phase == "Failed" and status.message.startswith(REJECTED)
    return status.reason if rejected else None


def _note(suspect: Suspect, reason: str, seconds: float) -> str:
    parts = [f"Node {suspect.pod.node_name} rejected the Pod ({reason})."]
    if suspect.taken_by:
        parts.append(f'A Pod of scheduler "{suspect.taken_by}" took the room at the same time.')
    if seconds:
        kind, name = suspect.pod.controller
        owner = f"{kind.rpartition('/')[2]} {name}"
        parts.append(f"Other Pods of {owner} keep off this node for {seconds:g} s.")
    return " ".join(parts)
