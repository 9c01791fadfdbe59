"""TopologicalSort: of the Pods of an AppGroup, dependencies come first.

The order is that in the status of the AppGroup, which its controller writes; a workload that is not
there comes first. Pods of other AppGroups, or of none, are ordered by priority, then first come,
first served. Name, arguments and order are those of scheduler-plugins.
"""

from __future__ import annotations

from bayplan.api.kinds import APP_GROUP
from bayplan.api.network import AppGroup
from bayplan.config.args import TopologicalSortArgs
from bayplan.framework.interface import Plugin, QueuedPod
from bayplan.framework.points import QueueLess
from bayplan.plugins.shared.app_groups import GROUP, WORKLOAD, first_of


class TopologicalSort(Plugin, QueueLess):
    """See the module's docstring."""

    Args = TopologicalSortArgs
    args: TopologicalSortArgs
    kinds = (APP_GROUP,)

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether ``a`` comes before ``b``."""
        name = a.pod.shape.labels.get(GROUP)
        if name and name == b.pod.shape.labels.get(GROUP):
            group = first_of(self.handle.objects, APP_GROUP, self.args.namespaces, name)
            first, second = _index(group, a), _index(group, b)
            if first != second:
                return first < second
        return (-a.pod.priority, a.timestamp) < (-b.pod.priority, b.timestamp)


def _index(group: AppGroup | None, queued: QueuedPod) -> int:
    """The place of the Pod's workload; -1 where none is known."""
    selector = queued.pod.shape.labels.get(WORKLOAD, "")
    order = () if group is None else group.status.topology_order
    return next((each.index for each in order if each.workload.selector == selector), -1)
