"""Executor: evicts victims in the background; the preemptor, a Pod or a group, waits for them.

A victim gets the condition DisruptionTarget and is then deleted. A victim that waits in Permit is
rejected instead, and one in PreBind is cancelled. All API calls of a preemption are sent at once.
The preemptor is gated (PreEnqueue) until the cache shows that every victim is gone or terminating;
the events of their deletion wake it. The answer of the API server is not enough: events of victims
of other preemptors could then wake the Pod before there is room. If a call fails, the preemptor is
activated at once, because no event would wake it.

Scheduling thread, except for the callbacks of the client: they change only one `_Eviction`, which
has a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

import msgspec
import structlog

from bayplan.api.meta import Condition
from bayplan.api.pod import Pod
from bayplan.client.errors import NotFound
from bayplan.framework.handle import ClusterWriter, Done, InTreeHandle
from bayplan.framework.room import Room, Taker
from bayplan.preemption.ranking import Candidate
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("preemption")

POD, POD_GROUP = "pod", "podgroup"
"""Kinds of preemptors, as in kube-scheduler's messages and metrics."""


def kind_of(taker: Taker) -> str:
    """The kind of preemptor that ``taker`` is."""
    return POD if taker.uid == taker.pods[0].uid else POD_GROUP


class Preemptor(msgspec.Struct, frozen=True, eq=False):
    """For whom Pods are evicted.

    Attributes:
        uid: of the Pod or the group.
        kind: `POD` or `POD_GROUP`.
        pods: the Pod, or those of the group that wait for a node; at least one.
        nodes: where there will be room.
    """

    uid: str
    kind: str
    pods: tuple[Pod, ...]
    nodes: frozenset[str]

    @property
    def priority(self) -> int:
        """The lowest of its Pods."""
        return min(pod.priority for pod in self.pods)


class _Eviction:
    """The calls of one preemption.

    Attributes:
        victims: those that it deletes. Scheduling thread only.
        failed: whether a call has failed, so that the preemptor need not wait any longer.
    """

    def __init__(
        self,
        preemptor: Preemptor,
        victims: Sequence[Pod],
        retry: Callable[[], None],
        instrument: Instrument,
    ) -> None:
        self.preemptor = preemptor
        self.victims = list(victims)
        self.failed = False
        self._lock = threading.Lock()
        self._left = {victim.uid for victim in victims}
        self._any_error = False
        self._retry = retry
        self._instrument = instrument
        self._began = perf_counter()

    def done(self, victim: Pod, error: Exception | None = None) -> None:
        """Nothing more is to be sent for ``victim``. Any thread."""
        if error is not None:
            log.error(
                "Could not preempt Pod",
                victim=victim.key,
                preemptor=self.preemptor.pods[0].key,
                error=str(error),
            )
        with self._lock:
            self._any_error = self._any_error or error is not None
            self._left.discard(victim.uid)
            ended, success = not self._left, not self._any_error
            self.failed = ended and not success
        if ended:
            seconds = perf_counter() - self._began
            self._instrument.evicted(self.preemptor.kind, success=success, seconds=seconds)
        if self.failed:
            self._retry()


class Executor:
    """Evictions of one profile."""

    def __init__(
        self, handle: InTreeHandle, plugin_name: str, cause: str = "a higher priority {}"
    ) -> None:
        """For the plugin of that name; ``cause`` says of a pod or podgroup why it may evict."""
        self._cause = cause
        self._handle = handle
        self._plugin_name = plugin_name
        self._instrument = handle.instrument
        self._running: dict[str, _Eviction] = {}

    @property
    def _writer(self) -> ClusterWriter:
        writer = self._handle.writer
        assert writer is not None, "without a cluster no Pod is evicted"
        return writer

    def evict(self, pod: Pod, candidate: Candidate) -> None:
        """Evict the victims of ``candidate``, but for those that are leaving already."""
        preemptor = Preemptor(pod.uid, POD, (pod,), frozenset({candidate.node_name}))
        self._instrument.eviction(POD, len(candidate.victims), 0, candidate.violations)
        self._evict(preemptor, candidate.victims)

    def evict_for_group(self, taker: Taker, room: Room, groups: int, violations: int) -> None:
        """Evict the victims of ``room``, but for those that are leaving already.

        Args:
            taker: for whom.
            room: where.
            groups: how many PodGroups of Kubernetes leave as a whole.
            violations: how many of the victims a PodDisruptionBudget protects.
        """
        kind, nodes = kind_of(taker), frozenset(room.nodes.values())
        self._instrument.eviction(kind, len(room.victims), groups, violations)
        self._evict(Preemptor(taker.uid, kind, taker.pods, nodes), room.victims)

    def _evict(self, preemptor: Preemptor, chosen: Sequence[Pod]) -> None:
        # A candidate may be a cached one: the node has the same Pods, but their objects may be
        # newer.
        newest = (self._on_node(victim) for victim in chosen)
        victims = [victim for victim in newest if victim is not None and victim.deleted is None]
        if not victims:
            return
        self._clear_nominations(preemptor)
        self._instrument.leaving(preemptor.pods, preemptor.nodes, victims)
        retry = partial(self._handle.activate, preemptor.pods)
        eviction = _Eviction(preemptor, victims, retry, self._instrument)
        self._forget_finished()
        self._running[preemptor.uid] = eviction
        for victim in victims:
            self._preempt(eviction, victim)

    def _on_node(self, victim: Pod) -> Pod | None:
        row = self._handle.nodes.row(victim.node_name)
        return None if row is None else self._handle.nodes.pods[row].get(victim.uid)

    @property
    def evicted(self) -> dict[str, Pod]:
        """By uid, Pods whose eviction was asked for, whether or not they are seen to leave yet."""
        running = (eviction for eviction in self._running.values() if not eviction.failed)
        return {victim.uid: victim for eviction in running for victim in eviction.victims}

    def is_running(self, uid: str) -> bool:
        """Whether that preemptor must wait: until victims are gone or leaving, or a call failed.

        The cache is changed before the event wakes Pods. So when the deletion of the last victim
        wakes a Pod, that victim is no longer in the cache and the Pod passes PreEnqueue.
        """
        eviction = self._running.get(uid)
        return eviction is not None and self._awaits(eviction)

    def _awaits(self, eviction: _Eviction) -> bool:
        if eviction.failed:
            return False
        newest = (self._on_node(victim) for victim in eviction.victims)
        return any(victim is not None and victim.deleted is None for victim in newest)

    def _forget_finished(self) -> None:
        for uid, eviction in list(self._running.items()):
            if not self._awaits(eviction):
                self._running.pop(uid, None)

    # One victim

    def _preempt(self, eviction: _Eviction, victim: Pod) -> None:
        if self._call_back(victim):
            self._tell(eviction, victim, " (in kube-scheduler memory).")
            eviction.victims.remove(victim)
            eviction.done(victim)
            return
        preemptor = eviction.preemptor
        condition = Condition(
            type="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{preemptor.pods[0].spec.scheduler_name}: preempting to accommodate "
            f"{self._cause.format(preemptor.kind)}",
            observed_generation=victim.generation,
        )

        def marked(error: Exception | None) -> None:
            if error is None:
                self._writer.delete_pod(victim, deleted)
            else:
                eviction.done(victim, None if isinstance(error, NotFound) else error)

        def deleted(error: Exception | None) -> None:
            if error is None:
                self._tell(eviction, victim)
            eviction.done(victim, error)

        self._writer.patch_pod_status(victim, condition, None, marked)

    def _call_back(self, victim: Pod) -> bool:
        """Let a victim that is not bound yet go back to the queue; False if it is too late."""
        waiting = self._handle.waiting.get(victim.uid)
        if waiting is not None:
            return waiting.preempt(self._plugin_name, "preempted")
        preparing = self._handle.preparing.get(victim.uid)
        return preparing is not None and preparing.cancel(f"preempted by {self._plugin_name}")

    def _tell(self, eviction: _Eviction, victim: Pod, where: str = "") -> None:
        by = eviction.preemptor
        note = f"Preempted by {by.kind} {by.uid} on node {victim.node_name}{where}"
        profile = self._handle.profile
        self._handle.events.event(
            victim, by.pods[0], "Normal", "Preempted", "Preempting", note, profile
        )

    # Lower nominations

    def _clear_nominations(self, preemptor: Preemptor) -> None:
        """Pods of lower priority that count on these nodes will do better to look elsewhere."""
        for node_name in preemptor.nodes:
            for pod in self._handle.nominator.nominated_pods(node_name):
                if pod.priority < preemptor.priority:
                    self._writer.patch_pod_status(pod, None, "", _report(pod))


def _report(pod: Pod) -> Done:
    def done(error: Exception | None) -> None:
        if error is not None and not isinstance(error, NotFound):
            log.error("Could not clear nominatedNodeName", pod=pod.key, error=str(error))

    return done
