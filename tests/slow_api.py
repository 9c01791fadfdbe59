"""SlowCluster: calls, events of the watch and Pods that end come in any order that can be.

Which of all that may happen happens next the test chooses, so Hypothesis can look for the order
that breaks something.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tests.api_server import ApiServer

from bayplan.api.pod import Pod
from bayplan.app.assembly import make_profiles
from bayplan.cache.requests import pod_requests
from bayplan.client.errors import ServerError
from bayplan.config import parse_config, parse_feature_gates
from bayplan.engine.registry import Registry
from bayplan.testing import Cluster, Json, PodBuilder

START = "2026-01-01T00:00:00Z"
BACKOFF = 11.0
"""Longer than any backoff, in seconds."""
QUIET = 3
"""Backoffs during which nothing happens until nothing will."""

Action = Callable[[], object]


class SlowApi(ApiServer):
    """See `tests.api_server`.

    Args:
        room: what each node has, in milli-CPU.
        grace: whether a Pod that is deleted is terminating for a while; it is gone at once else.
        starts: whether a Pod that is bound gets a start time.

    Attributes:
        evicted: names of the Pods that the scheduler deleted, in order.
    """

    def __init__(self, room: int, *, grace: bool, starts: bool) -> None:
        super().__init__()
        self._room, self._grace, self._starts = room, grace, starts
        self.evicted: list[str] = []

    def delete(self, name: str) -> None:
        """See `ApiServer`."""
        assert name not in self.evicted, f"{name} is evicted twice"
        self.evicted.append(name)
        super().delete(name)
        if not self._grace and name in self.pods:
            self.end(name)

    def _bind(self, pod: Pod, node_name: str) -> Exception | None:
        error = super()._bind(pod, node_name)
        if error is None and self._starts:
            self.update(self.pods[pod.name].start_time(START))
        pods = (stored.obj() for stored in self.pods.values())
        used = sum(pod_requests(p).amounts["cpu"] for p in pods if p.node_name == node_name)
        assert used <= self._room, f"{pod.name} is bound to a node that is full"
        return error

    def running(self, prefix: str) -> int:
        """How many Pods whose names begin so are bound and stay."""
        pods = [pod.obj() for name, pod in self.pods.items() if name.startswith(prefix)]
        return sum(bool(pod.node_name) and pod.deleted is None for pod in pods)


class SlowCluster:
    """See the module's docstring.

    Args:
        profile: the scheduler's.
        gates: its feature gates.
        api: what it talks to.
        faults: how many calls may fail.
    """

    def __init__(self, profile: Json, gates: str, api: SlowApi, faults: int) -> None:
        self._document: Json = {"profiles": [profile]}
        self._gates, self._faults = gates, faults
        self.api = api
        self.cluster = Cluster(config=self._document, feature_gates=gates, writer=api)

    def create(self, *pods: PodBuilder) -> None:
        """These Pods are new; the watch shows them in time."""
        for pod in pods:
            self.api.add(pod.spec(schedulerName=self.cluster.framework.name))

    def show_all(self) -> None:
        """The watch shows all that is stored."""
        while self.api.watch:
            self._show()

    # What may happen next

    def actions(self) -> list[Action]:
        """All that may happen next; what makes the world less busy comes first."""
        others = [self._schedule, lambda: self.cluster.wait(BACKOFF), self._reload]
        return [*self._pending(), *others, *([self._fail] if self._faults else [])]

    def _pending(self) -> Iterator[Action]:
        for index in range(len(self.api.requests)):
            yield lambda index=index: self.api.store(index)  # type: ignore[misc]
        if self.api.answers:
            yield self._answer
        if self.api.watch:
            yield self._show
        for name in self.api.terminating:
            yield lambda name=name: self.api.end(name)  # type: ignore[misc]

    def _answer(self) -> None:
        self.api.answers.popleft()()
        self.cluster.take_in()

    def _show(self) -> None:
        self.cluster.tell(self.api.watch.popleft())

    def _fail(self) -> None:
        if self.api.requests:
            self._faults -= 1
            self.api.store(0, ServerError("trouble"))

    def _schedule(self) -> bool:
        queued = self.cluster.world.queue.pop()
        if queued is not None:
            self.cluster.scheduler.schedule_one(queued)
            self.cluster.take_in()
        return queued is not None

    def _reload(self) -> None:
        registry, core = Registry(), self.cluster.core
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **self._document,
        }
        gates = parse_feature_gates((self._gates,)) if self._gates else parse_feature_gates(())
        config = parse_config(json.dumps(document), registry.known, gates=gates)
        ports = self.cluster.ports
        profiles = make_profiles(config, registry, core.world, core.placers, ports)
        self.cluster.scheduler.adopt(profiles)

    def settle(self) -> None:
        """All that is under way comes to its end, and Pods are tried until nothing happens."""
        quiet, before = 0, (-1, -1)
        while quiet < QUIET:
            while self._schedule() or self._advance():
                pass
            state = len(self.api.evicted), len(self.api.bound)
            quiet, before = (quiet + 1 if state == before else 0), state
            self.cluster.wait(BACKOFF)

    def _advance(self) -> bool:
        action = next(self._pending(), None)
        if action is not None:
            action()
        return action is not None
