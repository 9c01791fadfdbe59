"""Making room for a PodGroup of Kubernetes: asks the profile's plugins at PodGroupPostFilter.

A plugin gets a `WorkloadRequest`, by which it may have the group tried as if some Pods were gone,
on the live tables, in a trial that is rolled back. What it answers is added to the status of the
group, as ``RunPodGroupPostFilterPlugins`` and ``applyPodGroupPostFilterResult`` of kube-scheduler
do; a plugin of kube-scheduler that always says the same stands there by its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import numpy as np
import structlog

from bayplan.api.pod import Pod
from bayplan.api.scheduling import WorkloadPodGroup
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit
from bayplan.attempt.outcome import Rejection
from bayplan.attempt.room import rows_that_may_fit
from bayplan.attempt.selection import NodeChooser
from bayplan.attempt.workload_group import GroupAttempt, GroupAttempts, invalid
from bayplan.cache.cache import Cache
from bayplan.cache.node_table import BoolArray
from bayplan.config.points import Point
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.faults import AttemptFault
from bayplan.framework.room import NoRoom, Room, Taker, WorkloadTrial
from bayplan.framework.runtime import Framework
from bayplan.framework.status import Code, Status
from bayplan.framework.text import error_text
from bayplan.queue.nominator import Nominator

log = structlog.get_logger("groups")

_DEVICES = "deallocation and deletion of ResourceClaims completed"
"""What DynamicResources says of each group without constraints, whether it has claims or not."""


class _Trial:
    """The group as it was tried without some Pods; see `WorkloadTrial`.

    Whether its members still fit when Pods stay is asked of all of them again, in their order.
    Where a look at one node is enough to say if a member fits there (``row_local``), only those are
    asked that are on a node of these Pods; all others count on their nodes meanwhile.
    """

    def __init__(
        self, rooms: WorkloadRooms, framework: Framework, done: GroupAttempt, *, row_local: bool
    ) -> None:
        self._cache, self._commit, self._selector = rooms.cache, rooms.commit, rooms.selector
        self._framework = framework
        self._row_local = row_local
        self._pods = dict(zip((pod.uid for pod in done.pods), done.pods, strict=True))
        self._placed = {placed.member.pod.uid: placed.member for placed in done.placed}
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
        rooms: WorkloadRooms,
        framework: Framework,
        pod_group: WorkloadPodGroup,
        pods: Sequence[Pod],
        *,
        dry_run: bool,
    ) -> None:
        self._rooms, self._framework = rooms, framework
        self.pod_group, self.dry_run = pod_group, dry_run
        self.effects: list[Effect] = []
        self._row_local: dict[int, bool] = {}
        minimum = pod_group.minimum - len(rooms.cache.members.scheduled(pod_group.key))
        level = pod_group.topology_key if framework.placements is not None else ""
        self.taker = Taker(pod_group.uid, pod_group.key, tuple(pods), max(minimum, 1), level)

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
        rooms, pods = self._rooms, self.taker.pods
        row_local = not rooms.selector.asks_extenders and all(map(self._is_row_local, pods))
        with (
            rooms.nominator.rehearsal(pods),
            rooms.selector.rehearsal(),
            rooms.cache.trial(),
        ):
            for victim in victims:
                rooms.cache.remove(victim.uid)
            done = rooms.attempts.run(self._framework, self.pod_group, pods, dry_run=True)
            if not done.status.ok:
                done = GroupAttempt(done.status, done.pods)
            trial = _Trial(rooms, self._framework, done, row_local=row_local)
            try:
                yield trial
            finally:
                trial.clear()


class WorkloadRooms:
    """Finds room for PodGroups of Kubernetes. Scheduling thread only."""

    def __init__(
        self,
        cache: Cache,
        nominator: Nominator,
        attempts: GroupAttempts,
        commit: Commit,
        selector: NodeChooser,
    ) -> None:
        self.cache, self.nominator = cache, nominator
        self.attempts, self.commit, self.selector = attempts, commit, selector

    def make_room(
        self,
        framework: Framework,
        pod_group: WorkloadPodGroup,
        done: GroupAttempt,
        *,
        dry_run: bool = False,
    ) -> GroupAttempt:
        """Have somebody evicted so that a rejected group fits, and say so. Never raises.

        Only a question with ``dry_run``.
        """
        if done.status.code is not Code.UNSCHEDULABLE:
            return done
        request = WorkloadRequest(self, framework, pod_group, done.pods, dry_run=dry_run)
        try:
            room, text = self._ask(framework, request)
        except AttemptFault as fault:
            return msgspec.structs.replace(done, status=Status.error(str(fault)))
        except Exception as exc:
            log.exception("making room broke", podGroup=pod_group.key)
            return msgspec.structs.replace(done, status=Status.error(error_text(exc)))
        status = replace(done.status, reasons=(*done.status.reasons, text))
        return msgspec.structs.replace(done, status=status, room=room, effects=request.effects)

    def dry_run(
        self, framework: Framework, pod_group: WorkloadPodGroup, pods: Sequence[Pod]
    ) -> tuple[GroupAttempt, GroupAttempt]:
        """What an attempt of the group would come to, without and with `make_room`.

        What it placed counts until `GroupAttempts.undo`. Pods that are being deleted are not tried.
        """
        if fault := invalid(pod_group, pods, self.cache.members.scheduled(pod_group.key)):
            done = GroupAttempt(Status.error(fault), tuple(pods))
        else:
            staying = [pod for pod in pods if pod.deleted is None]
            done = self.attempts.run(framework, pod_group, staying, dry_run=True)
        return done, self.make_room(framework, pod_group, done, dry_run=True)

    def _ask(self, framework: Framework, request: WorkloadRequest) -> tuple[Room | None, str]:
        """The first room that a plugin makes, and what is said of it."""
        plugins, texts = framework.plugins, list[str]()
        constraints = request.pod_group.spec.scheduling_constraints
        if framework.placements is None or constraints is None:
            texts += [_DEVICES for plugin in plugins.all if plugin.name == "DynamicResources"]
        for plugin in plugins.pod_group_post_filter:
            point, method = Point.POD_GROUP_POST_FILTER, plugin.pod_group_post_filter
            answer = plugins.ask((Room, NoRoom), plugin, point, method, request)
            text = f"pod group preemption: {answer.sentence}" if answer.sentence else ""
            if isinstance(answer, Room):
                return answer, text
            if answer.final:
                return None, text
            texts.append(text)
        return None, ", ".join(text for text in texts if text)
