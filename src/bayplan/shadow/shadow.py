"""Shadow: follows the cluster a moment late, and judges each decision of the other scheduler.

What the informers bring waits for `Settings.lookahead` seconds. So the shadow knows what comes
next: which bindings were in flight, and whom a Pod has evicted. Then, message by message:

1. If it shows a decision (a binding; a node that is nominated before PreBind; the condition
   PodScheduled, False), the same Pod is decided here, on what is known so far, and dropped. What
   the next second shows of other Pods of its group belongs to the same decision.
2. The message is applied, as by the scheduler itself. So the state never drifts away from theirs.

A Pod that evicts others is decided at the first sign of it, mostly a condition of a victim. One
whose PreBind has written claims is decided as if they were not written (`bayplan.shadow.prior`).
Where the decisions differ, `bayplan.shadow.in_flight` says whether it may be a matter of the order.

Nothing is written; the layers below cannot (docs/decisions/0024-decide-then-apply.md).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count

import msgspec
import structlog

from bayplan.api import kinds
from bayplan.api.pod import Pod
from bayplan.attempt.outcome import Reason
from bayplan.engine.faults import AttemptFault
from bayplan.groups.placers import Placers
from bayplan.inbox.messages import Changed, Removed, Replaced, WatchMessage
from bayplan.profiles import Profiles
from bayplan.queue.queued_group import QueuedGroup
from bayplan.shadow.follows import Follows
from bayplan.shadow.group_judge import GroupJudge
from bayplan.shadow.in_flight import InFlight
from bayplan.shadow.judge import Judge
from bayplan.shadow.moves import SECONDS
from bayplan.shadow.prior import KINDS, Prior, Written
from bayplan.shadow.shown import Seen, failed, has_failed, preempted
from bayplan.shadow.tally import Tally
from bayplan.shadow.verdict import NotCompared, Theirs, Verdict
from bayplan.world import World

log = structlog.get_logger("shadow")


@dataclass(frozen=True)
class Settings:
    """How a shadow follows.

    Attributes:
        lookahead: how many seconds it stays behind.
        most_behind: so many seconds later than that it passes decisions over, until it is back.
    """

    lookahead: float = 1.0
    most_behind: float = 10.0


class Shadow:
    """See the module's docstring. Scheduling thread only.

    Attributes:
        follows: whose Pods are judged.
        settings: how.
        tally: what has come of it.
        behind: seconds that the next message is late; any thread may read it.
    """

    def __init__(
        self,
        world: World,
        profiles: Profiles,
        placers: Placers,
        follows: Follows,
        tally: Tally,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._world, self._pods = world, world.handlers.pods
        self.follows, self.settings = follows, settings
        self._clock, self._now = clock, now
        self._judge = Judge(world, profiles, placers)
        self._group_judge = GroupJudge(world, profiles, placers, self._judge)
        self._prior = Prior(world.cache.objects)
        self._waiting: deque[Seen] = deque()
        self._in_flight = InFlight(world, follows, self._waiting, clock)
        self._numbers = count()
        self._expected: dict[str, str] = {}
        """By uid, the node for which a Pod was judged before it was bound."""
        self._early: set[str] = set()
        """Uids of Pods that were judged for evictions whose condition is still to come."""
        self._at = clock()
        """When the message came that is judged now."""
        self._passes_over = False
        self.tally = tally
        self.behind = 0.0

    def begin(self) -> None:
        """The first lists are applied: what comes from now on is judged."""
        waiting = (pod for pod in self._pods.values() if not pod.node_name)
        for pod in sorted(waiting, key=lambda pod: (str(pod.created), pod.key)):
            self._in_flight.ages[pod.uid] = next(self._numbers)

    def take(self, message: WatchMessage) -> None:
        """Have ``message`` wait for its time."""
        self._waiting.append(Seen(next(self._numbers), self._clock(), message))

    def next_in(self) -> float | None:
        """Seconds until a message is due; None where none waits."""
        if not self._waiting:
            self.behind = 0.0
            return None
        late = self._clock() - self._waiting[0].at - self.settings.lookahead
        self.behind = max(late, 0.0)
        return max(-late, 0.0)

    def step(self) -> None:
        """Judge what the next message shows, and apply it."""
        seen = self._waiting.popleft()
        self._at = seen.at
        self._keep_up()
        message = seen.message
        match message:
            case Changed(kind=kinds.POD, object=pod):
                self._changed(pod, seen)
            case Removed(kind=kinds.POD, object=pod):
                self._left(pod, seen)
            case Replaced(kind=kinds.POD, objects=pods):
                self._relisted(pods, seen)
            case Changed(kind=kind, object=obj) if kind in KINDS:
                self._prior.note(kind, obj)
            case Removed(kind=kind, object=obj) if kind in KINDS:
                self._prior.gone(kind, obj.key)
        self._world.handlers.apply(message)

    def _keep_up(self) -> None:
        """Begin to pass decisions over, or end it."""
        most = self.settings.most_behind
        if self._passes_over and self.behind < most / 2:
            self._passes_over = False
            last = self.tally.skipped[-1] if self.tally.skipped else None
            log.info("Caught up", passed_over=0 if last is None else last.count)
        elif not self._passes_over and self.behind > most:
            self._passes_over = True
            log.warning("Too far behind: decisions are passed over", seconds=round(self.behind, 1))

    # What a message shows

    def _changed(self, pod: Pod, seen: Seen) -> None:
        old = self._pods.get(pod.key)
        if old is None or old.uid != pod.uid:
            if old is not None:
                self._ended(old, seen)
            self._new(pod, seen)
        elif old.resource_version == pod.resource_version != "":
            return
        elif pod.terminal:
            self._ended(old, seen)
        elif old.node_name:
            if preempted(pod) and not preempted(old):
                self._first_victim(old)
        elif pod.node_name:
            self._bound(old, pod, seen)
        elif self.follows.is_theirs(pod):
            self._updated(old, pod)

    def _new(self, pod: Pod, seen: Seen) -> None:
        if pod.node_name:
            self._in_flight.came(seen, pod)
        else:
            self._in_flight.ages[pod.uid] = seen.number

    def _left(self, pod: Pod, seen: Seen) -> None:
        old = self._pods.get(pod.key)
        if old is None or old.uid != pod.uid:
            return
        if old.node_name and preempted(pod) and not preempted(old):
            self._first_victim(old)
        self._ended(old, seen)

    def _ended(self, old: Pod, seen: Seen) -> None:
        if old.node_name:
            self._in_flight.left(seen, old)
        else:
            self._forget(old)

    def _bound(self, old: Pod, pod: Pod, seen: Seen) -> None:
        written = self._prior.written(old)
        if self._expected.get(pod.uid) != pod.node_name:
            self._compare(old, Theirs(node=pod.node_name), written)
        self._in_flight.came(seen, pod, written)
        self._forget(old)

    def _updated(self, old: Pod, pod: Pod) -> None:
        """A Pod goes on to wait: an attempt has failed, or a node is expected."""
        theirs = self._shown(old, pod)
        if has_failed(old, pod, Reason.SCHEDULER_ERROR):
            self._in_flight.tried.add(pod.uid)
            self._skip(pod, NotCompared.ERROR)
        elif theirs is None:
            return
        elif theirs.node:
            if self._expected.get(pod.uid) != theirs.node:
                self._compare(old, theirs, self._prior.written(old))
                self._expected[pod.uid] = theirs.node
        else:
            self._in_flight.tried.add(pod.uid)
            if pod.uid in self._early:
                self._early.discard(pod.uid)
            else:
                self._compare(old, theirs, self._prior.written(old))

    def _shown(self, old: Pod, pod: Pod) -> Theirs | None:
        """What a new version of a Pod without a node shows of their decision; None for nothing."""
        if pod.node_name:
            return Theirs(node=pod.node_name)
        theirs = failed(old, pod)
        if theirs is None:
            node = pod.status.nominated_node_name
            expected = node if node != old.status.nominated_node_name else ""
            return Theirs(node=expected) if expected else None
        if theirs.nominated:
            victims = self._victims(theirs.nominated)
            theirs = msgspec.structs.replace(theirs, victims=victims)
        return theirs

    def _relisted(self, pods: list[Pod], seen: Seen) -> None:
        """The watch was broken: who was bound meanwhile, and in which order, is not known."""
        for pod in pods:
            old = self._pods.get(pod.key)
            if old is None or old.uid != pod.uid:
                self._in_flight.ages[pod.uid] = seen.number
            elif pod.node_name and not old.node_name:
                if self._expected.get(pod.uid) != pod.node_name:
                    self._skip(pod, NotCompared.NOT_WATCHED)
                self._forget(old)
        listed = {pod.uid for pod in pods}
        for old in self._pods.values():
            if old.uid not in listed:
                self._forget(old)

    def _forget(self, pod: Pod) -> None:
        self._prior.forget(pod)
        self._in_flight.forget(pod)
        self._expected.pop(pod.uid, None)
        self._early.discard(pod.uid)

    # Evictions there

    def _first_victim(self, victim: Pod) -> None:
        """Judge the Pod for which ``victim`` leaves, in time."""
        for seen in self._waiting:
            match seen.message:
                case Changed(kind=kinds.POD, object=pod) if pod in self.follows:
                    old = self._pods.get(pod.key)
                    if old is None or old.uid != pod.uid or old.node_name or pod.uid in self._early:
                        continue
                    theirs = failed(old, pod)
                    if theirs is not None and theirs.nominated == victim.node_name:
                        victims = self._victims(victim.node_name) | {victim.key}
                        theirs = msgspec.structs.replace(theirs, victims=victims)
                        self._compare(old, theirs, self._prior.written(old))
                        self._early.add(pod.uid)
                        return

    def _victims(self, node: str) -> frozenset[str]:
        """Pods on the node, about to be evicted."""
        leaving = set()
        for seen in self._waiting:
            match seen.message:
                case Changed(kind=kinds.POD, object=pod) | Removed(kind=kinds.POD, object=pod):
                    if pod.node_name == node and preempted(pod):
                        old = self._pods.get(pod.key)
                        if old is not None and not preempted(old):
                            leaving.add(pod.key)
        return frozenset(leaving)

    # Judging

    def _compare(self, pod: Pod, theirs: Theirs, written: tuple[Written, ...]) -> None:
        if pod not in self.follows:
            return
        if self._passes_over:
            self._skip(pod, NotCompared.BEHIND)
            return
        entry = self._world.queue.groups.entry_of_pod(pod)
        with ExitStack() as stack:
            for one in written:
                stack.enter_context(one.undone(self._world.cache.objects))
            try:
                if entry is not None:
                    self._compare_group(entry, pod, theirs)
                else:
                    self._compare_pod(pod, theirs)
            except AttemptFault as fault:
                log.warning("A plugin broke over a decision", pod=pod.key, err=str(fault))
                self._skip(pod, NotCompared.ERROR)

    def _compare_pod(self, pod: Pod, theirs: Theirs) -> None:
        judgement = self._judge.judge(pod, theirs, self._now())
        if judgement.failed:
            self._skip(pod, NotCompared.ERROR)
            return
        agrees = partial(self._judge.agrees, pod, theirs)
        self._add(judgement.verdict, {pod.uid}, pod, agrees, judgement.rows)

    def _compare_group(self, entry: QueuedGroup, pod: Pod, theirs: Theirs) -> None:
        """Compare what was decided about ``pod``, and now or soon about others of its group."""
        group = {pod.uid: theirs} | self._soon(entry, pod)
        for uid, their in group.items():
            if uid != pod.uid and their.node:
                self._expected[uid] = their.node
            elif uid != pod.uid:
                self._early.add(uid)
        with ExitStack() as stack:
            for uid in group.keys() & entry.members.keys():
                for one in self._prior.written(entry.members[uid].pod):
                    stack.enter_context(one.undone(self._world.cache.objects))
            verdict = self._group_judge.judge(entry, group, self._now())
            if isinstance(verdict, NotCompared):
                self._skip(pod, verdict)
            else:
                agrees = partial(self._group_judge.agrees, entry, group)
                self._add(verdict, group.keys(), pod, agrees, None)

    def _soon(self, entry: QueuedGroup, but: Pod) -> dict[str, Theirs]:
        """By uid, what the next messages show of other Pods of a group, each the first time."""
        shown: dict[str, Theirs] = {}
        for _, at, message in self._waiting:
            if at > self._at + SECONDS:
                break
            match message:
                case Changed(kind=kinds.POD, object=new) if new.uid in entry.members:
                    old = self._pods.get(new.key)
                    if new.uid in shown or new.uid == but.uid or old is None:
                        continue
                    if (their := self._shown(old, new)) is not None:
                        shown[new.uid] = their
        return shown

    def _add(
        self,
        verdict: Verdict,
        uids: Collection[str],
        pod: Pod,
        agrees: Callable[[], bool],
        rows: frozenset[int] | None,
    ) -> None:
        """Count a verdict about the Pods with these ``uids``, of which ``pod`` is the first."""
        if not verdict.agreed:
            excused = self._in_flight.explains(pod, uids, agrees, rows, self._at)
            verdict = msgspec.structs.replace(verdict, excused=excused)
        self.tally.add(verdict)

    def _skip(self, pod: Pod, reason: NotCompared) -> None:
        if pod in self.follows:
            self.tally.skip(pod.key, reason)
