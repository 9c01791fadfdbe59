"""Placers: what decides about Pods and groups, made once for a cluster.

The scheduler, ``simulate`` and ``explain`` ask the same ones; what they do with an answer differs.
"""

from __future__ import annotations

from bayplan.attempt.commit import Commit
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.cache import Cache
from bayplan.groups.planner import Planner
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
