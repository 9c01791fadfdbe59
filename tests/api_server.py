"""An API server with delays: what is written, answered and shown happens when the test says so.

A write is *sent* by the scheduler, *stored* here, and then *answered*; the change is *shown* by
the watch, before or after the answer. The test decides about each step, and about its order. Pods
on nodes end gracefully: a deleted one is terminating until its kubelet has `ended` it.

It may refuse what the real one refuses: a binding of a Pod that is bound, being deleted or gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from bayplan.api.kinds import POD
from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.client.errors import Conflict, NotFound
from bayplan.framework.handle import Done
from bayplan.inbox.messages import Changed, Message, Removed, Replaced
from bayplan.testing import PodBuilder, Writer

DELETED_AT = "2026-01-01T00:00:00Z"


class ApiServer(Writer):
    """Stores Pods, in one namespace.

    Attributes:
        pods: by name, what is stored.
        requests: writes that were sent.
        answers: answers to writes, which the scheduler has not got yet.
        watch: changes, which the scheduler has not seen yet.
        bindings: by uid, how often a binding of the Pod was stored.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, PodBuilder] = {}
        self.requests: deque[tuple[Callable[[], Exception | None], Done]] = deque()
        self.answers: deque[Callable[[], None]] = deque()
        self.watch: deque[Message] = deque()
        self.bindings: dict[str, int] = {}

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
        if not pod.obj().node_name:
            self.end(name)
        elif pod.obj().deleted is None:
            self.update(pod.terminating(DELETED_AT))

    def end(self, name: str) -> None:
        """The Pod is gone."""
        self.watch.append(Removed(POD, self.pods.pop(name).new_version().obj()))

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
        self.update(stored.node(node_name))
        return None

    def _delete(self, pod: Pod) -> Exception | None:
        if self._same(pod) is None:
            return NotFound(f'pods "{pod.name}" not found', status=404)
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
