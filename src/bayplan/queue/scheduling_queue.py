"""SchedulingQueue: Pods that wait for a node, and the time of the next attempt.

Messages of the inbox add and change Pods and bring cluster events; the scheduling cycle pops Pods
and returns those that failed. Invariants:

- A Pod is in exactly one of the states that `bayplan.queue.states` draws, and `PodStates` holds it
  there.
- Every popped Pod ends in exactly one call of `add_unschedulable_if_not_present` or `done`.
- No event is missed: an event while a Pod is in flight is replayed when the Pod returns.
- Only the scheduling thread uses it. Nothing blocks: `pop` returns None if no Pod is ready, and
  `next_timer` says how long the caller may sleep before it must call `flush`.

Answers to kube-scheduler's ``pkg/scheduler/backend/queue``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import structlog

from bayplan.support import logs
from bayplan.api.pod import Pod
from bayplan.cache.group_policy import Collects
from bayplan.cache.queued_pods import QueueListener
from bayplan.cache.subscription import Subscription
from bayplan.engine.faults import PLUGIN_TIMEOUT
from bayplan.framework.cluster_events import ClusterEvent
from bayplan.framework.room import Leaving
from bayplan.framework.status import Status
from bayplan.queue import update_events
from bayplan.queue.groups import QueuedGroups
from bayplan.queue.hints import QueueingStrategy
from bayplan.queue.holds import Holds, timeout_of
from bayplan.queue.in_flight import Flight, SeenEvent
from bayplan.queue.nominator import Nominator
from bayplan.queue.pod_states import PodStates
from bayplan.queue.policy import NO_POLICY, QueuePolicy
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import GROUP_MOVES, GroupMove, MemberEvent, QueueState
from bayplan.queue.unschedulable import WaitKey
from bayplan.telemetry.instrument import Instrument

log = structlog.get_logger("queue")

LEFTOVER_PERIOD = 30.0
"""Seconds between two looks for Pods that have been unschedulable for too long."""


class SchedulingQueue:
    """Pods that wait for a node.

    Attributes:
        nominator: Pods that are nominated to nodes.
        groups: Pods that wait to be placed together.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        policy: QueuePolicy = NO_POLICY,
        *,
        nominator: Nominator | None = None,
        instrument: Instrument | None = None,
        group_of: Callable[[Pod], str] = lambda _: "",
    ) -> None:
        """An empty queue.

        Args:
            clock: monotonic seconds.
            policy: how Pods are ordered, held back and woken; see `adopt`.
            nominator: nominated Pods, where plugins that exist before the queue see them, too.
            instrument: gets moves and rejections.
            group_of: the key of a Pod's group; "" for none.
        """
        self._settings = policy.settings
        self._clock = clock
        self._hints = policy.hints
        self._holds = Holds(clock)
        self._gates = policy.pre_enqueue
        self.groups = QueuedGroups(policy.groups, group_of)
        self._states = PodStates(
            policy.sort_key,
            clock,
            self._settings,
            instrument or Instrument(),
            self._wait_keys,
        )
        self._next_leftover = clock() + LEFTOVER_PERIOD
        self.nominator = nominator if nominator is not None else Nominator()

    def adopt(self, policy: QueuePolicy) -> None:
        """Use this policy from now on: Pods are reordered, gated and tried again by it.

        Who waits, waits for plugins of the previous policy; Pods in flight come back to this one.
        """
        self._settings, self._hints = policy.settings, policy.hints
        self._holds.clear()
        self._gates = policy.pre_enqueue
        self._states.reorder(policy.sort_key, policy.turns, policy.settings)
        event = update_events.CONFIGURATION_RELOADED
        members = [m for group in self.groups for m in self._dissolve(group)]
        self.groups.adopt(policy.groups)
        for queued in members:
            self._let_in(queued, QueueState.ACTIVE, event.label)
        for queued in (*self._states.gated, *self._states.unschedulable):
            self._requeue(queued, QueueingStrategy.AFTER_BACKOFF, event.label)
        for queued in (*self._states.active, *self._states.backoff):
            self._ask_gate(queued)
            if queued.gating_plugin:
                self._states.move(queued, QueueState.GATED, event.label)
            elif self.groups.waits_with_group(queued):
                self._enter_group(queued, event.label)
        self._states.in_flight.record(event, None, None)

    # The scheduling cycle

    def pop(self) -> QueuedPod | None:
        """The next Pod to try, from now on in flight; None when no Pod is ready.

        While no Pod is active, a rejected one is taken before its backoff has ended. A Pod that has
        become ready by itself waits with its group instead if that has lost its nodes meanwhile.
        """
        while (queued := self._states.pop(update_events.POP_FROM_BACKOFF_Q)) is not None:
            if not self.groups.waits_with_group(queued):
                queued.attempts += 1
                return queued
            self._states.rejected(queued)
            self._enter_group(queued, update_events.ASSIGNED_POD_DELETE.label)
        return None

    def done(self, uid: str) -> None:
        """The Pod in flight needs nothing more from the queue; unknown ones are ignored."""
        flight = self._states.in_flight.get(uid)
        if flight is not None:
            self._states.leave(flight.queued)

    def add_unschedulable_if_not_present(
        self,
        queued: QueuedPod,
        unschedulable_plugins: Iterable[str] = (),
        pending_plugins: Iterable[str] = (),
        *,
        full_backoff: bool = False,
    ) -> QueueState:
        """The attempt of a Pod in flight failed: take it back.

        No plugins at all mean that the attempt ended in an error. ``queued.pod`` is the newest
        version of the Pod afterwards. With ``full_backoff`` it is not popped before its backoff
        ends.

        Returns:
            Where the Pod is now; OUTSIDE if it was deleted or bound by another scheduler meanwhile:
            then there is nothing left to write about it.

        Raises:
            LookupError: the Pod is not in flight.
        """
        flight = self._states.in_flight.get(queued.uid)
        if flight is None:
            raise LookupError(f"{queued} is not in flight")
        if flight.latest is None:
            self._states.leave(queued)
            return queued.state
        if queued.pod is not flight.latest:
            queued.pod = flight.latest
            self._states.changed(queued)
        queued.attempt_failed(
            self._clock(), unschedulable_plugins, pending_plugins, full_backoff=full_backoff
        )
        self._states.rejected(queued)
        strategy = self._strategy_after(flight)
        self._requeue(queued, strategy, update_events.SCHEDULE_ATTEMPT_FAILURE)
        return queued.state

    def _strategy_after(self, flight: Flight) -> QueueingStrategy:
        """The strongest strategy for the events during the Pod's attempt."""
        queued = flight.queued
        if not queued.rejectors or self._states.in_flight.missed_any(flight):
            return QueueingStrategy.AFTER_BACKOFF
        strongest = QueueingStrategy.SKIP
        for seen in self._states.in_flight.events_since_pop(flight):
            strategy = self._hints.strategy(queued, *seen)
            if strategy is QueueingStrategy.IMMEDIATELY:
                return strategy
            if strategy is QueueingStrategy.AFTER_BACKOFF:
                strongest = strategy
                if not queued.pending_plugins:
                    break
        return strongest

    # Changes of Pods that are not assigned

    def add(self, pod: Pod) -> None:
        """A Pod without a node has appeared; one that is there already is updated."""
        queued = self._states.pods.get(pod.uid)
        if queued is None:
            self._enter(pod)
        else:
            self.update(queued.pod, pod)

    def update(self, old: Pod, new: Pod) -> None:
        """A Pod without a node has changed; an unknown one is added."""
        if old.uid != new.uid:
            self.delete(old)
            self.add(new)
            return
        flight = self._states.in_flight.get(new.uid)
        if flight is not None:
            flight.latest = new
            flight.own += (
                SeenEvent(e, old, new) for e in update_events.pod_update_events(old, new)
            )
            return
        queued = self._states.pods.get(new.uid)
        if queued is None:
            self._enter(new)
        else:
            self._update_queued(queued, old, new)
            if (why := timeout_of(new)) and not timeout_of(old):
                self.hold(new, why)
        nominated = old.status.nominated_node_name
        if nominated not in ("", new.status.nominated_node_name):
            self._nomination_ended(old, nominated)

    def _enter(self, pod: Pod) -> None:
        self.nominator.nominate(pod)
        if why := timeout_of(pod):
            self._holds.add(pod, why)
        event = update_events.UNSCHEDULED_POD_ADD.label
        self._let_in(QueuedPod(pod, self._clock()), QueueState.ACTIVE, event)

    def _update_queued(self, queued: QueuedPod, old: Pod, new: Pod) -> None:
        if queued.state is QueueState.GROUPED:
            self._update_member(queued, old, new)
            return
        self._replace(queued, new)
        if queued.state is QueueState.ACTIVE:
            self._states.active.update(queued)
        elif queued.state is QueueState.BACKOFF:
            self._states.backoff.update(queued)
        elif queued.gating_plugin == PLUGIN_TIMEOUT and self._holds.of(new) is None:
            self._requeue(queued, QueueingStrategy.AFTER_BACKOFF, PLUGIN_TIMEOUT)
        else:
            for event in update_events.pod_update_events(old, new):
                if self._wake(queued, event, old, new):
                    break

    def hold(self, pod: Pod, reason: str) -> None:
        """Hold a Pod after a plugin did not return, and Pods like it; see `Holds`."""
        self._holds.add(pod, reason)
        for queued in list(self._states.pods.values()):
            if isinstance(queued, QueuedGroup) or self._holds.of(queued.pod) is None:
                continue
            if queued.state is QueueState.GROUPED:
                self._leave_group(queued)
            if queued.state is not QueueState.IN_FLIGHT:
                self._ask_gate(queued)
                self._states.move(queued, QueueState.GATED, PLUGIN_TIMEOUT)
                self._gate_group(queued)

    def _replace(self, queued: QueuedPod, pod: Pod) -> None:
        self.nominator.update(queued.pod, pod)
        queued.pod = pod
        self._states.changed(queued)

    def delete(self, pod: Pod, *, bound: bool = False) -> None:
        """The Pod was deleted, or ``bound`` by any scheduler: it must not be tried any more.

        One in flight stays so until it is done; only then it is gone. A nomination that ends by
        deletion lets Pods of the same or a lower priority try again.
        """
        nominated = self.nominator.nominated_node(pod.uid) or pod.status.nominated_node_name
        self.nominator.remove(pod.uid)
        queued = self._states.pods.get(pod.uid)
        flight = self._states.in_flight.get(pod.uid)
        if flight is not None:
            flight.latest = None
            return
        if queued is not None:
            self._leave(queued)
        if bound:
            return
        if nominated:
            self._nomination_ended(pod, nominated)
        self.move_all(update_events.UNSCHEDULED_POD_DELETE, pod, None)

    def end_nomination(self, pod: Pod) -> None:
        """No node is kept for the nominated ``pod`` any more.

        Others are woken at once: the API server shows nothing where it never got the nomination.
        """
        node_name = self.nominator.nominated_node(pod.uid)
        self.nominator.remove(pod.uid)
        self._nomination_ended(pod, node_name)

    def _nomination_ended(self, pod: Pod, node_name: str) -> None:
        """Wake Pods rejected by the nominated ``pod``, as if a Pod had left the node."""
        self.move_all(
            update_events.ASSIGNED_POD_DELETE,
            pod.on_node(node_name),
            None,
            lambda other: other.pod.priority <= pod.priority,
        )

    # Cluster events

    def move_all(
        self,
        event: ClusterEvent,
        old: Any = None,
        new: Any = None,
        precheck: Callable[[QueuedPod], bool] | None = None,
    ) -> None:
        """Something has changed in the cluster: wake the Pods whose rejectors want to try again.

        ``precheck`` restricts the waiting Pods; all Pods in flight get the event.
        """
        interest = self._hints.interest(event)
        if not interest.hints and not event.wildcard:
            return
        gated, unschedulable = self._states.gated, self._states.unschedulable
        if event.wildcard:
            pods = [*gated, *unschedulable]
        else:
            pods = []
            if gated:
                keys = self._hints.interest(event, gated=True).concerned(old, new)
                pods += gated.waiting_for(keys)
            if unschedulable:
                pods += unschedulable.waiting_for(interest.concerned(old, new))
        if precheck is not None:
            pods = list(filter(precheck, pods))
        for queued, strategy in self._hints.woken(event, old, new, pods):
            self._requeue(queued, strategy, event.label)
        self._states.in_flight.record(event, old, new)

    def assigned_pod_added(self, pod: Pod) -> None:
        """A Pod was bound, by any scheduler."""
        self.group_member_bound(pod)
        self.move_all(update_events.ASSIGNED_POD_ADD, None, pod)

    def assigned_pod_updated(self, old: Pod, new: Pod) -> None:
        """A Pod that has a node has changed."""
        if old.deleted is not new.deleted or old.labels is not new.labels:
            self.group_member_bound(new)
        for event in update_events.pod_update_events(old, new):
            self.move_all(event, old, new)

    def assigned_pod_deleted(self, pod: Pod) -> None:
        """A Pod has left its node, or an assumed Pod was not bound.

        A group that waits for several Pods to leave does not care for each of them, only for the
        last.
        """
        self.groups.pod_unbound(pod)
        self.move_all(
            update_events.ASSIGNED_POD_DELETE,
            pod,
            None,
            lambda other: other.leaving is None or not other.leaving.continues_after(pod),
        )

    def activate(self, pods: Iterable[Pod]) -> None:
        """Try these Pods at once, without backoff; one in flight, as soon as it returns.

        One that waits with its group stands for the whole of it.
        """
        for pod in pods:
            queued = self._states.pods.get(pod.uid)
            if queued is not None and queued.state is QueueState.GROUPED:
                queued = self.groups.entry_of_pod(queued.pod)
            if queued is None or queued.state is QueueState.ACTIVE:
                continue
            flight = self._states.in_flight.get(queued.uid)
            if flight is not None:
                flight.own.append(SeenEvent(update_events.FORCE_ACTIVATE, None, pod))
            else:
                self._let_in(queued, QueueState.ACTIVE, update_events.FORCE_ACTIVATE.label)

    # Time

    def next_timer(self) -> float | None:
        """Seconds until `flush` has something to do; None while nothing waits for time."""
        due = []
        completion = self._states.backoff.next_completion()
        if completion is not None:
            due.append(completion)
        oldest = self._states.unschedulable.oldest()
        if oldest is not None:
            due.append(max(self._next_leftover, self._leftover_time(oldest)))
        if self._states.gated:
            due.append(self._next_leftover)
        return max(min(due) - self._clock(), 0.0) if due else None

    def flush(self) -> None:
        """Run expired timers."""
        self.flush_backoff_completed()
        if self._clock() >= self._next_leftover:
            self.flush_unschedulable_leftover()
            self._next_leftover = self._clock() + LEFTOVER_PERIOD

    def flush_backoff_completed(self) -> None:
        """Activate the Pods whose backoff has ended."""
        for queued in self._states.backoff.pop_completed():
            self._let_in(queued, QueueState.ACTIVE, update_events.BACKOFF_COMPLETE)

    def flush_unschedulable_leftover(self) -> None:
        """Wake the Pods that have been unschedulable for too long, and ask gated ones again."""
        now = self._clock()
        while (oldest := self._states.unschedulable.oldest()) and now >= self._leftover_time(
            oldest
        ):
            self._flush(oldest, now)
        for queued in [q for q in self._states.gated if now >= self._leftover_time(q)]:
            self._flush(queued, now)

    def _flush(self, queued: QueuedPod, now: float) -> None:
        queued.flushed = now
        queued.was_flushed_from_unschedulable = True
        self._wake(queued, update_events.UNSCHEDULABLE_TIMEOUT, None, None)

    def _leftover_time(self, queued: QueuedPod) -> float:
        since = queued.timestamp if queued.flushed is None else queued.flushed
        return since + self._settings.max_unschedulable

    # Moves

    def _wait_keys(self, queued: QueuedPod, plugins: Iterable[str]) -> Iterable[WaitKey]:
        return self._hints.wait_keys(queued, plugins)

    def _wake(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> bool:
        """Requeue a waiting Pod if the event is worth an attempt; False if nothing follows."""
        strategy = self._hints.strategy(queued, event, old, new)
        if strategy is QueueingStrategy.SKIP:
            return False
        self._requeue(queued, strategy, event.label)
        return queued.state is not QueueState.GATED

    def _requeue(self, queued: QueuedPod, strategy: QueueingStrategy, event: str) -> None:
        if strategy is QueueingStrategy.SKIP and not self.groups.waits_with_group(queued):
            self._states.move(queued, QueueState.UNSCHEDULABLE, event)
        elif strategy is QueueingStrategy.AFTER_BACKOFF and self._states.backoff.is_backing_off(
            queued
        ):
            self._let_in(queued, QueueState.BACKOFF, event)
        else:
            self._let_in(queued, QueueState.ACTIVE, event)

    def _let_in(self, queued: QueuedPod, state: QueueState, event: str) -> QueueState:
        """Move the Pod to ``state`` unless a PreEnqueue plugin gates it; returns the state.

        A Pod that comes from backoff has been asked about on the way in.
        """
        if queued.state is not QueueState.BACKOFF:
            self._ask_gate(queued)
        if queued.gating_plugin:
            state = QueueState.GATED
            queued.was_flushed_from_unschedulable = False
            self._gate_group(queued)
        elif self.groups.waits_with_group(queued) and not (
            state is QueueState.BACKOFF and self._backs_off_alone(queued)
        ):
            self._enter_group(queued, event)
            return queued.state
        queued.completes_group = self.groups.completes_group(queued)
        if state is QueueState.ACTIVE and queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._clock()
        self._states.move(queued, state, event)
        return state

    def _backs_off_alone(self, queued: QueuedPod) -> bool:
        """Whether a Pod of a group backs off by itself after an error: others wait without one.

        They are tried meanwhile, and that must not bring this Pod back before its backoff ends.
        Where no others wait, or theirs failed, too, the entry of the group backs off. One that is
        in flight takes its Pods back first.
        """
        entry = self.groups.entry_of_pod(queued.pod)
        if entry is None or entry.state is QueueState.IN_FLIGHT or queued.rejectors:
            return False
        return entry.state is not QueueState.BACKOFF or bool(entry.rejectors)

    def _ask_gate(self, queued: QueuedPod) -> None:
        if isinstance(queued, QueuedGroup):
            holder = queued.gathering()
            if holder is None and queued.leaving is not None:
                holder = queued.leaving.hold()
        else:
            holder = self._holder(queued)
        plugin, reason = ("", "") if holder is None else (holder.plugin, holder.message)
        if logs.enabled(2) and (plugin, reason) != (queued.gating_plugin, queued.gating_reason):
            text = "Pod is held by a PreEnqueue plugin" if plugin else "Pod is held no longer"
            log.info(text, v=2, pod=queued.pod.key, plugin=plugin, reason=reason)
        self._states.gate(queued, plugin)
        queued.gating_reason = reason

    def _holder(self, queued: QueuedPod) -> Status | None:
        """The rejection of the first PreEnqueue plugin that gates the Pod; None if all accept.

        `Holds` come before the plugins, and then the one that holds the Pod already: most often it
        still does. A status of Error holds the Pod like a rejection.
        """
        held = self._holds.of(queued.pod)
        if held is not None:
            return held
        gates = self._gates.get(queued.profile, ())
        if queued.gating_plugin:
            gates = sorted(gates, key=lambda gate: gate[0] != queued.gating_plugin)
        for name, pre_enqueue in gates:
            status = pre_enqueue(queued.pod)
            if status is not None and not status.ok:
                return status.by(name)
        return None

    # Groups

    def _enter_group(self, queued: QueuedPod, event: str) -> None:
        """The Pod waits with its group; the group may be complete now."""
        self._states.move(queued, QueueState.GROUPED, event)
        entry = self.groups.add_member(queued, self._clock())
        if entry.state is QueueState.OUTSIDE and self.groups.has_begun(entry.key):
            self._gather_singles(entry, event)
        self._move_group(entry, MemberEvent.CAME, queued, event)

    def _gather_singles(self, entry: QueuedGroup, event: str) -> None:
        """Single Pods join their sub-group again after its last Pod with a node is gone."""
        states = self._states
        for queued in (*states.active, *states.backoff, *states.unschedulable):
            mine = self.groups.group_of(queued.pod)[1] == entry.key
            if mine and self.groups.waits_with_group(queued):
                states.move(queued, QueueState.GROUPED, event)
                self.groups.add_member(queued, self._clock())

    def ungroup(self, uids: Iterable[str]) -> list[QueuedPod]:
        """Take Pods out of their groups, before a change of the groups.

        Returns:
            Those that wait with a group, or hold one back; they are for `regroup`.
        """
        pods = [q for uid in uids if (q := self._states.pods.get(uid)) is not None]
        pods = [q for q in pods if q.state in (QueueState.GROUPED, QueueState.GATED)]
        for queued in pods:
            self._leave_group(queued)
        return pods

    def regroup(self, pods: Iterable[QueuedPod]) -> None:
        """Put Pods in their groups after a change of the groups."""
        event = update_events.UNSCHEDULED_POD_ADD.label
        for queued in pods:
            if queued.state is QueueState.GATED:
                self._gate_group(queued)
            else:
                self._let_in(queued, QueueState.ACTIVE, event)

    def _gate_group(self, queued: QueuedPod) -> None:
        """The Pod is gated; gate its group if the policy says so."""
        status = Status.unresolvable(queued.gating_reason).by(queued.gating_plugin)
        entry = self.groups.gate_member(queued, status)
        if entry is not None:
            event = update_events.UNSCHEDULED_POD_ADD.label
            self._move_group(entry, MemberEvent.GATED, queued, event)

    def _update_member(self, queued: QueuedPod, old: Pod, new: Pod) -> None:
        """A Pod of a group has changed, and may belong to another group now."""
        entry = self.groups.entry_of_pod(old)
        if self.groups.entry_of_pod(new) is not entry:
            self._leave_group(queued)
            entry = None
        self._replace(queued, new)
        # Nothing can hold a Pod back later where even one that is held waits with its group.
        if entry is not None and (
            entry.plugin.policy.collects is Collects.ALWAYS or self._holder(queued) is None
        ):
            entry.add_member(queued)
            entry.pod = new if entry.pod.uid == new.uid else entry.pod
            self._move_group(entry, MemberEvent.WENT, queued, "PodUpdate")
        else:
            self._leave_group(queued)
            self._let_in(queued, QueueState.ACTIVE, update_events.UNSCHEDULED_POD_ADD.label)
            entry = self.groups.entry_of_pod(new)
        if entry is not None and entry.state is QueueState.UNSCHEDULABLE:
            for change in update_events.pod_update_events(old, new):
                if self._wake(entry, change, old, new):
                    break

    def _leave(self, queued: QueuedPod) -> None:
        self._states.leave(queued)
        self._leave_group(queued)

    def _leave_group(self, queued: QueuedPod) -> None:
        """The Pod no longer waits with its group; the group may be incomplete now."""
        entry = self.groups.remove_member(queued)
        if entry is not None and entry.members:
            self._move_group(entry, MemberEvent.WENT, queued, "PodDelete")
        elif entry is not None:
            self._dissolve(entry)

    def _move_group(
        self, entry: QueuedGroup, happened: MemberEvent, member: QueuedPod, event: str
    ) -> None:
        """The group waits elsewhere, or gathers again, after what happened to a member."""
        move = GROUP_MOVES[happened][entry.state]
        if move is GroupMove.LET_IN:
            waits = entry.attempts and self._states.backoff.is_backing_off(entry)
            self._let_in(entry, QueueState.BACKOFF if waits else QueueState.ACTIVE, event)
        elif move is GroupMove.RETRY:
            # A Pod whose binding failed held room when others of its shape were rejected.
            held_room = member.consecutive_errors_count > 0
            if held_room or not entry.has_rejected(member.pod):
                self._requeue(entry, QueueingStrategy.AFTER_BACKOFF, event)
        elif move is GroupMove.ASK:
            self._ask_gate(entry)
            if entry.gating_plugin:
                self._states.move(entry, QueueState.GATED, event)

    def _dissolve(self, entry: QueuedGroup) -> list[QueuedPod]:
        """Remove the members, and the group's entry unless in flight; returns the members."""
        members = [m for uid in list(entry.members) if (m := entry.drop_member(uid)) is not None]
        if entry.state is not QueueState.IN_FLIGHT:
            self._states.leave(entry)
            self.groups.remove_entry(entry)
        return members

    def pop_members(self, entry: QueuedGroup, uids: Iterable[str]) -> list[QueuedPod]:
        """These Pods of a group in flight are in flight, too, from now on."""
        popped = [member for uid in uids if (member := entry.drop_member(uid)) is not None]
        now = self._clock()
        for queued in popped:
            if queued.initial_attempt_timestamp is None:
                queued.initial_attempt_timestamp = entry.initial_attempt_timestamp or now
            self._states.pop_grouped(queued)
        return popped

    def group_member_bound(self, pod: Pod) -> None:
        """A Pod of a group got a node: the group has begun, and other members wait singly."""
        if self.groups.pod_bound(pod):
            entry = self.groups.entry_of_pod(pod)
            if (
                entry is None
                or entry.plugin.policy.collects is Collects.ALWAYS
                or entry.state is QueueState.IN_FLIGHT
            ):
                return
            waits = self.groups.waits_with_group
            for queued in [m for m in entry.members.values() if not waits(m)]:
                self._leave_group(queued)
                self._let_in(queued, QueueState.ACTIVE, update_events.ASSIGNED_POD_ADD.label)

    def group_ended(self, entry: QueuedGroup) -> None:
        """Every Pod of a group in flight has come back; at least one is bound, or none is left."""
        self._states.leave(entry)
        self.groups.remove_entry(entry)
        for queued in list(entry.members.values()):
            self._let_in(queued, QueueState.ACTIVE, update_events.ASSIGNED_POD_ADD.label)

    def group_placed(self, entry: QueuedGroup) -> None:
        """Some Pods of a group in flight were placed: the others are tried again at once."""
        if not entry.members:
            self._states.leave(entry)
            self.groups.remove_entry(entry)
            return
        entry.pod = next(iter(entry.members.values())).pod
        entry.unschedulable_count = entry.consecutive_errors_count = 0
        entry.unschedulable_plugins = entry.pending_plugins = frozenset()
        entry.backoff_expiration = entry.leaving = None
        self._let_in(entry, QueueState.ACTIVE, update_events.SCHEDULE_ATTEMPT_FAILURE)

    def group_rejected(
        self,
        entry: QueuedGroup,
        pods: Sequence[Pod],
        plugins: Iterable[str],
        leaving: Leaving | None = None,
    ) -> QueueState:
        """A group in flight cannot be placed, or could not be bound: it is taken back.

        Args:
            entry: the group.
            pods: those that were rejected, one of each shape.
            plugins: that rejected them; none mean an error.
            leaving: the Pods that were evicted for it.

        Returns:
            Where it is now; OUTSIDE if there is no such entry any more.
        """
        plugin, _ = self.groups.group_of(entry.pod)
        stays = any(self.groups.waits_with_group(member) for member in entry.members.values())
        if plugin is not entry.plugin or not stays:
            # The group has begun meanwhile, or a reload has another plugin or none place it.
            self.group_ended(entry)
            return QueueState.OUTSIDE
        flight = self._states.in_flight.get(entry.uid)
        assert flight is not None
        flight.latest = pods[0] if pods else next(iter(entry.members.values())).pod
        entry.also_rejected = tuple(pods[1:])
        entry.leaving = leaving
        state = self.add_unschedulable_if_not_present(
            entry, plugins, full_backoff=entry.least_backoff > 0
        )
        if state is not QueueState.GATED and entry.gathering() is not None:
            self._ask_gate(entry)
            self._states.move(entry, QueueState.GATED, update_events.SCHEDULE_ATTEMPT_FAILURE)
        return entry.state

    # Looking in

    def listen(self, listener: QueueListener) -> Subscription:
        """See `bayplan.cache.queued_pods.QueuedPods`."""
        return self._states.listeners.add(listener)

    def __contains__(self, uid: str) -> bool:
        return uid in self._states.pods

    def get(self, uid: str) -> QueuedPod | None:
        """The Pod, wherever it is."""
        return self._states.pods.get(uid)

    def now(self) -> float:
        """The time by the queue's clock."""
        return self._clock()

    def backoff_left(self, queued: QueuedPod) -> float:
        """Seconds until the backoff of a Pod ends; 0 where there is none."""
        return max(self._states.backoff.expiration(queued) - self._clock(), 0.0)

    def waiting_pods(self) -> Iterator[Pod]:
        """Every Pod of the queue, including Pods in flight."""
        return (q.pod for q in self._states.pods.values() if not isinstance(q, QueuedGroup))

    def pending_pods(self) -> dict[QueueState, list[QueuedPod]]:
        """All Pods by state, those in flight included; for the debugger and explanations."""
        return {state: list(part) for state, part in self._states.parts.items()}

    def entity_counts(self) -> dict[tuple[str, ...], int]:
        """The metric scheduler_queued_entities by queue and type; any thread may ask."""
        groups = self.groups.counts()
        return {
            (state, kind): count
            for state, entries in self._states.counts().items()
            if state != QueueState.GROUPED
            for kind, count in (
                ("pod", max(entries - groups.get(state, 0), 0)),
                ("podgroup", groups.get(state, 0)),
            )
        }

    def counts(self) -> dict[str, int]:
        """The metric scheduler_pending_pods by its label ``queue``; any thread may ask.

        Pods of a group count where its entry is; as ``pending`` while the group is tried without
        them, as ``incomplete`` while it has no object.
        """
        entities = self.entity_counts().items()
        counts = {queue: count for (queue, kind), count in entities if kind == "pod"}
        counts |= {"pending": 0, "incomplete": 0}
        for entry in self.groups:
            if entry.state is QueueState.IN_FLIGHT:
                queue = "pending"
            else:
                queue = "incomplete" if entry.group is None else str(entry.state)
            counts[queue] += len(entry.members)
        return counts

    def in_flight_events(self) -> dict[str, int]:
        """The metric scheduler_inflight_events by its label ``event``; any thread may ask."""
        return self._states.in_flight.event_counts()

    def rejected_by(self) -> dict[str, int]:
        """How many unschedulable Pods each plugin has rejected; any thread may ask."""
        return self._states.unschedulable.counts()

    def held(self) -> Iterable[QueuedPod]:
        """The Pods and groups that wait in PreEnqueue."""
        return self._states.gated

    def gated_by(self) -> dict[str, int]:
        """How many Pods each PreEnqueue plugin holds; any thread may ask."""
        return self._states.gated.counts()
