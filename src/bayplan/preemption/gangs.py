"""Gangs: which running Pods are of no use without each other.

Two kinds of groups keep their Pods together. A gang has a minimum: Pods above the minimum may go
one by one, the rest goes as a whole or not at all. A group of disruption mode "all" goes as a whole
always. `Gangs.group_of` finds the group of a Pod, whichever source the group has: a PodGroup that a
label names, a PodGroup of Kubernetes, or the owner of the Pod (`bayplan.cache.inferred_groups`).

Searches for one Pod look at one node. For them a group of mode "all" counts as one victim, as in
kube-scheduler. A group of the label, which kube-scheduler does not know, is spared where possible:
nodes where no such group falls below its minimum are better, whatever the other criteria say, and
on a node the Pods that a group cannot do without stay rather than others. Where there is no other
choice, the Pod evicts what kube-scheduler would.

Brought up to date when it is asked, from the rows that changed; without groups it costs nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain

import numpy as np

from bayplan.api.kinds import (
    COMPOSITE_POD_GROUP,
    JOB,
    JOB_SET,
    KUBERNETES_POD_GROUP,
    LEADER_WORKER_SET,
    POD_GROUP,
)
from bayplan.api.pod import Pod, PodShape
from bayplan.cache.groups import Groups
from bayplan.cache.kubernetes_groups import KubernetesGroups
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.cache.node_table.pod_table import start
from bayplan.cache.objects import ObjectStore
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import Surplus, sub_group_of
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.preemption.ranking import in_a_group
from bayplan.preemption.running_pods import RunningPods


class Gangs:
    """The groups of running Pods, and how many Pods each has above its minimum.

    Attributes:
        version: changes with every answer.
    """

    def __init__(
        self,
        nodes: LiveNodeTable,
        objects: ObjectStore,
        groups: Groups,
        kubernetes_groups: KubernetesGroups,
    ) -> None:
        self.version = 0
        self._nodes, self._objects = nodes, objects
        self._groups, self._of_kubernetes = groups, kubernetes_groups
        self._inferred = groups.version
        self._running: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By group and sub-group, how many Pods run."""
        self._by_row: dict[int, Counter[tuple[str, str]]] = {}
        self._journals = nodes.pod_journal, nodes.start_journal
        self._positions: list[int] = []
        kinds = (POD_GROUP, JOB, JOB_SET, LEADER_WORKER_SET)
        for kind in (*kinds, KUBERNETES_POD_GROUP, COMPOSITE_POD_GROUP):
            objects.on_change(kind, self._changed)

    def _changed(self, _old: object, _new: object) -> None:
        self.version += 1

    # Which Pods are in which group

    @property
    def any(self) -> bool:
        """Whether there may be groups."""
        return self._groups.any or self.any_of_kubernetes

    @property
    def any_of_kubernetes(self) -> bool:
        """Whether there are PodGroups of Kubernetes."""
        return bool(self._objects.all(KUBERNETES_POD_GROUP))

    def group_of(self, pod: Pod) -> Group | None:
        """The group whose Pods ``pod`` goes with; None for a Pod that may go alone."""
        if pod.pod_group and self.any_of_kubernetes:
            return self._of_pod_group(pod)
        return self._of_shape(pod.shape)

    def _of_shape(self, shape: PodShape) -> Group | None:
        """A group of the label, or an inferred one: both are a matter of the shape."""
        key = self._groups.key_of_shape(shape) if self._groups.any else ""
        return self._groups.find(key) if key else None

    def _of_pod_group(self, pod: Pod) -> Group | None:
        """The highest group of mode "all", else the gang; None for a Pod that needs no others.

        How many gangs a CompositePodGroup needs is not looked at: its gangs go one by one.
        """
        whole = self._of_kubernetes.whole(pod)
        if whole is not None:
            return whole
        group = self._of_kubernetes.leaf(pod)
        is_gang = group is not None and group.pod_group is not None and group.pod_group.is_gang
        return group if is_gang else None

    def groups_of(self, running: RunningPods) -> tuple[list[Group], IntArray]:
        """The groups of running Pods; ``(p,)`` the index of each Pod's group, negative for none."""
        groups: dict[str, Group] = {}

        def number(group: Group | None) -> int:
            if group is None:
                return -1
            groups.setdefault(group.uid, group)
            return positions.setdefault(group.uid, len(positions))

        positions: dict[str, int] = {}
        by_shape = [number(self._of_shape(shape)) for shape in running.shapes]
        numbers = np.array(by_shape, np.int64)[running.codes]
        if self.any_of_kubernetes:
            for index, pod in enumerate(running.pods):
                if pod.pod_group:
                    numbers[index] = number(self.group_of(pod))
        return list(groups.values()), numbers

    def whole(self, pod: Pod) -> Group | None:
        """The group of ``pod`` if its disruption mode is "all"."""
        group = self.group_of(pod) if pod.pod_group and self.any_of_kubernetes else None
        return group if group is not None and group.whole else None

    def rank(self, pod: Pod) -> int:
        """2 for a Pod that goes with a CompositePodGroup, 1 for others in a group of Kubernetes."""
        group = self.whole(pod)
        return 2 if group is not None and group.is_composite else in_a_group(pod)

    def members(self, group: Group) -> tuple[Pod, ...]:
        """The running Pods of a group of Kubernetes."""
        return tuple(self._of_kubernetes.scheduled(group))

    # Groups of the label, for one Pod that preempts

    def refresh(self) -> None:
        """Take in what has changed since the last time."""
        if not self.any or self._inferred != self._groups.version:
            self._inferred = self._groups.version
            self._running.clear()
            self._by_row.clear()
            self._positions = []
        if not self.any:
            return
        for row in self._moved():
            self._recount(row)

    def _moved(self) -> Iterable[int]:
        """The rows that have changed since the last time."""
        pairs = zip(self._journals, self._positions, strict=False)
        moved = [journal.since(position) for journal, position in pairs]
        self._positions = [journal.position for journal in self._journals]
        if not moved or None in moved:
            return range(len(self._nodes))
        return set(chain.from_iterable(filter(None, moved)))

    def _recount(self, row: int) -> None:
        counts = Counter(filter(None, map(self._part_of, self._nodes.pods[row].values())))
        before = self._by_row.get(row, Counter())
        if counts != before:
            self._by_row[row] = counts
            for key, sub_group in counts.keys() | before.keys():
                running = self._running[key]
                running[sub_group] += counts[key, sub_group] - before[key, sub_group]
                if not running[sub_group]:
                    del running[sub_group]
                    if not running:
                        del self._running[key]
            self.version += 1

    def _part_of(self, pod: Pod) -> tuple[str, str] | None:
        """The group and sub-group of a running Pod; None if the Pod counts for none.

        In a group of mode "all" each Pod counts by itself, as a victim is all of them.
        """
        if (group := self.whole(pod)) is not None:
            return group.uid, f"{pod.uid} {start(pod)}"
        key = "" if pod.deleted is not None else self._groups.key_of(pod)
        return (key, sub_group_of(pod.shape)) if key else None

    def needed(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Uid -> group of the label, for the ``pods`` needed for their group's minimum.

        Args:
            pods: of one node, the most important first; the others are counted as leaving first.
        """
        if not self._running:
            return {}
        surplus: dict[str, Surplus | None] = {}
        needed: dict[str, str] = {}
        for pod in reversed(list(pods)):
            key = self._groups.key_of(pod)
            if not key or pod.deleted is not None:
                continue
            if key not in surplus:
                group = self._groups.find(key)
                surplus[key] = Surplus(group, self._running[key]) if group is not None else None
            spare = surplus[key]
            if spare is not None and not spare.take(sub_group_of(pod.shape)):
                needed[pod.uid] = key
        return needed


def gangs_of(handle: InTreeHandle) -> Gangs:
    """The gangs of the cluster, which all profiles share."""
    objects = handle.objects
    return objects.shared(Gangs, handle.nodes, objects, handle.groups, handle.kubernetes_groups)
