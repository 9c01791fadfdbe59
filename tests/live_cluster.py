"""LiveCluster: a scheduler and an API server between which everything takes its time.

A write is *sent* by the scheduler, *stored* by the API server, and then *answered*; the change is
*shown* by the watch, before or after the answer. Pods on nodes end gracefully: a deleted one is
terminating until its kubelet has *ended* it. Which of all that happens next the test chooses, so
Hypothesis can look for the order that breaks something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.core_harness import Cluster

from bayplan.api.kinds import POD
from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.cache.requests import pod_requests
from bayplan.client.errors import Conflict, NotFound, ServerError
from bayplan.framework.handle import Done
from bayplan.inbox.messages import Changed, Message, Removed, Replaced
from bayplan.testing import PROFILE, PodBuilder, Writer

DELETED_AT = "2026-01-01T00:00:00Z"
BACKOFF = 11.0
"""Longer than any backoff, in seconds."""
QUIET = 6
"""Backoffs without a change after which everybody was tried who may be."""
MOST_STEPS = 200
"""More than so many attempts and arrivals without time passing go on for ever."""

Action = Callable[[], object]


class ApiServer(Writer):
    """Stores Pods, whose names are unique, and refuses what the real one refuses.

    Attributes:
        room: CPUs of each node; a binding to a full node is a fault of the scheduler.
        grace: whether a Pod with a node is terminating for a while; else it is gone at once.
        starts: whether a Pod that is bound gets a start time.
        pods: by name, what is stored.
        requests: writes that were sent.
        answers: answers to writes, which the scheduler has not got yet.
        watch: changes, which the scheduler has not seen yet.
        bindings: by uid, how often a binding of the Pod was stored.
        evicted: names of the Pods that the scheduler deleted, in order.
    """

    def __init__(self, room: int, *, grace: bool = True, starts: bool = False) -> None:
        super().__init__()
        self.room, self.grace, self.starts = room, grace, starts
        self.pods: dict[str, PodBuilder] = {}
        self.requests: deque[tuple[Callable[[], Exception | None], Done]] = deque()
        self.answers: deque[Callable[[], None]] = deque()
        self.watch: deque[Message] = deque()
        self.bindings: dict[str, int] = {}
        self.evicted: list[str] = []

    # What users and kubelets do

    def add(self, pod: PodBuilder) -> None:
        """A Pod is new; its name is free."""
        assert pod.obj().name not in self.pods
        self.update(pod)

    def update(self, pod: PodBuilder) -> None:
        """The Pod was changed by somebody."""
        self.pods[pod.obj().name] = pod
        self.watch.append(Changed(POD, pod.new_version().obj()))

    def delete(self, name: str) -> None:
        """Delete a Pod: at once where it has no node, else it is terminating."""
        pod = self.pods[name]
        if not (pod.obj().node_name and self.grace):
            self.end(name)
        elif pod.obj().deleted is None:
            self.update(pod.terminating(DELETED_AT))

    def end(self, name: str) -> None:
        """The Pod is gone."""
        self.watch.append(Removed(POD, self.pods.pop(name).new_version().obj()))

    def running(self) -> list[Pod]:
        """The Pods with nodes."""
        return [pod for builder in self.pods.values() if (pod := builder.obj()).node_name]

    @property
    def terminating(self) -> list[str]:
        """The Pods whose kubelets have not ended them."""
        return [name for name, pod in self.pods.items() if pod.obj().deleted is not None]

    # What the scheduler sends

    def bind(self, pod: Pod, node_name: str, on_done: Done) -> None:
        """See `bayplan.framework.handle.ClusterWriter`."""
        self.bound.append((pod.name, node_name))
        self.requests.append((partial(self._bind, pod, node_name), on_done))

    def delete_pod(self, pod: Pod, on_done: Done) -> None:
        """See `bayplan.framework.handle.ClusterWriter`."""
        self.deleted.append(pod.name)
        self.requests.append((partial(self._delete, pod), on_done))

    def patch_pod_status(
        self, pod: Pod, condition: Condition | None, nominated: str | None, on_done: Done
    ) -> None:
        """See `bayplan.framework.handle.ClusterWriter`."""
        self.requests.append((partial(self._patch, pod, condition, nominated), on_done))

    def store(self, index: int = 0, error: Exception | None = None) -> None:
        """Do what a request asks for; with ``error`` it is not done."""
        effect, on_done = self.requests[index]
        del self.requests[index]
        outcome = error if error is not None else effect()
        self.answers.append(partial(on_done, outcome))

    def _bind(self, pod: Pod, node_name: str) -> Exception | None:
        stored = self._same(pod)
        if stored is None:
            return NotFound(f'pods "{pod.name}" not found', status=404)
        if stored.obj().deleted is not None or stored.obj().node_name:
            return Conflict(f"pod {pod.name} is assigned or being deleted", status=409)
        self.bindings[pod.uid] = self.bindings.get(pod.uid, 0) + 1
        if self.starts:
            stored.start_time(DELETED_AT)
        self.update(stored.node(node_name))
        used = sum(cpu_of(p) for p in self.running() if p.node_name == node_name)
        assert used <= self.room, f"{pod.name} is bound to a node that is full"
        return None

    def _delete(self, pod: Pod) -> Exception | None:
        if self._same(pod) is None:
            return NotFound(f'pods "{pod.name}" not found', status=404)
        self.evicted.append(pod.name)
        self.delete(pod.name)
        return None

    def _patch(
        self, pod: Pod, condition: Condition | None, nominated: str | None
    ) -> Exception | None:
        """A patch that changes nothing shows nothing; of conditions only type and reason count."""
        stored = self._same(pod)
        if stored is None:
            return NotFound(f'pods "{pod.name}" not found', status=404)
        before = stored.obj().status
        if nominated is not None:
            stored.nominated(nominated)
        if condition is not None:
            others = [
                c
                for c in stored.json["status"].get("conditions", ())
                if c["type"] != condition.type
            ]
            stored.status(
                conditions=[
                    *others,
                    {
                        "type": condition.type,
                        "status": condition.status,
                        "reason": condition.reason,
                    },
                ]
            )
        if stored.obj().status != before:
            self.update(stored)
        return None

    def _same(self, pod: Pod) -> PodBuilder | None:
        stored = self.pods.get(pod.name)
        return stored if stored is not None and stored.obj().uid == pod.uid else None

    # What the scheduler gets

    def relist(self) -> Message:
        """All Pods as they are, in place of what the watch has not shown yet."""
        self.watch.clear()
        return Replaced(POD, [pod.obj() for pod in self.pods.values()])


class LiveCluster:
    """See the module.

    Args:
        api: what is stored, and what is under way.
        gates: feature gates.
        config: fields of the configuration.

    Attributes:
        cluster: the scheduler.
        faults: so many writes may still fail by `actions`.
    """

    def __init__(self, api: ApiServer, gates: str = "", **config: Any) -> None:
        self.api = api
        self.cluster = Cluster(feature_gates=gates, writer=api, **config)
        self.queue = self.cluster.queue
        self.faults = 0
        self._nominations = 0

    def create(self, *pods: PodBuilder) -> None:
        """These Pods are new; the watch shows them in time."""
        for pod in pods:
            self.api.add(pod.spec(schedulerName=PROFILE))

    # What the scheduler does

    def schedule(self) -> bool:
        """One attempt; whether somebody was ready."""
        queued = self.queue.pop()
        if queued is None:
            return False
        self.cluster.scheduler.schedule_one(queued)
        self.take_in()
        return True

    def take_in(self) -> None:
        """What has arrived is applied, and what was said of Pods is sent."""
        self.cluster.take_in()
        recorder = self.cluster.recorder
        for name, node in recorder.nominated[self._nominations :]:
            if name in self.api.pods:
                reasons = (c for of, c in reversed(recorder.conditions) if of == name)
                pod = self.api.pods[name].obj()
                self.api.patch_pod_status(pod, next(reasons, None), node, lambda _: None)
        self._nominations = len(recorder.nominated)

    def answer(self) -> None:
        """The scheduler gets the oldest answer."""
        self.api.answers.popleft()()
        self.take_in()

    def show(self, changes: int) -> None:
        """The scheduler sees so many changes, at most."""
        for _ in range(min(changes, len(self.api.watch))):
            self.cluster.inbox.post(self.api.watch.popleft())
        self.take_in()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.cluster.clock.time += seconds
        self.take_in()

    def arrive(self) -> bool:
        """Whatever is under way arrives; whether anything was."""
        api = self.api
        if not (api.requests or api.answers or api.watch):
            return False
        while api.requests:
            api.store()
        while api.answers:
            self.answer()
        self.show(len(api.watch))
        return True

    def settle(self) -> None:
        """Whatever is under way arrives; victims end; everybody who is ready is tried."""
        quiet, before = 0, (-1, -1)
        while quiet < QUIET:
            for _ in range(MOST_STEPS):
                for name in self.api.terminating:
                    self.api.end(name)
                if not (self.arrive() or self.schedule()):
                    break
            else:
                raise AssertionError("it does not come to an end")
            state = len(self.api.evicted), len(self.api.bound)
            quiet, before = (quiet + 1 if state == before else 0), state
            self.wait(BACKOFF)

    def actions(self) -> list[Action]:
        """All that may happen next; what makes the cluster less busy comes first."""
        others: list[Action] = [self.schedule, partial(self.wait, BACKOFF), self.cluster.reload]
        return [*self._pending(), *others, *([self._fail] if self.faults else [])]

    def _pending(self) -> Iterator[Action]:
        api = self.api
        yield from (partial(api.store, index) for index in range(len(api.requests)))
        if api.answers:
            yield self.answer
        if api.watch:
            yield partial(self.show, 1)
        yield from (partial(api.end, name) for name in api.terminating)

    def _fail(self) -> None:
        if self.api.requests:
            self.faults -= 1
            self.api.store(0, ServerError("trouble"))


def cpu_of(pod: Pod) -> int:
    """What the Pod asks for, in CPUs."""
    return pod_requests(pod).amounts["cpu"] // 1000
