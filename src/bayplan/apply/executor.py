"""Executor: evicts victims in the background; the preemptor, a Pod or a group, waits for them.

A victim gets the condition DisruptionTarget and is then deleted. A victim that waits in Permit is
rejected instead, and one in PreBind is cancelled. All API calls of a preemption are sent at once.
Who is in flight, and until when the preemptor waits, is in `bayplan.framework.evictions`. If a call
fails, the preemptor is activated at once.

Scheduling thread, except for the callbacks of the client: they change only one `Eviction`, which
has a lock, and post to the inbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter

import structlog

from bayplan.api.meta import Condition
from bayplan.api.pod import DISRUPTION_TARGET, Pod
from bayplan.cache.node_table import LiveNodeTable
from bayplan.client.errors import NotFound
from bayplan.framework.effects import Evict
from bayplan.framework.evictions import Eviction, Evictions
from bayplan.framework.handle import (
    ClusterWriter,
    Done,
    EventRecorder,
    PodNominator,
    WaitingPods,
)
from bayplan.framework.in_tree_handle import PreparingPod
from bayplan.framework.preemptor import Preemptor
from bayplan.inbox.inbox import Inbox
from bayplan.inbox.messages import ActivatePods, EvictionFailed
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("preemption")


def on_node(nodes: LiveNodeTable, pod: Pod) -> Pod | None:
    """The newest version of ``pod`` on its node; None if the Pod is gone."""
    row = nodes.row(pod.node_name)
    return None if row is None else nodes.pods[row].get(pod.uid)


class Executor:
    """Evicts Pods.

    Args:
        nodes: all nodes and the Pods on them.
        evictions: the registry of what is in flight.
        nominator: Pods nominated to nodes.
        waiting: Pods that wait in Permit.
        preparing: Pods in PreBind, by uid.
        writer: to the API server; None where there is no cluster, and nobody is evicted.
        events: recorder of Kubernetes events.
        inbox: where callbacks post what becomes of calls.
        instrument: counts.
        now: wall clock, seconds since the epoch.
    """

    def __init__(
        self,
        nodes: LiveNodeTable,
        evictions: Evictions,
        nominator: PodNominator,
        waiting: WaitingPods,
        preparing: Mapping[str, PreparingPod],
        writer: ClusterWriter | None,
        events: EventRecorder,
        inbox: Inbox,
        instrument: Instrument,
        now: Callable[[], float],
    ) -> None:
        self._nodes, self._evictions, self._nominator = nodes, evictions, nominator
        self._waiting, self._preparing = waiting, preparing
        self._writes, self._events, self._inbox = writer, events, inbox
        self._instrument, self._now = instrument, now

    @property
    def _writer(self) -> ClusterWriter:
        assert self._writes is not None, "without a cluster no Pod is evicted"
        return self._writes

    def carry_out(self, effect: Evict, profile: str) -> None:
        """Evict the victims; ``profile`` is the schedulerName that events name."""
        preemptor = effect.preemptor
        if preemptor is not None:
            self._instrument.eviction(
                preemptor.kind, len(effect.victims), effect.groups, effect.violations
            )
        # The victims of a candidate may be cached: their objects may be newer by now.
        newest = (on_node(self._nodes, victim) for victim in effect.victims)
        victims = [victim for victim in newest if victim is not None and victim.deleted is None]
        if not victims:
            return
        if preemptor is None:
            for victim in victims:
                self._delete(victim, _disruption(victim, effect), partial(_log_failure, victim))
            return
        self._clear_nominations(effect.nodes, preemptor.priority)
        where = None if effect.anywhere else effect.nodes
        self._instrument.leaving(preemptor.pods, where, victims)
        eviction = self._evictions.begin(preemptor, effect.plugin, victims)
        began = perf_counter()
        for victim in victims:
            self._preempt(effect, eviction, victim, began, profile)

    # One victim

    def _preempt(
        self, effect: Evict, eviction: Eviction, victim: Pod, began: float, profile: str
    ) -> None:
        condition = _disruption(victim, effect)
        tell = partial(self._tell, eviction.preemptor, victim, profile)
        if self._call_back(victim, effect.plugin):
            self._evictions.assume(victim, condition, self._now())
            tell(" (in kube-scheduler memory).")
            self._evictions.spare(eviction, victim)
            self._answered(eviction, began, victim, None)
            return
        self._delete(victim, condition, partial(self._answered, eviction, began, victim), tell)

    def _delete(
        self,
        victim: Pod,
        condition: Condition,
        done: Done,
        deleted: Callable[[], None] = lambda: None,
    ) -> None:
        """Give ``victim`` the condition, then delete it; does not wait.

        The Pod counts as terminating at once, unless a call fails.

        Args:
            victim: this very Pod.
            condition: see `_disruption`.
            done: told how it ended, on any thread; well where the Pod was gone before all calls.
            deleted: called before that if this deleted it.
        """
        writer = self._writer

        def marked(error: Exception | None) -> None:
            if error is None:
                writer.delete_pod(victim, finish)
            else:
                end(None if isinstance(error, NotFound) else error)

        def finish(error: Exception | None) -> None:
            if error is None:
                deleted()
            end(error)

        def end(error: Exception | None) -> None:
            if error is not None:
                self._inbox.post(EvictionFailed(victim))
            done(error)

        self._evictions.assume(victim, condition, self._now())
        writer.patch_pod_status(victim, condition, None, marked)

    def _answered(
        self, eviction: Eviction, began: float, victim: Pod, error: Exception | None
    ) -> None:
        """Nothing more is to be sent for ``victim``. Any thread."""
        preemptor = eviction.preemptor
        if error is not None:
            log.error(
                "Could not preempt Pod",
                victim=victim.key,
                preemptor=preemptor.pods[0].key,
                error=str(error),
            )
        success = eviction.answered(victim, ok=error is None)
        if success is None:
            return
        self._instrument.evicted(preemptor.kind, success=success, seconds=perf_counter() - began)
        if not success:
            self._inbox.post(ActivatePods(preemptor.pods))

    def _call_back(self, victim: Pod, plugin: str) -> bool:
        """Return an unbound victim to the queue; False if too late."""
        waiting = self._waiting.get(victim.uid)
        if waiting is not None:
            return waiting.preempt(plugin, "preempted")
        preparing = self._preparing.get(victim.uid)
        return preparing is not None and preparing.cancel(f"preempted by {plugin}")

    def _tell(self, by: Preemptor, victim: Pod, profile: str, where: str = "") -> None:
        note = f"Preempted by {by.kind} {by.uid} on node {victim.node_name}{where}"
        self._events.event(victim, by.pods[0], "Normal", "Preempted", "Preempting", note, profile)

    # Lower nominations

    def _clear_nominations(self, nodes: Iterable[str], priority: int) -> None:
        """Pods of lower priority that count on these nodes will do better to look elsewhere."""
        for node_name in nodes:
            for pod in self._nominator.nominated_pods(node_name):
                if pod.priority < priority:
                    self._writer.patch_pod_status(pod, None, "", _report(pod))


def _disruption(victim: Pod, effect: Evict) -> Condition:
    return Condition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=effect.reason,
        message=effect.message,
        observed_generation=victim.generation,
    )


def _log_failure(victim: Pod, error: Exception | None) -> None:
    if error is not None:
        log.error("Could not evict Pod", victim=victim.key, error=str(error))


def _report(pod: Pod) -> Done:
    def done(error: Exception | None) -> None:
        if error is not None and not isinstance(error, NotFound):
            log.error("Could not clear nominatedNodeName", pod=pod.key, error=str(error))

    return done
