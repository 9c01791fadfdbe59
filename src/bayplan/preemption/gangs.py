"""Gangs: which Pods of a node a group cannot do without.

For one Pod that preempts: a group that falls below its minimum is of no use, wherever its other
members run. So nodes where no group falls below it are better, whatever the other criteria say, and
on a node the Pods that a group cannot do without stay rather than others. Where there is no other
choice, the Pod evicts what kube-scheduler would.

Brought up to date when it is asked, from the rows that changed; without groups it costs nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from bayplan.api.kinds import JOB, JOB_SET, LEADER_WORKER_SET, POD_GROUP
from bayplan.api.pod import Pod
from bayplan.cache.groups import Groups
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.cache.sub_groups import Surplus, sub_group_of


class Gangs:
    """How many Pods each group has above its minimum.

    Attributes:
        version: changes with every answer.
    """

    def __init__(self, nodes: LiveNodeTable, objects: ObjectStore, groups: Groups) -> None:
        self.version = 0
        self._nodes = nodes
        self._groups = groups
        self._inferred = groups.version
        self._running: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By group and sub-group, how many Pods run."""
        self._by_row: dict[int, Counter[tuple[str, str]]] = {}
        self._position = -1
        for kind in (POD_GROUP, JOB, JOB_SET, LEADER_WORKER_SET):
            objects.on_change(kind, self._changed)

    def _changed(self, _old: object, _new: object) -> None:
        self.version += 1

    def refresh(self) -> None:
        """Take in what has changed since the last time."""
        if not self._groups.any or self._inferred != self._groups.version:
            self._inferred = self._groups.version
            self._running.clear()
            self._by_row.clear()
            self._position = -1
        if not self._groups.any:
            return
        moved = self._nodes.pod_journal.since(self._position) if self._position >= 0 else None
        self._position = self._nodes.pod_journal.position
        for row in range(len(self._nodes)) if moved is None else set(moved):
            self._recount(row)

    def _recount(self, row: int) -> None:
        staying = (pod for pod in self._nodes.pods[row].values() if pod.deleted is None)
        keys = ((self._groups.key_of(pod), sub_group_of(pod.shape)) for pod in staying)
        counts = Counter(key for key in keys if key[0])
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

    def needed(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Uid -> group of those of ``pods`` that it cannot do without.

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
