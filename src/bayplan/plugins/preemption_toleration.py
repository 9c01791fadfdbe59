"""PreemptionToleration: DefaultPreemption, with Pods that tolerate being preempted for a while.

A PriorityClass says by annotations whose Pods its own Pods tolerate, and for how long:

- `MINIMUM`: Pods of at least this priority evict its Pods at once. Default: its value + 1.
- `SECONDS`: for so long after it was scheduled, a Pod is not evicted for one of lower priority
  than that. Default 0; a negative number means for ever.

Name, arguments and annotations are those of scheduler-plugins. An annotation that is no number, and
a class that does not exist, mean that nothing is tolerated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from bayplan.api.kinds import POD_DISRUPTION_BUDGET, PRIORITY_CLASS
from bayplan.api.pod import Pod
from bayplan.api.workloads import PriorityClass
from bayplan.cache.counters import DomainCounters
from bayplan.cache.objects import ObjectStore
from bayplan.config.args import DefaultPreemptionArgs
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.preemption.plugin import PreemptionPlugin
from bayplan.preemption.rule import LowerPriority

_PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
MINIMUM = f"{_PREFIX}minimum-preemptable-priority"
SECONDS = f"{_PREFIX}toleration-seconds"


class PriorityClassToleration(NamedTuple):
    """What the Pods of a PriorityClass tolerate.

    Attributes:
        minimum: Pods of at least this priority are not tolerated.
        seconds: since it was scheduled; negative for ever.
    """

    minimum: int
    seconds: int


class TolerantVictims(LowerPriority):
    """Pods of lower priority, without Pods that tolerate the preemptor."""

    def __init__(
        self, counters: DomainCounters, objects: ObjectStore, now: Callable[[], float]
    ) -> None:
        super().__init__(counters)
        self._now = now
        self._tolerations: dict[str, PriorityClassToleration] = {}
        objects.on_change(PRIORITY_CLASS, self._changed)

    def _changed(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        if old is not None:
            self._tolerations.pop(old.name, None)
        if new is not None and (toleration := toleration_of(new)) is not None:
            self._tolerations[new.name] = toleration

    def is_row_local(self, state: CycleState, pod: Pod) -> bool:
        """Not where classes tolerate something: time passes, and annotations change."""
        return not self._tolerations and super().is_row_local(state, pod)

    def evictable(self, state: CycleState, pod: Pod, on_node: Iterable[Pod]) -> list[Pod]:
        """The Pods of lower priority that do not tolerate ``pod``."""
        lower = super().evictable(state, pod, on_node)
        if not self._tolerations:
            return lower
        return [other for other in lower if not self._tolerates(other, pod)]

    def _tolerates(self, victim: Pod, pod: Pod) -> bool:
        toleration = self._tolerations.get(victim.spec.priority_class_name)
        if toleration is None or pod.priority >= toleration.minimum:
            return False
        if toleration.seconds < 0:
            return True
        scheduled = _scheduled_at(victim)
        return scheduled is None or scheduled + toleration.seconds > self._now()


def toleration_of(priority_class: PriorityClass) -> PriorityClassToleration | None:
    """What the annotations say; None where they are absent, or no numbers."""
    annotations = priority_class.metadata.annotations
    if MINIMUM not in annotations and SECONDS not in annotations:
        return None
    try:
        minimum = int(annotations.get(MINIMUM, priority_class.value + 1))
        return PriorityClassToleration(minimum, int(annotations.get(SECONDS, 0)))
    except ValueError:
        return None


def _scheduled_at(pod: Pod) -> float | None:
    """When the Pod got its node, seconds since the epoch; None if not known yet."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            since = condition.last_transition_time
            return since.timestamp() if condition.status == "True" and since is not None else None
    return None


class PreemptionToleration(PreemptionPlugin):
    """See the module's docstring."""

    kinds = (POD_DISRUPTION_BUDGET, PRIORITY_CLASS)
    Args = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: InTreeHandle) -> None:
        victims = TolerantVictims(handle.counters, handle.objects, handle.now)
        super().__init__(args, handle, victims, args.enough_candidates)
