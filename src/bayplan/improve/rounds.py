"""Rounds: when a Queue has a plan made by itself, for what, and which Pods may move.

A Queue with ``improve`` has a round every so many seconds: its Pods and groups that fit nowhere are
planned for, one after the other, until there is a plan. Only Pods of the Queue and of its parts
move, so who wants moves across tenants says so in the Queue above them.

What keeps it from going in circles:

- Pods younger than the Queue says stay. A Pod that was moved is made again, so for that time it is
  not moved once more, whoever leads, with nothing to be remembered.
- A goal without a plan is not looked at again until the cluster is another one (`Rounds._state`) or
  `REST` has passed; one whose plan was stopped is not until then, and neither are Pods that are
  exactly like it.
- No more Pods move in an hour than the Queue allows, over all leaders (`bayplan.improve.orders`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from bayplan.api.kinds import NAMESPACE, POD_DISRUPTION_BUDGET, QUEUE
from bayplan.api.pod import Pod
from bayplan.api.queues import Improve
from bayplan.improve.applying import Plan, RefusedError, plan_of
from bayplan.improve.asked import LIVE_SECONDS
from bayplan.improve.deciders import Deciders
from bayplan.improve.goals import GROUP_PREFIX, Goal, GoalError, fitting
from bayplan.improve.movable import MOVABLE
from bayplan.improve.orders import Moved, fingerprint
from bayplan.improve.plan import MOST_MOVES, improve
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import QueueState

REST = 3600.0
"""Seconds for which a goal that was missed is left alone."""
PAUSE = 10.0
"""Seconds from one search to the next: while one lasts, nothing is scheduled."""
HOUR = 3600.0
"""For which moves are counted."""
_TRIED = QueueState.UNSCHEDULABLE, QueueState.BACKOFF


class Planned(NamedTuple):
    """What a look has come to.

    Attributes:
        queue: whose goal was looked at.
        goal: what `Rounds.stopped` is to be told of it.
        plan: how the goal is reached; None where no plan was found.
    """

    queue: str
    goal: str
    plan: Plan | None


class _Try(NamedTuple):
    """When a goal was missed, and in which state of the cluster; None in any."""

    at: float
    state: int | None


class Rounds:
    """See the module's docstring. Scheduling thread only; nothing is changed."""

    def __init__(self, core: Deciders) -> None:
        self._core, self._tree = core, core.world.queues
        self._due: dict[str, float] = {}
        """By Queue, when its next round may begin."""
        self._left: dict[str, list[QueuedPod]] = {}
        """By Queue whose round is under way, what is still to be planned for."""
        self._tries: dict[str, _Try] = {}
        self._next = 0.0
        self._at = 0.0

    def next(self, now: float, moved: Iterable[Moved]) -> Planned | None:
        """What the next look has come to; None while there is nothing to look at.

        Args:
            now: seconds since the epoch.
            moved: what Queues had carried out of late.
        """
        if now < self._next or not self._tree.active:
            return None
        structure, moved = self._tree.structure, list(moved)
        self._at = now
        self._tries = {key: it for key, it in self._tries.items() if now < it.at + REST}
        for row in structure.improving:
            spec = structure.queues[row].spec.improve
            assert spec is not None
            most = self._allowed(structure.name(row), spec, moved)
            planned = self._look(row, spec, most) if most > 0 else None
            if self._next > now:
                return planned
        return None

    def stopped(self, goal: str) -> None:
        """The plan for this goal was stopped after a Pod had been evicted."""
        self._tries[goal] = _Try(self._at, None)

    def _allowed(self, name: str, spec: Improve, moved: Iterable[Moved]) -> int:
        """How many Pods may move now."""
        of_late = (it.moves for it in moved if it.queue == name and it.at > self._at - HOUR)
        return min(MOST_MOVES, spec.max_moves_per_hour - sum(of_late))

    def _look(self, row: int, spec: Improve, most: int) -> Planned | None:
        """Plan for the next goal of the Queue."""
        name = self._tree.structure.name(row)
        left = self._left.pop(name, [])
        if not left:
            if self._at < self._due.get(name, 0.0):
                return None
            left = self._waiting(row)
            if not left:
                return None
            self._due[name] = self._at + spec.every_seconds
        state = self._state(spec, most)
        while left:
            queued = left.pop(0)
            key, goal = _key(queued), self._goal(queued)
            missed = self._tries.get(key)
            if goal is None or (missed is not None and missed.state in (None, state)):
                continue
            self._next = self._at + PAUSE
            plan = self._plan(row, spec, goal, most)
            if plan is not None and plan.moves:
                return Planned(name, key, plan)
            self._left[name] = left
            if plan is not None:  # it fits by now
                return None
            self._tries[key] = _Try(self._at, state)
            return Planned(name, key, None)
        return None

    def _waiting(self, row: int) -> list[QueuedPod]:
        """What of a Queue fits nowhere, within all limits: one of each kind of Pods."""
        nominator, links = self._core.world.nominator, self._tree.structure.links
        found: dict[str, QueuedPod] = {}
        waits = [it for it in self._tree.waiting() if it.demand and row in links[it.charge.row]]
        for pod, charge, _ in sorted(waits, key=lambda it: _urgency(it.pod)):
            queued = self._entry(pod)
            if queued is None or queued.state not in _TRIED or nominator.nominated_node(pod.uid):
                continue
            if charge.is_within_limits:
                found.setdefault(_key(queued), queued)
        return list(found.values())

    def _entry(self, pod: Pod) -> QueuedPod | None:
        """The entry of the Pod, or of the group with which the Pod waits."""
        queue = self._core.world.queue
        entry = queue.groups.entry_of_pod(pod)
        return entry if entry is not None and pod.uid in entry.members else queue.get(pod.uid)

    def _goal(self, queued: QueuedPod) -> Goal | None:
        """None where the Pod waits no more, or for something else."""
        subject = f"pod/{queued.pod.key}"
        if isinstance(queued, QueuedGroup):
            subject = f"{GROUP_PREFIX}{queued.key}"
        try:
            return fitting(self._core, subject, "")
        except GoalError:
            return None

    def _plan(self, row: int, spec: Improve, goal: Goal, most: int) -> Plan | None:
        def keeps(pod: Pod) -> str:
            if row not in self._links(pod):
                return f"is not of Queue {self._tree.structure.name(row)}"
            return "" if self._is_old(pod, spec) else "is younger than minAgeSeconds"

        answer = improve(
            self._core,
            goal,
            self._at,
            most=most,
            seconds=LIVE_SECONDS,
            keeps=keeps,
            is_told=False,
        )
        try:
            return plan_of(msgspec.to_builtins(answer))
        except RefusedError:
            return None

    def _links(self, pod: Pod) -> tuple[int, ...]:
        """The rows of the Queue of the Pod and of those above."""
        charge = self._tree.charge(pod)
        return () if charge is None else self._tree.structure.links[charge.row]

    def _is_old(self, pod: Pod, spec: Improve) -> bool:
        born = self._at if pod.created is None else pod.created.timestamp()
        return self._at - born >= spec.min_age_seconds

    def _state(self, spec: Improve, most: int) -> int:
        """Of what decides whether there is a plan: another number where that has changed."""
        cache = self._core.world.cache
        objects, nodes = cache.objects, (node for node in cache.nodes.nodes if node is not None)
        pods = (
            (pod.uid, pod.node_name, pod.shape.id, _says(pod.annotations), self._is_old(pod, spec))
            for pod in cache.pods()
        )
        metas = (it.metadata for kind in (NAMESPACE, QUEUE) for it in objects.all(kind))
        said = frozenset((meta.uid, _says(meta.labels, meta.annotations)) for meta in metas)
        budgets = objects.all(POD_DISRUPTION_BUDGET)
        allowed = frozenset((it.key, it.status.disruptions_allowed) for it in budgets)
        return hash((most, frozenset(map(fingerprint, nodes)), frozenset(pods), said, allowed))


def _says(*named: Mapping[str, str]) -> str:
    return next((names[MOVABLE] for names in named if MOVABLE in names), "")


def _urgency(pod: Pod) -> tuple[int, float, str]:
    created = 0.0 if pod.created is None else pod.created.timestamp()
    return -pod.priority, created, pod.key


def _key(queued: QueuedPod) -> str:
    """The same for Pods of one shape; a group has another one."""
    if isinstance(queued, QueuedGroup):
        return queued.uid
    return f"{queued.pod.namespace}/{queued.pod.shape.id}"
