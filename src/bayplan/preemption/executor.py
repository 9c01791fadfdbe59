"""Executor: evicts victims in the background; the preemptor, a Pod or a group, waits for them.

A victim gets the condition DisruptionTarget and is then deleted. A victim that waits in Permit is
rejected instead, and one in PreBind is cancelled. All API calls of a preemption are sent at once.
The preemptor is held back (`Eviction.hold`) until the cache shows that every victim is gone or
terminating; the events of their deletion wake it. The answer of the API server is not enough:
events of victims of other preemptors could then wake the Pod before there is room. If a call fails,
the preemptor is activated at once, because no event would wake it.

Scheduling thread, except for the callbacks of the client: they change only one `Eviction`, which
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
from bayplan.cache.node_table import LiveNodeTable
from bayplan.client.errors import NotFound
from bayplan.framework.handle import ClusterWriter, Done, InTreeHandle
from bayplan.framework.room import Room, Taker
from bayplan.framework.status import Status
from bayplan.preemption.ranking import Candidate
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("preemption")

POD, POD_GROUP = "pod", "podgroup"
"""Kinds of preemptors, as in kube-scheduler's messages and metrics."""
_WORDS = {POD: "pod", POD_GROUP: "pod group"}


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
        anywhere: see `Room`.
    """

    uid: str
    kind: str
    pods: tuple[Pod, ...]
    nodes: frozenset[str]
    anywhere: bool = False

    @property
    def priority(self) -> int:
        """The lowest of its Pods."""
        return min(pod.priority for pod in self.pods)


class Eviction:
    """The calls of one preemption, and what is left of its victims.

    Attributes:
        victims: those that it deletes, by uid. Scheduling thread only.
        failed: whether a call has failed, so that the preemptor need not wait any longer.
    """

    def __init__(
        self,
        preemptor: Preemptor,
        plugin_name: str,
        victims: Sequence[Pod],
        nodes: LiveNodeTable,
        retry: Callable[[], None],
        instrument: Instrument,
    ) -> None:
        self.preemptor = preemptor
        text = f"waiting for the preemption for this {_WORDS[preemptor.kind]} to be finished"
        self._held = Status.unresolvable(text).by(plugin_name)
        self.victims = {victim.uid: victim for victim in victims}
        self.failed = False
        self._nodes = nodes
        # Calls are sent in the order of the victims, so the last one is looked at first.
        self._staying = list(victims)
        self._there = list(victims)
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

    # Scheduling thread

    def spare(self, victim: Pod) -> None:
        """The victim was not bound yet, and need not be deleted."""
        del self.victims[victim.uid]
        self._staying.remove(victim)
        self._there.remove(victim)

    def hold(self) -> Status | None:
        """See `bayplan.framework.room.Leaving`; None as soon as a call has failed, too.

        The cache is changed before the event wakes Pods. So when the deletion of the last victim
        wakes a preemptor, that victim is no longer in the cache, and nothing holds it back.
        """
        while self._staying and not self._stays(self._staying[-1]):
            self._staying.pop()
        return None if self.failed or not self._staying else self._held

    def outlasts(self, pod: Pod) -> bool:
        """See `bayplan.framework.room.Leaving`; not where a call has failed."""
        return pod.uid in self.victims and not self.failed and not self.over

    @property
    def over(self) -> bool:
        """Whether all victims are gone."""
        while self._there and on_node(self._nodes, self._there[-1]) is None:
            self._there.pop()
        return not self._there

    def _stays(self, victim: Pod) -> bool:
        newest = on_node(self._nodes, victim)
        return newest is not None and newest.deleted is None


def on_node(nodes: LiveNodeTable, pod: Pod) -> Pod | None:
    """The newest version of ``pod`` on its node; None where it is gone."""
    row = nodes.row(pod.node_name)
    return None if row is None else nodes.pods[row].get(pod.uid)


def evict(
    writer: ClusterWriter,
    victim: Pod,
    reason: str,
    message: str,
    done: Done,
    deleted: Callable[[], None] = lambda: None,
) -> None:
    """Give ``victim`` the condition DisruptionTarget, then delete it; does not wait.

    Args:
        writer: to the API server.
        victim: this very Pod.
        reason: of the condition.
        message: of the condition.
        done: told how it ended, on any thread; well where the Pod was gone before the first call.
        deleted: called before that if this deleted it.
    """
    condition = Condition(
        type="DisruptionTarget",
        status="True",
        reason=reason,
        message=message,
        observed_generation=victim.generation,
    )

    def marked(error: Exception | None) -> None:
        if error is None:
            writer.delete_pod(victim, finish)
        else:
            done(None if isinstance(error, NotFound) else error)

    def finish(error: Exception | None) -> None:
        if error is None:
            deleted()
        done(error)

    writer.patch_pod_status(victim, condition, None, marked)


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
        self._running: dict[str, Eviction] = {}

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

    def evict_for_group(self, taker: Taker, room: Room, groups: int, violations: int) -> Room:
        """Evict the victims of ``room``, but for those that are leaving already.

        Args:
            taker: for whom.
            room: where.
            groups: how many PodGroups of Kubernetes leave as a whole.
            violations: how many of the victims a PodDisruptionBudget protects.

        Returns:
            The room, which knows who is leaving.
        """
        kind, nodes = kind_of(taker), frozenset(room.nodes.values())
        self._instrument.eviction(kind, len(room.victims), groups, violations)
        preemptor = Preemptor(taker.uid, kind, taker.pods, nodes, room.anywhere)
        self._evict(preemptor, room.victims)
        return msgspec.structs.replace(room, leaving=self.eviction(taker.uid))

    def _evict(self, preemptor: Preemptor, chosen: Sequence[Pod]) -> None:
        # A candidate may be a cached one: the node has the same Pods, but their objects may be
        # newer.
        nodes = self._handle.nodes
        newest = (on_node(nodes, victim) for victim in chosen)
        victims = [victim for victim in newest if victim is not None and victim.deleted is None]
        if not victims:
            return
        self._clear_nominations(preemptor)
        where = None if preemptor.anywhere else preemptor.nodes
        self._instrument.leaving(preemptor.pods, where, victims)
        retry = partial(self._handle.activate, preemptor.pods)
        eviction = Eviction(preemptor, self._plugin_name, victims, nodes, retry, self._instrument)
        self._running = {uid: each for uid, each in self._running.items() if not each.over}
        self._running[preemptor.uid] = eviction
        for victim in victims:
            self._preempt(eviction, victim)

    @property
    def evicted(self) -> dict[str, Pod]:
        """By uid, Pods whose eviction was asked for, whether or not they are seen to leave yet."""
        running = (eviction for eviction in self._running.values() if not eviction.failed)
        return {uid: pod for eviction in running for uid, pod in eviction.victims.items()}

    def eviction(self, uid: str) -> Eviction | None:
        """The last eviction for that preemptor, while any of its victims may be there."""
        return self._running.get(uid)

    def hold(self, uid: str) -> Status | None:
        """Why that preemptor must wait, see `Eviction.hold`; None where it need not."""
        eviction = self._running.get(uid)
        return None if eviction is None else eviction.hold()

    # One victim

    def _preempt(self, eviction: Eviction, victim: Pod) -> None:
        if self._call_back(victim):
            self._tell(eviction, victim, " (in kube-scheduler memory).")
            eviction.spare(victim)
            eviction.done(victim)
            return
        preemptor = eviction.preemptor
        message = (
            f"{preemptor.pods[0].spec.scheduler_name}: preempting to accommodate "
            f"{self._cause.format(preemptor.kind)}"
        )
        tell = partial(self._tell, eviction, victim)
        done = partial(eviction.done, victim)
        evict(self._writer, victim, "PreemptionByScheduler", message, done, tell)

    def _call_back(self, victim: Pod) -> bool:
        """Let a victim that is not bound yet go back to the queue; False if it is too late."""
        waiting = self._handle.waiting.get(victim.uid)
        if waiting is not None:
            return waiting.preempt(self._plugin_name, "preempted")
        preparing = self._handle.preparing.get(victim.uid)
        return preparing is not None and preparing.cancel(f"preempted by {self._plugin_name}")

    def _tell(self, eviction: Eviction, victim: Pod, where: str = "") -> None:
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
