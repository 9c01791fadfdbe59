"""ShortestPrefix: as few victims as make room for a group, proven before anybody is touched.

For one Pod, preemption looks for one node (`bayplan.preemption.evaluator`). A group needs many at
once, and its victims may be groups themselves. Trying sets of victims one after the other does not
end in time, so the search goes the other way round: it fixes an order, and looks for a place to cut
it.

1. **Who may yield** is for a `Yields` to say: lower priority, or a share that was exceeded. That
   nobody may it knows from sums, without a look at Pods; that those who may are not enough on any
   node it may know from bounds (`Yields.judge`).
2. **Units of eviction** (`bayplan.preemption.eviction_units`) are Pods that yield together, in a
   fixed order: those that are leaving anyway, then by class of the rule, budget, priority, surplus,
   age. Of many Pods those of the first classes are looked at by themselves, then all of them.
3. **The shortest prefix** of the units that makes room, by resources alone, in one domain if the
   group requires that, and in whole slices (`bayplan.preemption.capacity`), and frees what limits
   demand that it would exceed (`Yielding.ceilings`), on whichever nodes. More units never make less
   room, so halving finds it: some 15 passes over the columns for 30,000 Pods.
4. **Reprieve**: members are put where there is room then, and units stay whose room they do not
   use, or that fit beside them, those that should yield last first, unless a limit demands them.
5. **Proof** (`bayplan.preemption.proof`): one exact plan of the group, by all of its plugins, in a
   world without the others. It may put members elsewhere; if more units can stay by that, another
   plan proves it. So it does for units that can stay if members are closer together than the plan
   put them. For a Pod that a limit holds back, each unit that no limit demands is tried, too: it
   may be on another node.
6. Where the proof fails, for reasons other than resources, it is tried without the whole prefix,
   then without longer ones, and what the plan does not use is spared afterwards: all of it, or one
   half and then the other, and so on. One look has `PROOFS` plans at most.
7. The rule has the last word: it may refuse the victims as a whole.
8. Where several would go, one that comes later in the order may do in their place, if the rule says
   who (`bayplan.preemption.single_victim`).
9. Where a budget is violated or a group ends, others of the same givers go if less is lost by that
   (`bayplan.preemption.lesser_loss`).

The victims are evicted and all members nominated in one step, so nobody of lower priority takes the
room meanwhile, and there is no second search while victims are leaving
(`bayplan.preemption.group`).

An example: two nodes of 4 CPU, a group of 2 Pods of 3 CPU. ``a`` (1 CPU, priority 0) and ``b`` (3
CPU, priority 1) run on n1, ``c`` (2 CPU, priority 2) on n2. Units: a, b, c. Free: 0 and 2 CPU.

- Prefixes: a: one copy, none: (1, 2) CPU free -> 0 copies. a b: (4, 2) -> 1. a b c: (4, 4) -> 2.
- Reprieve, with a member on each node, from the end: c needs 2 CPU, n2 has 1 left: it goes. b
  needs 3, n1 has 1: it goes. a needs 1, n1 has 1: it stays.
- The plan without b and c places a member on each node: it is the proof. Victims: b, c.

Devices that victims have allocated are not counted as free, as they are freed only after their end:
a group that needs just these gets none by this. kube-scheduler does likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import NoRoom, Room, RoomRequest
from bayplan.framework.turns import keeps_room
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.capacity import FreedCapacity
from bayplan.preemption.eviction_units import YieldOrder, make_units
from bayplan.preemption.gangs import gangs_of
from bayplan.preemption.lesser_loss import VICTIMS, LesserLoss
from bayplan.preemption.losses import Losses
from bayplan.preemption.member_fit import MemberFit, OnRow, needs_of
from bayplan.preemption.proof import Proof
from bayplan.preemption.rule import NOT_ENOUGH, Yielding, Yields
from bayplan.preemption.running_pods import RunningPods
from bayplan.preemption.single_victim import SingleVictim

_MANY, _MANY_FOR_EACH = 1000, 10
"""Pods that a search looks at first, and for each member; and those of the same class as these."""


class ShortestPrefix:
    """See the module's docstring, and `bayplan.preemption.group.Strategy`.

    Args:
        rule: who may be evicted; where these are not enough, `Yielding.wider` has more.
    """

    under_way = ""

    def __init__(self, handle: InTreeHandle, rule: Yields) -> None:
        self._rule = rule
        self._nodes, self._nominator = handle.nodes, handle.nominator
        self._services = handle.services
        self._gangs = gangs_of(handle)
        self._budgets = handle.objects.shared(Budgets, handle.objects)

    def awaits(self, _preemptor: Preemptor, leaving: Pod) -> bool:
        """See `Strategy`."""
        return leaving.is_preempted

    def find(self, request: RoomRequest) -> Room | NoRoom:
        """See `Strategy`."""
        if not self._rule.has_victims(request.preemptor):
            return NoRoom()
        # 1. Who may yield
        running, fit = RunningPods(self._nodes), self._fit(request)
        useful = np.logical_or.reduce([need.rows for need in fit.needs])[running.rows]
        order = YieldOrder(running, useful, self._gangs, self._budgets)
        yielding = self._rule.judge(request.preemptor, running, fit, order)
        if isinstance(yielding, NoRoom):
            return yielding
        room = self._find_among(request, yielding, running, fit)
        while isinstance(room, NoRoom) and room.sentence and yielding.wider is not None:
            yielding = yielding.wider()
            room = self._find_among(request, yielding, running, fit)
        if isinstance(room, NoRoom) or yielding.instead is None:
            return room
        losses = Losses(fit, running, order, self._budgets)
        if len(room.victims) > 1:
            # 8. One in place of several
            one = SingleVictim(request, losses).find(room, yielding.instead.single(room.victims))
            room = one or room
        if len(room.victims) <= VICTIMS and (room.violations or self._is_of_group(room.victims)):
            # 9. Others of the same givers
            others = yielding.instead.of_the_same(room.victims)
            look = partial(self._find_among, request, running=running, fit=fit)
            return LesserLoss(losses, others, look).find(room)
        return room

    def _is_of_group(self, pods: Iterable[Pod]) -> bool:
        """Whether any of these is in a group."""
        gangs = self._gangs
        return gangs.any and any(gangs.group_of(pod) is not None for pod in pods)

    def _find_among(
        self, request: RoomRequest, yielding: Yielding, running: RunningPods, fit: MemberFit
    ) -> Room | NoRoom:
        classes, ceilings = yielding.classes, yielding.ceilings
        if self._services.any_never_evicted:
            never = [self._services.is_never_evicted(pod) for pod in running.pods]
            classes = np.where(never, -1, classes)
        if not (classes >= 0).any():
            return NoRoom()
        # 2. Units
        useful = np.logical_or.reduce([need.rows for need in fit.needs])[running.rows]
        for ceiling in ceilings:
            if ceiling.by_node:
                useful |= np.array([ceiling.freed(pod) > 0 for pod in running.pods], np.bool_)
                continue
            freed = np.array([ceiling.freed(pod) for pod in running.examples])
            useful |= freed[running.codes] > 0
        for some in self._portions(classes, request.preemptor.minimum):
            units = make_units(running, some, useful, self._gangs, self._budgets)
            # 3. to 6. The shortest prefix, reprieve and proof
            proof = Proof(request, self._nodes, units, FreedCapacity(fit, units, ceilings))
            if proof.find():
                break
        else:
            return NOT_ENOUGH
        proof.reprieve()
        # 7. The rule has the last word
        victims = tuple(pod for pod in units.pods_of(proof.gone) if pod.deleted is None)
        refusal = yielding.refusal(victims)
        if refusal:
            return NoRoom(refusal)
        return Room(
            proof.plan,
            victims,
            yielding.sentence(len(proof.plan), victims),
            anywhere=proof.is_by_limits_alone(),
            violations=len(self._budgets.violations(victims)),
        )

    def _portions(self, classes: IntArray, minimum: int) -> Iterator[IntArray]:
        """``classes`` of the Pods to yield first, then of all Pods: sorting all takes much longer.

        Members of a group may be of several classes, so where there are groups it is all at once.
        """
        yielding = np.sort(classes[classes >= 0])
        many = _MANY_FOR_EACH * minimum + _MANY
        if len(yielding) > many and not self._gangs.any:
            last = yielding[many]
            if last < yielding[-1]:
                yield np.where(classes <= last, classes, -1)
        yield classes

    def _fit(self, request: RoomRequest) -> MemberFit:
        preemptor, domains = request.preemptor, self._nodes.domains(request.preemptor.level)
        return MemberFit(
            self._nodes,
            needs_of(request),
            preemptor.minimum,
            domains,
            self._held(preemptor),
            preemptor.slices,
        )

    def _held(self, preemptor: Preemptor) -> Iterator[OnRow]:
        """Nominated Pods whose room is not for the preemptor."""
        own = {pod.uid for pod in preemptor.pods}
        lowest = min(preemptor.pods, key=lambda pod: pod.priority)
        for name in self._nominator.nominated_nodes():
            row = self._nodes.row(name)
            if row is not None:
                for pod in self._nominator.nominated_pods(name):
                    if pod.uid not in own and keeps_room(pod, lowest, self._services.turns):
                        yield row, pod
