"""Planner: makes the plan of a group, or says why there is none.

A plan stands when as many Pods as the group's minimum have nodes (`GroupSearch`); as many others as
fit come along. A search that does not reach the minimum is undone within the same call, so no group
ever holds a part of what it needs while others are tried.

Most groups that do not fit are known not to before anything is placed (`GroupCapacity`). A group
that is to be together is searched for in one domain after the other (`bayplan.attempt.levels`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.api.quantity import shown
from bayplan.attempt import group_reasons, levels
from bayplan.attempt.commit import Commit
from bayplan.attempt.group_capacity import GroupCapacity
from bayplan.attempt.group_search import GroupSearch
from bayplan.attempt.levels import Domain
from bayplan.attempt.outcome import Reason
from bayplan.attempt.plan import GroupRejection, Plan
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.cache import Cache
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group, GroupTopology
from bayplan.framework.runtime import Framework


class Planner:
    """Makes plans. Scheduling thread only."""

    def __init__(self, cache: Cache, commit: Commit, selector: NodeChooser) -> None:
        self._cache = cache
        self._commit = commit
        self._selector = selector

    def plan(
        self, framework: Framework, group: Group, pods: Sequence[Pod], *, dry_run: bool = False
    ) -> Plan | GroupRejection:
        """Place ``pods``, which are at least the minimum, in their order. Never raises."""
        if short := self._short_room(group):
            return group_reasons.no_min_resources(group, short, pods)
        if group.topology is not None:
            return self._plan_by_level(framework, group, group.topology, pods, dry_run=dry_run)
        return self._plan_anywhere(
            framework, group, pods, GroupCapacity(framework, pods), dry_run=dry_run
        )

    def _plan_anywhere(
        self,
        framework: Framework,
        group: Group,
        pods: Sequence[Pod],
        capacity: GroupCapacity,
        *,
        dry_run: bool,
    ) -> Plan | GroupRejection:
        if capacity.at_most() < group.minimum:
            return group_reasons.too_few_copies(group, capacity)
        return self.plan_within(framework, group, pods, None, dry_run=dry_run)

    def _plan_by_level(
        self,
        framework: Framework,
        group: Group,
        topology: GroupTopology,
        pods: Sequence[Pod],
        *,
        dry_run: bool,
    ) -> Plan | GroupRejection:
        """In one domain of the best level where it fits."""
        if fault := levels.fault(self._cache.nodes, topology):
            return group_reasons.bad_topology(group, fault, pods)
        capacity = GroupCapacity(framework, pods)
        tried: list[tuple[Domain, GroupRejection]] = []
        domains: list[Domain] = []
        for level in topology.steps:
            if not level:
                return self._plan_anywhere(framework, group, pods, capacity, dry_run=dry_run)
            domains = levels.domains(self._cache.nodes, level, capacity)
            enough = [domain for domain in domains if domain.holds >= group.minimum]
            for domain in enough[: levels.MOST_TRIES]:
                outcome = self.plan_within(framework, group, pods, domain.rows, dry_run=dry_run)
                if isinstance(outcome, Plan):
                    return replace(outcome, domain=domain)
                if outcome.reason is Reason.SCHEDULER_ERROR or outcome.fit >= group.minimum:
                    return outcome
                tried.append((domain, outcome))
        return group_reasons.no_domain(group, topology.required, domains, tried, capacity)

    def plan_within(
        self,
        framework: Framework,
        group: Group,
        pods: Sequence[Pod],
        domain: BoolArray | None,
        *,
        dry_run: bool = False,
    ) -> Plan | GroupRejection:
        """The same on some rows only: ``domain`` is ``(n,)`` bool, or None for all."""
        search = GroupSearch(
            framework, self._selector, self._commit, domain=domain, dry_run=dry_run
        )
        left = search.run(pods)
        if len(search.members) < group.minimum:
            rejection = search.rejection(group)
            self._commit.undo(search.members)
            return rejection
        refusal = self._commit.permit(search.members)
        if refusal is not None:
            self._commit.undo(search.members)
            return group_reasons.refused(group, refusal, pods)
        return Plan(tuple(search.members), tuple(search.placements), tuple(left))

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
