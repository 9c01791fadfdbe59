"""Simulate: place all pending Pods, one after the other; each sees the Pods placed before.

It runs the scheduler's attempt and commit, and its planner for groups, in the order of the queue:
that of QueueSort, or in turns where there are tenants. A Pod that waits in Permit stays on its node
and in the list of waiting Pods, so that the plugin may allow or reject it when later Pods come.

Who would be evicted for a Pod or a group is said. With ``evict`` they are gone from then on, and
who took their room has it: so all evictions together are those that all Pods together would cause.
A Pod that was placed and is then evicted for a later one counts as not placed. With ``again``, an
evicted Pod that a controller makes again, and that is in no group, waits once more, behind others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from bayplan.api.pod import Pod, PodStatus
from bayplan.api.workloads import NOT_MADE_AGAIN
from bayplan.app.assembly import Core
from bayplan.attempt.commit import Member
from bayplan.attempt.outcome import Placement, Rejection
from bayplan.cache.group_policy import Collects, Words
from bayplan.cache.kubernetes_groups import pods_of
from bayplan.cache.pod_groups import Group
from bayplan.config.points import Point
from bayplan.decide.deciding import Decision, deciding
from bayplan.decide.group import deciding_group
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.explain.explanation import (
    diagnose_fault,
    eviction,
    filter_details,
    gate_status,
    raised,
)
from bayplan.framework.status import Status
from bayplan.groups.decision import GroupDecision
from bayplan.groups.words_kubernetes import condition_text, conditions, failures
from bayplan.queue.heap import PodHeap
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.turns import TurnQueue
from bayplan.report.pods import cut_note, skip_note
from bayplan.simulation.device_claims import bind_claims
from bayplan.simulation.name_order import NameOrder

Result = dict[str, Any]


@dataclass(frozen=True)
class ResourceUsage:
    """How much of a resource all nodes together have, and how much of it is requested.

    In milli-CPU, bytes or counts.
    """

    resource: str
    allocatable: int
    requested: int


def usage(core: Core) -> list[ResourceUsage]:
    """The usage of every resource that a node offers, by name; Pods count as one, too."""
    nodes = core.world.cache.nodes
    names = {name for node in nodes for name in node.node.status.allocatable} - {"pods"}
    used = [
        ResourceUsage(name, int(nodes.allocatable(name).sum()), int(nodes.requested(name).sum()))
        for name in sorted(names)
    ]
    return [*used, ResourceUsage("pods", int(nodes.allowed_pods.sum()), int(nodes.pod_count.sum()))]


def simulate(
    core: Core,
    pods: list[Pod],
    *,
    evict: bool = False,
    again: bool = False,
    details: bool = False,
) -> list[Result]:
    """Place ``pods`` in the order of the queue; one that fits nowhere is not tried again.

    Each goes to the first by name of its best nodes. Pods that wait for their group in the queue of
    ``core`` are placed with it. With ``evict``, Pods that would be evicted are taken away for good,
    and who evicts them is placed; with ``again``, evicted Pods are tried on other nodes.

    Returns:
        For each Pod ``pod``, ``group`` (where it waits for one), ``node`` (None where it got none),
        ``message`` (why not, or what it waits for), ``best`` (all nodes as good, where one was
        chosen), ``waits`` (seconds by Permit plugin, where one makes it wait), ``victims`` (Pods
        that are evicted for it or for its group), ``evicted`` (the node that it was evicted from,
        where it was tried again), ``details``, and ``fault`` (plugin, point and node, where a
        plugin raised an exception).
    """
    if not pods:
        return []
    return _Simulation(core, pods, evict=evict, again=again, details=details).run()


def _entries(core: Core, pods: list[Pod]) -> Iterator[QueuedPod]:
    """Pods, and groups in place of theirs, by their creation, then by their order in the file."""
    groups, seen = core.world.queue.groups, set[str]()
    together: dict[str, QueuedGroup] = {}
    for place, pod in enumerate(sorted(pods, key=_created)):
        plugin, key = groups.group_of(pod)
        entry = groups.entry_of_pod(pod)
        always = plugin is not None and plugin.policy.collects is Collects.ALWAYS
        if plugin is not None and always and plugin.find(key) is not None:
            # Pods that are held back hold their group back, so they are in it, too.
            if key not in together:
                together[key] = QueuedGroup(key, pod, plugin, _created(pod))
                yield together[key]
            together[key].members[pod.uid] = QueuedPod(pod, place)
        elif entry is None or pod.uid not in entry.members or always:
            queued = QueuedPod(pod, _created(pod))
            queued.completes_group = groups.completes_group(queued)
            yield queued
        elif entry.uid not in seen:
            seen.add(entry.uid)
            entry.timestamp = _created(pod)
            yield entry


def _created(pod: Pod) -> float:
    """Seconds since the epoch, which the clock of an offline core counts, too."""
    return 0.0 if pod.created is None else pod.created.timestamp()


class _Simulation:
    def __init__(
        self, core: Core, pods: list[Pod], *, evict: bool, again: bool, details: bool
    ) -> None:
        self._core, self._pods_to_place = core, pods
        self._evict, self._tries_again, self._details = evict, again, details
        self._last = max(map(_created, pods))
        self._again: dict[str, tuple[str, Result]] = {}
        """By uid of a Pod that is tried again, where it was, and its result."""
        key, turns = core.profiles.policy.sort_key, core.profiles.policy.turns
        self._line = PodHeap(key) if turns is None else TurnQueue(key, turns)
        self._placers = core.placers
        self._order = NameOrder()
        self._on_nodes: dict[str, Result] = {}
        """By name, the results of Pods that were placed."""

    def run(self) -> list[Result]:
        """Place all; Pods that a plan leaves over get their own turn, in the order of the queue."""
        line, results = self._line, list[Result]()
        for entry in _entries(self._core, self._pods_to_place):
            line.add(entry)
        while (queued := line.pop()) is not None:
            if isinstance(queued, QueuedGroup):
                placed, left = self._place_group(queued)
                results += placed
                for pod in left:
                    line.add(QueuedPod(pod, _created(pod)))
            else:
                result = self.place(queued.pod)
                if all(result is not other for other in results):
                    results.append(result)
        return results

    def _place_group(self, entry: QueuedGroup) -> tuple[list[Result], list[Pod]]:
        """The results of the entry's Pods, and the Pods that go on singly."""
        pods = self._pods(entry)
        waits, group = self._why_it_waits(entry, pods), entry.group
        if waits is not None or group is None:
            if entry.plugin.policy.collects is Collects.UNTIL_BEGUN:
                pods = [member.pod for member in entry.members.values()]
            return [self._held(entry, pod, waits or "") for pod in pods], []
        framework = self._core.profiles[entry.profile]
        decision = self._decide_group(framework, group, pods)
        victims = decision.room.victims if decision.room is not None else ()
        first = decision
        if victims and self._take_away(entry.key, [pod.key for pod in victims]):
            decision = self._decide_group(framework, group, pods, make_room=False)
        if group.policy.words is Words.CONDITION:
            return self._told(entry, pods, decision, first), []
        more = raised(first.rejection.fault) if first.rejection is not None else Result()
        if victims:
            more["victims"] = sorted(pod.key for pod in victims)
        if decision.rejection is not None:
            sentence = decision.rejection.sentence
            return [{**self._held(entry, pod, sentence), **more} for pod in pods], []
        results = []
        for placed in decision.placed:
            results.append({"pod": placed.member.pod.key, "group": entry.key, "node": None, **more})
            self._placed(results[-1], placed.member, placed.placement)
        return results, decision.left

    def _decide_group(
        self, framework: Framework, group: Group, pods: list[Pod], *, make_room: bool = True
    ) -> GroupDecision:
        """The decision; who is placed stays."""
        with deciding_group(self._placers, framework, group, pods, make_room=make_room) as decision:
            decision.keep()
        return decision

    def _pods(self, entry: QueuedGroup) -> list[Pod]:
        if entry.plugin.policy.collects is Collects.UNTIL_BEGUN:
            return entry.pods
        pods = [m.pod for m in sorted(entry.members.values(), key=entry.plugin.order)]
        group = entry.group
        return pods_of(group, pods) if group is not None and group.is_composite else pods

    def _why_it_waits(self, entry: QueuedGroup, pods: list[Pod]) -> str | None:
        """Why the group cannot be tried; None where it can."""
        if entry.plugin.policy.gates_whole:
            profiles = self._core.profiles
            holders = (gate_status(profiles[pod.spec.scheduler_name], pod) for pod in pods)
            holder = next((status for status in holders if status is not None), None)
            return None if holder is None else f"held back by {holder.plugin}: {holder.message}"
        missing = entry.gathering()
        return None if missing is None else missing.message

    def _told(
        self, entry: QueuedGroup, pods: list[Pod], decision: GroupDecision, first: GroupDecision
    ) -> list[Result]:
        """The results of the Pods of a PodGroup of Kubernetes, in the order of the tries.

        ``first`` is the decision before anybody was taken away.
        """
        results = {pod.uid: self._held(entry, pod, "") for pod in pods}
        obj = decision.group.pod_group
        outcome: Result = {"name": entry.key if obj is None else obj.key}
        if not decision.pods:
            return [{**result, "podGroup": outcome} for result in results.values()]
        if decision.group.is_composite:
            outcome["conditions"] = conditions(decision)
        else:
            outcome["condition"] = condition_text(decision.status)
        victims = first.room.victims if first.room is not None else ()
        if evicted := sorted(pod.key for pod in victims if pod.deleted is None):
            outcome["victims"] = evicted
        for pod, rejection in failures(decision):
            results[pod.uid]["message"] = cut_note(rejection.message)
        for placed in decision.placed if decision.fits else ():
            self._placed(results[placed.member.pod.uid], placed.member, placed.placement)
        return [{**result, "podGroup": outcome} for result in results.values()]

    def _take_away(self, preemptor: str, victims: Collection[str]) -> bool:
        """Let these Pods, by their names, be gone, if they are to be evicted."""
        if self._evict:
            cache = self._core.world.cache
            for pod in [pod for pod in cache.pods() if pod.key in victims]:
                cache.remove(pod.uid)
                result = self._on_nodes.pop(pod.key, None)
                if result is not None:
                    result["message"] = f"evicted from {result['node']} for {preemptor}"
                    result["node"] = None
                    if result.pop("waits", None):
                        self._core.world.waiting.remove(pod.uid)
                if self._tries_again:
                    self._try_again(pod, {"pod": pod.key} if result is None else result)
        return self._evict

    def _try_again(self, pod: Pod, result: Result) -> None:
        """The Pod, which was evicted, waits for a node, once."""
        _, key = self._core.world.queue.groups.group_of(pod)
        owner = pod.controller[0].rpartition("/")[2]
        ours = pod.spec.scheduler_name in self._core.profiles
        if pod.uid in self._again or key or owner in NOT_MADE_AGAIN or not ours:
            return
        self._again[pod.uid] = pod.node_name, result
        without = pod.on_node("")
        without.status = PodStatus(resource_claim_statuses=pod.status.resource_claim_statuses)
        self._line.add(QueuedPod(without, self._last))

    def _held(self, entry: QueuedGroup, pod: Pod, message: str) -> Result:
        message = cut_note(message) if pod.deleted is None else skip_note(pod)
        return {"pod": pod.key, "group": entry.key, "node": None, "message": message}

    def place(self, pod: Pod) -> Result:
        """Place one Pod. The result may still change when a Permit plugin decides later."""
        was_on, result = self._again.get(pod.uid, ("", Result(pod=pod.key)))
        result.update({"node": None, **({"evicted": was_on} if was_on else {})})
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
        decision = self._decide(framework, pod)
        rejection = decision.rejection
        if rejection is not None and rejection.nominated and rejection.post_filter is not None:
            victims = eviction(rejection.post_filter).get("victims", ())
            if victims:
                result["victims"] = victims
                if self._take_away(pod.key, victims):
                    self._core.world.nominator.nominate(pod, rejection.nominated)
                    decision = self._decide(framework, pod)
        if decision.member is not None and decision.placement is not None:
            self._placed(result, decision.member, decision.placement)
        elif (rejection := decision.rejection) is not None:
            fault, message = rejection.fault, rejection.message
            if decision.placement is not None:
                nodes = self._core.world.cache.nodes
                result["best"] = self._order.names(nodes, decision.placement.best.rows)
            elif isinstance(fault, AttemptFault):
                message = diagnose_fault(framework, pod, fault).message
            result["message"] = cut_note(message)
            result.update(raised(fault))
            diagnosis = rejection.diagnosis
            if self._details and diagnosis is not None and diagnosis.pre_filter is None:
                result["details"] = filter_details(framework, diagnosis, pod)

    def _decide(self, framework: Framework, pod: Pod) -> Decision:
        """The decision; where there is a node, the Pod stays there."""
        with deciding(self._placers, framework, pod) as decision:
            decision.keep()
        return decision

    def _placed(self, result: Result, member: Member, placement: Placement) -> None:
        """The Pod counts on its node, and may have to wait there."""
        result["best"] = self._order.names(self._core.world.cache.nodes, placement.best.rows)
        result["node"] = placement.node_name
        result["message"] = ""
        self._on_nodes[member.pod.key] = result
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
            self._placers.commit.undo([member])
            del self._on_nodes[member.pod.key]
            result["node"] = None
            result["message"] = cut_note(Rejection.of_chosen_node(Point.PERMIT, verdict).message)
