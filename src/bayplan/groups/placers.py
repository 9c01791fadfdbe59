"""Placers: what decides about Pods and groups, made once for a cluster.

The scheduler, ``simulate`` and ``explain`` ask the same ones; what they do with an answer differs.
"""

from __future__ import annotations

from bayplan.attempt.commit import Commit
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.cache import Cache
from bayplan.cache.group_policy import Search
from bayplan.framework.room import RoomRequest
from bayplan.framework.runtime import Framework
from bayplan.groups.decision import GroupDecision
from bayplan.groups.planner import Planner
from bayplan.groups.room import Request
from bayplan.groups.workload_room import WorkloadRequest
from bayplan.queue.nominator import Nominator


class Placers:
    """See the module's docstring.

    Attributes:
        cache: the nodes, and the Pods that count on them.
        nominator: Pods nominated to nodes.
        selector: chooses a node for a Pod.
        commit: assumes the choice, and reserves.
        planner: plans a group.
    """

    def __init__(self, cache: Cache, nominator: Nominator, selector: NodeChooser) -> None:
        self.cache, self.nominator = cache, nominator
        self.selector = selector
        self.commit = Commit(cache, nominator)
        self.planner = Planner(cache, nominator, self.commit, selector)

    def room_request(
        self, framework: Framework, decision: GroupDecision, *, acting: bool
    ) -> RoomRequest:
        """What plugins are asked with that may make room for a rejected group."""
        group, pods = decision.group, decision.pods
        request = WorkloadRequest if group.policy.search is Search.PLACEMENTS else Request
        return request(self.planner, framework, group, pods, dry_run=not acting)
