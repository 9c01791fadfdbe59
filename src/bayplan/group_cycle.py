"""The cycle of a group: one decision for all of its Pods, and what becomes of their bindings.

`Scheduler` comes here with a group in place of a Pod. The decision (`bayplan.decide.group`) is
made for all Pods at once. A group that does not fit goes back to the queue, and its report says
why. Pods with nodes are bound like any others; those of a group that stands or falls as a whole
meet at a `Barrier` between PreBind and Bind. How their bindings end is told to `ended`.

What happens to the Pods without a node, and at the end, depends on the group's policy:

- `Collects.UNTIL_BEGUN`: when the last binding has ended and one at least is bound, the group has
  begun. A Pod that is not bound goes singly from now on. If none is, the group backs off.
- `Collects.ALWAYS`: the other Pods are tried again at once, as a group; a Pod whose binding fails
  comes back to the queue by itself. Answers to ``podGroupCycle`` and
  ``submitPodGroupAlgorithmResult`` in kube-scheduler's ``schedule_one_podgroup.go``, which lets no
  Pods wait for each other after Permit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from bayplan.api.pod import Pod
from bayplan.apply.effects import Effects
from bayplan.attempt.outcome import Reason
from bayplan.binding.barrier import Barrier
from bayplan.binding.cycle import Binder, Binding
from bayplan.cache.cache import Cache
from bayplan.cache.group_policy import Collects, Words
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import sub_group_of
from bayplan.decide.group import deciding_group
from bayplan.engine.runtime import Framework
from bayplan.framework.evictions import Evictions
from bayplan.framework.status import Code, Status
from bayplan.groups import words_label
from bayplan.groups.decision import GroupDecision, GroupRejection
from bayplan.groups.placers import Placers
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.queue.states import QueueState
from bayplan.report.kubernetes_groups import KubernetesGroupReport
from bayplan.report.label_groups import LabelGroupReport
from bayplan.report.pods import Report

log = structlog.get_logger("groups")

GATHERING_SECONDS = 5.0
"""How long a group gathers before anybody is told that Pods are missing."""

Bindings = list[tuple[QueuedPod, Binding]]


@dataclass
class _Flight:
    """A group whose Pods are being bound."""

    entry: QueuedGroup
    framework: Framework
    decision: GroupDecision
    started: float
    bindings: dict[str, Binding] = field(default_factory=dict)
    bound: int = 0
    failure: str = ""
    rejector: str = ""


class GroupCycle:
    """Schedules groups. Scheduling thread only."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        evictions: Evictions,
        placers: Placers,
        binder: Binder,
        effects: Effects,
        report: Report,
        label_report: LabelGroupReport,
        kubernetes_report: KubernetesGroupReport,
        clock: Callable[[], float],
    ) -> None:
        self._cache, self._queue, self._evictions = cache, queue, evictions
        self._placers = placers
        self._binder = binder
        self._effects = effects
        self._report, self._label_report = report, label_report
        self._reports: Mapping[Words, LabelGroupReport | KubernetesGroupReport] = {
            Words.EVENT: label_report,
            Words.CONDITION: kubernetes_report,
        }
        self._clock = clock
        self._flights: dict[Barrier, _Flight] = {}
        self._next_look = 0.0
        self._forgotten = 0

    def schedule(self, entry: QueuedGroup, framework: Framework, started: float) -> Bindings:
        """One attempt to place one group; returns what is to be bound, nothing where it failed."""
        group, pods = entry.group, self._pods(entry)
        if group is None or self._is_short(group, pods):
            self._queue.group_rejected(entry, (), (entry.plugin.name,))
            return []
        report = self._reports[group.policy.words]
        report.begins(entry, len(pods))
        with deciding_group(self._placers, framework, group, pods, acting=True) as decision:
            self._effects.apply(framework, decision)
        self._skip(entry, framework, decision)
        if not entry.members:
            self._queue.group_placed(entry)
            return []
        if not decision.fits:
            self._take_back(entry, framework, decision, started)
            return []
        report.decided(entry, framework, decision, started)
        report.tell(entry, framework, decision)
        return self._start_bindings(entry, framework, decision, started)

    def _pods(self, entry: QueuedGroup) -> list[Pod]:
        """The Pods to decide about; counts the attempt where it is one of each member."""
        if entry.plugin.policy.collects is Collects.UNTIL_BEGUN:
            return [pod for pod in entry.pods if not self._cache.is_assumed(pod.uid)]
        for member in entry.members.values():
            member.attempts += 1
        return [m.pod for m in sorted(entry.members.values(), key=entry.plugin.order)]

    def _is_short(self, group: Group, pods: list[Pod]) -> bool:
        """Whether Pods needed by the group have gone since the group was popped."""
        if group.policy.collects is Collects.ALWAYS:
            return False
        return bool(group.short(Counter(sub_group_of(pod.shape) for pod in pods)))

    def _skip(self, entry: QueuedGroup, framework: Framework, decision: GroupDecision) -> None:
        """Skip members that are being deleted: such Pods have no decision and need no node."""
        if entry.plugin.policy.collects is Collects.UNTIL_BEGUN:
            return
        if len(decision.pods) == len(entry.members):
            return
        decided = {pod.uid for pod in decision.pods}
        uids = [uid for uid in entry.members if uid not in decided]
        for queued in self._queue.pop_members(entry, uids):
            self._report.skipped(queued.pod, framework.name)
            self._queue.done(queued.uid)

    def _take_back(
        self, entry: QueuedGroup, framework: Framework, decision: GroupDecision, started: float
    ) -> None:
        """The group goes back to the queue; say why, and nominate its Pods where room is made."""
        report = self._reports[entry.plugin.policy.words]
        report.decided(entry, framework, decision, started)
        plugins = decision.rejectors
        if decision.status.rejected and not decision.lacks_nodes:
            plugins |= {entry.plugin.name}
        leaving = None
        if decision.room is not None:
            leaving = self._evictions.eviction(decision.group.uid)
        state = self._queue.group_rejected(entry, decision.samples, plugins, leaving)
        if state is not QueueState.OUTSIDE:
            report.tell(entry, framework, decision)

    def _start_bindings(
        self, entry: QueuedGroup, framework: Framework, decision: GroupDecision, started: float
    ) -> Bindings:
        """The bindings of the Pods with nodes; all others are tried again, or wait for these."""
        barriers: dict[str, Barrier] = {}
        for unit in decision.units():
            barrier = Barrier(len(unit), self._clock() + self._patience(entry))
            self._flights[barrier] = _Flight(entry, framework, decision, started)
            barriers |= dict.fromkeys((one.member.pod.uid for one in unit), barrier)
        bindings = self._bindings(entry, decision, started, barriers)
        if entry.plugin.policy.collects is Collects.ALWAYS:
            self._queue.group_placed(entry)
        return bindings

    def _patience(self, entry: QueuedGroup) -> float:
        group = entry.group
        return (group and group.timeout) or entry.plugin.timeout

    def _bindings(
        self,
        entry: QueuedGroup,
        decision: GroupDecision,
        started_at: float,
        barriers: Mapping[str, Barrier],
    ) -> Bindings:
        placed = decision.placed
        popped = self._queue.pop_members(entry, [one.member.pod.uid for one in placed])
        counts = entry.plugin.policy.collects is Collects.UNTIL_BEGUN
        started = []
        for queued, one in zip(popped, placed, strict=True):
            queued.attempts += counts
            member, placement = one.member, one.placement
            binding = Binding(
                member.pod, member.framework, member.state, member.waits, started=started_at
            )
            binding.choice = placement.choice
            binding.barrier = barriers.get(member.pod.uid)
            if binding.barrier is not None:
                self._flights[binding.barrier].bindings[member.pod.uid] = binding
            started.append((queued, binding))
        return started

    # What becomes of the bindings

    def retries(self, binding: Binding, status: Status) -> bool:
        """Whether to try the same node again for a Pod whose group is bound already."""
        barrier = binding.barrier
        again = (
            barrier is not None
            and barrier.is_open
            and status.code is Code.ERROR
            and not binding.retried
            and self._cache.is_assumed(binding.pod.uid)
        )
        if again:
            text = "Binding a Pod of a group again"
            pod = binding.pod
            log.warning(text, pod=pod.key, node=pod.node_name, err=status.message)
            self._binder.retry(binding)
        return again

    def ended(self, binding: Binding, status: Status) -> None:
        """The binding of a Pod of a group is over, well or not."""
        assert binding.barrier is not None
        flight = self._flights[binding.barrier]
        del flight.bindings[binding.pod.uid]
        if status.ok:
            flight.bound += 1
            # The watch may have shown before this answer that the Pod has changed, or is gone.
            if (pod := self._cache.pod(binding.pod.uid)) is not None:
                self._queue.group_member_bound(pod)
        elif not flight.failure:
            flight.failure = f"{binding.pod.key}: {status.message}"
            flight.rejector = status.plugin if status.rejected and not binding.permitted else ""
            self._binder.fail_group(list(flight.bindings.values()), Status.error(flight.failure))
        if not flight.bindings:
            del self._flights[binding.barrier]
            self._close(flight)

    def _close(self, flight: _Flight) -> None:
        """Every binding has ended."""
        entry, decision = flight.entry, flight.decision
        if entry.plugin.policy.collects is Collects.ALWAYS:
            return
        if flight.bound:
            self._queue.group_ended(entry)
            self._label_report.scheduled(
                entry, flight.framework, decision, flight.bound, flight.failure, flight.started
            )
            return
        sentence = f"Failed: {flight.failure}"
        message = f"the group {entry.key} could not be bound: {flight.failure}"
        rejection = GroupRejection(sentence, message, Reason.SCHEDULER_ERROR)
        if flight.rejector:
            pods = tuple(entry.pods[:1])
            plugins = frozenset({flight.rejector})
            rejection = GroupRejection(sentence, message, plugins=plugins, pods=pods)
        failed = words_label.rejected(decision.group, entry.pods, rejection)
        self._take_back(entry, flight.framework, failed, flight.started)

    # Time

    def next_timer(self) -> float | None:
        """Seconds until `expire` has something to do; None while nothing waits."""
        deadlines = [barrier.deadline for barrier in self._flights if not barrier.is_open]
        return max(min(deadlines) - self._clock(), 0.0) if deadlines else None

    def expire(self) -> None:
        """Give up the groups that will not be ready to be bound in time; tell of missing Pods."""
        if self._flights:
            any_gone = self._cache.forgotten != self._forgotten
            self._forgotten = self._cache.forgotten
            for barrier, flight in list(self._flights.items()):
                if barrier.is_open or barrier.failure is not None:
                    continue
                if text := self._why_not_ready(barrier, flight, any_gone):
                    self._binder.fail_group(list(flight.bindings.values()), Status.error(text))
        if len(self._queue.groups) and self._clock() >= self._next_look:
            self._next_look = self._clock() + 1.0
            self._label_report.gathering(self._long_gathering())
            self._end_nominations()

    def _why_not_ready(self, barrier: Barrier, flight: _Flight, any_gone: bool) -> str:
        """Why these Pods are not going to be bound together; "" while they may be.

        ``any_gone``: whether an assumed Pod has gone since the last question.
        """
        if self._clock() >= barrier.deadline:
            return f"the group was not ready to be bound within {self._patience(flight.entry):g}s"
        if not any_gone:
            return ""
        pods = (binding.pod for binding in flight.bindings.values())
        gone = next((pod for pod in pods if not self._cache.is_assumed(pod.uid)), None)
        return "" if gone is None else f"{gone.key} was deleted before it was bound"

    def _end_nominations(self) -> None:
        """Do not keep nodes for groups that have lost Pods of their minimum."""
        nominator = self._queue.nominator
        gathering = [g for g in self._queue.groups if g.is_gathering] if len(nominator) else []
        pods = [queued.pod for entry in gathering for queued in entry.members.values()]
        nominated = [pod for pod in pods if nominator.nominated_node(pod.uid)]
        for pod in nominated:
            self._queue.end_nomination(pod)
        self._label_report.nominations_ended(nominated)

    def _long_gathering(self) -> list[tuple[QueuedGroup, str]]:
        latest = self._clock() - GATHERING_SECONDS
        groups = self._queue.groups
        gathering = (g for g in groups if g.is_gathering and g.timestamp <= latest)
        return [(entry, groups.why_gathering(entry)) for entry in gathering]
