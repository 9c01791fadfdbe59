"""What plugins are asked with that make room for a PodGroup of Kubernetes.

A plugin at PodGroupPostFilter gets a `WorkloadRequest`, by which it may have the group tried as if
some Pods were gone, on the live tables, in a trial that is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager

import numpy as np

from bayplan.api.pod import Pod
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice
from bayplan.attempt.outcome import Rejection
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.room import Taker, WorkloadTrial
from bayplan.framework.runtime import Framework
from bayplan.groups.decision import GroupDecision
from bayplan.groups.planner import Planner
from bayplan.groups.room import rows_that_may_fit


class _Trial:
    """The group as it was tried without some Pods; see `WorkloadTrial`.

    Whether its members still fit when Pods stay is asked of all of them again, in their order.
    Where a look at one node is enough to say if a member fits there (``row_local``), only those are
    asked that are on a node of these Pods; all others count on their nodes meanwhile.
    """

    def __init__(
        self, planner: Planner, framework: Framework, done: GroupDecision, *, row_local: bool
    ) -> None:
        self._cache, self._commit = planner.cache, planner.commit
        self._selector = planner.selector
        self._framework = framework
        self._row_local = row_local
        self._pods = dict(zip((pod.uid for pod in done.pods), done.pods, strict=True))
        self._placed = {member.pod.uid: member for member in done.members}
        self.status = done.status
        self.nodes: Mapping[str, str] = {u: m.pod.node_name for u, m in self._placed.items()}

    def keeps(self, pods: Sequence[Pod]) -> bool:
        """See `WorkloadTrial`."""
        uids = self._concerned({pod.node_name for pod in pods})
        before = [self._placed[uid] for uid in uids if uid in self._placed]
        self._take_back(uids)
        for pod in pods:
            self._cache.assume(pod, pod.node_name)
        if all(map(self._place, uids)):
            return True
        self._take_back(uids)
        for pod in pods:
            self._cache.forget(pod.uid)
        if self._row_local:
            # As before; should a plugin have changed its mind, all are asked from now on.
            self._row_local = all(self._take(m.pod.uid, m.state) for m in before)
        return False

    def _concerned(self, node_names: Set[str]) -> list[str]:
        """Uids of the members that Pods on these nodes may matter to, in their order."""
        return [u for u, name in self.nodes.items() if not self._row_local or name in node_names]

    def _place(self, uid: str) -> bool:
        """Have the member count on its node, if it fits there."""
        domain = np.zeros(len(self._cache.nodes), bool)
        node_name = self.nodes[uid]
        domain[self._cache.nodes.row(node_name)] = True
        state = CycleState(dry_run=True, domain=domain)
        pod = self._pods[uid]
        outcome = attempt(self._framework, self._selector, state, pod, make_room=False)
        return not isinstance(outcome, Rejection) and self._take(uid, state)

    def _take(self, uid: str, state: CycleState) -> bool:
        """Have the member count on its node, by what an attempt has found; whether it may."""
        choice = Choice(self._framework, state, self._pods[uid], self.nodes[uid])
        member = self._commit.take(choice)
        if isinstance(member, Rejection):
            return False
        self._placed[uid] = member
        return True

    def _take_back(self, uids: Iterable[str]) -> None:
        """These members do not count on their nodes, if they did."""
        self._commit.undo([self._placed.pop(uid) for uid in uids if uid in self._placed])

    def clear(self) -> None:
        """No Pod of the group counts on a node."""
        self._take_back(list(self._placed))


class WorkloadRequest:
    """A PodGroup of Kubernetes that does not fit; see `WorkloadRoomRequest`."""

    def __init__(
        self,
        planner: Planner,
        framework: Framework,
        group: Group,
        pods: Sequence[Pod],
        *,
        dry_run: bool,
    ) -> None:
        assert group.pod_group is not None, "a PodGroup of Kubernetes"
        self._planner, self._framework, self._group = planner, framework, group
        self.pod_group, self.dry_run = group.pod_group, dry_run
        self.effects: list[Effect] = []
        self._row_local: dict[int, bool] = {}
        level = group.required_level if framework.placements is not None else ""
        minimum = planner.needed(group)
        self.taker = Taker(group.uid, group.key, tuple(pods), minimum, level)

    def rows_for(self, pod: Pod) -> BoolArray:
        """See `RoomRequest`."""
        return rows_that_may_fit(self._framework, pod)

    def plan_without(self, victims: Sequence[Pod]) -> Mapping[str, str] | None:
        """See `RoomRequest`."""
        with self.without(victims) as trial:
            return trial.nodes if trial.status.ok else None

    def _is_row_local(self, pod: Pod) -> bool:
        """Whether only Pods on a node matter to whether ``pod`` fits there, with all Pods there."""
        key = id(pod.shape)
        if key not in self._row_local:
            state = CycleState(dry_run=True)
            self._framework.search.diagnose(state, pod)
            self._row_local[key] = self._framework.plugins.is_row_local(state)
        return self._row_local[key]

    @contextmanager
    def without(self, victims: Sequence[Pod]) -> Iterator[WorkloadTrial]:
        """See `WorkloadRoomRequest`."""
        planner, pods = self._planner, self.taker.pods
        row_local = not planner.selector.asks_extenders and all(map(self._is_row_local, pods))
        with (
            planner.nominator.rehearsal(pods),
            planner.selector.rehearsal(),
            planner.cache.trial(),
        ):
            for victim in victims:
                planner.cache.remove(victim.uid)
            done = planner.plan(self._framework, self._group, pods)
            trial = _Trial(planner, self._framework, done, row_local=row_local)
            try:
                yield trial
            finally:
                trial.clear()
