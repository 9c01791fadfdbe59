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
from bayplan.framework.effects import Effect
from bayplan.framework.evictions import POD
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import FilterFailure, Plugin, PostFilterResult
from bayplan.framework.points import CarriesOut, EnqueueExtensions, PostFilter, PreEnqueue
from bayplan.framework.status import Status
from bayplan.preemption.evaluator import Analysis, Evaluator
from bayplan.preemption.executor import Executor
from bayplan.preemption.group import Evict, GroupPreemption
from bayplan.preemption.policy import VictimPolicy


class Preempt(Effect, frozen=True, eq=False):
    """Carry out a search's result: evict and nominate, and move the cursor for the next search.

    Attributes:
        pod: the preemptor.
        analysis: the result.
        seconds: how long the search took.
    """

    pod: Pod
    analysis: Analysis
    seconds: float


class PreemptionPlugin(Plugin, PreEnqueue, PostFilter, EnqueueExtensions, CarriesOut):
    """Base of plugins that evict Pods; see the module's docstring.

    Args:
        policy: which Pods may be evicted.
        enough: how many candidates a search looks for among so many nodes.
    """

    pure = True
    kinds: ClassVar[tuple[Kind[object], ...]] = (POD_DISRUPTION_BUDGET,)

    def __init__(
        self,
        args: object,
        handle: InTreeHandle,
        policy: VictimPolicy,
        enough: Callable[[int], int],
    ) -> None:
        super().__init__(args, handle)
        self._instrument = handle.instrument
        # Offline the answer does not depend on where a search begins.
        self._evaluator = Evaluator(handle, policy, (lambda n: n) if handle.exhaustive else enough)
        self._executor, self._evictions = Executor(handle, self.name), handle.evictions
        self._groups = GroupPreemption(handle, self.name, self._executor)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a preemptor back until its victims are leaving."""
        return self._evictions.hold(pod.uid)

    def post_filter(self, state: CycleState, pod: Pod, failure: FilterFailure) -> PostFilterResult:
        """Find room for ``pod``, and the node to nominate for it."""
        started = perf_counter()
        analysis = self._evaluator.analyse(state, pod, failure)
        seconds = perf_counter() - started
        state.effects.append(Preempt(self.name, pod, analysis, seconds))
        return analysis.result

    def carry_out(self, effect: Effect) -> None:
        """Evict the victims that a search has found."""
        if isinstance(effect, Evict):
            self._groups.carry_out(effect)
            return
        assert isinstance(effect, Preempt)
        analysis = effect.analysis
        self._evaluator.remember(effect.pod, analysis)
        self._instrument.preemption(POD, str(analysis.result.status.code), effect.seconds)
        if analysis.best is not None:
            self._executor.evict(effect.pod, analysis.best)

    def events_to_register(self) -> list[EventRegistration]:
        """A preemptor that is held back waits for deleted Pods.

        Which of them are worth an attempt is for the plugins to say that rejected it, so our own
        hint wakes no Pod; it is registered so that the hints of others are called.
        """
        gone = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
        return [EventRegistration(gone, lambda _pod, _old, _new: Hint.SKIP)]
