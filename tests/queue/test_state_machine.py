"""The queue against a model that has no index, no heap and no shortcut.

The model keeps, for every Pod, its state and what it waits for, and works out every answer from
that by looking at all Pods. Groups are tried in `tests.queue.test_group_state_machine`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.properties import length
from tests.queue.support import NODE_ADD, NODE_LABEL, POD_DELETE, Bench, on, pod

from bayplan.framework.cluster_events import ClusterEvent, Hint
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import QueueState
from bayplan.queue.update_events import FORCE_ACTIVATE

EVENTS = [NODE_ADD, NODE_LABEL, POD_DELETE]
WAITS_FOR = {
    "Fit": {NODE_ADD, POD_DELETE},
    "Affinity": {NODE_LABEL},
    "Gates": {NODE_LABEL},
    "Volumes": set[ClusterEvent](),
}
NAMES = st.sampled_from([f"p{i}" for i in range(4)])
PLUGINS = st.sets(st.sampled_from(["Fit", "Affinity", "Volumes"]), max_size=2)


@dataclass
class Known:
    """What the model knows of a Pod."""

    priority: int
    state: QueueState
    timestamp: float
    rejections: int = 0
    errors: int = 0
    plugins: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    gate: str = ""
    seen: list[ClusterEvent] = field(default_factory=list)
    deleted: bool = False

    def expiration(self) -> float:
        failures = self.errors or self.rejections
        if not failures:
            return -math.inf
        return math.floor(self.timestamp + min(10.0, 2.0 ** (failures - 1)))

    def backs_off(self, now: float) -> bool:
        return self.expiration() >= math.floor(now)

    def answer(self, event: ClusterEvent) -> str:
        if any(event in WAITS_FOR[p] for p in self.pending):
            return "now"
        rejected = event is FORCE_ACTIVATE or any(event in WAITS_FOR[p] for p in self.plugins)
        return "later" if rejected else ""


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(
            *((p, on(e, Hint.QUEUE)) for p, waited in WAITS_FOR.items() for e in waited)
        )
        self.queue = self.bench.queue
        self.model: dict[str, Known] = {}
        self.flying: dict[str, QueuedPod] = {}

    # The model's moves

    def enter(self, name: str, known: Known, state: QueueState) -> None:
        """To ``state`` unless the gate is closed for the Pod."""
        if known.state is not QueueState.BACKOFF:
            known.gate = "Gates" if name in self.bench.gates.held else ""
            if known.gate and "Gates" not in known.pending:
                known.plugins = known.plugins | {"Gates"}
        known.state = QueueState.GATED if known.gate else state

    def requeue(self, name: str, known: Known, answer: str) -> None:
        if not answer:
            known.state = QueueState.UNSCHEDULABLE
        elif answer == "later" and known.backs_off(self.bench.clock.now):
            self.enter(name, known, QueueState.BACKOFF)
        else:
            self.enter(name, known, QueueState.ACTIVE)

    def wake(self, event: ClusterEvent) -> None:
        for name, known in self.model.items():
            if known.state is QueueState.IN_FLIGHT:
                known.seen.append(event)
            gated = known.state is QueueState.GATED and event in WAITS_FOR["Gates"]
            if (gated or known.state is QueueState.UNSCHEDULABLE) and known.answer(event):
                self.requeue(name, known, known.answer(event))

    # What may happen

    @rule(name=NAMES, priority=st.integers(0, 2))
    def add_or_update(self, name: str, priority: int) -> None:
        new = pod(name, priority).obj()
        known = self.model.get(name)
        self.queue.add(new)
        if known is None:
            known = self.model[name] = Known(priority, QueueState.OUTSIDE, self.bench.clock.now)
            self.enter(name, known, QueueState.ACTIVE)
        else:
            known.priority = priority
            known.deleted = False

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.queue.delete(pod(name).obj())
        known = self.model.get(name)
        if known is not None and known.state is QueueState.IN_FLIGHT:
            known.deleted = True
        else:
            self.model.pop(name, None)

    @rule()
    def pop(self) -> None:
        ready = [n for n, k in self.model.items() if k.state is QueueState.ACTIVE]
        early = [
            n
            for n, k in self.model.items()
            if k.state is QueueState.BACKOFF and (k.plugins or k.pending)
        ]
        queued = self.queue.pop()
        if queued is None:
            assert not ready
            assert not early
            return
        known = self.model[queued.uid]
        if ready:
            assert queued.uid in ready
            assert known.priority == max(self.model[n].priority for n in ready)
        else:
            first = min((self.model[n].expiration(), -self.model[n].priority) for n in early)
            assert (known.expiration(), -known.priority) == first
        known.state = QueueState.IN_FLIGHT
        known.seen = []
        self.flying[queued.uid] = queued

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), plugins=PLUGINS, pending=PLUGINS)
    def fail(self, data: st.DataObject, plugins: set[str], pending: set[str]) -> None:
        queued = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
        known = self.model[queued.uid]
        state = self.queue.add_unschedulable_if_not_present(queued, plugins, pending)
        if known.deleted:
            del self.model[queued.uid]
            assert state is QueueState.OUTSIDE
            return
        known.plugins, known.pending = plugins, pending
        known.timestamp = self.bench.clock.now
        if plugins or pending:
            known.rejections, known.errors = known.rejections + 1, 0
            answers = {known.answer(event) for event in known.seen}
            answer = next((a for a in ("now", "later") if a in answers), "")
        else:
            known.errors += 1
            answer = "later"
        self.requeue(queued.uid, known, answer)
        assert state is known.state

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.flying)))
        del self.flying[name], self.model[name]
        self.queue.done(name)

    @rule(event=st.sampled_from(EVENTS))
    def cluster_event(self, event: ClusterEvent) -> None:
        self.queue.move_all(event)
        self.wake(event)

    @rule(name=NAMES)
    def activate(self, name: str) -> None:
        self.queue.activate([pod(name).obj()])
        known = self.model.get(name)
        if known is not None and known.state not in (QueueState.ACTIVE, QueueState.IN_FLIGHT):
            self.enter(name, known, QueueState.ACTIVE)
        elif known is not None and known.state is QueueState.IN_FLIGHT:
            known.seen.append(FORCE_ACTIVATE)

    @rule(name=NAMES)
    def open_or_close_the_gate(self, name: str) -> None:
        self.bench.gates.held ^= {name}

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.0, 7.5]))
    def time_passes(self, seconds: float) -> None:
        self.bench.clock.now += seconds
        self.queue.flush_backoff_completed()
        for name, known in self.model.items():
            if known.state is QueueState.BACKOFF and not known.backs_off(self.bench.clock.now):
                self.enter(name, known, QueueState.ACTIVE)

    @rule()
    def five_minutes_pass(self) -> None:
        self.time_passes(300)
        self.queue.flush_unschedulable_leftover()
        for name, known in self.model.items():
            if known.state in (QueueState.UNSCHEDULABLE, QueueState.GATED):
                self.requeue(name, known, "later")

    # What must hold

    @invariant()
    def every_pod_is_in_exactly_the_place_where_it_belongs(self) -> None:
        found = [
            (queued.uid, state)
            for state, part in self.queue.pending_pods().items()
            for queued in part
        ]
        assert dict(found) == {name: known.state for name, known in self.model.items()}
        assert len(found) == len(self.model)
        for name, known in self.model.items():
            queued = self.queue.get(name)
            assert queued is not None
            assert queued.state is known.state

    @invariant()
    def the_counts_are_those_of_the_states(self) -> None:
        states = [known.state for known in self.model.values()]
        elsewhere = QueueState.OUTSIDE, QueueState.IN_FLIGHT, QueueState.GROUPED
        counts = {
            state.value: states.count(state) for state in QueueState if state not in elsewhere
        }
        assert self.queue.counts() == counts | {"pending": 0, "incomplete": 0}

    @invariant()
    def rejections_are_those_of_the_pods_in_the_queue(self) -> None:
        waiting = [k for k in self.model.values() if k.state is not QueueState.IN_FLIGHT]
        for (plugin, _), count in self.bench.recorder.rejections.items():
            assert count == sum(plugin in (k.plugins | k.pending) for k in waiting)

    @invariant()
    def no_events_are_kept_for_nobody(self) -> None:
        if not self.flying:
            assert self.queue.in_flight_events() == {"PodPopped": 0}

    @invariant()
    def whoever_waits_for_time_has_a_timer(self) -> None:
        still = (QueueState.ACTIVE, QueueState.IN_FLIGHT)
        waits = any(known.state not in still for known in self.model.values())
        assert (self.queue.next_timer() is not None) is waits


QueueMachine.TestCase.settings = length(60, steps=50)
TestQueue = QueueMachine.TestCase
