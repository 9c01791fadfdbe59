"""Preemption as a plugin: what DefaultPreemption and the plugins that replace it have in common.

PostFilter finds the node and the victims, has them evicted in the background and nominates the
node; PreEnqueue holds the Pod back until they are leaving. In a dry run, as for simulate and
explain, no Pod is evicted.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, ClassVar

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
from bayplan.framework.evictions import POD
from bayplan.framework.handle import InTreeHandle
from bayplan.framework.interface import FilterFailure, Plugin, PostFilterResult
from bayplan.framework.points import EnqueueExtensions, PostFilter, PreEnqueue
from bayplan.framework.status import Status
from bayplan.preemption.evaluator import Analysis, Evaluator
from bayplan.preemption.executor import Executor
from bayplan.preemption.policy import VictimPolicy


class PreemptionPlugin(Plugin, PreEnqueue, PostFilter, EnqueueExtensions):
    """Base of plugins that evict Pods; see the module's docstring.

    Args:
        policy: which Pods may be evicted.
        enough: how many candidates a real attempt looks for among so many nodes.
    """

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
        self._evaluator = Evaluator(handle, policy, enough)
        self._executor, self._evictions = Executor(handle, self.name), handle.evictions

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a preemptor back until its victims are leaving."""
        return self._evictions.hold(pod.uid)

    def explain_post_filter(
        self, state: CycleState, pod: Pod, failure: FilterFailure
    ) -> dict[str, Any]:
        """Who would have to leave, on the chosen node and on all others that would do.

        Looks at every node and changes nothing.

        Raises:
            AttemptFault: a plugin broke.
        """
        return self.analyse(state, pod, failure).explanation()

    def analyse(self, state: CycleState, pod: Pod, failure: FilterFailure) -> Analysis:
        """What preemption would do, looked for on every node. Changes nothing.

        Raises:
            AttemptFault: a plugin broke.
        """
        return self._evaluator.analyse(state, pod, failure, every_node=True)

    def post_filter(self, state: CycleState, pod: Pod, failure: FilterFailure) -> PostFilterResult:
        """Make room for ``pod``, if that is possible, and nominate the node for it."""
        started = perf_counter()
        analysis = self._evaluator.analyse(state, pod, failure, every_node=state.dry_run)
        if state.dry_run:
            return analysis.result
        code = str(analysis.result.status.code)
        self._instrument.preemption(POD, code, perf_counter() - started)
        if analysis.best is not None:
            self._executor.evict(pod, analysis.best)
        return analysis.result

    def events_to_register(self) -> list[EventRegistration]:
        """A preemptor that is held back waits for deleted Pods.

        Which of them are worth an attempt is for the plugins to say that rejected it, so our own
        hint wakes no Pod; it is registered so that the hints of others are called.
        """
        gone = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
        return [EventRegistration(gone, lambda _pod, _old, _new: Hint.SKIP)]
