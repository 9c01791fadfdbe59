"""What surrounds the scheduler in a test: a clock, workers, and an API server that agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from bayplan.api.meta import Condition, ObjectReference
from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.client.errors import NotFound
from bayplan.framework.handle import ClusterWriter, Done, EventRecorder
from bayplan.replay.surroundings import Clock, InlineExecutor
from bayplan.report.pods import StatusWriter
from bayplan.testing.builder import Json

__all__ = ["Clock", "InlineExecutor", "RecordedEvent", "Recorder", "Writer"]


@dataclass(frozen=True)
class RecordedEvent:
    """A Kubernetes event.

    Attributes:
        pod: the name of the Pod that it is about.
        type: Normal or Warning.
        reason: such as Scheduled or FailedScheduling.
        action: such as Binding.
        note: the text.
        related: the name of the other Pod, such as who preempts; "" for none.
        controller: who reports it, where that is not the scheduler's default; "" else.
    """

    pod: str
    type: str
    reason: str
    action: str
    note: str
    related: str = ""
    controller: str = ""


class Recorder(EventRecorder, StatusWriter):
    """Keeps what is said about Pods.

    Attributes:
        events: in order.
        conditions: (name of the Pod, PodScheduled condition), in order.
        nominated: (name of the Pod, node; "" clears it, None leaves it), in order.
        group_conditions: (name of the PodGroup, its condition), in order.
    """

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []
        self.conditions: list[tuple[str, Condition]] = []
        self.nominated: list[tuple[str, str | None]] = []
        self.group_conditions: list[tuple[str, Condition]] = []

    def event(
        self,
        regarding: Pod | ObjectReference,
        related: Pod | None,
        type_: str,
        reason: str,
        action: str,
        note: str,
        reporting_controller: str | None = None,
    ) -> None:
        """See `bayplan.framework.handle.EventRecorder`."""
        other, controller = "" if related is None else related.name, reporting_controller or ""
        event = RecordedEvent(regarding.name, type_, reason, action, note, other, controller)
        self.events.append(event)

    def patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        """See `bayplan.report.pods.StatusWriter`."""
        if condition is not None:
            self.conditions.append((pod.name, condition))
        self.nominated.append((pod.name, nominated))

    def patch_group(self, pod_group: KubernetesPodGroup, condition: Condition) -> None:
        """See `bayplan.report.pods.StatusWriter`."""
        self.group_conditions.append((pod_group.name, condition))


class Writer(ClusterWriter):
    """An API server that agrees to every write, or answers with `outcome`.

    Attributes:
        bound: (Pod, node) of every binding.
        deleted: names of the Pods that were deleted: preemption's victims.
        said: (Pod, condition) of every condition that plugins and preemption write.
        patched: (path, body) of every patch of another object. Nothing is changed by it.
        created: (path of the collection, body) of every other object that was created.
        removed: (path, uid) of every other object that was deleted.
        stored: by path, what `read` answers with.
        outcome: the error of all writes from now on; None for success.
        slow: whether writes wait for `answer`.
        waiting: what the writes that wait call with their outcome.
        on_bound: called with the Pod when it is bound.
        on_deleted: called with the Pod when it is deleted.
    """

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.deleted: list[str] = []
        self.said: list[tuple[str, Condition]] = []
        self.patched: list[tuple[str, bytes]] = []
        self.created: list[tuple[str, bytes]] = []
        self.removed: list[tuple[str, str]] = []
        self.stored: dict[str, Json] = {}
        self.outcome: Exception | None = None
        self.slow = False
        self.on_bound: Callable[[Pod, str], None] | None = None
        self.on_deleted: Callable[[Pod], None] | None = None
        self.waiting: list[Done] = []

    def bind(self, pod: Pod, node_name: str, on_done: Done) -> None:
        """See `bayplan.framework.handle.ClusterWriter`."""
        self.bound.append((pod.name, node_name))

        def done(error: Exception | None) -> None:
            if error is None and self.on_bound is not None:
                self.on_bound(pod, node_name)
            on_done(error)

        self._answer(done)

    def delete_pod(self, pod: Pod, on_done: Done) -> None:
        """See `bayplan.framework.handle.ClusterWriter`."""
        self.deleted.append(pod.name)

        def done(error: Exception | None) -> None:
            if error is None and self.on_deleted is not None:
                self.on_deleted(pod)
            on_done(error)

        self._answer(done)

    def patch_pod_status(
        self,
        pod: Pod,
        condition: Condition | None,
        nominated: str | None,  # noqa: ARG002
        on_done: Done,
    ) -> None:
        """See `bayplan.framework.handle.ClusterWriter`."""
        if condition is not None:
            self.said.append((pod.name, condition))
        self._answer(on_done)

    def read(self, path: str) -> bytes:
        """See `bayplan.framework.handle.ClusterWriter`."""
        if path not in self.stored:
            raise NotFound(f"{path} not found", status=404, reason="NotFound")
        return msgspec.json.encode(self.stored[path])

    def create(self, path: str, body: bytes) -> bytes:
        """See `bayplan.framework.handle.ClusterWriter`; the answer is the body."""
        self.created.append((path, body))
        if self.outcome is not None:
            raise self.outcome
        return body

    def delete_later(self, path: str, uid: str, on_done: Done) -> None:
        """See `bayplan.framework.handle.ClusterWriter`."""
        self.removed.append((path, uid))
        self._answer(on_done)

    def patch_later(self, path: str, body: bytes, content_type: str, on_done: Done) -> None:  # noqa: ARG002
        """See `bayplan.framework.handle.ClusterWriter`."""
        self.patched.append((path, body))
        self._answer(on_done)

    def patch(self, path: str, body: bytes, content_type: str) -> bytes:  # noqa: ARG002
        """See `bayplan.framework.handle.ClusterWriter`; the answer is the body."""
        self.patched.append((path, body))
        if self.outcome is not None:
            raise self.outcome
        return body

    def answer(self, outcome: Exception | None = None) -> None:
        """Answer the writes that wait."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(outcome)

    def _answer(self, done: Done) -> None:
        if self.slow:
            self.waiting.append(done)
        else:
            done(self.outcome)
