"""Executor: evicts victims in the background; the preemptor, a Pod or a group, waits for them.

A victim gets the condition DisruptionTarget and is then deleted. A victim that waits in Permit is
rejected instead, and one in PreBind is cancelled. All API calls of a preemption are sent at once.
Who is in flight, and until when the preemptor waits, is in `bayplan.framework.evictions`. If a call
fails, the preemptor is activated at once.

Scheduling thread, except for the callbacks of the client: they change only one `Eviction`, which
has a lock, and post to the inbox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

import structlog

from bayplan.api.meta import Condition
from bayplan.api.pod import DISRUPTION_TARGET, PREEMPTED, Pod
from bayplan.cache.node_table import LiveNodeTable
from bayplan.client.errors import NotFound
from bayplan.framework.evictions import POD, POD_GROUP, Eviction, Preemptor
from bayplan.framework.handle import ClusterWriter, Done
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.room import Room, Taker
from bayplan.preemption.ranking import Candidate

log = structlog.get_logger("preemption")


def kind_of(taker: Taker) -> str:
    """The kind of preemptor that ``taker`` is."""
    return POD if taker.uid == taker.pods[0].uid else POD_GROUP


def on_node(nodes: LiveNodeTable, pod: Pod) -> Pod | None:
    """The newest version of ``pod`` on its node; None if the Pod is gone."""
    row = nodes.row(pod.node_name)
    return None if row is None else nodes.pods[row].get(pod.uid)


def evict(
    handle: InTreeHandle,
    victim: Pod,
    condition: Condition,
    done: Done,
    deleted: Callable[[], None] = lambda: None,
) -> None:
    """Give ``victim`` the condition, then delete it; does not wait.

    The Pod counts as terminating at once, unless a call fails.

    Args:
        handle: of the plugin that evicts.
        victim: this very Pod.
        condition: see `disruption`.
        done: told how it ended, on any thread; well where the Pod was gone before the first call.
        deleted: called before that if this deleted it.
    """
    writer = handle.writer
    assert writer is not None, "without a cluster no Pod is evicted"

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
            handle.eviction_failed(victim)
        done(error)

    handle.evictions.assume(victim, condition, handle.now())
    writer.patch_pod_status(victim, condition, None, marked)


def disruption(victim: Pod, reason: str, message: str) -> Condition:
    """The condition DisruptionTarget."""
    return Condition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=reason,
        message=message,
        observed_generation=victim.generation,
    )


class Executor:
    """Evictions of one profile."""

    def __init__(
        self, handle: InTreeHandle, plugin_name: str, cause: str = "a higher priority {}"
    ) -> None:
        """For the plugin of this name; ``cause`` gives the reason for a pod or a podgroup."""
        self._cause = cause
        self._handle = handle
        self._plugin_name = plugin_name
        self._instrument, self._evictions = handle.instrument, handle.evictions

    @property
    def _writer(self) -> ClusterWriter:
        writer = self._handle.writer
        assert writer is not None, "without a cluster no Pod is evicted"
        return writer

    def evict(self, pod: Pod, candidate: Candidate) -> None:
        """Evict the victims of ``candidate``, without victims that are leaving already."""
        preemptor = Preemptor(pod.uid, POD, (pod,), frozenset({candidate.node_name}))
        self._instrument.eviction(POD, len(candidate.victims), 0, candidate.violations)
        self._evict(preemptor, candidate.victims)

    def evict_for_group(self, taker: Taker, room: Room) -> None:
        """Evict the victims of ``room``, without victims that are leaving already."""
        kind, nodes = kind_of(taker), frozenset(room.nodes.values())
        self._instrument.eviction(kind, len(room.victims), room.groups, room.violations)
        preemptor = Preemptor(taker.uid, kind, taker.pods, nodes, room.anywhere)
        self._evict(preemptor, room.victims)

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
        eviction = self._evictions.begin(preemptor, self._plugin_name, victims)
        began = perf_counter()
        for victim in victims:
            self._preempt(eviction, victim, began)

    # One victim

    def _preempt(self, eviction: Eviction, victim: Pod, began: float) -> None:
        preemptor = eviction.preemptor
        condition = disruption(
            victim,
            PREEMPTED,
            f"{preemptor.pods[0].spec.scheduler_name}: preempting to accommodate "
            f"{self._cause.format(preemptor.kind)}",
        )
        if self._call_back(victim):
            self._evictions.assume(victim, condition, self._handle.now())
            self._tell(eviction, victim, " (in kube-scheduler memory).")
            self._evictions.spare(eviction, victim)
            self._answered(eviction, began, victim, None)
            return
        tell = partial(self._tell, eviction, victim)
        done = partial(self._answered, eviction, began, victim)
        evict(self._handle, victim, condition, done, tell)

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
            self._handle.activate(preemptor.pods)

    def _call_back(self, victim: Pod) -> bool:
        """Return an unbound victim to the queue; False if too late."""
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
