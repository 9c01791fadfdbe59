"""Placers: what decides about Pods and groups, made once for a cluster.

The scheduler, ``simulate`` and ``explain`` ask the same ones; what they do with an answer differs.
"""

from __future__ import annotations

from bayplan.attempt.commit import Commit
from bayplan.attempt.group import Planner
from bayplan.attempt.room import RoomMaker
from bayplan.attempt.selection import NodeChooser
from bayplan.attempt.workload_group import GroupAttempts
from bayplan.attempt.workload_room import WorkloadRooms
from bayplan.cache.cache import Cache
from bayplan.queue.nominator import Nominator


class Placers:
    """See the module's docstring.

    Attributes:
        selector: chooses a node for a Pod.
        nominator: Pods nominated to nodes.
        commit: assumes the choice, and reserves.
        planner: plans a group.
        rooms: whom to evict for a group.
        attempts: attempts to place a PodGroup of Kubernetes.
        workload_rooms: whom to evict for such a PodGroup.
    """

    def __init__(self, cache: Cache, nominator: Nominator, selector: NodeChooser) -> None:
        self.selector = selector
        self.nominator = nominator
        self.commit = Commit(cache, nominator)
        self.planner = Planner(cache, self.commit, selector)
        self.rooms = RoomMaker(cache, nominator, self.planner)
        self.attempts = GroupAttempts(self.commit, selector, nominator, cache.members)
        self.workload_rooms = WorkloadRooms(cache, nominator, self.attempts, self.commit, selector)
