"""OverLimit: evicts what a queue uses above its limit, if the queue says so, after a while.

A queue is above its limit where that was lowered, or where its Pods became more without the
scheduler. A closed queue may use nothing. From then on Pods have `evictOverLimitAfterSeconds`, as
the scheduler sees it: a new leader counts anew. After that they go in the order in which a queue
gives Pods: those first that no guarantee covers, and of these in the order of
`bayplan.preemption.eviction_units`; nobody without whom the rest is enough. Pods that are leaving
count as gone, those that are never evicted stay.

The leader looks every few seconds; where no Queue asks for that it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.api import quantity
from bayplan.api.kinds import QUEUE
from bayplan.api.pod import Pod
from bayplan.api.queues import State
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.framework.effects import Effect, Evict
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.status import QUEUE_CLOSED, QUEUE_LIMIT
from bayplan.plugins.fair_share.coverage import line_of
from bayplan.plugins.fair_share.effects import AboveLimit
from bayplan.plugins.fair_share.guarantees import Guarantees, Line
from bayplan.plugins.fair_share.never_evicted import NeverEvicted
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.eviction_units import EvictionUnits, YieldOrder, make_units
from bayplan.preemption.gangs import gangs_of
from bayplan.preemption.running_pods import RunningPods


class Since(dict[str, float]):
    """By uid of a Queue, when usage above the limit was first seen; a reload keeps it."""


class OverLimit:
    """See the module's docstring. Scheduling thread only."""

    def __init__(self, plugin: str, handle: InTreeHandle, never_evicted: NeverEvicted) -> None:
        self._plugin, self._handle, self._never_evicted = plugin, handle, never_evicted
        self._queues, self._nodes = handle.queues, handle.nodes
        self._gangs = gangs_of(handle)
        self._budgets = handle.objects.shared(Budgets, handle.objects)
        self._since = handle.objects.shared(Since)

    def look(self) -> Sequence[Effect]:
        """Evict what is above a limit for too long, and say so; once before, too."""
        structure, now = self._queues.structure, self._handle.monotonic()
        effects: list[Effect] = []
        above: set[str] = set()
        for row in structure.evicting:
            queue, sentence = structure.queues[row], self._above(row)
            if not sentence:
                continue
            above.add(queue.uid)
            patience = queue.spec.evict_over_limit_after_seconds or 0
            if queue.uid not in self._since:
                self._since[queue.uid] = now
                note = f"{sentence}; Pods above that are evicted in {patience}s"
                effects.append(AboveLimit(self._plugin, queue, note, 0))
            if now - self._since[queue.uid] < patience:
                continue
            if victims := self._victims(row):
                note = f"{sentence}; {len(victims)} Pods are evicted"
                effects.append(AboveLimit(self._plugin, queue, note, len(victims)))
                message = f"{self._handle.profile}: {sentence}"
                reason = QUEUE_CLOSED if self._is_closed(row) else QUEUE_LIMIT
                effects.append(Evict(self._plugin, tuple(victims), message, reason))
        for uid in self._since.keys() - above:
            del self._since[uid]
        return effects

    def tell(self, effect: AboveLimit) -> None:
        """See `AboveLimit`."""
        regarding, profile = QUEUE.reference(effect.queue), self._handle.profile
        # Events of one reason are one series, which keeps the first note.
        reason = "EvictedAboveLimit" if effect.pods else "AboveLimit"
        self._handle.events.event(
            regarding, None, "Warning", reason, "Evicting", effect.note, profile
        )
        if effect.pods:
            self._handle.instrument.reclaimed(effect.queue.name, "limit", effect.pods)

    def _is_closed(self, row: int) -> bool:
        return self._queues.structure.state(row) is State.CLOSED

    def _above(self, row: int) -> str:
        """Which limit of the queue is exceeded; "" for none."""
        queues, structure = self._queues, self._queues.structure
        if self._is_closed(row):
            leaves = map(queues.leaf, self._handle.pods.pods())
            uses = any(leaf >= 0 and row in structure.links[leaf] for leaf in leaves)
            return f"queue {structure.name(row)} is Closed" if uses else ""
        for column, used in enumerate(queues.sums.used_rows[row]):
            most, name = int(structure.limit[row, column]), structure.resources[column]
            if used > most:
                amounts = f"{quantity.shown(name, most)}: {quantity.shown(name, used)} used"
                return f"limit of {name} of queue {structure.name(row)} is {amounts}"
        return ""

    def _victims(self, row: int) -> list[Pod]:
        """Who goes, without Pods that are leaving; nobody while Pods are being bound."""
        queues, structure = self._queues, self._queues.structure
        running = RunningPods(self._nodes)
        everyone = np.ones(len(running), np.bool_)
        order = YieldOrder(running, everyone, self._gangs, self._budgets)
        line = line_of(queues, running, order, self._never_evicted.among(running))
        inside = structure.is_below(row)[line.leaves] & (line.leaves >= 0)
        queued = self._handle.queued
        if any(running.pods[index].uid in queued for index in np.flatnonzero(inside).tolist()):
            return []
        may_go = inside & ~running.leaving & ~line.never
        if self._is_closed(row):
            return [running.pods[index] for index in np.flatnonzero(may_go).tolist()]
        excess = np.maximum(np.array(queues.sums.staying(row)) - structure.limit[row], 0)
        if not excess.any():
            return []
        useful: BoolArray = np.any(line.requests[:, excess > 0] > 0, axis=1)
        classes = np.where(may_go, self._covered(row, line, np.flatnonzero(~running.leaving)), -1)
        units = make_units(running, classes, useful, self._gangs, self._budgets)
        return units.pods_of(self._enough(units, excess))

    def _covered(self, row: int, line: Line, staying: IntArray) -> BoolArray:
        """(p,) who is covered by what the queue or one below it is guaranteed."""
        structure = self._queues.structure
        covered = np.zeros(len(line.leaves), np.bool_)
        below = np.flatnonzero(structure.is_below(row)).tolist()
        if structure.guaranteed[below].any():
            guarantees = Guarantees(structure, structure.guaranteed, line.within(staying))
            covered[staying] = guarantees.protected(tuple(below))
        return covered

    def _enough(self, units: EvictionUnits, excess: IntArray) -> set[int]:
        """The first units to free ``excess`` (r,), without units that need not go."""
        requests = np.array([self._queues.requests(pod) for pod in units.pods], np.int64)
        amounts = np.zeros((len(units), len(excess)), np.int64)
        np.add.at(amounts, units.unit_of_pods(), requests.reshape(-1, len(excess)))
        going: set[int] = set()
        short = excess.copy()
        for unit in range(len(units)):
            if unit not in going and (amounts[unit][short > 0] > 0).any():
                more = units.closed({unit}) - going
                going |= more
                short -= amounts[sorted(more)].sum(axis=0)
        for unit in sorted(going, reverse=True):
            stays = going - units.closed(going - {unit})
            less = short + amounts[sorted(stays)].sum(axis=0)
            if stays and (less <= 0).all():
                going, short = going - stays, less
        return going
