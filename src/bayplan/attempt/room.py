"""Making room for a group: asks the profile's plugins, and tries out what they propose.

Where a plan does not stand, plugins of the point PodGroupPostFilter are asked in turn. Each gets a
`Request`, by which it may have the group planned as if some Pods were gone: on the live tables, in
a trial that is rolled back, Reserve included. The first that knows whom to evict has them evicted.

For a single Pod that a limit holds back, a plugin of the point PostFilter does the same with a
`HeldPodRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import structlog

from bayplan.api.pod import Pod
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit
from bayplan.attempt.group import Planner
from bayplan.attempt.outcome import Reason, Rejection
from bayplan.attempt.plan import GroupRejection, Plan
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.cache import Cache
from bayplan.cache.node_table import BoolArray
from bayplan.cache.pod_groups import Group
from bayplan.config.points import Point
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.faults import AttemptFault
from bayplan.framework.room import NoRoom, Room, Taker
from bayplan.framework.runtime import Framework
from bayplan.framework.text import error_text
from bayplan.queue.nominator import Nominator

log = structlog.get_logger("groups")


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
        cache: Cache,
        nominator: Nominator,
        planner: Planner,
        framework: Framework,
        group: Group,
        pods: Sequence[Pod],
        *,
        dry_run: bool,
    ) -> None:
        self._cache, self._nominator, self._planner = cache, nominator, planner
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
        with (
            self._nominator.rehearsal(self.taker.pods),
            self._planner.selector.rehearsal(),
            self._cache.trial(),
        ):
            for victim in victims:
                self._cache.remove(victim.uid)
            plan = self._planner.plan(self._framework, self._group, self.taker.pods, dry_run=True)
            if isinstance(plan, Plan):
                self._planner.drop(plan)
        if not isinstance(plan, Plan):
            return None
        return {member.pod.uid: member.pod.node_name for member in plan.members}


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


class RoomMaker:
    """Finds room for groups. Scheduling thread only."""

    def __init__(self, cache: Cache, nominator: Nominator, planner: Planner) -> None:
        self._cache, self._nominator, self._planner = cache, nominator, planner

    def make_room(
        self,
        framework: Framework,
        group: Group,
        pods: Sequence[Pod],
        rejection: GroupRejection,
        *,
        dry_run: bool = False,
    ) -> GroupRejection:
        """Have somebody evicted so that a rejected group fits. Never raises.

        Only a question with ``dry_run``.

        Returns:
            The rejection, which says what came of it.
        """
        plugins = framework.plugins.pod_group_post_filter
        if not plugins or rejection.reason is Reason.SCHEDULER_ERROR:
            return rejection
        request = Request(
            self._cache, self._nominator, self._planner, framework, group, pods, dry_run=dry_run
        )
        try:
            answer = _with(self._ask(framework, request), rejection)
            return msgspec.structs.replace(answer, effects=request.effects)
        except AttemptFault as fault:
            return _with(NoRoom(str(fault)), rejection)
        except Exception as exc:
            # What a plugin hands out may break wherever it is looked at.
            log.exception("making room broke", group=group.key)
            return _with(NoRoom(error_text(exc)), rejection)

    def _ask(self, framework: Framework, request: Request) -> Room | NoRoom:
        """The first room that a plugin makes, or what the last one says."""
        plugins = framework.plugins
        answer: Room | NoRoom = NoRoom()
        for plugin in plugins.pod_group_post_filter:
            point, method = Point.POD_GROUP_POST_FILTER, plugin.pod_group_post_filter
            answer = plugins.ask((Room, NoRoom), plugin, point, method, request)
            if isinstance(answer, Room) or answer.final:
                break
        return answer


def _with(answer: Room | NoRoom, rejection: GroupRejection) -> GroupRejection:
    if isinstance(answer, Room):
        return msgspec.structs.replace(
            rejection,
            sentence=answer.sentence,
            message=f"{rejection.message}; others are leaving to make room",
            room=answer,
        )
    if not answer.sentence:
        return rejection
    sentence = f"{rejection.sentence.removesuffix('.')}. Preemption: {answer.sentence}"
    return msgspec.structs.replace(rejection, sentence=sentence)
