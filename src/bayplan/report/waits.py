"""WaitReport: for what Pods wait without being tried.

kube-scheduler says nothing of a Pod that waits in Permit, or that a PreEnqueue plugin holds. Here
such a Pod gets an event and the condition PodScheduled, once it has waited from one look to the
next (`bayplan.scheduler.CHORE_SECONDS`). The reasons are not Unschedulable, so autoscalers add no
nodes. The event is written again after `RENEWED_SECONDS`, and where something else holds the Pod.

Others speak for themselves: of scheduling gates the API server writes the condition, of plugins
that did not return `bayplan.report.pods`, of groups `bayplan.report.label_groups`. A preemptor that
is held until its victims leave keeps what it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bayplan.api.pod import Pod
from bayplan.binding.waiting import WaitingPods
from bayplan.engine.faults import PLUGIN_TIMEOUT
from bayplan.framework.handle import EventRecorder
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.report.label_groups import RENEWED_SECONDS
from bayplan.report.pods import StatusWriter, cut_note, not_scheduled

IN_PERMIT, HELD = "WaitingInPermit", "HeldByPreEnqueue"
"""Reasons of the condition and of the event."""
MOST_WRITES = 100
"""Pods that one look speaks of."""
_SAID_ELSEWHERE = frozenset({"SchedulingGates", PLUGIN_TIMEOUT})


class _Told(NamedTuple):
    """What was said of a Pod, "" for nothing, and when."""

    sentence: str
    at: float


class WaitReport:
    """Events and conditions of Pods in Permit and PreEnqueue. Scheduling thread only."""

    def __init__(
        self,
        waiting: WaitingPods,
        queue: SchedulingQueue,
        events: EventRecorder,
        statuses: StatusWriter,
        clock: Callable[[], float],
    ) -> None:
        self._waiting, self._queue = waiting, queue
        self._events, self._statuses, self._clock = events, statuses, clock
        self._seen: dict[str, _Told] = {}
        """By uid, who was waiting at the last look."""

    def check(self) -> None:
        """Look who waits, and speak of those who did so at the last look."""
        now, before, writes = self._clock(), self._seen, 0
        self._seen = {}
        for pod, reason, sentence in self._waits():
            told = before.get(pod.uid)
            if told is None:
                told = _Told("", now)
            elif writes < MOST_WRITES and (
                sentence != told.sentence or now - told.at >= RENEWED_SECONDS
            ):
                writes += 1
                self._say(pod, reason, sentence, is_new=sentence != told.sentence)
                told = _Told(sentence, now)
            self._seen[pod.uid] = told

    def _waits(self) -> Iterator[tuple[Pod, str, str]]:
        """Pods, each with the reason and the sentence."""
        for waiting in self._waiting:
            if plugins := waiting.pending_plugins():
                text = f"waits in Permit for {', '.join(plugins)}, to go to {waiting.node_name}"
                yield waiting.pod, IN_PERMIT, text
        nominator = self._queue.nominator
        for queued in self._queue.held():
            plugin, pod = queued.gating_plugin, queued.pod
            spoken_of = isinstance(queued, QueuedGroup) or plugin in _SAID_ELSEWHERE
            if not spoken_of and not nominator.nominated_node(pod.uid):
                yield pod, HELD, f"held back by {plugin}: {queued.gating_reason}"

    def _say(self, pod: Pod, reason: str, sentence: str, *, is_new: bool) -> None:
        profile, note = pod.shape.spec.scheduler_name, cut_note(sentence)
        self._events.event(pod, None, "Normal", reason, "Scheduling", note, profile)
        if is_new:
            self._statuses.patch(pod, not_scheduled(pod, reason, sentence), None)
