"""RoomRequest: a preemptor that fits nowhere, tried as if some Pods were gone.

There is one request for a Pod, for a Pod that a limit holds back, and for a group of any source.
They differ in the preemptor and in how it is placed: ``place`` is called within a trial on the live
tables, and what it places is undone there, Reserve included.

Example: nodes n1 and n2 are full, and a gang of two Pods needs one CPU each.
``request.plan_without([a, b])`` opens a trial, removes a and b, calls ``place``, which plans the
gang as ever, undoes the plan, and rolls the trial back: ``{"g-0": "n1", "g-1": "n2"}``. With
``trial_without([a, b, c])`` the trial stays open: ``trial.keeps([c])`` puts c back, and asks each
member on the node of c whether it fits there still.

The reasons: docs/decisions/0026-one-request-for-room.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Member
from bayplan.attempt.outcome import Rejection
from bayplan.cache.group_policy import Search
from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.cache.pod_groups import Group
from bayplan.engine.runtime import Framework
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.preemptor import Preemptor, Victims
from bayplan.framework.room import RoomTrial
from bayplan.framework.status import SUCCESS, Status
from bayplan.groups.planner import Planner


class Placing(NamedTuple):
    """What came of placing a preemptor.

    Attributes:
        status: Success, or why it was not placed.
        members: its Pods that count on nodes; none where it was not placed.
    """

    status: Status
    members: Sequence[Member] = ()


class RoomRequest:
    """See the module's docstring, and `bayplan.framework.room.RoomRequest`.

    Args:
        planner: whose cache, nominations and commit the trials change.
        framework: the profile of the preemptor.
        preemptor: who needs room.
        place: places the Pods of the preemptor, as far as Reserve at least.
        effects: where plugins say what they want done.
        domain: ``(n,)`` the rows that the preemptor may go to; None for all.
    """

    def __init__(
        self,
        planner: Planner,
        framework: Framework,
        preemptor: Preemptor,
        place: Callable[[], Placing],
        effects: list[Effect],
        domain: BoolArray | None = None,
    ) -> None:
        self._planner, self._framework = planner, framework
        self._place, self._domain = place, domain
        self._row_local: dict[int, bool] = {}
        self.preemptor, self.effects = preemptor, effects

    def rows_for(self, pod: Pod) -> BoolArray:
        """See `bayplan.framework.room.RoomRequest`."""
        state = CycleState(timed=False, domain=self._domain, unlimited=True)
        diagnosis, _ = self._framework.search.diagnose(state, pod)
        rows = diagnosis.nodes.exists.copy()
        rows[diagnosis.rows_with(unresolvable=True)] = False
        return rows

    def plan_without(self, victims: Sequence[Pod]) -> Mapping[str, str] | None:
        """See `bayplan.framework.room.RoomRequest`."""
        with self._without(victims):
            status, members = self._place()
            self._planner.commit.undo(members)
        return {m.pod.uid: m.pod.node_name for m in members} if status.ok else None

    @contextmanager
    def trial_without(self, victims: Sequence[Pod]) -> Iterator[RoomTrial]:
        """See `bayplan.framework.room.RoomRequest`."""
        planner, pods = self._planner, self.preemptor.pods
        row_local = not planner.selector.asks_extenders and all(map(self._is_row_local, pods))
        with self._without(victims):
            trial = _Trial(planner, self._framework, pods, self._place(), row_local=row_local)
            try:
                yield trial
            finally:
                trial.clear()

    @contextmanager
    def _without(self, victims: Iterable[Pod]) -> Iterator[None]:
        """A trial as if ``victims`` were gone."""
        planner = self._planner
        with (
            planner.nominator.rehearsal(self.preemptor.pods),
            planner.selector.rehearsal(),
            planner.cache.trial(),
        ):
            for victim in victims:
                planner.cache.remove(victim.uid)
            yield

    def _is_row_local(self, pod: Pod) -> bool:
        """Whether only Pods on a node matter to whether ``pod`` fits there, with all Pods there."""
        key = id(pod.shape)
        if key not in self._row_local:
            state = CycleState(timed=False)
            self._framework.search.diagnose(state, pod)
            self._row_local[key] = self._framework.plugins.is_row_local(state)
        return self._row_local[key]


def of_pod(planner: Planner, framework: Framework, pod: Pod, state: CycleState) -> RoomRequest:
    """The request of one Pod, after an attempt with that ``state``."""

    def place() -> Placing:
        trial_state = CycleState(timed=False, domain=state.domain)
        placement = attempt(framework, planner.selector, trial_state, pod, make_room=False)
        if isinstance(placement, Rejection):
            return Placing(Status.unschedulable(placement.message))
        choice = Choice(framework, trial_state, pod, placement.node_name)
        member = planner.commit.run(choice)
        if isinstance(member, Rejection):
            return Placing(Status.unschedulable(member.message))
        return Placing(SUCCESS, [member])

    preemptor = Preemptor.single(pod)
    return RoomRequest(planner, framework, preemptor, place, state.effects, state.domain)


def of_group(
    planner: Planner, framework: Framework, group: Group, pods: Sequence[Pod]
) -> RoomRequest:
    """The request of a group whose ``pods`` do not fit at once."""

    def place() -> Placing:
        plan = planner.plan(framework, group, pods)
        return Placing(plan.status, plan.members)

    by_placements = group.policy.search is Search.PLACEMENTS
    limited = not by_placements or framework.placements is not None
    preemptor = Preemptor(
        group.uid,
        group.key,
        tuple(pods),
        planner.needed(group),
        group.required_level if limited else "",
        Victims.REPRIEVED if by_placements else Victims.FEWEST,
        () if group.begun else group.slices,
    )
    domain = _begun(planner.cache.nodes, preemptor.level, planner.scheduled(group))
    return RoomRequest(planner, framework, preemptor, place, [], domain)


def _begun(nodes: NodeTable, level: str, scheduled: Sequence[Pod]) -> BoolArray | None:
    """``(n,)`` the nodes of the domain in which a group has begun; None if there is a choice."""
    rows = [row for pod in scheduled if (row := nodes.row(pod.node_name)) is not None]
    if not level or not rows:
        return None
    return np.isin(nodes.domains(level), nodes.domains(level)[rows])


class _Trial:
    """See `bayplan.framework.room.RoomTrial`.

    Whether members still fit when Pods stay is asked of all of them again, in their order. Where a
    look at one node is enough to say if a member fits there (``row_local``), only those are asked
    that are on a node of these Pods; all others count on their nodes meanwhile.
    """

    def __init__(
        self,
        planner: Planner,
        framework: Framework,
        pods: Sequence[Pod],
        tried: Placing,
        *,
        row_local: bool,
    ) -> None:
        self._cache, self._commit = planner.cache, planner.commit
        self._selector = planner.selector
        self._framework = framework
        self._row_local = row_local
        self._pods = {pod.uid: pod for pod in pods}
        self._placed = {member.pod.uid: member for member in tried.members}
        self.status = tried.status
        self.nodes: Mapping[str, str] = {u: m.pod.node_name for u, m in self._placed.items()}

    def keeps(self, pods: Sequence[Pod]) -> bool:
        """See `bayplan.framework.room.RoomTrial`."""
        uids = self._concerned({pod.node_name for pod in pods})
        previous = [self._placed[uid] for uid in uids if uid in self._placed]
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
            self._row_local = all(self._take(m.pod.uid, m.state) for m in previous)
        return False

    def gives_up(self, pods: Sequence[Pod]) -> None:
        """See `bayplan.framework.room.RoomTrial`."""
        for pod in pods:
            self._cache.forget(pod.uid)

    def _concerned(self, node_names: Set[str]) -> list[str]:
        """Uids of the members that Pods on these nodes may matter to, in their order."""
        return [u for u, name in self.nodes.items() if not self._row_local or name in node_names]

    def _place(self, uid: str) -> bool:
        """Assume the member on its node, if the node fits."""
        domain = np.zeros(len(self._cache.nodes), bool)
        node_name = self.nodes[uid]
        domain[self._cache.nodes.row(node_name)] = True
        state = CycleState(timed=False, domain=domain)
        pod = self._pods[uid]
        outcome = attempt(self._framework, self._selector, state, pod, make_room=False)
        return not isinstance(outcome, Rejection) and self._take(uid, state)

    def _take(self, uid: str, state: CycleState) -> bool:
        """Assume the member by the state of an attempt; returns whether it was accepted."""
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
        """No Pod of the preemptor counts on a node."""
        self._take_back(list(self._placed))
