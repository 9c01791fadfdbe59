"""Precedence: who could take back the room of a Pod that is about to be placed, and goes first.

Turns compare the next Pods of queues. One behind these may be entitled to more: a queue that is
guaranteed 1 has a Pod of 2 that is next, and then one of 1, which would evict whoever got the last
room meanwhile. So before a Pod is tried it is asked whom it would have to yield to if it ran
(`Precedence.takers`): a Pod that waits in another queue, and that may evict it by a claim or by
share. That queue comes first then (`bayplan.queue.turns`), and where that Pod finds no room, this
one goes on at once.

Compared is as in `bayplan.plugins.fair_share.reclaim`: where the two queues part, without Pods that
are leaving, with those that are nominated. Nodes are not looked at: where a kind of nodes is
divided by itself, both are taken to go to the kind that they ask for.

Whom guarantees cover follows from sums where all Pods of a queue fit into its guarantee, or the Pod
alone does not. Else all running Pods stand in line (`Claims`). That costs as much as there are
Pods, so it is done again after one question for every 64 of them, and shares are as old as those of
turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

from bayplan.api.pod import Pod, PodShape
from bayplan.api.queues import ReclaimFrom
from bayplan.cache.amounts import Amounts, Rows, add_amounts
from bayplan.cache.queue_tree import NO_QUEUE
from bayplan.cache.queue_tree.shares import Shares
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.turns import Waiting
from bayplan.plugins.fair_share.coverage import (
    Entering,
    claims_of_last,
    enter,
    nominated,
    staying,
)
from bayplan.plugins.fair_share.guarantees import Line
from bayplan.plugins.fair_share.never_evicted import NeverEvicted
from bayplan.preemption.eviction_units import YieldOrder
from bayplan.preemption.gangs import Gangs
from bayplan.preemption.running_pods import RunningPods

PODS_PER_QUESTION = 64
"""Running Pods for each of which, so many at a time, one question is asked with the same line."""
Lacking = Sequence[Sequence[tuple[int, float]]]
"""By row, columns and amounts."""
_ROUNDED = 1e-9
"""Relative errors of quotients, as in `bayplan.plugins.fair_share.givers`."""


class Claims:
    """Which waiting Pods guarantees would cover, and what queues will use."""

    def __init__(self, handle: InTreeHandle, never: NeverEvicted) -> None:
        self._queues, self._nominator, self._nodes = handle.queues, handle.nominator, handle.nodes
        self._objects, self._never = handle.objects, never
        objects, groups = handle.objects, (handle.groups, handle.kubernetes_groups)
        self._gangs = objects.shared(Gangs, handle.nodes, objects, *groups)
        self._shares = Shares.none()
        self._used: dict[int, Amounts] = {}
        self._coming: tuple[object, Rows] = None, {}
        """What nominated Pods will use, and what that depends on."""
        self._seen: object = None
        self._questions = 0
        self._line: tuple[Line, YieldOrder] | None = None
        self._kept: dict[tuple[int, PodShape], Sequence[bool]] = {}

    def look(self, shares: Shares) -> None:
        """Another question is asked, while these are the shares."""
        queues = self._queues
        self._shares = shares
        self._used.clear()
        nominations = self._nominator.version, queues.sums
        if self._coming[0] != nominations:
            coming = queues.sums.zeros()
            for pod in nominated(queues, self._nominator):
                links = queues.structure.links[queues.leaf(pod)]
                add_amounts(coming, links, queues.requests(pod))
            self._coming = nominations, coming
        self._questions += 1
        seen = nominations, self._nodes.pods_version, shares.guaranteed.tobytes()
        many = 0 if self._line is None else len(self._line[0].leaves)
        if seen != self._seen and self._questions * PODS_PER_QUESTION > many:
            self._seen, self._questions, self._line = seen, 0, None
            self._kept.clear()

    def used(self, row: int) -> Amounts:
        """(r,) what the queue will use."""
        used = self._used.get(row)
        if used is None:
            sums = self._queues.sums
            rows = sums.used_rows[row], sums.leaving_rows[row], self._coming[1][row]
            used = self._used[row] = [a - leaves + c for a, leaves, c in zip(*rows, strict=True)]
        return used

    def by_link(self, pod: Pod) -> Sequence[bool]:
        """For the Pod's queue, and each above, whether the guarantee would cover the Pod."""
        queues = self._queues
        requests, links = queues.requests(pod), queues.structure.links[queues.leaf(pod)]
        known = [self._by_sums(link, requests) for link in links]
        if None not in known:
            return [bool(covered) for covered in known]
        key = links[0], pod.shape
        if key not in self._kept:
            if self._line is None:
                running = RunningPods(self._nodes)
                self._line = staying(queues, running, self._gangs, self._objects, self._never)
            line, order = self._line
            others = [one for one in nominated(queues, self._nominator) if one.uid != pod.uid]
            entering = [Entering.alone(queues, one) for one in (*others, pod)]
            both = enter(queues, line, order, entering)
            claims, _ = claims_of_last(queues, self._shares.guaranteed, both, links)
            self._kept[key] = claims.tolist()
        return self._kept[key]

    def _by_sums(self, link: int, requests: Amounts) -> bool | None:
        """What sums say; None if they do not tell."""
        structure = self._queues.structure
        there, declared = self._shares.guaranteed[link], structure.guaranteed[link]
        if not declared.any():
            return False
        used, in_doubt = self.used(link), False
        for columns in structure.lines:
            asked = [c for c in columns.tolist() if declared[c] and requests[c]]
            most = {c: min(int(there[c]), int(declared[c])) for c in asked}
            if asked and all(requests[c] <= amount for c, amount in most.items()):
                if all(used[c] + requests[c] <= amount for c, amount in most.items()):
                    return True
                in_doubt = True
        return None if in_doubt else False


class Precedence:
    """See the module's docstring."""

    def __init__(self, handle: InTreeHandle, never: NeverEvicted) -> None:
        self._queues, self._nominator = handle.queues, handle.nominator
        self._claims = Claims(handle, never)
        self._lacking: Lacking = ()
        self._ahead: Callable[[int, int], bool] = lambda _taker, _giver: False

    def look(self, shares: Shares, lacking: Lacking, ahead: Callable[[int, int], bool]) -> None:
        """Questions follow about things as they are now.

        Args:
            shares: of all queues.
            lacking: by row, the columns of which siblings need more than there is, and the share.
            ahead: whether the queue at the first row has had so many more attempts than the other
                that it does not come first any more.
        """
        self._lacking, self._ahead = lacking, ahead
        self._claims.look(shares)

    def exposed(self, first: Pod) -> int:
        """Where anybody could take back the room of ``first``, if that Pod ran: 0 for nowhere.

        Of its queue and those above, so many do not cover it.
        """
        queues = self._queues
        row = queues.leaf(first)
        if row == NO_QUEUE or self._nominator.nominated_node(first.uid):
            return 0
        if not queues.structure.queues[row].spec.reclaimable or queues.is_never_evicted(first):
            return 0
        covered = self._claims.by_link(first)
        return covered.index(True) if True in covered else len(covered)

    def takers(self, first: Pod, waiting: Waiting) -> Iterator[tuple[int, Pod]]:
        """Who could take back the room of ``first``, if that Pod ran; each with the leaf."""
        queues, claims, structure = self._queues, self._claims, self._queues.structure
        exposed = self.exposed(first)
        if not exposed:
            return
        row, requests = queues.leaf(first), queues.requests(first)
        chain = structure.links[row]
        for leaf, pods in waiting.items():
            its = structure.links[leaf] if leaf < len(structure) else ()
            common = sum(link in chain for link in its)
            below = len(its) - common
            if below == 0 or leaf == row or len(chain) - common > exposed:
                continue
            taker, giver = its[below - 1], chain[len(chain) - common - 1]
            if self._ahead(taker, giver):
                continue
            lower_only = structure.queues[leaf].spec.reclaim_from is ReclaimFrom.LOWER_PRIORITY
            for pod in pods:
                if lower_only and pod.priority <= first.priority:
                    continue
                if self._nominator.nominated_node(pod.uid):
                    continue
                more = queues.requests(pod)
                if any(claims.by_link(pod)[:below]) or self._takes(taker, more, giver, requests):
                    yield leaf, pod

    def _takes(self, taker: int, more: Amounts, giver: int, given: Amounts) -> bool:
        """Whether the share rule lets one queue take what the other one is about to get."""
        structure = self._queues.structure
        compared = structure.compared_for(given)
        if compared is not structure.compared_for(more):
            return False
        after, before = (
            self._saturation(row, compared, amounts)
            for row, amounts in ((taker, more), (giver, given))
        )
        if after >= before * (1 - _ROUNDED):
            return False
        if before == inf:
            lacking = (column for column, share in self._lacking[giver] if not share)
            return any(given[column] and column in compared for column in lacking)
        return after <= self._saturation(giver, compared) * (1 + _ROUNDED)

    def _saturation(self, row: int, compared: frozenset[int], more: Amounts | None = None) -> float:
        """The largest used / share of what siblings lack, with ``more``."""
        used, worst = self._claims.used(row), 0.0
        for column, share in self._lacking[row]:
            amount = used[column] + (more[column] if more is not None else 0)
            if amount and column in compared:
                worst = max(worst, amount / share if share else inf)
        return worst
