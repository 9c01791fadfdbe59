"""What plugins are asked with that make room for a group, or for a Pod that a limit holds back.

Where a plan does not stand, plugins of the point PodGroupPostFilter are asked in turn. Each gets a
`Request`, by which it may have the group planned as if some Pods were gone: on the live tables, in
a trial that is rolled back, Reserve included. The first that knows whom to evict has them evicted.

For a single Pod that a limit holds back, a plugin of the point PostFilter does the same with a
`HeldPodRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.api.pod import Pod
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit
from bayplan.attempt.outcome import Rejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.cache import Cache
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.room import Taker
from bayplan.framework.runtime import Framework
from bayplan.groups.planner import Planner
from bayplan.queue.nominator import Nominator


def rows_that_may_fit(framework: Framework, pod: Pod, domain: BoolArray | None = None) -> BoolArray:
    """(n,) nodes that ``pod`` fits on, or may fit on when other Pods leave; see `CycleState`."""
    state = CycleState(dry_run=True, domain=domain, unlimited=True)
    diagnosis, _ = framework.search.diagnose(state, pod)
    rows = diagnosis.nodes.exists.copy()
    rows[diagnosis.rows_with(unresolvable=True)] = False
    return rows


class Request:
    """A group that does not fit; see `bayplan.framework.room.RoomRequest`."""

    def __init__(
        self,
        planner: Planner,
        framework: Framework,
        group: Group,
        pods: Sequence[Pod],
        *,
        dry_run: bool,
    ) -> None:
        self._planner = planner
        self._framework = framework
        self._group = group
        level = group.required_level
        self.taker = Taker(group.uid, group.key, tuple(pods), group.minimum, level)
        self.dry_run = dry_run
        self.effects: list[Effect] = []

    def rows_for(self, pod: Pod) -> BoolArray:
        """See `RoomRequest`."""
        return rows_that_may_fit(self._framework, pod)

    def plan_without(self, victims: Sequence[Pod]) -> Mapping[str, str] | None:
        """See `RoomRequest`."""
        planner = self._planner
        with (
            planner.nominator.rehearsal(self.taker.pods),
            planner.selector.rehearsal(),
            planner.cache.trial(),
        ):
            for victim in victims:
                planner.cache.remove(victim.uid)
            plan = planner.plan(self._framework, self._group, self.taker.pods)
            nodes = plan.nodes
            planner.drop(plan)
        return nodes if plan.fits else None


class HeldPodRequest:
    """A Pod that a limit holds back; see `bayplan.framework.room.RoomRequest`.

    Args:
        cache: the Pods on nodes.
        nominator: nominated Pods.
        commit: goes as far as Permit.
        selector: chooses a node.
        framework: the Pod's profile.
        state: of the attempt that has failed.
        pod: the Pod.
    """

    def __init__(
        self,
        cache: Cache,
        nominator: Nominator,
        commit: Commit,
        selector: NodeChooser,
        framework: Framework,
        state: CycleState,
        pod: Pod,
    ) -> None:
        self._cache, self._nominator = cache, nominator
        self._commit, self._selector = commit, selector
        self._framework, self._domain, self._pod = framework, state.domain, pod
        self.taker = Taker(pod.uid, pod.key, (pod,), 1, level="")
        self.dry_run, self.effects = state.dry_run, state.effects

    def rows_for(self, pod: Pod) -> BoolArray:
        """See `RoomRequest`."""
        return rows_that_may_fit(self._framework, pod, self._domain)

    def plan_without(self, victims: Sequence[Pod]) -> Mapping[str, str] | None:
        """See `RoomRequest`."""
        state, pod = CycleState(dry_run=True, domain=self._domain), self._pod
        with self._selector.rehearsal(), self._cache.trial():
            for victim in victims:
                self._cache.remove(victim.uid)
            placement = attempt(self._framework, self._selector, state, pod, make_room=False)
            if isinstance(placement, Rejection):
                return None
            choice = Choice(self._framework, state, pod, placement.node_name)
            with self._nominator.rehearsal([pod]):
                member = self._commit.run(choice)
                if isinstance(member, Rejection):
                    return None
                self._commit.undo([member])
        return {pod.uid: placement.node_name}
