"""DefaultPreemption: evicts Pods of lower priority where that makes room for one that fits nowhere.

PostFilter finds the node and the victims (`bayplan.preemption`), has them evicted in the background
and nominates the node; PreEnqueue holds the Pod back until they are leaving. In a dry run, as for
simulate and explain, no Pod is evicted.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from bayplan.api.kinds import POD_DISRUPTION_BUDGET, Kind
from bayplan.api.pod import Pod
from bayplan.config.args import DefaultPreemptionArgs
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import InTreeHandle
from bayplan.framework.interface import FilterFailure, Plugin, PostFilterResult
from bayplan.framework.points import EnqueueExtensions, PostFilter, PreEnqueue
from bayplan.framework.status import Status
from bayplan.preemption.evaluator import Analysis, Evaluator
from bayplan.preemption.executor import Executor

WAITING = Status.unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption(Plugin):
    """See the module's docstring."""

    kinds: ClassVar[tuple[Kind[Any], ...]] = (POD_DISRUPTION_BUDGET,)

    Args: ClassVar[type | None] = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._writer, self._instrument = handle.writer, handle.instrument
        self._evaluator = Evaluator(args, handle)
        self._executor = Executor(handle, self.name)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a preemptor back until its victims are leaving."""
        return WAITING if self._executor.is_running(pod) else None

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
        analysis = self._evaluator.analyse(state, pod, failure, every_node=state.dry_run)
        if state.dry_run:
            return analysis.result
        best = analysis.best
        evicted = best is not None and self._executor.evict(pod, best)
        self._instrument.preemption(len(best.victims) if best is not None and evicted else 0)
        return analysis.result

    def events_to_register(self) -> list[EventRegistration]:
        """A preemptor that is held back waits for deleted Pods.

        Which of them are worth an attempt is for the plugins to say that rejected it, so our own
        hint wakes no Pod; it is registered so that the hints of others are called.
        """
        gone = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
        return [EventRegistration(gone, lambda _pod, _old, _new: Hint.SKIP)]


class _Implements(PreEnqueue, PostFilter, EnqueueExtensions, Protocol):
    """The points that the plugin implements; mypy checks it against them."""


_: type[_Implements] = DefaultPreemption
