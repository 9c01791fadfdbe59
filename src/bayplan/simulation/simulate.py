"""Simulate: place all pending Pods, one after the other, each seeing those before it.

It runs the scheduler's attempt and commit. A Pod that waits in Permit stays on its node and in the
list of waiting Pods, so that the plugin may allow or reject it when later Pods come.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bayplan.api.pod import Pod
from bayplan.app.assembly import Core
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit, Member
from bayplan.attempt.outcome import Rejection
from bayplan.attempt.report import cut_note, skip_note
from bayplan.config.points import Point
from bayplan.explain.explanation import diagnose_fault, gate_status, raised
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.faults import AttemptFault
from bayplan.framework.runtime import Framework
from bayplan.framework.status import Status
from bayplan.queue.active import sort_key
from bayplan.queue.queued_pod import QueuedPod
from bayplan.simulation.device_claims import bind_claims
from bayplan.simulation.name_order import NameOrder

Result = dict[str, Any]
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Usage:
    """How much of a resource all nodes together have, and how much of it is requested.

    In milli-CPU, bytes or counts.
    """

    resource: str
    allocatable: int
    requested: int


def usage(core: Core) -> list[Usage]:
    """The usage of every resource that a node offers, by name; Pods count as one, too."""
    nodes = core.world.cache.nodes
    names = {name for node in nodes for name in node.node.status.allocatable} - {"pods"}
    used = [
        Usage(name, int(nodes.allocatable(name).sum()), int(nodes.requested(name).sum()))
        for name in sorted(names)
    ]
    return [*used, Usage("pods", int(nodes.allowed_pods.sum()), int(nodes.pod_count.sum()))]


def simulate(core: Core, pods: list[Pod]) -> list[Result]:
    """Place ``pods`` in the order of the queue; one that fits nowhere is not tried again.

    Each goes to the first by name of its best nodes. Preemption is only reported: no Pod is
    evicted.

    Returns:
        For each Pod ``pod``, ``node`` (None where it got none), ``message`` (why not, or what it
        waits for), ``best`` (all nodes as good, where one was chosen), ``waits`` (seconds by
        Permit plugin, where one makes it wait) and ``fault`` (plugin, point and node, where a
        plugin raised an exception).
    """
    simulation = _Simulation(core)
    return [simulation.place(pod) for pod in _in_queue_order(core, pods)]


def _in_queue_order(core: Core, pods: list[Pod]) -> list[Pod]:
    """By QueueSort; equal Pods by their creation, then by their order in the file."""
    if not pods:
        return []
    by_age = sorted(pods, key=lambda pod: pod.created or _NEVER)
    queue_sort = core.profiles[pods[0].spec.scheduler_name].plugins.queue_sort[0]
    line = [QueuedPod(pod, now) for now, pod in enumerate(by_age)]
    return [queued.pod for queued in sorted(line, key=sort_key(queue_sort))]


class _Simulation:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._commit = Commit(core.world.cache, core.world.queue.nominator)
        self._order = NameOrder()

    def place(self, pod: Pod) -> Result:
        """Place one Pod. The result may still change when a Permit plugin decides later."""
        result: Result = {"pod": pod.key, "node": None}
        framework = self._core.profiles[pod.spec.scheduler_name]
        gate = gate_status(framework, pod)
        if gate is not None:
            result["message"] = cut_note(f"held back by {gate.plugin}: {gate.message}")
        elif pod.deleted is not None:
            result["message"] = skip_note(pod)
        else:
            self._attempt(result, framework, pod)
        return result

    def _attempt(self, result: Result, framework: Framework, pod: Pod) -> None:
        state = CycleState(dry_run=True)
        placement = attempt(framework, self._core.selector, state, pod)
        if isinstance(placement, Rejection):
            fault, message = placement.fault, placement.message
            if isinstance(fault, AttemptFault):
                message = diagnose_fault(framework, pod, fault).message
            result["message"] = cut_note(message)
            result.update(raised(fault))
            return
        result["best"] = self._order.names(self._core.world.cache.nodes, placement.best)
        committed = self._commit.run(Choice(framework, state, pod, placement.node_name))
        if isinstance(committed, Rejection):
            result["message"] = cut_note(committed.message)
            result.update(raised(committed.fault))
            return
        (member,) = committed.members
        result["node"] = placement.node_name
        result["message"] = ""
        if member.waits:
            self._wait(result, member)
        else:
            bind_claims(self._core.world.cache.objects, member)

    def _wait(self, result: Result, member: Member) -> None:
        waits = result["waits"] = dict(member.waits)
        plugins = ", ".join(f"{name} (at most {waits[name]:g} s)" for name in sorted(waits))
        result["message"] = f"waits in Permit for {plugins}"
        self._core.world.waiting.add(member.pod, waits, partial(self._decided, result, member))

    def _decided(self, result: Result, member: Member, verdict: Status, _timed_out: bool) -> None:
        """Permit plugins have let a waiting Pod go, or rejected it."""
        self._core.world.waiting.remove(member.pod.uid)
        del result["waits"]
        result["message"] = ""
        if verdict.ok:
            bind_claims(self._core.world.cache.objects, member)
        else:
            self._commit.undo([member])
            result["node"] = None
            result["message"] = cut_note(Rejection.of_chosen_node(Point.PERMIT, verdict).message)
