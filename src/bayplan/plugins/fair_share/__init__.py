"""FairShare: limits of Queues are kept, queues take turns, and what was lent is taken back.

A Pod whose queue, or an ancestor of it, would exceed its limit is rejected before any node is
looked at; so is a group, by the sum of its minimum. What is assumed or being bound counts, so a
limit is never exceeded. The condition of the Pod has the reason QueueLimit: autoscalers buy nodes
for Unschedulable alone. Both may then take the place of others that count for the same limit
(`bayplan.plugins.fair_share.reclaim`).

Where queues name kinds of nodes, nodes that a Pod may not go to, or where a limit is exceeded, are
filtered, and the others scored by the order of the queue (`bayplan.plugins.fair_share.kinds`).

Without Queue objects the plugin does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

from msgspec.structs import replace

from bayplan.api.kinds import (
    NAMESPACE,
    NODE,
    NODE_KIND,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    QUEUE,
)
from bayplan.api.node import Node
from bayplan.api.pod import Pod, PodShape
from bayplan.api.queues import Queue, State
from bayplan.api.workloads import Namespace
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.pod_groups import Group
from bayplan.cache.queue_tree import NO_QUEUE
from bayplan.cache.queue_tree.limits import excess
from bayplan.cache.queue_tree.past_use import PastUse
from bayplan.config.args import FairShareArgs
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import CountSearch, Effect
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import FilterFailure, Plugin, PostFilterResult
from bayplan.framework.points import (
    AdmitsGroups,
    CarriesOut,
    EnqueueExtensions,
    FilterNodes,
    PodGroupPostFilter,
    PostFilter,
    PreEnqueue,
    PreFilter,
    ScoreNodes,
)
from bayplan.framework.preemptor import SINGLE
from bayplan.framework.room import NoRoom, Room, RoomRequest
from bayplan.framework.status import QUEUE_CLOSED, SKIP, SUCCESS, Code, Status
from bayplan.plugins.fair_share.effects import (
    AboveLimit,
    Held,
    PassOn,
    Reclaimed,
    Refused,
    TryAgain,
)
from bayplan.plugins.fair_share.held import HeldPods
from bayplan.plugins.fair_share.kinds import KindVerdict, judge
from bayplan.plugins.fair_share.never_evicted import NeverEvicted
from bayplan.plugins.fair_share.over_limit import OverLimit
from bayplan.plugins.fair_share.precedence import Precedence
from bayplan.plugins.fair_share.promised import Promised
from bayplan.plugins.fair_share.reclaim import ReclaimRule
from bayplan.plugins.fair_share.refusals import Refusals
from bayplan.plugins.fair_share.targets import OnTarget, targets
from bayplan.plugins.fair_share.turns import QueueTurns
from bayplan.preemption.group import GroupPreemption
from bayplan.preemption.shortest_prefix import ShortestPrefix

_VERDICTS_KEPT = 256
_VERDICT_SECONDS = 1.0


class _Verdict(NamedTuple):
    """A refusal, the versions behind the refusal, and the end of its validity."""

    refused: Refused
    seen: object


class FairShare(
    Plugin,
    PreEnqueue,
    PreFilter,
    FilterNodes,
    PostFilter,
    ScoreNodes,
    PodGroupPostFilter,
    AdmitsGroups,
    EnqueueExtensions,
    CarriesOut,
):
    """See the module's docstring."""

    Args = FairShareArgs
    kinds = (QUEUE, NODE_KIND, POD_DISRUPTION_BUDGET, PRIORITY_CLASS)
    pure = True

    def __init__(self, args: FairShareArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._queues, self._objects = handle.queues, handle.objects
        self._promised = Promised(handle.queues, handle.nominator, handle.nodes)
        self._held = HeldPods(handle.queues, self._promised)
        self._refusals = Refusals(handle.queues, handle.nodes, handle.nominator)
        self._now = handle.now
        handle.services.chores.append(self._wake)
        handle.services.chores.append(self._evict_over_limit)
        self._verdicts: dict[PodShape, _Verdict] = {}
        self._nodes, self._activate = handle.nodes, handle.activate
        self._nominator = handle.nominator
        self._monotonic = handle.monotonic
        never = NeverEvicted(handle.queues, handle.pods, handle.nodes)
        handle.services.never_evicted.append(never)
        self._rule = ReclaimRule(
            handle.queues, handle.nominator, handle.counters, self._promised, never, handle.now
        )
        cause = "a {} of a queue that is entitled to the room"
        self._reclaim = GroupPreemption(handle, self.name, cause)
        self._strategy = ShortestPrefix(handle, self._rule)
        self._over_limit = OverLimit(self.name, handle, never)
        self._evictions = handle.evictions
        self._instrument = handle.instrument
        self._room_request = handle.room_request
        handle.services.turns = QueueTurns(
            handle.queues,
            args.attempt_share,
            args.ageing,
            handle.now,
            Precedence(handle, never),
        )
        if (past := args.past_use) is not None:
            handle.services.past_use = PastUse(past.half_life, past.interval, handle.now)
        handle.services.object_faults.append(lambda: handle.queues.known_faults)

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: NodeTable) -> Status:
        """Reject a Pod beyond a limit; note the kinds of nodes for all others."""
        queues = self._queues
        state.skip_score.add(self.name)
        if not queues.active:
            return SKIP
        charge = queues.charge(pod)
        if charge is None:
            return SKIP
        structure = charge.sums.structure
        if structure.closing[charge.row] is not None and (closed := self._not_open([pod])):
            return Status.beyond_limit(closed, by=QUEUE_CLOSED)
        if structure.by_kind:
            return self._look_at_kinds(state, pod)
        if state.unlimited:
            return SKIP
        if self._nominator.nominated_nodes() or not charge.is_within_limits:
            promised = self._promised.besides([pod]) if charge.most else None
            above = excess(charge, charge.requests, promised=promised)
            if above is not None:
                state.effects.append(Held(self.name, pod, is_held=True))
                return Status.beyond_limit(above.message)
        if pod in self._held:
            state.effects.append(Held(self.name, pod, is_held=False))
        return SKIP

    def _look_at_kinds(self, state: CycleState, pod: Pod) -> Status:
        promised = self._promised.besides([pod])
        verdict = judge(self._queues, pod, promised, unlimited=state.unlimited)
        if verdict.held or pod in self._held:
            state.effects.append(Held(self.name, pod, is_held=bool(verdict.held)))
        if verdict.held:
            return Status.beyond_limit(*verdict.held)
        state.write(self.name, verdict)
        if verdict.scores is not None:
            state.skip_score.discard(self.name)
        return SUCCESS if verdict.codes.any() else SKIP

    def filter_nodes(self, state: CycleState, _pod: Pod, nodes: NodeTable) -> IntArray:
        """Why the Pod may not go to nodes of some kinds."""
        return self._by_kind(state.read(self.name, KindVerdict).codes, nodes)

    def reasons(self, state: CycleState, _pod: Pod, code: int) -> Status:
        """What a code of `filter_nodes` means."""
        return state.read(self.name, KindVerdict).statuses[code]

    def score_nodes(self, state: CycleState, _pod: Pod, nodes: NodeTable) -> IntArray | None:
        """100 for the preferred kind, 0 for kinds that the queue does not name."""
        verdict = state.get(self.name, KindVerdict)
        scores = None if verdict is None else verdict.scores
        return None if scores is None else self._by_kind(scores, nodes)

    def _by_kind(self, values: IntArray, nodes: NodeTable) -> IntArray:
        """(n,) the value for the kind of each node, of which the last one is for none."""
        codes = self._queues.kinds.codes
        by_row: IntArray = values[codes if nodes.origin is None else codes[nodes.origin]]
        return by_row

    def admit_group(self, _group: Group, pods: Sequence[Pod]) -> Status | None:
        """Reject a group whose minimum does not fit within the limits."""
        queues = self._queues
        if not queues.active:
            return None
        if closed := self._not_open(pods):
            return Status.beyond_limit(closed, f"is not taken: {closed}", by=QUEUE_CLOSED)
        above = queues.excess_of(pods, self._promised.besides(pods))
        if above is None:
            return None
        return Status.beyond_limit(above.message, f"would exceed the {above.limit_name}")

    def _not_open(self, pods: Sequence[Pod]) -> str:
        """Why a queue does not take its Pod; "" if all Pods are taken."""
        structure = self._queues.structure
        if structure.closing.count(None) == len(structure.closing):
            return ""
        for pod in {(pod.shape, pod.pod_group): pod for pod in pods}.values():
            leaf = self._queues.leaf(pod)
            closing = structure.closing[leaf] if leaf != NO_QUEUE else None
            if closing is None:
                continue
            state = structure.queues[closing].spec.state
            text = f"queue {structure.name(closing)} is {state}"
            if state is State.DRAINING:
                if self._queues.completes_a_group(pod):
                    continue
                text += ": it takes only Pods of groups that run in part"
            return text
        return ""

    # Reclaim

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a Pod back until its victims are leaving."""
        return self._evictions.hold(pod.uid)

    def post_filter(self, state: CycleState, pod: Pod, failure: FilterFailure) -> PostFilterResult:
        """Reclaim room for a Pod from queues above their share.

        A limit that holds it back may be made room under, too.

        Plugins after this one are asked about Pods without a queue only: preemption by priority
        knows no tenants.
        """
        if not self._queues.active or self._queues.leaf(pod) == NO_QUEUE:
            return PostFilterResult(Status.unschedulable())
        held_by = failure.statuses.status(0).held_by
        if held_by == QUEUE_CLOSED:
            return PostFilterResult(Status.unresolvable(), "")
        over_limit = bool(held_by)
        possible = over_limit or len(failure.candidates)
        request = self._room_request(state, pod)
        answer, due = self._answer(state, request) if possible else (NoRoom(), inf)
        if isinstance(answer, NoRoom):
            if not over_limit or self._rule.may_have_victims(request.preemptor):
                state.effects.append(PassOn(self.name, pod, due))
            reasons = (f"reclaim: {answer.sentence}",) if answer.sentence else ()
            return PostFilterResult(Status.unresolvable(*reasons), "")
        if not answer.sentence:
            return PostFilterResult(Status.unresolvable("reclaim: others are leaving already"))
        explain = partial(_explained, answer, pod)
        return PostFilterResult(Status(reasons=(answer.sentence,)), answer.nodes[pod.uid], explain)

    def _answer(self, state: CycleState, request: RoomRequest) -> tuple[Room | NoRoom, float]:
        """See `_take`; a refusal holds for Pods like the preemptor while all Pods and nodes stay.

        And for no more than a second, as shares change with what waits, and Pods get older. A Pod
        for which others are leaving is no Pod like the others.
        """
        pod = request.preemptor.pods[0]
        if self._nominator.nominated_node(pod.uid):
            return self._take(request)
        verdict = self._verdicts.get(pod.shape)
        now = self._monotonic()
        if verdict is not None and verdict.seen == self._seen() and now < verdict.refused.until:
            # An attempt like one that searches, so that it does not matter what is still cached.
            state.effects.append(CountSearch(self.name, SINGLE, str(Code.UNSCHEDULABLE), None))
            return verdict.refused.answer, verdict.refused.due
        answer, due = self._take(request)
        if isinstance(answer, NoRoom):
            until = now + _VERDICT_SECONDS
            state.effects.append(Refused(self.name, pod.shape, answer, due, until))
        return answer, due

    def _seen(self) -> object:
        """What a refusal depends on."""
        nodes = self._nodes.pods_version, self._nodes.node_journal.position
        return nodes, self._queues.version, self._nominator.version

    def pod_group_post_filter(self, request: RoomRequest) -> Room | NoRoom:
        """The same for a group; not for one whose Pods belong to several queues."""
        if not self._queues.active:
            return NoRoom()
        examples = {pod.shape: pod for pod in request.preemptor.pods}
        rows = set(map(self._queues.leaf, examples.values()))
        if rows == {NO_QUEUE}:
            return NoRoom()
        if self._not_open(request.preemptor.pods):
            return NoRoom(final=True)
        several = NoRoom("its Pods belong to several queues", final=True)
        answer, due = self._take(request) if len(rows) == 1 else (several, inf)
        if isinstance(answer, NoRoom):
            first = request.preemptor.pods[0]
            request.effects.append(PassOn(self.name, first, due))
        return answer

    def _take(self, request: RoomRequest) -> tuple[Room | NoRoom, float]:
        """Room, and when another potential victim will have run for long enough."""
        queues, refusals, due = self._queues, dict[str, None](), inf
        for target in targets(queues, request.preemptor):
            self._rule.aim(target)
            by_kind = bool(queues.structure.kind_columns)
            its = OnTarget(request, target, queues, self._nodes) if by_kind else request
            answer = self._reclaim.make_room(its, self._strategy)
            due = min(due, self._rule.due)
            if isinstance(answer, Room):
                break
            sentences = [answer.sentence] if answer.sentence else self._rule.refusals.values()
            refusals |= dict.fromkeys(sentences)
        else:
            return NoRoom(", ".join(refusals), final=True), due
        for (queue, rule), pods in self._rule.by_rule(answer.victims).items():
            first = request.preemptor.pods[0]
            request.effects.append(Reclaimed(self.name, queue, rule, pods, first))
        return answer, due

    def carry_out(self, effect: Effect) -> None:
        """Remember who is held back and who was refused, let the next one try, and count."""
        match effect:
            case Held():
                (self._held.add if effect.is_held else self._held.discard)(effect.pod)
            case PassOn():
                self._refusals.add(effect.pod, effect.due)
                leaves_room = effect.pod not in self._held
                if leaves_room and (others := self._held.after(effect.pod)):
                    self._activate(others)
            case TryAgain():
                self._activate(effect.pods)
            case AboveLimit():
                self._over_limit.tell(effect)
            case Refused():
                if len(self._verdicts) >= _VERDICTS_KEPT:
                    self._verdicts.clear()
                self._verdicts[effect.shape] = _Verdict(effect, self._seen())
            case Reclaimed():
                self._instrument.reclaimed(effect.queue, effect.rule, effect.pods)
                if others := self._refusals.after(effect.preemptor):
                    self._activate(others)

    def _wake(self) -> Sequence[Effect]:
        """Who may be entitled to room by what has changed since it was refused."""
        if self._queues.active and self._queues.past_use is not None:
            self._queues.refresh_shares()  # what is used now will be past
        pods = self._refusals.round(self._now()) if self._queues.active else ()
        return [TryAgain(self.name, pods)] if pods else []

    def _evict_over_limit(self) -> Sequence[Effect]:
        """What is above a limit that was lowered."""
        return self._over_limit.look() if self._queues.active else ()

    def events_to_register(self) -> list[EventRegistration]:
        """Events for a Pod held back by a limit: Pods of its tree leave, or the limits change.

        And for one that waits for nodes of a kind.
        """
        smaller = Action.DELETE | Action.UPDATE_POD_SCALE_DOWN
        return [
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, smaller), self._may_have_room),
            EventRegistration(ClusterEvent(QUEUE, Action.ALL), self._of_queue),
            EventRegistration(ClusterEvent(NODE_KIND, Action.ALL)),
            EventRegistration(
                ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._is_of_its_kind
            ),
            EventRegistration(ClusterEvent(NAMESPACE, Action.ALL), _of_namespace),
        ]

    def _may_have_room(self, pod: Pod, old: Pod, new: Pod | None) -> Hint:
        if self._queues.active and self._not_open([pod]):
            return Hint.SKIP
        eviction = self._evictions.eviction(pod.uid)
        gone = eviction is not None and eviction.over and self._promised.to(pod)
        return Hint.QUEUE if gone or self._held.is_woken(pod, old, new) else Hint.SKIP

    def _is_of_its_kind(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        queues = self._queues
        row, kind = queues.leaf(pod), queues.kinds.of(new.name)
        unlike = old is None or old.labels != new.labels
        usable = row == NO_QUEUE or kind in queues.structure.orders[row]
        return Hint.QUEUE if unlike and usable else Hint.SKIP

    def _of_queue(self, pod: Pod, old: Queue | None, new: Queue | None) -> Hint:
        """Wake Pods whose limits or shares may be others; of a new state, those below the Queue."""
        if old is None or new is None:
            return Hint.QUEUE
        if old.spec == new.spec:
            return Hint.SKIP
        if replace(old.spec, state=new.spec.state) == new.spec:
            structure, leaf = self._queues.structure, self._queues.leaf(pod)
            links = structure.links[leaf] if leaf != NO_QUEUE else ()
            concerned = any(structure.name(link) == new.name for link in links)
        else:
            concerned = not self._not_open([pod])
        return Hint.QUEUE if concerned else Hint.SKIP


def _explained(room: Room, pod: Pod) -> dict[str, Any]:
    """See `PostFilterResult.explain`."""
    victims = sorted(victim.key for victim in room.victims)
    return {"victims": victims, "candidates": {room.nodes[pod.uid]: {"victims": victims}}}


def _of_namespace(pod: Pod, old: Namespace | None, new: Namespace | None) -> Hint:
    namespace = new or old
    mine = namespace is not None and namespace.name == pod.namespace
    return Hint.QUEUE if mine else Hint.SKIP
