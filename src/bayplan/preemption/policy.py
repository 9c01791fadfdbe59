"""Victim policy: which Pods may be evicted for a Pod, and what must hold beside Filter.

`LowerPriorityVictims` is kube-scheduler's. Plugins that replace DefaultPreemption bring one of
their own. For groups of Pods see `bayplan.preemption.rule`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bayplan.api.pod import Pod
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import BoolArray
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import Status


class VictimPolicy(Protocol):
    """Answers for one Pod, the preemptor, whose PreFilter plugins have filled in ``state``.

    Attributes:
        refusal: the status of a node where Filter succeeds and `admits` does not.
    """

    refusal: Status

    def has_victims(self, state: CycleState, pod: Pod) -> bool:
        """Whether any Pod at all may be evicted for ``pod``; a quick look that saves dry runs."""

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


class LowerPriorityVictims:
    """Pods of lower priority may be evicted."""

    refusal = Status.unschedulable()

    def __init__(self, counters: DomainCounters) -> None:
        self._counters = counters

    def has_victims(self, _state: CycleState, pod: Pod) -> bool:
        """Whether there is a Pod of lower priority."""
        return self._counters.any_below(pod.priority)

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
