"""WorkloadPreemption: whom a PodGroup of Kubernetes evicts, as kube-scheduler decides it.

All Pods of lower priority are taken away, and the group is tried once. If it fits then, they are
put back one unit after the other, the most important first, those before the others that a
PodDisruptionBudget protects: a unit stays if the group still fits on the nodes that it has found,
and is a victim if not. A unit is a Pod, or all Pods of a group whose disruption mode is "all".

Answers to kube-scheduler's ``framework/preemption/podgrouppreemption.go``. Groups of the label,
which kube-scheduler does not know, are not left below their minimum: what a group has above its
minimum goes Pod by Pod, after the rest, which is one unit (`bayplan.preemption.units`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from bayplan.api.pod import Pod
from bayplan.api.scheduling import WorkloadPodGroup
from bayplan.cache.node_table.pod_table import start
from bayplan.cache.pod_groups import Group, find_workload_group, workload_group_key
from bayplan.cache.sub_groups import Surplus, sub_group_of
from bayplan.config.points import Point
from bayplan.framework.evictions import POD_GROUP
from bayplan.framework.faults import AttemptFault
from bayplan.framework.handle import InTreeHandle
from bayplan.framework.room import NoRoom, Room, WorkloadRoomRequest
from bayplan.framework.status import Code, Status
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.executor import Executor
from bayplan.preemption.gangs import gangs_of
from bayplan.preemption.ranking import most_important_first

NEVER = NoRoom("not eligible due to preemptionPolicy=Never.")
NOBODY = NoRoom("No preemption victims found for incoming preemptor", final=True)


@dataclass(frozen=True)
class _Unit:
    """Pods that stay or go together.

    Attributes:
        is_group: a Pod that has a group is one, too.
        is_whole: all Pods of a group.
        needs: uid of the group that these are above the minimum of; "" for none.
        ends: uid of the group that falls below its minimum without these; "" for none.
    """

    priority: int
    pods: tuple[Pod, ...]
    is_group: bool
    is_whole: bool = False
    needs: str = ""
    ends: str = ""

    def count_of(self, uids: Set[str]) -> int:
        """How many of its Pods are among these."""
        return sum(pod.uid in uids for pod in self.pods)

    @property
    def importance(self) -> tuple[int, bool, int, int]:
        """Less important ones have higher keys."""
        return -self.priority, not self.is_group, -len(self.pods), min(map(start, self.pods))


class _Choice(NamedTuple):
    """An answer, with the victims that leave as whole groups, and those that a budget protects."""

    answer: Room | NoRoom
    groups: int = 0
    violations: int = 0


class WorkloadPreemption:
    """Evicts for the PodGroups of Kubernetes of one profile.

    Args:
        plugin: whose name a fault has.
        executor: evicts.
    """

    def __init__(self, handle: InTreeHandle, plugin: str, executor: Executor) -> None:
        self._plugin = plugin
        self._nodes, self._objects, self._members = handle.nodes, handle.objects, handle.members
        self._instrument, self._nominator = handle.instrument, handle.nominator
        self._executor, self._evictions = executor, handle.evictions
        self._gangs = gangs_of(handle)
        self._budgets = handle.objects.shared(Budgets, handle.objects)

    def make_room(self, request: WorkloadRoomRequest) -> Room | NoRoom:
        """Have Pods evicted for a group, unless this is only a question.

        Raises:
            AttemptFault: a plugin broke, or without any victims an attempt ends in an error.
        """
        settled = self._settled(request)
        started = perf_counter()
        try:
            choice = _Choice(settled) if settled is not None else self._search(request)
        except AttemptFault:
            if not request.dry_run:
                self._instrument.preemption(POD_GROUP, str(Code.ERROR), perf_counter() - started)
            raise
        if request.dry_run:
            return choice.answer
        seconds = perf_counter() - started if settled is None else None
        self._instrument.preemption(POD_GROUP, str(choice.answer.code), seconds)
        if settled is None and isinstance(choice.answer, Room):
            return self._executor.evict_for_group(
                request.taker, choice.answer, choice.groups, choice.violations
            )
        return choice.answer

    def _settled(self, request: WorkloadRoomRequest) -> Room | NoRoom | None:
        """The answer where no victims have to be looked for."""
        pods, priority = request.taker.pods, request.pod_group.priority
        if pods[0].spec.preemption_policy == "Never":
            return NEVER
        uid = request.taker.uid
        if self._evictions.hold(uid) is not None or self._is_under_way(pods, priority):
            nodes = {pod.uid: self._nominator.nominated_node(pod.uid) for pod in pods}
            text, leaving = "ongoing preemption on nominated nodes", self._evictions.eviction(uid)
            return Room(nodes, (), text, leaving)
        return None

    def _search(self, request: WorkloadRoomRequest) -> _Choice:
        """Look for victims."""
        found = self._units(request.pod_group.priority)
        units = sorted(found, key=lambda unit: unit.importance)
        if not units:
            return _Choice(NOBODY)
        protected = self._budgets.violations(pod for unit in units for pod in unit.pods)
        with request.without([pod for unit in units for pod in unit.pods]) as trial:
            if trial.status.code is Code.ERROR:
                status = Status.error(f"pod group preemption: {trial.status.message}")
                raise AttemptFault(Point.POD_GROUP_POST_FILTER, self._plugin, status)
            if not trial.status.ok:
                return _Choice(NoRoom(trial.status.message))
            # Those that a budget protects come first, and what a group can do without last.
            units.sort(key=lambda unit: (bool(unit.needs), not unit.count_of(protected)))
            victims, ended = list[_Unit](), set[str]()
            for unit in units:
                if unit.needs in ended or not trial.keeps(unit.pods):
                    victims.append(unit)
                    ended |= {unit.ends} - {""}
        victims.sort(key=lambda unit: unit.importance)
        evicted = tuple(pod for unit in victims for pod in unit.pods)
        text = f"found a placement for podgroup, preempting {len(evicted)} victims"
        return _Choice(
            Room(trial.nodes, evicted, text),
            groups=sum(unit.is_whole for unit in victims),
            violations=sum(unit.count_of(protected) for unit in victims),
        )

    def _is_under_way(self, pods: tuple[Pod, ...], priority: int) -> bool:
        """Whether victims are leaving the nodes that Pods of the group are nominated to."""
        names = {self._nominator.nominated_node(pod.uid) for pod in pods} - {""}
        rows = [row for name in names if (row := self._nodes.row(name)) is not None]
        return any(
            pod.is_preempted and self._priority(pod) < priority
            for row in rows
            for pod in self._nodes.pods[row].values()
        )

    def _units(self, priority: int) -> Iterator[_Unit]:
        """All units of a lower priority."""
        seen: set[str] = set()
        labelled: dict[str, tuple[Group, list[Pod]]] = {}
        any_groups = self._gangs.any
        for info in self._nodes:
            for pod in info.pods:
                key, group = workload_group_key(pod), self._group_of(pod)
                gang = self._gangs.group_of(pod) if any_groups and group is None else None
                if gang is not None:
                    labelled.setdefault(gang.uid, (gang, []))[1].append(pod)
                    continue
                own = pod.priority if group is None else group.priority
                if own >= priority:
                    continue
                if group is None or not group.is_one_unit:
                    yield _Unit(own, (pod,), is_group=bool(key))
                elif key not in seen:
                    seen.add(key)
                    members = tuple(self._members.scheduled(key))
                    yield _Unit(own, members, is_group=True, is_whole=True)

        for gang, pods in labelled.values():
            yield from _units_of(gang, pods, priority)

    def _priority(self, pod: Pod) -> int:
        group = self._group_of(pod)
        return pod.priority if group is None else group.priority

    def _group_of(self, pod: Pod) -> WorkloadPodGroup | None:
        key = workload_group_key(pod)
        return find_workload_group(self._objects, key) if key else None


def _units_of(group: Group, pods: Sequence[Pod], priority: int) -> Iterator[_Unit]:
    """The units of the running Pods of a group of the label."""
    staying = [pod for pod in pods if pod.deleted is None]
    surplus = Surplus(group, Counter(sub_group_of(pod.shape) for pod in staying))
    rest: list[Pod] = []
    for pod in reversed(most_important_first(pods)):
        if pod.priority >= priority:
            continue
        if pod.deleted is not None:
            yield _Unit(pod.priority, (pod,), is_group=False)
        elif surplus.take(sub_group_of(pod.shape)):
            yield _Unit(pod.priority, (pod,), is_group=False, needs=group.uid)
        else:
            rest.append(pod)
    if rest and all(pod.priority < priority for pod in staying):
        highest = max(pod.priority for pod in rest)
        yield _Unit(highest, tuple(reversed(rest)), is_group=True, ends=group.uid)
