"""Planner: nodes for all Pods of a group, or why there are none.

Two searches, chosen by the policy of the group, place Pods in the same way (`bayplan.groups.fill`):
`LevelSearch` and `PlacementSearch`. A search that does not reach every minimum is undone within the
same call, so no group ever holds a part of what it needs while others are tried. Most groups that
do not fit are known not to before anything is placed (`GroupCapacity`).

Who makes room for a group calls `Planner.plan` in a trial without the victims, and then
`Planner.drop`.

The reasons: docs/decisions/0020-groups-are-planned.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.api.quantity import shown
from bayplan.attempt.commit import Commit
from bayplan.attempt.outcome import Rejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.cache import Cache
from bayplan.cache.group_policy import Search
from bayplan.cache.kubernetes_groups import pods_of
from bayplan.cache.pod_groups import Group
from bayplan.engine.runtime import Framework
from bayplan.framework.placements import PodGroupInfo
from bayplan.framework.status import SUCCESS, Status
from bayplan.groups import domains, words_label
from bayplan.groups.decision import GroupDecision, Placed
from bayplan.groups.fill import Fill
from bayplan.groups.improvement import Improvement
from bayplan.groups.level_search import LevelSearch
from bayplan.groups.placement_search import UNSCHEDULABLE, PlacementSearch
from bayplan.groups.slice_packing import Steps
from bayplan.queue.nominator import Nominator


class Planner:
    """Makes plans. Scheduling thread only.

    Attributes:
        cache: the nodes, and the Pods that count on them.
        nominator: Pods nominated to nodes.
        commit: has Pods count on nodes.
        selector: chooses the nodes.
    """

    def __init__(
        self, cache: Cache, nominator: Nominator, commit: Commit, selector: NodeChooser
    ) -> None:
        self.cache, self.nominator = cache, nominator
        self.commit, self.selector = commit, selector
        self._steps, self._steps_of = Steps(), ""

    def plan(
        self, framework: Framework, group: Group, pods: Sequence[Pod], *, acting: bool = False
    ) -> GroupDecision:
        """Place ``pods``, which are at least every minimum, in their order. Never raises.

        The members of a group that fits count until `drop`. See `deciding_group` for ``acting``.
        Plans in trials, as for room, share the work that the plan of the group before them left.
        """
        if not self.cache.in_trial or self._steps_of != group.uid:
            self._steps, self._steps_of = Steps(), group.uid
        fill = Fill(framework, self.selector, self.commit, self.nominator, acting=acting)
        search = self._on_levels
        if group.policy.search is Search.PLACEMENTS:
            search = self._on_placements
        decision = search(framework, fill, group, pods)
        effects = [effect for each in fill.effects.values() for effect in each]
        return replace(decision, effects=effects) if effects else decision

    def drop(self, plan: GroupDecision) -> None:
        """The plan is not bound: none of its Pods counts any more."""
        self.commit.undo(plan.members)

    def scheduled(self, group: Group) -> list[Pod]:
        """The Pods of the group with nodes, as far as the minimum includes such Pods."""
        if group.policy.search is Search.PLACEMENTS:
            return self.cache.kubernetes_groups.scheduled(group)
        return []

    def needed(self, group: Group) -> int:
        """As many more Pods have to get nodes at once; at least one."""
        return max(self._lacking(group), 1)

    def _lacking(self, group: Group) -> int:
        if not group.is_composite or group.pod_group is None:
            return max(group.minimum - len(self.scheduled(group)), 0)
        return sum(sorted(map(self._lacking, group.children))[: group.pod_group.minimum])

    # By levels

    def _on_levels(
        self, framework: Framework, fill: Fill, group: Group, pods: Sequence[Pod]
    ) -> GroupDecision:
        if short := self._short_room(group):
            return words_label.rejected(
                group, pods, words_label.no_min_resources(group, short, pods)
            )
        if fault := domains.fault(self.cache.nodes, group):
            return words_label.rejected(group, pods, words_label.bad_topology(group, fault, pods))
        search = LevelSearch(framework, fill, self.cache, group, pods, self._steps)
        rejection = search.run()
        if rejection is None and not self._improved(framework, fill, group, pods, search):
            fill.undo()
            search = LevelSearch(framework, fill, self.cache, group, pods, self._steps)
            rejection = search.run()
        if rejection is not None:
            return words_label.rejected(group, pods, rejection)
        refusal = self.commit.permit(fill.members)
        if refusal is not None:
            fill.undo()
            return words_label.rejected(group, pods, words_label.refused(group, refusal, pods))
        placed = tuple(fill.placed)
        return GroupDecision(
            group,
            tuple(pods),
            SUCCESS,
            placed,
            tried=len(pods),
            domains=search.domains,
            slices=search.slices,
        )

    def _improved(
        self,
        framework: Framework,
        fill: Fill,
        group: Group,
        pods: Sequence[Pod],
        search: LevelSearch,
    ) -> bool:
        """Make the plan cheaper, if a plugin says what Pods cost; False if that broke the plan."""
        objective = framework.services.objective
        if objective is None:
            return True
        improvement = Improvement(objective, fill, self.cache.nodes, group, pods, search.domains)
        return not improvement.may_help or improvement.run()

    def _short_room(self, group: Group) -> list[str]:
        """MinResources that all nodes in use together do not have free."""
        nodes = self.cache.nodes
        usable = nodes.exists & ~nodes.unschedulable if group.min_resources else nodes.exists
        short = []
        for name, amount in sorted(group.min_resources.items()):
            free = np.maximum(nodes.allocatable(name) - nodes.requested(name), 0)
            there = int(free[usable].sum())
            if there < amount:
                short.append(f"{name} ({shown(name, there)} of {shown(name, amount)} free)")
        return short

    # On placements

    def _on_placements(
        self, framework: Framework, fill: Fill, group: Group, pods: Sequence[Pod]
    ) -> GroupDecision:
        def info_of(part: Group) -> PodGroupInfo:
            assert part.pod_group is not None, "only groups of Kubernetes have placements"
            of_part = tuple(pods) if part is group else tuple(pods_of(part, pods))
            return PodGroupInfo(part.pod_group, of_part, tuple(self.scheduled(part)))

        remembers = not self.cache.in_trial and not group.is_composite
        search = PlacementSearch(
            framework, self.selector, fill, info_of, remembers=remembers, steps=self._steps
        )
        decision = search.run(group)
        return self._permitted(fill, decision) if decision.fits else decision

    def _permitted(self, fill: Fill, decision: GroupDecision) -> GroupDecision:
        """Ask Permit about the Pods with nodes; one that a plugin refuses fails, or the gang does.

        A gang fails as a whole as long as none of its Pods has a node.
        """
        if decision.stands_as_one:
            for one in decision.placed:
                refusal = self.commit.permit([one.member])
                if refusal is not None:
                    for other in decision.placed:
                        fill.give_back(other)
                    return _refused(decision, one.member.pod.uid, refusal)
            return decision
        if decision.children:
            asked = tuple(self._permitted(fill, c) if c.fits else c for c in decision.children)
            placed = tuple(one for child in asked if child.fits for one in child.placed)
            return replace(_left_with(decision, placed), children=asked)
        rejected = dict(decision.rejected)
        for one in decision.placed:
            refusal = self.commit.permit([one.member])
            if refusal is not None:
                rejected[one.member.pod.uid] = refusal
                fill.give_back(one)
        placed = tuple(one for one in decision.placed if one.member.pod.uid not in rejected)
        return replace(_left_with(decision, placed), rejected=rejected)


def _left_with(decision: GroupDecision, placed: tuple[Placed, ...]) -> GroupDecision:
    """The decision if only these Pods keep their nodes.

    A group that loses all of them is not placed: it would be tried again at once, for ever.
    """
    if decision.placed and not placed:
        decision = replace(decision, status=Status.unschedulable(UNSCHEDULABLE))
    return replace(decision, placed=placed)


def _refused(decision: GroupDecision, uid: str, refusal: Rejection) -> GroupDecision:
    """Nothing of the group counts, since Permit has refused this Pod of it."""
    children = tuple(
        _refused(child, uid, refusal) if uid in {pod.uid for pod in child.pods} else child
        for child in decision.children
    )
    return replace(
        decision,
        status=Status.unschedulable(UNSCHEDULABLE, refusal.message),
        rejected={**decision.rejected, uid: refusal},
        children=children,
    )
