"""Reprieve: whom a PodGroup of Kubernetes evicts, as kube-scheduler decides it.

1. All units of lower priority are taken away, and the group is tried once.
2. If it fits then, the units are put back one after the other, the most important first, those
   before the others that a PodDisruptionBudget protects, those at last whose eviction is decided
   already. A unit stays if the group still fits on the nodes that it got, and is a victim if not.

A unit is a Pod, or all Pods of a group whose disruption mode is "all". Answers to kube-scheduler's
``framework/preemption/podgrouppreemption.go``.

Groups of the label, which kube-scheduler does not know, are not left below their minimum. Such a
group is a unit, too, but if it cannot stay as a whole its Pods are put back one by one; it goes as
a whole only if those that cannot stay are more than it can do without. An example: a group with a
minimum of 2 runs one Pod on each of n1, n2 and n3, and the preemptor got n2. The Pod on n2 cannot
stay, two others can: one victim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from bayplan.api.pod import Pod
from bayplan.cache.node_table.pod_table import start
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import Surplus, sub_group_of
from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import NoRoom, Room, RoomRequest, RoomTrial
from bayplan.framework.status import Code, Status
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.gangs import gangs_of
from bayplan.preemption.ranking import most_important_first

NOBODY = NoRoom("No preemption victims found for incoming preemptor", final=True)


@dataclass(frozen=True)
class _Unit:
    """Pods that stay or go together.

    Attributes:
        rank: 2 for a CompositePodGroup; 1 for another group, or a Pod that has one; 0 for a Pod.
        is_whole: all Pods of a group of Kubernetes.
        gang: the group of the label that these are all running Pods of; None for others.
    """

    priority: int
    pods: tuple[Pod, ...]
    rank: int
    is_whole: bool = False
    gang: Group | None = None

    def count_of(self, uids: Set[str]) -> int:
        """How many of its Pods are among these."""
        return sum(pod.uid in uids for pod in self.pods)

    @property
    def importance(self) -> tuple[int, int, int, int]:
        """Less important ones have higher keys."""
        return -self.priority, -self.rank, -len(self.pods), min(map(start, self.pods))


class Reprieve:
    """See the module's docstring, and `bayplan.preemption.group.Strategy`.

    Args:
        plugin: whose name a fault has.
    """

    under_way = "ongoing preemption on nominated nodes"

    def __init__(self, handle: InTreeHandle, plugin: str) -> None:
        self._plugin = plugin
        self._nodes, self._groups = handle.nodes, handle.kubernetes_groups
        self._gangs = gangs_of(handle)
        self._budgets = handle.objects.shared(Budgets, handle.objects)
        self._evictions, self._services = handle.evictions, handle.services

    def awaits(self, preemptor: Preemptor, leaving: Pod) -> bool:
        """See `Strategy`."""
        if not leaving.is_preempted:
            return False
        return self._priority(leaving) < preemptor.priority

    def find(self, request: RoomRequest) -> Room | NoRoom:
        """See `Strategy`.

        Raises:
            AttemptFault: also where the attempt without any victims ends in an error.
        """
        units = sorted(self._units(request.preemptor.priority), key=lambda unit: unit.importance)
        if not units:
            return NOBODY
        protected = self._budgets.violations(pod for unit in units for pod in unit.pods)
        # 1. Without all of them
        with request.trial_without([pod for unit in units for pod in unit.pods]) as trial:
            if trial.status.code is Code.ERROR:
                status = Status.error(f"pod group preemption: {trial.status.message}")
                raise AttemptFault(Point.POD_GROUP_POST_FILTER, self._plugin, status)
            if not trial.status.ok:
                return NoRoom(trial.status.message)
            # 2. Those that a budget protects come first, then the others, and what is leaving last
            leaving = self._evictions.leaving(pod for unit in units for pod in unit.pods)

            def less_protected(unit: _Unit) -> tuple[bool, bool]:
                leaves = unit.count_of(leaving) == len(unit.pods)
                return leaves, not unit.count_of(protected)

            units.sort(key=less_protected)
            victims = [_going(trial, unit) for unit in units if not trial.keeps(unit.pods)]
        victims.sort(key=lambda unit: unit.importance)
        evicted = tuple(pod for unit in victims for pod in unit.pods)
        return Room(
            trial.nodes,
            evicted,
            f"found a placement for podgroup, preempting {len(evicted)} victims",
            groups=sum(unit.is_whole for unit in victims),
            violations=sum(unit.count_of(protected - leaving) for unit in victims),
        )

    def _units(self, priority: int) -> Iterator[_Unit]:
        """All units of a lower priority, without Pods that are never evicted."""
        any_never, is_never = self._services.any_never_evicted, self._services.is_never_evicted
        for unit in self._units_of_lower_priority(priority):
            if not any_never or not any(map(is_never, unit.pods)):
                yield unit

    def _units_of_lower_priority(self, priority: int) -> Iterator[_Unit]:
        seen: set[str] = set()
        gangs: dict[str, tuple[Group, list[Pod]]] = {}
        any_groups = self._gangs.any
        for info in self._nodes:
            for pod in info.pods:
                above = self._groups.above(pod)
                gang = self._gangs.group_of(pod) if any_groups and not above else None
                if gang is not None:
                    gangs.setdefault(gang.uid, (gang, []))[1].append(pod)
                    continue
                own = self._priority(pod)
                if own >= priority:
                    continue
                whole = self._groups.whole(pod) if above else None
                if whole is None:
                    yield _Unit(own, (pod,), rank=bool(pod.pod_group))
                elif whole.key not in seen:
                    seen.add(whole.key)
                    members = tuple(self._groups.scheduled(whole))
                    yield _Unit(own, members, rank=1 + whole.is_composite, is_whole=True)
        for gang, pods in gangs.values():
            yield from _units_of(gang, pods, priority)

    def _priority(self, pod: Pod) -> int:
        """The priority of the highest group above the Pod, if there is a group."""
        above = self._groups.above(pod)
        return above[-1].priority if above else pod.priority


def _going(trial: RoomTrial, unit: _Unit) -> _Unit:
    """What goes of a unit that cannot stay as a whole."""
    if unit.gang is None:
        return unit
    kept, gone = list[Pod](), list[Pod]()
    for pod in unit.pods:
        (kept if trial.keeps([pod]) else gone).append(pod)
    surplus = Surplus(unit.gang, Counter(sub_group_of(pod.shape) for pod in unit.pods))
    if all(surplus.take(sub_group_of(pod.shape)) for pod in gone):
        return replace(unit, pods=tuple(gone))
    trial.gives_up(kept)
    return unit


def _units_of(group: Group, pods: Sequence[Pod], priority: int) -> Iterator[_Unit]:
    """The units of lower priority among the running Pods of a group of the label."""
    lower = [pod for pod in most_important_first(pods) if pod.priority < priority]
    for pod in lower:
        if pod.deleted is not None:
            yield _Unit(pod.priority, (pod,), rank=0)
    staying = [pod for pod in lower if pod.deleted is None]
    running = Counter(sub_group_of(pod.shape) for pod in pods if pod.deleted is None)
    if staying and len(staying) == running.total():
        yield _Unit(staying[0].priority, tuple(staying), rank=1, gang=group)
        return
    # Members that may not go keep the minimum
    surplus = Surplus(group, running)
    for pod in reversed(staying):
        if surplus.take(sub_group_of(pod.shape)):
            yield _Unit(pod.priority, (pod,), rank=0)
