"""Tasks: notifies running binding tasks of changes to their objects.

All profiles share it. Changes arrive on the scheduling thread and cost almost nothing if no Pod
waits for its volumes. That thread adds tasks and binding workers remove them, so the table of tasks
has a lock.
"""

from __future__ import annotations

import threading

from bayplan.api.kinds import CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from bayplan.api.meta import Object
from bayplan.api.pod import Pod
from bayplan.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.plugins.volume_binding.binding import BindingTask


class Tasks:
    """The tasks under way; tells them of changes. A `Listener` of the node table."""

    def __init__(self, nodes: LiveNodeTable, objects: ObjectStore) -> None:
        self._nodes = nodes
        self._lock = threading.Lock()
        self._tasks: dict[str, BindingTask] = {}
        nodes.listen(self)
        objects.on_change(PERSISTENT_VOLUME, self._volume_changed)
        objects.on_change(PERSISTENT_VOLUME_CLAIM, self._claim_changed)
        objects.on_change(CSI_NODE, self._csi_node_changed)

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: BindingTask) -> None:
        """Tell ``task`` from now on."""
        with self._lock:
            self._tasks[task.pod.uid] = task

    def discard(self, task: BindingTask) -> None:
        """Tell ``task`` no more. May be called by a binding worker."""
        with self._lock:
            self._tasks.pop(task.pod.uid, None)

    def pod_added(self, _row: int, pod: Pod) -> None:
        """The Pod counts on its node (again)."""
        if (task := self._of(pod)) is not None:
            task.pod_changed(gone=False)

    def pod_removed(self, row: int, pod: Pod) -> None:
        """The Pod no longer counts, unless the table re-adds the Pod after a change of the node."""
        if (task := self._of(pod)) is not None:
            task.pod_changed(gone=pod.uid not in self._nodes.pods[row])

    def node_changed(self, row: int) -> None:
        """A node came, went or changed."""
        node = self._nodes.nodes[row]
        for task in self._all():
            if task.node is not None and (current := self._nodes.row(task.node.name)) in (
                None,
                row,
            ):
                task.node_changed(None if current is None else node)

    def _of(self, pod: Pod) -> BindingTask | None:
        # Asked for every Pod that comes or goes: without tasks it must not cost a lock. A Pod that
        # is only tried out as gone is still there for its binding worker.
        if not self._tasks or self._nodes.tentative:
            return None
        with self._lock:
            return self._tasks.get(pod.uid)

    def _all(self) -> list[BindingTask]:
        with self._lock:
            return list(self._tasks.values())

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        for task in self._all():
            task.volume_changed(_name(old, new), new)

    def _claim_changed(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        for task in self._all():
            task.claim_changed(_name(old, new), new)

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        for task in self._all():
            if task.node is not None and task.node.name == _name(old, new):
                task.csi_node_changed(new)


def _name(old: Object | None, new: Object | None) -> str:
    changed = new or old
    assert changed is not None
    return changed.key
