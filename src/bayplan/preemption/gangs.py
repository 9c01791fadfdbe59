"""Gangs: which Pods of a node a group cannot do without.

For one Pod that preempts: a group that falls below its minimum is of no use, wherever its other
members run. So nodes where no group falls below it are better, whatever the other criteria say, and
on a node the Pods that a group cannot do without stay rather than others. Where there is no other
choice, the Pod evicts what kube-scheduler would.

Brought up to date when it is asked, from the rows that changed; without groups it costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bayplan.api.kinds import POD_GROUP
from bayplan.api.pod import Pod
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.cache.pod_groups import find_group, group_key


class Gangs:
    """How many Pods each group has above its minimum.

    Attributes:
        version: changes with every answer.
    """

    def __init__(self, nodes: LiveNodeTable, objects: ObjectStore) -> None:
        self.version = 0
        self._nodes = nodes
        self._objects = objects
        self._running: Counter[str] = Counter()
        self._by_row: dict[int, Counter[str]] = {}
        self._position = nodes.pod_journal.position
        objects.on_change(POD_GROUP, self._changed)

    def _changed(self, _old: object, _new: object) -> None:
        self.version += 1

    def refresh(self) -> None:
        """Take in what has changed since the last time."""
        if not self._objects.all(POD_GROUP):
            self._running.clear()
            self._by_row.clear()
            self._position = -1
            return
        moved = self._nodes.pod_journal.since(self._position) if self._position >= 0 else None
        self._position = self._nodes.pod_journal.position
        for row in range(len(self._nodes)) if moved is None else set(moved):
            self._recount(row)

    def _recount(self, row: int) -> None:
        pods = self._nodes.pods[row].values()
        counts = Counter(key for pod in pods if pod.deleted is None and (key := group_key(pod)))
        before = self._by_row.get(row, Counter())
        if counts != before:
            self._by_row[row] = counts
            self._running.update(counts)
            self._running.subtract(before)
            self.version += 1

    def needed(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Uid -> group of those of ``pods`` that it cannot do without.

        Args:
            pods: of one node, the most important first; the others are counted as leaving first.
        """
        if not self._running:
            return {}
        above: dict[str, int] = {}
        needed: dict[str, str] = {}
        for pod in reversed(list(pods)):
            key = group_key(pod)
            if not key or pod.deleted is not None:
                continue
            if key not in above:
                group = find_group(self._objects, key)
                minimum = group.minimum if group is not None else 0
                above[key] = self._running[key] - minimum
            above[key] -= 1
            if above[key] < 0:
                needed[pod.uid] = key
        return needed
