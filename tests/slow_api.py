"""SlowApi: an API server, a watch and kubelets that take their time, in any order that can be.

A call waits until it is answered, in whichever order. What it changes is an event of the watch,
which keeps its order and comes late. A Pod that was deleted is terminating until its kubelet ends
it. Which of all that happens next the test chooses, so Hypothesis can look for the order that
breaks something.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator

from bayplan.api.kinds import POD
from bayplan.api.pod import DISRUPTION_TARGET, PREEMPTED, Pod
from bayplan.cache.requests import pod_requests
from bayplan.client.errors import ServerError
from bayplan.inbox.messages import Changed, Message, Removed
from bayplan.testing import Cluster, PodBuilder

START = "2026-01-01T00:00:00Z"
BACKOFF = 11.0
"""Longer than any backoff, in seconds."""
QUIET = 3
"""Backoffs during which nothing happens until nothing will."""

Action = Callable[[], object]


class SlowApi:
    """See the module's docstring.

    Args:
        cluster: the scheduler.
        grace: whether a deleted Pod is terminating for a while; it is gone at once otherwise.
        starts: whether a Pod that is bound gets a start time.
        faults: how many calls may fail.

    Attributes:
        evicted: names of the Pods that were deleted, in order.
    """

    def __init__(
        self, cluster: Cluster, *, grace: bool = True, starts: bool = True, faults: int = 0
    ) -> None:
        self._cluster, self._grace, self._starts, self._faults = cluster, grace, starts, faults
        self.evicted: list[str] = []
        self._stored: dict[str, PodBuilder] = {}
        self._events: deque[Message] = deque()
        self._ending: list[PodBuilder] = []
        cluster.writer.slow = True
        cluster.writer.on_bound, cluster.writer.on_deleted = self._bound, self._deleted

    # What the API server stores

    def create(self, *pods: PodBuilder) -> None:
        """These Pods are new; the watch shows them in time."""
        for pod in pods:
            pod.json["spec"].setdefault("schedulerName", self._cluster.framework.name)
            self._stored[pod.json["metadata"]["uid"]] = pod
            self._show(pod)

    def _show(self, pod: PodBuilder) -> None:
        self._events.append(Changed(POD, pod.new_version().obj()))

    def _bound(self, pod: Pod, node: str) -> None:
        builder = self._stored.get(pod.uid)
        if builder is None:
            return
        assert "nodeName" not in builder.json["spec"], f"{pod.key} is bound twice"
        self._show(builder.node(node))
        if self._starts:
            self._show(builder.start_time(START))
        cpus = Counter[str]()
        for other in self._stored.values():
            cpus[other.json["spec"].get("nodeName", "")] += _cpu(other)
        row = self._cluster.nodes.row(node)
        assert row is not None
        room = self._cluster.nodes.allocatable("cpu")[row]
        assert cpus[node] <= room, f"{pod.key} is bound to a node that is full"

    def _deleted(self, pod: Pod) -> None:
        builder = self._stored.get(pod.uid)
        if builder is None:
            return
        assert pod.name not in self.evicted, f"{pod.key} is evicted twice"
        self.evicted.append(pod.name)
        if self._grace and "nodeName" in builder.json["spec"]:
            builder.condition(DISRUPTION_TARGET, "True", reason=PREEMPTED)
            self._show(builder.terminating())
            self._ending.append(builder)
        else:
            self._end(builder)

    def _end(self, pod: PodBuilder) -> None:
        del self._stored[pod.json["metadata"]["uid"]]
        self._events.append(Removed(POD, pod.new_version().obj()))

    # What may happen next

    def actions(self) -> list[Action]:
        """All that may happen next; what makes the world less busy comes first."""
        return [*self._pending(), self._cycle, lambda: self._cluster.wait(BACKOFF)]

    def _pending(self) -> Iterator[Action]:
        for index in range(len(self._cluster.writer.waiting)):
            yield lambda index=index: self._answer(index)  # type: ignore[misc]
        if self._events:
            yield lambda: self._cluster.tell(self._events.popleft())
        for pod in self._ending:
            yield lambda pod=pod: self._ended(pod)  # type: ignore[misc]
        if self._faults and self._cluster.writer.waiting:
            yield self._fail

    def deliver(self) -> None:
        """The watch shows all that is stored."""
        while self._events:
            self._cluster.tell(self._events.popleft())

    def _answer(self, index: int) -> None:
        self._cluster.writer.waiting.pop(index)(None)
        self._cluster.take_in()

    def _fail(self) -> None:
        self._faults -= 1
        self._cluster.writer.waiting.pop(0)(ServerError("trouble"))
        self._cluster.take_in()

    def _ended(self, pod: PodBuilder) -> None:
        self._ending.remove(pod)
        self._end(pod)

    def _cycle(self) -> None:
        queued = self._cluster.world.queue.pop()
        if queued is not None:
            self._cluster.scheduler.schedule_one(queued)
            self._cluster.take_in()

    def settle(self) -> None:
        """All that is under way comes to its end, and Pods are tried until nothing happens."""
        quiet, before = 0, (-1, -1)
        while quiet < QUIET:
            self._cluster.run()
            while pending := next(self._pending(), None):
                pending()
                self._cluster.run()
            state = len(self.evicted), len(self._cluster.writer.bound)
            quiet, before = (quiet + 1 if state == before else 0), state
            self._cluster.wait(BACKOFF)

    # What came of it

    def running(self, prefix: str) -> int:
        """How many Pods whose names begin so are bound and stay."""
        return sum(
            "nodeName" in pod.json["spec"] and "deletionTimestamp" not in pod.json["metadata"]
            for pod in self._stored.values()
            if pod.json["metadata"]["name"].startswith(prefix)
        )


def _cpu(pod: PodBuilder) -> int:
    return pod_requests(pod.obj()).amounts["cpu"]
