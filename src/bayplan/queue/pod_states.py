"""PodStates: the state of every Pod in the queue. All moves happen here.

A Pod is in it once, by its uid. ``queued.state`` always agrees with the part of the queue
that holds the Pod, and only the moves of `bayplan.queue.states` are possible. Metrics are counted
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from bayplan.cache.queued_pods import QueueListener
from bayplan.cache.subscription import Subscribers
from bayplan.framework.turns import Turns
from bayplan.queue.backoff import BackoffQueue
from bayplan.queue.heap import Key, PodHeap
from bayplan.queue.in_flight import InFlightPods
from bayplan.queue.policy import QueueSettings
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import MOVES, QueueState
from bayplan.queue.turns import TurnQueue
from bayplan.queue.unschedulable import (
    UnschedulablePods,
    WaitKeys,
    by_plugin,
)
from bayplan.telemetry.instrument import Instrument


class Part(Protocol):
    """What holds the Pods of one state."""

    def add(self, queued: QueuedPod) -> None:
        """Put a Pod in."""

    def discard(self, queued: QueuedPod) -> bool:
        """Take the Pod out; whether it was in."""

    def __iter__(self) -> Iterator[QueuedPod]:
        """All Pods in it."""

    def __len__(self) -> int:
        """How many."""


class PodStates:
    """All Pods of the queue, each in its state.

    Attributes:
        pods: by uid.
        active, backoff, unschedulable, gated, grouped, in_flight: the parts. Read them; Pods get in
            and out by `move`, `pop` and `leave`.
        listeners: are called when a Pod enters or leaves.
    """

    def __init__(
        self,
        sort_key: Key,
        clock: Callable[[], float],
        settings: QueueSettings,
        instrument: Instrument,
        wait_keys: WaitKeys = by_plugin,
    ) -> None:
        self.pods: dict[str, QueuedPod] = {}
        self.active: PodHeap | TurnQueue = PodHeap(sort_key)
        self.backoff = BackoffQueue(clock, settings.initial_backoff, settings.max_backoff, sort_key)
        self.unschedulable = UnschedulablePods(lambda queued: queued.rejectors, wait_keys)
        self.gated = UnschedulablePods(lambda queued: (queued.gating_plugin,), wait_keys)
        self.grouped = UnschedulablePods(lambda _: ())  # the group waits for plugins, not its Pods
        self.in_flight = InFlightPods()
        self.parts: dict[QueueState, Part] = {
            QueueState.ACTIVE: self.active,
            QueueState.BACKOFF: self.backoff,
            QueueState.UNSCHEDULABLE: self.unschedulable,
            QueueState.GATED: self.gated,
            QueueState.GROUPED: self.grouped,
            QueueState.IN_FLIGHT: self.in_flight,
        }
        self._instrument = instrument
        self.listeners: Subscribers[QueueListener] = Subscribers()

    def reorder(self, sort_key: Key, turns: Turns | None, settings: QueueSettings) -> None:
        """Order Pods by this key, and let them back off by these times, from now on.

        With ``turns``, tenants take turns.
        """
        pods = list(self.active)
        self.active = (
            PodHeap(sort_key) if turns is None else TurnQueue(sort_key, turns, self.backoff)
        )
        self.backoff.compare(wanted=turns is not None)
        self.parts[QueueState.ACTIVE] = self.active
        for queued in pods:
            self.active.add(queued)
        self.backoff.reorder(settings.initial_backoff, settings.max_backoff, sort_key)

    def move(self, queued: QueuedPod, to: QueueState, event: str) -> None:
        """The Pod goes to another state, or to its first one, because of ``event``."""
        came_from = queued.state
        assert to in MOVES[came_from], f"{queued} cannot go to {to.value}"
        if came_from is QueueState.OUTSIDE:
            self.pods[queued.uid] = queued
            self.changed(queued)
        else:
            self.parts[came_from].discard(queued)
        queued.state = to
        self.parts[to].add(queued)
        if to is not came_from:
            self._entered(queued, to, event)

    def _entered(self, queued: QueuedPod, state: QueueState, event: str) -> None:
        if isinstance(queued, QueuedGroup):
            self._instrument.incoming(state.label, event, queued.pod, len(queued.members))
        elif state is not QueueState.GROUPED:
            self._instrument.incoming(state.label, event, queued.pod)

    def changed(self, queued: QueuedPod) -> None:
        """The Pod is new, or another version of the one that is there.

        Not so for the entry of a group: its Pod only stands for those that wait with it.
        """
        if self.listeners and not isinstance(queued, QueuedGroup):
            for listener in self.listeners:
                listener.pod_waits(queued.pod)

    def pop(self, early_event: str) -> QueuedPod | None:
        """The first active Pod, else the first that backs off after a rejection, takes off.

        Or one that backs off comes before the first one, where tenants take turns. It passes
        through the active queue as far as metrics go, because of ``early_event``.
        """
        queued = self.active.pop()
        if queued is None:
            queued = self.backoff.pop()
            if queued is None:
                return None
        elif queued.state is QueueState.BACKOFF:
            self.backoff.discard(queued)
        if queued.state is QueueState.BACKOFF:
            self._entered(queued, QueueState.ACTIVE, early_event)
        self._fly(queued)
        return queued

    def pop_grouped(self, queued: QueuedPod) -> None:
        """The Pod takes off with its group."""
        self.grouped.discard(queued)
        self._fly(queued)

    def _fly(self, queued: QueuedPod) -> None:
        self._count(queued, -1)
        queued.state = QueueState.IN_FLIGHT
        self.in_flight.add(queued)

    def leave(self, queued: QueuedPod) -> None:
        """The Pod goes outside, from wherever it is."""
        if queued.state is not QueueState.IN_FLIGHT:
            self._count(queued, -1)
        self.parts[queued.state].discard(queued)
        queued.state = QueueState.OUTSIDE
        del self.pods[queued.uid]
        for listener in self.listeners:
            listener.pod_left(queued.uid)

    def rejected(self, queued: QueuedPod) -> None:
        """The Pod in flight has failed and comes back: its rejectors count again."""
        self._count(queued, 1)

    def gate(self, queued: QueuedPod, plugin: str) -> None:
        """Set the gating plugin; "" clears it. The plugin stays in the rejectors."""
        queued.gating_plugin = plugin
        if plugin and plugin not in queued.rejectors:
            queued.unschedulable_plugins |= {plugin}
            self._instrument.rejected(plugin, queued.profile, 1)

    def _count(self, queued: QueuedPod, change: int) -> None:
        if queued.unschedulable_plugins or queued.pending_plugins:
            for plugin in queued.rejectors:
                self._instrument.rejected(plugin, queued.profile, change)

    def counts(self) -> dict[str, int]:
        """How many Pods and entries of groups each state holds, in flight excepted."""
        return {
            state.value: len(part)
            for state, part in self.parts.items()
            if state is not QueueState.IN_FLIGHT
        }
