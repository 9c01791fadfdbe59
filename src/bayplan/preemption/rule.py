"""Rules: which Pods may be evicted for a preemptor, and what must hold beside Filter.

A plugin that evicts has one. `LowerPriority` is kube-scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import NoRoom
from bayplan.framework.status import Status
from bayplan.preemption.capacity import Ceiling
from bayplan.preemption.eviction_units import YieldOrder
from bayplan.preemption.member_fit import MemberFit
from bayplan.preemption.running_pods import RunningPods

NOT_ENOUGH = NoRoom("evicting others would not make room")


def _accept(_victims: Sequence[Pod]) -> str:
    return ""


class Instead(NamedTuple):
    """Who may go in place of victims, given these, if less is lost by that.

    Attributes:
        single: who may go alone.
        of_the_same: all Pods that may go of those who give the victims.
    """

    single: Callable[[Sequence[Pod]], Yielding]
    of_the_same: Callable[[Sequence[Pod]], Yielding]


@dataclass(frozen=True)
class Yielding:
    """A rule's judgement: which Pods may be evicted for one preemptor.

    Attributes:
        classes: ``(p,)`` by Pod: negative for a Pod that stays, else lower classes yield first.
        describe: victims in words, for events: ``6 Pods of lower priority``.
        ceilings: what has to be freed in addition to room on nodes.
        refusal: why victims must stay although their eviction suffices; "" if there is no reason.
        wider: the same with more Pods, for where these are not enough; None for none.
        instead: who may go in place of the victims that are found; None if the order decides alone.
    """

    classes: IntArray
    describe: Callable[[Sequence[Pod]], str]
    ceilings: Sequence[Ceiling] = ()
    refusal: Callable[[Sequence[Pod]], str] = _accept
    wider: Callable[[], Yielding] | None = None
    instead: Instead | None = None

    def sentence(self, members: int, victims: Sequence[Pod]) -> str:
        """What is said where ``members`` have room without the victims."""
        if not victims:
            return (
                f"MakingRoom: {members} Pods fit as soon as others have left that are leaving"
                " already"
            )
        return f"MakingRoom: {self.describe(victims)} are evicted, so that {members} Pods fit"


class Yields(Protocol):
    """Says who may be evicted for a preemptor; `ShortestPrefix` finds out who has to be."""

    def has_victims(self, preemptor: Preemptor) -> bool:
        """Whether any Pod may yield; a quick look that saves dry runs and columns of all Pods."""

    def judge(
        self, preemptor: Preemptor, running: RunningPods, fit: MemberFit, order: YieldOrder
    ) -> Yielding | NoRoom:
        """The Pods of ``running`` that may yield; `NoRoom` if, by bounds, no search finds room.

        ``order`` is that of `Units` within one class.

        The bounds must never rule out what a search, also among `Yielding.wider`, would find.
        """


class YieldsOnNodes(Yields, Protocol):
    """The same for the search of kube-scheduler: for one Pod, on one node after the other.

    PreFilter plugins have filled in ``state`` for the Pod.

    Attributes:
        refusal: the status of a node where Filter succeeds and `admits` does not.
    """

    refusal: Status

    def is_row_local(self, state: CycleState, pod: Pod) -> bool:
        """Whether the answers depend on nothing but the shape of ``pod`` and one node's Pods."""

    def is_awaited(self, state: CycleState, pod: Pod, leaving: Pod) -> bool:
        """Whether ``pod`` is to wait for a terminating Pod of its nominated node."""

    def evictable(self, state: CycleState, pod: Pod, on_node: Iterable[Pod]) -> list[Pod]:
        """The Pods of one node that may be evicted for ``pod``."""

    def admits(self, state: CycleState, *, beside_nominated: bool) -> BoolArray | None:
        """Rows of a what-if ``state`` where the preemptor may be placed; None for all.

        ``beside_nominated``: nominated Pods elsewhere count, too. They do when a Pod is put back,
        not when it is asked whether evicting all of them helps.
        """


class LowerPriority:
    """Pods yield to Pods of higher priority; implements `YieldsOnNodes`.

    Args:
        counters: know of each priority whether there are Pods below it.
    """

    refusal = Status.unschedulable()

    def __init__(self, counters: DomainCounters) -> None:
        self._counters = counters

    def has_victims(self, preemptor: Preemptor) -> bool:
        """Whether there is a Pod of lower priority."""
        return self._counters.any_below(preemptor.priority)

    def judge(
        self, preemptor: Preemptor, running: RunningPods, _fit: MemberFit, _order: YieldOrder
    ) -> Yielding:
        """Pods of lower priority, all in one class."""
        yields = running.priorities < preemptor.priority
        return Yielding(np.where(yields, 0, -1), _described)

    def is_row_local(self, _state: CycleState, _pod: Pod) -> bool:
        """They do."""
        return True

    def is_awaited(self, _state: CycleState, pod: Pod, leaving: Pod) -> bool:
        """Whether a scheduler has preempted it."""
        return leaving.priority < pod.priority and leaving.is_preempted

    def evictable(self, _state: CycleState, pod: Pod, on_node: Iterable[Pod]) -> list[Pod]:
        """Those of lower priority."""
        priority = pod.priority
        return [other for other in on_node if other.priority < priority]

    def admits(self, _state: CycleState, *, beside_nominated: bool) -> BoolArray | None:
        """Everywhere: Filter decides."""


def _described(victims: Sequence[Pod]) -> str:
    return f"{len(victims)} Pods of lower priority"
