"""Room: whom to evict so that a group of Pods fits, proven before anybody is touched.

For one Pod, preemption looks for one node (`bayplan.preemption.evaluator`). A group needs many at
once, and its victims may be groups themselves. Trying sets of victims one after the other does not
end in time, so the search goes the other way round: it fixes an order, and looks for a place to cut
it.

1. **Who may yield** is for a `YieldRule` to say: lower priority, or a share that was exceeded. That
   nobody may it knows from sums, without a look at Pods; that those who may are not enough on any
   node it may know from bounds (`YieldRule.rules_out`).
2. **Units** (`bayplan.preemption.units`) are Pods that yield together, in a fixed order: those that
   are leaving anyway, then by class of the rule, budget, priority, surplus, age.
3. **The shortest prefix** of the units that makes room, by resources alone, in one domain if the
   group requires that (`bayplan.preemption.capacity`), and frees what limits demand that it would
   exceed (`YieldRule.ceilings`), on whichever nodes. More units never make less room, so halving
   finds it: some 15 passes over the columns for 30,000 Pods.
4. **Reprieve**: members are put where there is room then, and units stay whose room they do not
   use, or that fit beside them, those that should yield last first, unless a limit demands them.
5. **Proof**: one exact plan of the group, by all of its plugins, in a world without the others. It
   may put members elsewhere; if more units can stay by that, another plan proves it. So it does for
   units that can stay if members are closer together than the plan put them. For a Pod that a limit
   holds back, each unit that no limit demands is tried, too: it may be on another node.
6. Where the proof fails, for reasons other than resources, it is tried without the whole prefix,
   then without longer ones, and what the plan does not use is spared afterwards: all of it, or one
   half and then the other, and so on. There are `PROOFS` plans at most.
7. The rule has the last word: it may refuse the victims as a whole.

The caller evicts the victims and nominates all members in one step, so nobody of lower priority
takes the room meanwhile, and makes no second search while victims are leaving (`is_under_way`).

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

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import LiveNodeTable
from bayplan.framework.handle import PodNominator
from bayplan.framework.room import NoRoom, Room, RoomRequest, Taker
from bayplan.preemption.budgets import Budgets
from bayplan.preemption.capacity import Capacity, Fit, Need, Placed, needs_of
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.rule import YieldRule
from bayplan.preemption.running_pods import RunningPods
from bayplan.preemption.units import Units, make_units

PROOFS = 16
"""Exact plans that one search may make."""
LONGER = 4
"""How many times as long the next prefix is where a proof has failed."""
NOT_ENOUGH = NoRoom("evicting others would not make room")


class RoomSearch:
    """Looks for room; see the module's docstring. Scheduling thread only."""

    def __init__(
        self, nodes: LiveNodeTable, nominator: PodNominator, gangs: Gangs, budgets: Budgets
    ) -> None:
        self._nodes = nodes
        self._nominator = nominator
        self._gangs, self._budgets = gangs, budgets

    def find(
        self,
        request: RoomRequest,
        rule: YieldRule,
    ) -> Room | NoRoom:
        """Whom to evict for a taker that fits nowhere; changes nothing.

        Args:
            request: the taker.
            rule: who may be evicted; where that is not enough, `YieldRule.wider` says it.

        Raises:
            AttemptFault: a plugin broke.
        """
        if not rule.has_victims(request.taker):
            return NoRoom()
        running = RunningPods(self._nodes)
        fit = self._fit(request.taker, needs_of(request))
        impossible = rule.rules_out(request.taker, running, fit)
        if impossible is not None:
            return impossible
        room = self._find_among(request, rule, running, fit)
        if room is NOT_ENOUGH and rule.wider is not None:
            room = self._find_among(request, rule.wider, running, fit)
        return room

    def _find_among(
        self,
        request: RoomRequest,
        rule: YieldRule,
        running: RunningPods,
        fit: Fit,
    ) -> Room | NoRoom:
        classes = rule.classes(request.taker, running)
        if not (classes >= 0).any():
            return NoRoom()
        ceilings = rule.ceilings(request.taker)
        useful = np.logical_or.reduce([need.rows for need in fit.needs])[running.rows]
        for ceiling in ceilings:
            freed = np.array([ceiling.freed(pod) for pod in running.examples])
            useful |= freed[running.codes] > 0
        units = make_units(running, classes, useful, self._gangs, self._budgets)
        proof = _Proof(request, self._nodes, units, Capacity(fit, units, ceilings))
        if not proof.find():
            return NOT_ENOUGH
        proof.reprieve()
        victims = tuple(pod for pod in units.pods_of(proof.gone) if pod.deleted is None)
        refusal = rule.refusal(request.taker, victims)
        if refusal:
            return NoRoom(refusal)
        sentence = _sentence(len(proof.plan), rule.describe(victims), victims)
        return Room(proof.plan, victims, sentence, anywhere=proof.is_by_limits_alone())

    def _fit(self, taker: Taker, needs: list[Need]) -> Fit:
        domains = self._nodes.domains(taker.level)
        return Fit(self._nodes, needs, taker.minimum, domains, self._held(taker))

    def _held(self, taker: Taker) -> Iterator[Placed]:
        """Nominated Pods whose room is not for the taker."""
        own = {pod.uid for pod in taker.pods}
        for name in self._nominator.nominated_nodes():
            row = self._nodes.row(name)
            if row is not None:
                for pod in self._nominator.nominated_pods(name):
                    if pod.priority >= taker.priority and pod.uid not in own:
                        yield row, pod

    def is_under_way(self, taker: Taker) -> bool:
        """Whether Pods that were evicted are still leaving nodes that its members wait for.

        Everything that this looks at is kept by the API server, so a new leader knows it, too.
        """
        names = {self._nominator.nominated_node(pod.uid) for pod in taker.pods} - {""}
        rows = [row for name in names if (row := self._nodes.row(name)) is not None]
        return any(pod.is_preempted for row in rows for pod in self._nodes.pods[row].values())


class _Proof:
    """The units that have to go, and the plan that proves it.

    Attributes:
        gone: the units.
        plan: node name by uid of the members, in a world without them.
    """

    def __init__(
        self, request: RoomRequest, nodes: LiveNodeTable, units: Units, capacity: Capacity
    ) -> None:
        self._request = request
        self._nodes = nodes
        self._units = units
        self._capacity = capacity
        self._left = PROOFS
        self.gone: set[int] = set()
        self.plan: Mapping[str, str] = {}

    def find(self) -> bool:
        """Find a prefix of the units without which the group fits."""
        length = self._capacity.shortest()
        if length is None or not len(self._units):
            return False
        prefix = set(range(length))
        if self._stands(prefix - self._capacity.spared(prefix, self._capacity.fill(length))):
            return True
        length = max(length, 1)
        while not self._stands(set(range(length))):
            if length == len(self._units) or not self._left:
                return False
            length = min(LONGER * length, len(self._units))
        return True

    def _stands(self, gone: set[int]) -> bool:
        """Whether the group fits in a world without these units; if so, they are what goes."""
        gone = self._units.closed(gone)
        if not gone or not self._left:
            return False
        self._left -= 1
        plan = self._request.plan_without(self._units.pods_of(gone))
        if plan is None:
            return False
        self.gone, self.plan = gone, plan
        return True

    def reprieve(self) -> None:
        """Let those stay that need not go."""
        self._spare(sorted(self._capacity.spared(self.gone, self._members())))
        self._spare(sorted(self._capacity.spared_anywhere(self.gone)))
        if self._capacity.ceilings and len(self._request.taker.pods) == 1:
            tried: set[int] = set()
            while others := self._on_account_of_nodes() - tried:
                tried.add(max(others))
                self._stands(self.gone - {max(others)})

    def is_by_limits_alone(self) -> bool:
        """Whether limits demand each of the units that go."""
        return bool(self._capacity.ceilings) and not self._on_account_of_nodes()

    def _on_account_of_nodes(self) -> set[int]:
        """The units that no limit demands, of those that stay otherwise."""
        others = self.gone - self._capacity.demanded(self.gone)
        return {unit for unit in others if unit >= self._units.leaving}

    def _spare(self, units: list[int]) -> None:
        """Spare these, or if that is too many, each half of them in turn."""
        if not units or self._stands(self.gone - set(units)) or len(units) == 1:
            return
        middle = len(units) // 2
        self._spare(units[:middle])
        self._spare(units[middle:])

    def _members(self) -> list[Placed]:
        """As many as are needed: nobody is evicted for one more."""
        taker = self._request.taker
        rows = ((self._nodes.row(self.plan.get(pod.uid, "")), pod) for pod in taker.pods)
        return [(row, pod) for row, pod in rows if row is not None][: taker.minimum]


def _sentence(members: int, description: str, victims: Sequence[Pod]) -> str:
    if not victims:
        return (
            f"MakingRoom: {members} Pods fit as soon as others have left that are leaving already"
        )
    return f"MakingRoom: {description} are evicted, so that {members} Pods fit"
