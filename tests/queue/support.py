"""A queue to test on: a clock that stands still, a recorder that counts, plugins made to order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from bayplan.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM
from bayplan.api.pod import Pod
from bayplan.framework import QueuedPod as AnyQueuedPod
from bayplan.framework.cluster_events import Action, ClusterEvent, EventRegistration, Hint, Resource
from bayplan.framework.status import Status
from bayplan.queue.hints import HintTable
from bayplan.queue.policy import QueuePolicy, QueueSettings
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.queue.states import QueueState
from bayplan.telemetry.instrument import Instrument
from bayplan.testing import PodBuilder, make_pod

PROFILE = "test"

NODE_ADD = ClusterEvent(NODE, Action.ADD)
NODE_LABEL = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
CLAIM_ADD = ClusterEvent(PERSISTENT_VOLUME_CLAIM, Action.ADD)


def pod(name: str, priority: int = 0, **spec: Any) -> PodBuilder:
    """A Pod of the profile; its uid is its name, so that versions of it are the same Pod."""
    return make_pod(name).uid(name).spec(schedulerName=PROFILE, priority=priority, **spec)


def on(event: ClusterEvent, answer: Hint | Callable[..., Hint] | None = None) -> EventRegistration:
    """A registration whose hint answers always the same, or as the function given says."""
    hint = (lambda *_: answer) if isinstance(answer, Hint) else answer
    return EventRegistration(event, hint)


def by_priority(queued: AnyQueuedPod) -> tuple[int, float]:
    """PrioritySort."""
    return -queued.pod.priority, queued.timestamp


class Clock:
    """Seconds that pass when told."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Recorder(Instrument):
    """Counts what it is told."""

    def __init__(self) -> None:
        self.incoming_pods: Counter[tuple[str, str]] = Counter()
        self.rejections: Counter[tuple[str, str]] = Counter()

    def incoming(self, queue: str, event: str, pod: Pod, members: int | None = None) -> None:
        self.incoming_pods[queue, event] += 1 if members is None else members

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        self.rejections[plugin, profile] += change


class Gates:
    """A PreEnqueue plugin that holds the Pods whose uid is in `held`."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.asked = 0

    def __call__(self, pod: Pod) -> Status | None:
        self.asked += 1
        return Status.unresolvable("held") if pod.uid in self.held else None


class Bench:
    """A queue with one profile: plugin Gates in PreEnqueue, and the registrations given."""

    def __init__(
        self,
        *registrations: tuple[str, EventRegistration],
        settings: QueueSettings | None = None,
        extenders: bool = False,
    ) -> None:
        self.clock = Clock()
        self.recorder = Recorder()
        self.gates = Gates()
        self.queue = SchedulingQueue(
            self.clock,
            QueuePolicy(
                by_priority,
                HintTable({PROFILE: registrations}, extenders=extenders),
                {PROFILE: [("Gates", self.gates)]},
                settings or QueueSettings(),
            ),
            instrument=self.recorder,
        )

    def state(self, uid: str) -> QueueState:
        """Where the Pod is."""
        queued = self.queue.get(uid)
        return queued.state if queued else QueueState.OUTSIDE

    def pop(self) -> QueuedPod:
        """The next Pod; there must be one."""
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def names(self) -> list[str]:
        """Pops and finishes everything that is ready, in order."""
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.name)
            self.queue.done(queued.uid)
        return names

    def reject(self, pod: Pod, *plugins: str, pending: tuple[str, ...] = ()) -> QueuedPod:
        """Adds the Pod, pops it, and rejects it; no plugins stand for an error."""
        self.queue.add(pod)
        queued = self.pop()
        assert queued.pod is pod
        self.queue.add_unschedulable_if_not_present(queued, plugins, pending)
        return queued

    def backed_off(self) -> None:
        """Lets so much time pass that no Pod backs off any more, and does not tell the queue."""
        self.clock.now += 60
