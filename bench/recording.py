"""The core with no API server: the real scheduler on a real cache, and one that agrees to all.

What the API server would send back (a Pod with its node, a nomination, a victim that is gone) comes
back through the handlers as it does in earnest, but as objects: nothing but claims is encoded or
decoded while the clock runs. It is the one that a replay has, too.
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
from bayplan.api.pod import Pod
from bayplan.app.assembly import Ports, build
from bayplan.app.follow import NoEvents
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import ActivatePods, Changed, Removed, Replaced, WatchMessage
from bayplan.replay.api_server import VirtualApiServer, VirtualStatuses
from bayplan.telemetry.instrument import Instrument
from bayplan.telemetry.metrics import Metrics
from bayplan.testing.ports import InlineExecutor
from bench.claims import ClaimController
from bench.objects import PLACED, Item, Objects
from bench.workloads import Churn, Workload

NOMINAL_RATE = 400.0
"""Pods a second that churn is paced for: about what kube-scheduler places."""


class Placing(NamedTuple):
    """How many Pods were bound, in how many seconds, with how many seconds of CPU."""

    pods: int
    seconds: float
    cpu: float


class CoreWorld:
    """One scheduler and the cluster of a workload, in memory.

    Attributes:
        bound: how many Pods were bound.
        echo: what the API server would say next.
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
        self.echo: list[WatchMessage] = []
        self.bound = 0
        self._server = VirtualApiServer(self.echo.append, lambda _: False)
        self._server.on_bound = self._pod_bound
        self._server.on_evicted = lambda pod: self.echo.append(Removed(POD, pod))
        self._server.on_nominated = self._nominated
        self._objects = objects
        self.inbox = Inbox()
        self._claims = ClaimController()
        ports = Ports(
            events=NoEvents(),
            writer=self._server,
            statuses=VirtualStatuses(self._server),
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
        pop = self.core.world.queue.pop
        before, started, cpu = self.bound, perf_counter(), process_time()
        goal, deadline = before + pods, started + seconds
        while self.bound < goal and perf_counter() < deadline:
            queued = pop()
            if queued is None:
                if not self._take_in():
                    break
                continue
            self._scheduler.schedule_one(queued)
            self._take_in()
            self._keep_churning()
        return Placing(self.bound - before, perf_counter() - started, process_time() - cpu)

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
                self._server.objects[f"{each.path}/{each.name}"] = msgspec.json.decode(each.body)
            self.apply(Changed(KINDS[each.kind], _object(each)))

    def apply(self, message: WatchMessage) -> None:
        """Something that the API server says."""
        self.core.world.handlers.apply(message)

    def _pod_bound(self, pod: Pod) -> None:
        self.bound += 1
        self.echo.append(Changed(POD, pod))

    def _nominated(self, pod: Pod, node: str) -> None:
        nominee = copy.copy(pod)
        nominee.status = msgspec.structs.replace(pod.status, nominated_node_name=node)
        self.echo.append(Changed(POD, nominee))

    def _take_in(self) -> bool:
        """Outcomes of bindings, then what the API server would say; whether there was any."""
        busy = bool(self.inbox) or bool(self.echo) or self._scheduler.in_flight > 0
        self._scheduler.take_in(wait=False)
        echo = self.echo.copy()
        self.echo.clear()
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
