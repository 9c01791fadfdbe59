"""The core with no API server: the real scheduler on a real cache, and a client that agrees.

What the API server would send back (a Pod with its node, a nomination, a victim that is gone) comes
back through the handlers as it does in earnest, but as objects: nothing is encoded or decoded while
the clock runs.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from itertools import count
from time import perf_counter, process_time
from typing import Any, NamedTuple

import msgspec

from bayplan.api.kinds import KINDS, NODE, POD, RESOURCE_CLAIM
from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.app.assembly import Ports, build
from bayplan.client.errors import ApiError
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import ActivatePods, Changed, Removed, Replaced, WatchMessage
from bayplan.telemetry.instrument import Instrument
from bayplan.telemetry.metrics import Metrics
from bayplan.testing.ports import InlineExecutor
from bench.claims import ClaimController, ClaimStore
from bench.objects import PLACED, Item, Objects
from bench.workloads import Churn, Workload

Done = Callable[[ApiError | None], None]

NOMINAL_RATE = 400.0
"""Pods a second that churn is paced for: about what kube-scheduler places."""


class RecordingClient:
    """Agrees to every write, and keeps what the API server would say next.

    Attributes:
        echo: messages that are due.
        bound: how many Pods were bound.
        claims: the ResourceClaims of the cluster.
    """

    def __init__(self) -> None:
        self.claims = ClaimStore()
        self.echo: list[WatchMessage] = []
        self.bound = 0

    def bind(self, pod: Pod, _node_name: str, on_done: Done) -> None:
        """As `bayplan.client.writer.Writer.bind`; ``pod`` has its node already."""
        self.bound += 1
        self.echo.append(Changed(POD, pod))
        on_done(None)

    def patch_pod_status(
        self, pod: Pod, _condition: Condition | None, nominated: str | None, on_done: Done
    ) -> None:
        """As `Writer.patch_pod_status`; of conditions nobody here takes notice."""
        if nominated is not None and nominated != pod.status.nominated_node_name:
            nominee = copy.copy(pod)
            nominee.status = msgspec.structs.replace(pod.status, nominated_node_name=nominated)
            self.echo.append(Changed(POD, nominee))
        on_done(None)

    def patch(self, path: str, body: bytes, _content_type: str) -> bytes:
        """As `Writer.patch`, of claims; nobody here reads which claim a Pod's status names."""
        if f"/{RESOURCE_CLAIM.plural}/" not in path:
            return body
        return self._stored(self.claims.patch(path, body))

    def read(self, path: str) -> bytes:
        """As `Writer.read`; no workload of the core reads objects."""
        raise AssertionError(f"{path} is read")

    def create(self, path: str, body: bytes) -> bytes:
        """As `Writer.create`, of a claim for extended resources."""
        return self._stored(self.claims.create(path, body))

    def delete_later(self, path: str, _uid: str, _on_done: Done) -> None:
        """As `Writer.delete_later`; no workload of the core deletes other objects."""
        raise AssertionError(f"{path} is deleted")

    def patch_later(self, path: str, _body: bytes, _content_type: str, _on_done: Done) -> None:
        """As `Writer.patch_later`; no workload of the core writes other objects."""
        raise AssertionError(f"{path} is patched")

    def delete_pod(self, pod: Pod, on_done: Done) -> None:
        """As `Writer.delete_pod`."""
        self.echo.append(Removed(POD, pod))
        on_done(None)

    def _stored(self, claim: bytes) -> bytes:
        self.echo.append(Changed(RESOURCE_CLAIM, RESOURCE_CLAIM.decode(claim)))
        return claim


class StatusWriter:
    """Passes on what the scheduler says of its Pods."""

    def __init__(self, client: RecordingClient) -> None:
        self._client = client

    def patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        """As `bayplan.report.pods.StatusWriter.patch`."""
        self._client.patch_pod_status(pod, condition, nominated, lambda _: None)

    def patch_group(self, *_: object) -> None:
        """Conditions of PodGroups are not recorded."""


class NoEvents:
    """Takes events and forgets them."""

    def event(self, *_: object) -> None:
        """As `bayplan.framework.handle.EventRecorder.event`."""


class Placing(NamedTuple):
    """How many Pods were bound, in how many seconds, with how many seconds of CPU."""

    pods: int
    seconds: float
    cpu: float


class CoreWorld:
    """One scheduler and the cluster of a workload, in memory.

    Attributes:
        client: what was written.
        core: the scheduler and its world.
        inbox: what other threads post to the scheduling thread.
    """

    def __init__(
        self,
        config: EffectiveConfig,
        registry: Registry,
        workload: Workload,
        objects: Objects,
        instrument: Instrument | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.client = RecordingClient()
        self._objects = objects
        self.inbox = Inbox()
        self._claims = ClaimController()
        ports = Ports(
            events=NoEvents(),
            writer=self.client,
            statuses=StatusWriter(self.client),
            inbox=self.inbox,
            instrument=instrument or Metrics(),
            binding_workers=InlineExecutor(),
            clock=clock,
            now=now,
        )
        self.core = build(config, registry, ports)
        self._scheduler = self.core.scheduler
        self._scheduler.active = True
        self._placed: dict[str, Pod] = {}
        self._decisions = 0
        self._churn = [
            (max(1, round(churn.every * NOMINAL_RATE)), self._churn_steps(number, churn))
            for number, churn in enumerate(workload.churn)
        ]
        self._fill()

    def feed(self, items: Iterator[Item]) -> None:
        """Apply objects as if they had just been created."""
        for item in items:
            self._create(item)

    def place(self, pods: int, seconds: float) -> Placing:
        """Schedule until that many Pods are bound, time is up, or nothing more can be done."""
        client, pop = self.client, self.core.world.queue.pop
        before, started, cpu = client.bound, perf_counter(), process_time()
        goal, deadline = before + pods, started + seconds
        while client.bound < goal and perf_counter() < deadline:
            queued = pop()
            if queued is None:
                if not self._take_in():
                    break
                continue
            self._scheduler.schedule_one(queued)
            self._take_in()
            self._keep_churning()
        return Placing(client.bound - before, perf_counter() - started, process_time() - cpu)

    def _fill(self) -> None:
        nodes = []
        for item in self._objects.surroundings():
            if item.kind == "Node":
                nodes.append(_object(item))
            else:
                self._create(item)
        self.apply(Replaced(NODE, nodes))
        for item in self._objects.placed():
            obj = _object(item)
            self.apply(Changed(KINDS[item.kind], obj))
            if self._churn and item.kind == "Pod":
                self._placed[item.name] = obj
        self.feed(self._objects.gated())

    def _create(self, item: Item) -> None:
        for each in self._claims.expanded(item):
            if each.kind == RESOURCE_CLAIM.name:
                self.client.claims.add(each)
            self.apply(Changed(KINDS[each.kind], _object(each)))

    def apply(self, message: WatchMessage) -> None:
        """Something that the API server says."""
        self.core.world.handlers.apply(message)

    def _take_in(self) -> bool:
        """Outcomes of bindings, then what the API server would say; whether there was any."""
        busy = bool(self.inbox) or bool(self.client.echo) or self._scheduler.in_flight > 0
        self._scheduler.take_in(wait=False)
        echo, self.client.echo = self.client.echo, []
        for message in echo:
            self.apply(message)
        return busy

    def _activate(self, pods: Any) -> None:
        self.inbox.post(ActivatePods(tuple(pods)))

    def _keep_churning(self) -> None:
        self._decisions += 1
        for every, steps in self._churn:
            if self._decisions % every == 0:
                next(steps)

    def _churn_steps(self, number: int, churn: Churn) -> Iterator[None]:
        previous: WatchMessage | None = None
        for index in count():
            if churn.do == "delete":
                pod = self._placed.pop(f"{PLACED}{index}", None)
                if pod is not None:
                    self.apply(Removed(POD, pod))
            else:
                item = self._objects.churned(churn.template, f"churn-{number}-{index}")
                obj = _object(item)
                if previous is not None:
                    self.apply(previous)
                self.apply(Changed(KINDS[item.kind], obj))
                previous = Removed(KINDS[item.kind], obj) if churn.do == "recreate" else None
            yield


def _object(item: Item) -> Any:
    return KINDS[item.kind].decode(item.body)
