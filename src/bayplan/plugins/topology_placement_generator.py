"""TopologyPlacementGenerator: a PodGroup of Kubernetes goes to one topology domain.

``spec.schedulingConstraints.topology`` of the group names a node label. Its domains are the nodes
with the same value; nodes without the label are in none. If Pods of the group have nodes already,
only their domain is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayplan.api.kinds import COMPOSITE_POD_GROUP, KUBERNETES_POD_GROUP, NODE
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.node_table import NodeTable
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import Plugin
from bayplan.framework.placements import GroupPlacement, PodGroupInfo
from bayplan.framework.points import EnqueueExtensions, PlacementGenerate
from bayplan.framework.status import Status
from bayplan.plugins.shared.node_domains import comes_into_a_domain


class TopologyPlacementGenerator(Plugin, PlacementGenerate, EnqueueExtensions):
    """One placement for each value of the label that the group names."""

    kinds = (KUBERNETES_POD_GROUP, COMPOSITE_POD_GROUP)

    def __init__(self, args: Any, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._groups = handle.kubernetes_groups

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, nodes: NodeTable
    ) -> list[GroupPlacement] | Status | None:
        """The domains by value; an error where the Pods with nodes are not in one."""
        key = group.pod_group.topology_key
        if not key:
            return None
        column = nodes.label(key)
        present = np.unique(column.codes[column.codes >= 0]).tolist()
        if group.scheduled:
            found: int | None = None
            for pod in sorted(group.scheduled, key=lambda pod: pod.key):
                row = nodes.row(pod.node_name)
                if row is None or not nodes.exists[row]:
                    text = f'nodeinfo not found for node name "{pod.node_name}"'
                    return _undetermined(f"getting node for pod {pod.key}: {text}")
                code = int(column.codes[row])
                if code < 0:
                    return _undetermined(f"no topology domain found for pod {pod.key}")
                if found is not None and found != code:
                    both = f"{column.values[found]}, {column.values[code]}"
                    return _undetermined(f"more than 1 domain found for pod group: {both}")
                found = code
            present = [found]
        placements = [GroupPlacement(column.values[c], column.codes == c) for c in present]
        return sorted(placements, key=lambda placement: placement.name)

    def _domain_changed(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        group = self._groups.find(self._groups.key_of(pod))
        labels = {part.required_level for part in group.tree()} if group is not None else set()
        return Hint.QUEUE if comes_into_a_domain(labels, old, new) else Hint.SKIP

    def _sibling_left(self, pod: Pod, old: Pod, new: Pod | None) -> Hint:
        mine = self._groups.key_of(old) == self._groups.key_of(pod)
        return Hint.QUEUE if new is None and mine else Hint.SKIP

    def events_to_register(self) -> list[EventRegistration]:
        """A node added to a domain; a Pod of the group deleted from its node."""
        node = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        left = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
        return [
            EventRegistration(node, self._domain_changed),
            EventRegistration(left, self._sibling_left),
        ]


def _undetermined(why: str) -> Status:
    return Status.error(f"cannot determine domain for already scheduled pods: {why}")
