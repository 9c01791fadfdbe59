"""Planner: makes the plan of a group, or says why there is none.

A plan stands when as many Pods as the minimum of the group, and of each of its sub-groups, have
nodes (`DomainSearch`); as many others as fit come along. A search that does not reach every minimum
is undone within the same call, so no group ever holds a part of what it needs while others are
tried. Most groups that do not fit are known not to before anything is placed (`GroupCapacity`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.api.quantity import shown
from bayplan.attempt import group_reasons, levels
from bayplan.attempt.commit import Commit
from bayplan.attempt.domain_search import DomainSearch
from bayplan.attempt.plan import GroupRejection, Plan
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.cache import Cache
from bayplan.cache.pod_groups import Group
from bayplan.framework.runtime import Framework


class Planner:
    """Makes plans. Scheduling thread only.

    Attributes:
        selector: chooses nodes.
    """

    def __init__(self, cache: Cache, commit: Commit, selector: NodeChooser) -> None:
        self._cache = cache
        self._commit = commit
        self.selector = selector

    def plan(
        self, framework: Framework, group: Group, pods: Sequence[Pod], *, dry_run: bool = False
    ) -> Plan | GroupRejection:
        """Place ``pods``, which are at least every minimum, in their order. Never raises."""
        if short := self._short_room(group):
            return group_reasons.no_min_resources(group, short, pods)
        if fault := levels.fault(self._cache.nodes, group):
            return group_reasons.bad_topology(group, fault, pods)
        search = DomainSearch(
            framework, self.selector, self._commit, self._cache, group, pods, dry_run=dry_run
        )
        rejection = search.run()
        if rejection is not None:
            return rejection
        members = tuple(search.taken.members)
        refusal = self._commit.permit(members)
        if refusal is not None:
            self._commit.undo(members)
            return group_reasons.refused(group, refusal, pods)
        return Plan(members, tuple(search.taken.placements), tuple(search.left()), search.domains)

    def drop(self, plan: Plan) -> None:
        """The plan is not bound: none of its Pods counts any more."""
        self._commit.undo(plan.members)

    def _short_room(self, group: Group) -> list[str]:
        """MinResources that all nodes in use together do not have free."""
        nodes = self._cache.nodes
        usable = nodes.exists & ~nodes.unschedulable if group.room else nodes.exists
        short = []
        for name, amount in sorted(group.room.items()):
            free = np.maximum(nodes.allocatable(name) - nodes.requested(name), 0)
            there = int(free[usable].sum())
            if there < amount:
                short.append(f"{name} ({shown(name, there)} of {shown(name, amount)} free)")
        return short


def refusal_of(framework: Framework, group: Group, pods: Sequence[Pod]) -> GroupRejection | None:
    """Why no nodes are sought for the group at all; None where nothing is against that."""
    minimum = pods[: group.minimum]
    for plugin in framework.plugins.admitting:
        status = plugin.admit_group(group, minimum)
        if status is not None and status.rejected:
            return group_reasons.not_admitted(group, plugin.name, status, minimum)
    return None
