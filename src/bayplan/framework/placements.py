"""Placements: the sets of nodes of which one has to hold a whole PodGroup of Kubernetes.

The arguments and answers of PlacementGenerate and PlacementScore plugins. How
these plugins are asked is in `bayplan.engine.placement_stage`, how a placement is tried in
`bayplan.groups.placement_search`.
"""

from __future__ import annotations

import msgspec

from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.cache.node_table import BoolArray


class PodGroupInfo(msgspec.Struct, frozen=True, eq=False):
    """A PodGroup of Kubernetes, or a CompositePodGroup, that is about to be placed.

    Attributes:
        pod_group: the object; both have the same properties.
        pods: those that need nodes, in the order in which they are tried; at least one, unless the
            group is below a CompositePodGroup.
        scheduled: those that have one, ``pod.node_name``.
    """

    pod_group: KubernetesPodGroup
    pods: tuple[Pod, ...]
    scheduled: tuple[Pod, ...]


class PlacementProgress(msgspec.Struct, frozen=True, eq=False):
    """How far a try of a group on one placement is.

    Attributes:
        scheduled: how many Pods of the group have nodes, in this try or from before; of a
            CompositePodGroup, how many groups below it are placed.
        remaining: how many are still to be tried.
    """

    scheduled: int
    remaining: int


class GroupPlacement(msgspec.Struct, frozen=True, eq=False):
    """A set of nodes; all Pods of the group go to nodes of one such set.

    Attributes:
        name: tells it from the others, such as the value of a label.
        rows: ``(len(nodes),)`` bool, the nodes.
        everywhere: whether these are all nodes that there are.
    """

    name: str
    rows: BoolArray
    everywhere: bool = False
