"""Parties: who takes and who may give, and why victims of these must stay together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.plugins.fair_share.givers import GUARANTEED, SHARE, Giver
from bayplan.plugins.fair_share.guarantees import Guarantees
from bayplan.preemption.running_pods import RunningPods

KEEPS = {
    GUARANTEED: "Pods of queue {} are within what is guaranteed to it",
    SHARE: "would be undone by queue {}",
}
"""Why a queue does not give more, by rule."""
_KEPT_ABOVE = "less of what is guaranteed to queue {} would be covered"


class Parties(NamedTuple):
    """Who takes and who may give.

    Attributes:
        row: the preemptor's queue.
        leaves: (p,) the queue of each Pod.
        requests: (p, r) of each.
        used: (q, r) what queues will use.
        givers: the one that deserves least comes first.
        own: (p,) the Pods of the preemptor's queue that yield to its priority.
        candidates: by leaf of a giver, the Pods that may yield, as they yield one after the other.
        spare: (p,) covered Pods of givers, whose place others of their queue may be able to take.
        surplus: (r,) by leaf of a giver, what it has beyond what is covered.
        staying: (p,) whether a Pod is not leaving.
        guarantees: who is covered of those that stay, and then of others that are nominated.
        above: (p,) candidates without whom a queue above both may have less covered.
        tree: the Pods that stay in the tree of the preemptor's queue.
        entered: who is covered of these, of others that are nominated, and of the preemptor, who is
            the last; None where nothing is guaranteed in its queue or above.
    """

    row: int
    leaves: IntArray
    requests: IntArray
    used: Sequence[list[int]]
    givers: Sequence[Giver]
    own: BoolArray
    candidates: Mapping[int, IntArray]
    spare: BoolArray
    surplus: Mapping[int, IntArray]
    staying: BoolArray
    guarantees: Guarantees
    above: BoolArray
    tree: IntArray
    entered: Guarantees | None

    def refusal(self, queues: QueueTree, running: RunningPods, victims: Sequence[Pod]) -> str:
        """Why a giver must not give all of ``victims`` together; "" if there is no reason."""
        structure = queues.structure
        going = np.zeros_like(structure.guaranteed)
        for victim in victims:
            leaf = queues.leaf(victim)
            if leaf != NO_QUEUE:
                going[structure.chains[leaf]] += queues.requests(victim)
        givers = [giver for giver in self.givers if going[giver.leaf].any()]
        for giver in givers:
            if giver.rule == SHARE and going[giver.branch, giver.column] > giver.room(self.used):
                return KEEPS[SHARE].format(structure.name(giver.leaf))
        uids = {victim.uid for victim in victims}
        gone = np.array([pod.uid in uids for pod in running.pods], np.bool_)
        without = np.flatnonzero(gone[self.staying])
        path = self.guarantees.less_covered([giver.path for giver in givers], without)
        if path is not None:
            return KEEPS[GUARANTEED].format(structure.name(path[0]))
        if self.entered is not None:
            chain, without = structure.links[self.row], np.flatnonzero(gone[self.tree])
            loser = self.entered.loser(chain, without)
            if loser is not None:
                return _KEPT_ABOVE.format(structure.name(loser))
        return ""


def by_leaf(leaves: IntArray, pods: IntArray) -> Callable[[int], IntArray]:
    """A look-up of ``pods`` by leaf, in their order; ``leaves`` is (p,), of all Pods."""
    ordered = pods[np.argsort(leaves[pods], kind="stable")]
    of = leaves[ordered]

    def of_leaf(leaf: int) -> IntArray:
        begin, end = of.searchsorted((leaf, leaf + 1))
        return ordered[begin:end]

    return of_leaf
