"""Preemption as a plugin: the base of DefaultPreemption and of plugins in its place.

PostFilter finds the node and the victims, and nominates the node; the evictions are an effect.
PreEnqueue holds the Pod back until they are leaving.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import ClassVar

from bayplan.api.kinds import POD_DISRUPTION_BUDGET, Kind
from bayplan.api.pod import Pod
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import CountSearch, Effect
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import FilterFailure, Plugin, PostFilterResult
from bayplan.framework.points import CarriesOut, EnqueueExtensions, PostFilter, PreEnqueue
from bayplan.framework.preemptor import SINGLE, Preemptor
from bayplan.framework.room import Room
from bayplan.framework.status import Status
from bayplan.preemption.evaluator import Analysis, Evaluator
from bayplan.preemption.group import GroupPreemption, preempt
from bayplan.preemption.rule import YieldsOnNodes


class Remember(Effect, frozen=True, eq=False):
    """Keep the outcomes of a search for ``pod``; the next search begins where it has ended."""

    pod: Pod
    analysis: Analysis


class PreemptionPlugin(Plugin, PreEnqueue, PostFilter, EnqueueExtensions, CarriesOut):
    """Base of plugins that evict Pods; see the module's docstring.

    Args:
        rule: which Pods may be evicted.
        enough: how many candidates a search looks for among so many nodes.
    """

    pure = True
    kinds: ClassVar[tuple[Kind[object], ...]] = (POD_DISRUPTION_BUDGET,)

    def __init__(
        self,
        args: object,
        handle: InTreeHandle,
        rule: YieldsOnNodes,
        enough: Callable[[int], int],
    ) -> None:
        super().__init__(args, handle)
        # Offline the answer does not depend on where a search begins.
        self._evaluator = Evaluator(handle, rule, (lambda n: n) if handle.exhaustive else enough)
        self._evictions = handle.evictions
        self._groups = GroupPreemption(handle, self.name)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a preemptor back until its victims are leaving."""
        return self._evictions.hold(pod.uid)

    def post_filter(self, state: CycleState, pod: Pod, failure: FilterFailure) -> PostFilterResult:
        """Find room for ``pod``, and the node to nominate for it."""
        started = perf_counter()
        analysis = self._evaluator.analyse(state, pod, failure)
        code, seconds = str(analysis.result.status.code), perf_counter() - started
        state.effects += (
            Remember(self.name, pod, analysis),
            CountSearch(self.name, SINGLE, code, seconds),
        )
        best = analysis.best
        if best is not None:
            room = Room({pod.uid: best.node_name}, best.victims, "", violations=best.violations)
            state.effects.append(preempt(self.name, Preemptor.single(pod), room))
        return analysis.result

    def carry_out(self, effect: Effect) -> None:
        """Have the next search go on from one whose decision is applied."""
        assert isinstance(effect, Remember)
        self._evaluator.remember(effect.pod, effect.analysis)

    def events_to_register(self) -> list[EventRegistration]:
        """A preemptor that is held back waits for deleted Pods.

        Which of them are worth an attempt is for the plugins to say that rejected it, so our own
        hint wakes no Pod; it is registered so that the hints of others are called.
        """
        gone = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
        return [EventRegistration(gone, lambda _pod, _old, _new: Hint.SKIP)]
