"""Reclaim: the Pods to evict for a queue that is entitled to their room.

The preemptor is a Pod or a group of one queue, the givers are the other queues. Both are compared
where they part: as children of their lowest common ancestor. Who may yield, in this order:

1. *Claim*: if the preemptor is covered by what is guaranteed to its queue, Pods of other queues.
2. *Share*: else, Pods of queues that stay at least as saturated as the preemptor's queue becomes,
   and were more saturated before; of a queue that uses something without a share, those Pods that
   do (`bayplan.plugins.fair_share.givers`).
3. *Priority*: Pods of the preemptor's own queue with a lower priority; one that is covered only if
   the preemptor will be.

Within 1 and 2 Pods come first whose queue is furthest above its share, without those that come
before (to a tenth of the share), so several givers pay in turn. Of one giver, those come first that
no budget protects, then lower priority, the surplus of groups, the youngest. Never: Pods that are
covered by a guarantee (`bayplan.plugins.fair_share.guarantees`), of queues that are not
reclaimable, that run for less than their queue's minRuntimeSeconds, that have no queue; nor those
that are never evicted (`bayplan.plugins.fair_share.never_evicted`), by none of the rules. A queue
may take from lower priorities only (`reclaimFrom`), by 1 and 2.

It ends: by 1 covered Pods take the place of others, never the reverse; by 2 the saturations, sorted
from the lowest, only grow (docs/decisions/0030-what-a-tenant-is-entitled-to.md has the proof, and
why it is not enough that the preemptor ends less saturated than the giver was). The tests count
moves.

Which of its Pods a queue gives is open as long as that holds. The first of them by age may be on
many nodes, and none of these has room then; and a guarantee is an amount, which other Pods of the
queue may take up. So where they are not enough, all Pods of the givers may yield, and the victims
are judged together (`Yielding.wider`, `Yielding.refusal`). That not even these could be enough is
often known from a bound (`bayplan.plugins.fair_share.bound`).

Nor is less covered in the preemptor's own queue and those above, itself counted. Where that could
be, the victims are judged together, then those that are surely of no use to these guarantees are
tried alone, then all.

Where a limit holds the preemptor back, the rules are the same. What has to go counts for that
limit, on whichever nodes it is (`Yielding.ceilings`); where the limit is that of the preemptor's
own queue, these are Pods of rule 3.

What is used is what will be: without Pods that are leaving, with those that are nominated. So Pods
of one queue that are tried one after the other do not each take the same room.

On nodes of a kind that has columns of its own the preemptor needs these, too: a claim by what is
guaranteed on a kind is one for nodes of that kind only. So there is a search for each kind that the
preemptor may go to, in the order of its queue (`bayplan.plugins.fair_share.targets`). Rule 2 looks
at what queues use on all nodes, and takes Pods on nodes that no kind divides by itself; for nodes
of such a kind, at what they use there, and takes Pods that are there.

An example: room 12, queues A and B with weights 1 and 1, B runs 12 Pods of 1, a group of 4 of A
waits. The shares are 4 and 8 (A needs no more). A then has 4 / 4, so B keeps 8 / 8: four of its
Pods yield, the youngest of the lowest priority first.

`ReclaimRule.judge`, in steps:

1. Find the parties: the preemptor's queue, and the givers with what each may give.
2. Rule the preemptor out by sums: of limits, then of what is free at most on each node.
3. Pods that are leaving come first.
4. Giver by giver, the one that deserves least first, choose Pods one after the other while the
   giver stays above what it keeps; what is chosen counts for the next giver.
5. Sort the chosen Pods into classes: claims before shares, then the most saturated first, and the
   preemptor's own Pods of lower priority last.
6. If these are not enough, `Yielding.wider`: all Pods that a giver could give alone.
7. Before that, where guarantees above both count, those only that these do not cover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np

from bayplan.api.pod import Pod
from bayplan.api.queues import ReclaimFrom
from bayplan.cache.counters import DomainCounters
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.cache.queue_tree.shares import Shares
from bayplan.framework.handle import PodNominator
from bayplan.framework.preemptor import Preemptor
from bayplan.framework.room import NoRoom
from bayplan.plugins.fair_share.coverage import (
    Entering,
    claims_of_last,
    enter,
    line_of,
    nominated,
)
from bayplan.plugins.fair_share.demand import Demand
from bayplan.plugins.fair_share.givers import GUARANTEED, MOST_OVER, SHARE, Giver, find_givers
from bayplan.plugins.fair_share.guarantees import Guarantees, Line, fit_one_by_one
from bayplan.plugins.fair_share.never_evicted import NeverEvicted
from bayplan.plugins.fair_share.parties import KEEPS, Parties, by_leaf
from bayplan.plugins.fair_share.promised import Promised
from bayplan.plugins.fair_share.ruled_out import rules_out
from bayplan.plugins.fair_share.targets import Target, compared, inside
from bayplan.preemption.eviction_units import YieldOrder
from bayplan.preemption.member_fit import MemberFit
from bayplan.preemption.rule import Instead, Yielding
from bayplan.preemption.running_pods import RunningPods

PRIORITY = "priority"
_STEPS = int(10 * MOST_OVER) + 1
"""More classes than there are tenths of a share that a queue may be above it."""
MOST_NAMED = 8
"""Queues that are named in one sentence."""

_NOT_LOWER = "no Pod of queue {} has a lower priority"


class ReclaimRule:
    """See the module's docstring, and `bayplan.preemption.rule.Yields`.

    Attributes:
        refusals: why Pods of queues above their share may not yield, by queue; of the last
            preemptor.
        due: when the first Pod will have run for long enough to yield to that one, in seconds since
            the epoch.
    """

    def __init__(
        self,
        queues: QueueTree,
        nominator: PodNominator,
        counters: DomainCounters,
        promised: Promised,
        never_evicted: NeverEvicted,
        now: Callable[[], float],
    ) -> None:
        self._counters, self._never_evicted = counters, never_evicted
        self._queues, self._nominator, self._promised = queues, nominator, promised
        self._now = now
        self._rules: dict[str, str] = {}
        self._target: Target = {}
        self._last: Demand | None = None
        self.refusals: dict[str, str] = {}
        self.due = inf

    def aim(self, target: Target) -> None:
        """The next preemptor is to go to the nodes of this target."""
        self._target = target

    def has_victims(self, preemptor: Preemptor) -> bool:
        """See `Yields`: what queues use says whether there is a giver."""
        self.refusals, self.due = {}, inf
        row = self._queues.leaf(preemptor.pods[0])
        users = (self._queues.sums.user_at(link) for link, *_ in self._demand(preemptor).excesses())
        if any(user is not None and user.never_evicted for user in users):
            return False
        if self._counters.any_leaving or self._any_below(preemptor, row):
            return True
        within = self._demand(preemptor).within
        if within == row:
            return False
        chain, needed = self._queues.structure.chains[row], self._demand(preemptor).needed
        guaranteed = self._queues.shares().guaranteed[chain]
        asked = (guaranteed > 0) & (needed > 0)
        fits = (needed <= guaranteed) | ~asked
        lines = self._queues.structure.lines
        by_line = [asked[:, some].any(axis=1) & fits[:, some].all(axis=1) for some in lines]
        at_best = np.logical_or.reduce(by_line)
        return bool(self._givers(preemptor, row, at_best, self._used(preemptor), within))

    def _demand(self, preemptor: Preemptor) -> Demand:
        if self._last is None or not self._last.is_of(preemptor, self._target):
            self._last = Demand(self._queues, self._promised, preemptor, self._target)
        return self._last

    def may_have_victims(self, preemptor: Preemptor) -> bool:
        """Whether there can be victims once shares, or what is guaranteed, have changed.

        For one that a limit holds back, which is why no more than limits are looked at.
        """
        row = self._queues.leaf(preemptor.pods[0])
        above = any(link != row for link, *_ in self._queues.structure.limits[row])
        return above or self._any_below(preemptor, row)

    def _any_below(self, preemptor: Preemptor, row: int) -> bool:
        """Whether Pods of lower priority run in the queue."""
        namespaces = self._queues.namespaces(row)
        return self._counters.any_below(preemptor.priority, namespaces)

    def judge(
        self, preemptor: Preemptor, running: RunningPods, fit: MemberFit, order: YieldOrder
    ) -> Yielding | NoRoom:
        """See `Yields`."""
        if not len(running):
            return Yielding(np.zeros(0, np.int64), self._describe)
        # 1. The parties
        parties = self._ask(preemptor, running, order)
        # 2. Bounds
        demand = self._demand(preemptor)
        impossible = rules_out(self._queues, demand, running, fit, parties, self.refusals)
        if impossible is not None:
            return impossible
        # 3. to 6. Classes
        return self._yielding(preemptor, running, parties)

    def _ask(self, preemptor: Preemptor, running: RunningPods, order: YieldOrder) -> Parties:
        self._rules, self.refusals, self.due = {}, {}, inf
        queues = self._queues
        structure = queues.structure
        row = queues.leaf(preemptor.pods[0])
        everyone = line_of(queues, running, order, self._never_evicted.among(running))
        leaves, requests = everyone.leaves, everyone.requests
        all_used = self._used(preemptor)
        staying = np.flatnonzero(~running.leaving)
        line = everyone.within(staying)
        claims, tree, entered = self._claims(preemptor, line, row, order)
        tree = staying[tree]
        givers = sorted(self._givers(preemptor, row, claims, all_used), key=_deserves_least)
        coming = [Entering.alone(queues, pod) for pod in self._nominated(preemptor)]
        with_them = enter(queues, line, order, coming) if coming else line
        guarantees = Guarantees(structure, structure.guaranteed, with_them)
        own, spare = np.zeros((2, len(running)), np.bool_)
        lower = (line.leaves == row) & (line.priorities < preemptor.priority) & ~line.never
        for link, claimed in zip(structure.links[row], claims.tolist(), strict=True):
            if not claimed:
                lower &= ~guarantees.covered(link)[: len(staying)]
        own[staying[lower]] = True
        candidates: dict[int, IntArray] = {}
        surplus: dict[int, IntArray] = {}
        may_go, kept = ~line.never, KEEPS[GUARANTEED]
        if structure.queues[row].spec.reclaim_from is ReclaimFrom.LOWER_PRIORITY:
            may_go, kept = may_go & (line.priorities < preemptor.priority), _NOT_LOWER
        of_leaf = by_leaf(line.leaves, np.arange(len(staying)))
        on_target = inside(queues, self._target, running.rows[staying])
        for giver in givers:
            all_of_leaf = of_leaf(giver.leaf)
            all_of_leaf = all_of_leaf[on_target[all_of_leaf] | (giver.rule != SHARE)]
            mine = all_of_leaf[may_go[all_of_leaf]]
            sentence = KEEPS[GUARANTEED] if len(mine) else kept
            if giver.lacks and len(mine):
                uses = requests[staying[mine]][:, giver.lacks] > 0
                mine = mine[uses.any(axis=1)]
                sentence = sentence if len(mine) else KEEPS[SHARE]
            covered = guarantees.protected(giver.path)[mine]
            pods_open, pods_covered = staying[mine[~covered]], staying[mine[covered]]
            surplus[giver.leaf] = requests[pods_open].sum(axis=0)
            candidates[giver.leaf] = self._old_enough(giver, pods_open, running)
            if len(pods_open):
                spare[self._old_enough(giver, pods_covered, running)] = True
            elif len(all_of_leaf):
                name = structure.name(giver.leaf)
                self.refusals.setdefault(name, sentence.format(name))
        if candidates:
            ordered = order.sorted(np.concatenate([*candidates.values()]))
            of_giver = by_leaf(leaves, ordered)
            candidates = {leaf: of_giver(leaf) for leaf in candidates}
        above = self._kept_above(givers, candidates, tree, entered, len(running))
        return Parties(
            row,
            leaves,
            requests,
            all_used.tolist(),
            givers,
            own,
            candidates,
            spare,
            surplus,
            ~running.leaving,
            guarantees,
            above,
            tree,
            entered,
        )

    def _kept_above(
        self,
        givers: Sequence[Giver],
        candidates: Mapping[int, IntArray],
        tree: IntArray,
        entered: Guarantees | None,
        number: int,
    ) -> BoolArray:
        """See `Parties.above`."""
        above = np.zeros(number, np.bool_)
        if entered is None:
            return above
        kept_by: dict[tuple[int, ...], BoolArray] = {}
        for giver in givers:
            common = self._queues.structure.links[giver.leaf][len(giver.path) :]
            if giver.rule == SHARE and common:
                if common not in kept_by:
                    kept_by[common] = np.zeros(number, np.bool_)
                    kept_by[common][tree] = entered.kept_beside_last(common)[: len(tree)]
                pods = candidates[giver.leaf]
                above[pods] = kept_by[common][pods]
        return above

    def _claims(
        self, preemptor: Preemptor, line: Line, row: int, order: YieldOrder
    ) -> tuple[BoolArray, IntArray, Guarantees | None]:
        """Whether a guarantee covers the preemptor; other nominated Pods stand before it.

        Returns:
            (k,) by link of the preemptor's chain; then see `Parties.tree`, of ``line``, and
            `Parties.entered`.
        """
        queues, chain = self._queues, self._queues.structure.links[row]
        guaranteed = queues.shares().guaranteed
        if not queues.structure.guaranteed[list(chain)].any():
            return np.zeros(len(chain), np.bool_), np.zeros(0, np.int64), None
        of_tree = queues.structure.is_below(chain[-1])[line.leaves] & (line.leaves != NO_QUEUE)
        tree = np.flatnonzero(of_tree)
        first = Entering(
            preemptor.pods[0],
            self._demand(preemptor).needed.tolist(),
            preemptor.priority,
            any(map(queues.is_never_evicted, preemptor.pods)),
        )
        others = [Entering.alone(queues, pod) for pod in self._nominated(preemptor)]
        both = enter(queues, line.within(tree), order, [*others, first])
        claims, promised = claims_of_last(queues, guaranteed, both, chain)
        return claims, tree, promised

    def _nominated(self, preemptor: Preemptor) -> Iterator[Pod]:
        """Other nominated Pods of queues, as if they were on their nodes."""
        own = {pod.uid for pod in preemptor.pods}
        return (pod for pod in nominated(self._queues, self._nominator) if pod.uid not in own)

    def _classes(
        self, running: RunningPods, parties: Parties
    ) -> tuple[IntArray, BoolArray, BoolArray]:
        """(p,) classes; who is given by somebody; who could be given alone."""
        givers, used, requests = parties.givers, list(parties.used), parties.requests
        # 3. Who is leaving
        classes: IntArray = np.where(running.leaving, 0, -1)
        # 4. Giver by giver
        shares, name_of = self._shares(), self._queues.structure.name
        by_share, given, alone = np.zeros((3, len(running)), np.bool_)
        over = np.zeros(len(running))
        chosen_pods: list[IntArray] = []
        befores: list[IntArray] = []
        """(n, r) what the branch uses before each of them goes."""
        branches: list[IntArray] = []
        for giver in givers:
            candidates = parties.candidates[giver.leaf]
            chosen = candidates
            if giver.rule == SHARE:
                amounts = requests[candidates, giver.column]
                alone[candidates[amounts <= giver.room(parties.used)]] = True
                room = np.array([giver.room(used)])
                chosen = candidates[fit_one_by_one(room, amounts[:, None])]
                by_share[chosen] = True
            self._rules[name_of(giver.leaf)] = giver.rule
            if not len(chosen):
                name = name_of(giver.leaf)
                self.refusals.setdefault(name, KEEPS[giver.rule].format(name))
                continue
            given[chosen] = True
            going = requests[chosen]
            together = going.cumsum(axis=0)
            befores.append(np.array(used[giver.branch]) - together + going)
            branches.append(np.full(len(chosen), giver.branch))
            chosen_pods.append(chosen)
            for link in giver.path:
                used[link] = (used[link] - together[-1]).tolist()
        # 5. Classes of the chosen Pods
        if chosen_pods:
            rows = np.concatenate(branches)
            over[np.concatenate(chosen_pods)] = shares.saturation(np.concatenate(befores), rows)
        tenths = np.rint(10 * np.minimum(over[given], MOST_OVER)).astype(np.int64)
        classes[given] = (1 + by_share[given]) * _STEPS - tenths
        classes[parties.own] = 3 * _STEPS
        return classes, given, alone

    def _yielding(self, preemptor: Preemptor, running: RunningPods, parties: Parties) -> Yielding:
        # 3. to 5. Who is leaving, then giver by giver
        classes, given, alone = self._classes(running, parties)
        # 6. More, judged together
        ceilings = self._demand(preemptor).ceilings()
        refusal = partial(parties.refusal, self._queues, running)

        def wider() -> Yielding:
            some = (alone | parties.spare) & (classes < 0)
            more = np.where(some, 4 * _STEPS, classes)
            return Yielding(more, self._describe, ceilings, refusal, instead=instead)

        def single(victims: Sequence[Pod]) -> Yielding:
            all_of_them = wider()
            own = any(self._queues.leaf(victim) == parties.row for victim in victims)
            but_own = np.where(parties.own & (not own), -1, all_of_them.classes)
            return replace(all_of_them, classes=but_own)

        def of_the_same(victims: Sequence[Pod]) -> Yielding:
            all_of_them = wider()
            givers = list({self._queues.leaf(victim) for victim in victims})
            theirs = running.leaving | np.isin(parties.leaves, givers)
            return replace(all_of_them, classes=np.where(theirs, all_of_them.classes, -1))

        instead = Instead(single, of_the_same)
        if not parties.above[given].any():
            return Yielding(classes, self._describe, ceilings, wider=wider, instead=instead)

        # 7. Less, if a queue above both would have less covered without these
        def surely() -> Yielding:
            sure = {leaf: pods[~parties.above[pods]] for leaf, pods in parties.candidates.items()}
            nobody = np.zeros_like(parties.above)
            less = self._yielding(
                preemptor, running, parties._replace(candidates=sure, above=nobody)
            )
            more = replace(less, wider=wider, instead=instead)
            return more if (less.classes >= 0).any() else wider()

        return Yielding(classes, self._describe, ceilings, refusal, surely, instead)

    def _used(self, preemptor: Preemptor) -> IntArray:
        """What queues will use: without what is leaving, with what nominated Pods wait for."""
        sums, queues = self._queues.sums, self._queues
        used, chains = sums.used - sums.leaving, sums.structure.chains
        for pod in self._nominated(preemptor):
            used[chains[queues.leaf(pod)]] += queues.requests(pod)
        return used

    # Queues

    def _shares(self) -> Shares:
        """What is compared of queues on the nodes of the target."""
        return self._queues.shares().compared_by(compared(self._queues.structure, self._target))

    def _givers(
        self,
        preemptor: Preemptor,
        row: int,
        claims: BoolArray,
        all_used: IntArray,
        within: int | None = None,
    ) -> list[Giver]:
        """The givers for a taker of the queue at ``row``, while queues use ``(q, r)``.

        ``within``: only those that are part of the queue at that row, None for all.
        """
        structure, shares = self._queues.structure, self._shares()
        needed = self._demand(preemptor).needed
        givers, undone = find_givers(structure, row, claims, needed, all_used, shares)
        if within is not None:
            givers = [giver for giver in givers if within in structure.links[giver.leaf]]
            undone = [leaf for leaf in undone if within in structure.links[leaf]]
        for name in map(structure.name, undone):
            self.refusals[name] = KEEPS[SHARE].format(name)
        return givers

    # Pods

    def _old_enough(self, giver: Giver, pods: IntArray, running: RunningPods) -> IntArray:
        """The Pods in ``pods`` that have run for the minimum runtime."""
        spec = self._queues.structure.queues[giver.leaf].spec
        if spec.min_runtime_seconds:
            ran = self._now() - running.starts[pods] / 1e6
            kept = ran >= spec.min_runtime_seconds
            if not kept.all():
                began = float(running.starts[pods[~kept]].min()) / 1e6
                self.due = min(self.due, began + spec.min_runtime_seconds)
            if not kept.any() and len(pods):
                name = self._queues.structure.name(giver.leaf)
                self.refusals[name] = f"Pods of queue {name} run for less than minRuntimeSeconds"
            pods = pods[kept]
        return pods

    # What is said

    def _describe(self, victims: Sequence[Pod]) -> str:
        counts = self.by_rule(victims)
        own = sum(count for (queue, _), count in counts.items() if not queue)
        texts = [f"{own} Pods of lower priority"] if own else []
        others = [f"{count} Pods of queue {queue}" for (queue, _), count in counts.items() if queue]
        if len(others) > MOST_NAMED:
            others = [f"{len(victims) - own} Pods of {len(others)} queues"]
        return " and ".join([*texts, *others])

    def by_rule(self, victims: Sequence[Pod]) -> Counter[tuple[str, str]]:
        """How many are evicted, by queue ("" for the preemptor's own) and rule."""
        counts: Counter[tuple[str, str]] = Counter()
        for victim in victims:
            row = self._queues.leaf(victim)
            name = self._queues.structure.name(row) if row != NO_QUEUE else ""
            rule = self._rules.get(name, PRIORITY)
            counts["" if rule == PRIORITY else name, rule] += 1
        return counts


def _deserves_least(giver: Giver) -> tuple[bool, float]:
    return giver.rule == SHARE, -giver.over
