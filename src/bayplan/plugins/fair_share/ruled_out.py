"""Ruled out: whom nobody's eviction helps, known from sums before there is a search.

By limits: what has to go for a limit is more than all that may go below. By nodes: see
`bayplan.plugins.fair_share.bound`. Neither ever says so of a preemptor for whom a search would find
victims.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.framework.room import NoRoom
from bayplan.plugins.fair_share.bound import Bound
from bayplan.plugins.fair_share.demand import Demand
from bayplan.plugins.fair_share.givers import SHARE
from bayplan.plugins.fair_share.parties import KEEPS, Parties, by_leaf
from bayplan.preemption.member_fit import MemberFit
from bayplan.preemption.rule import NOT_ENOUGH
from bayplan.preemption.running_pods import RunningPods


def rules_out(
    queues: QueueTree,
    demand: Demand,
    running: RunningPods,
    fit: MemberFit,
    parties: Parties,
    refusals: Mapping[str, str],
) -> NoRoom | None:
    """Why there are no victims; None if there may be some.

    Args:
        queues: the tree.
        demand: of the preemptor.
        running: all Pods.
        fit: what fits on nodes.
        parties: who takes and gives.
        refusals: by queue, why some of its Pods may not yield.
    """
    structure = queues.structure
    columns = np.flatnonzero(demand.needed[: len(structure.bases)])
    names = [structure.resources[column] for column in columns.tolist()]
    yields = running.leaving | parties.own
    if not names or not (parties.givers or yields.any()):
        return None
    if not yields.any() and demand.within == parties.row:
        return NoRoom()
    most = np.full((len(structure), len(structure.resources)), -1)
    kept = np.ones(len(running), np.bool_)
    spare = by_leaf(parties.leaves, np.flatnonzero(parties.spare))
    for giver in parties.givers:
        candidates = parties.candidates[giver.leaf]
        kept[candidates] = False
        named = structure.guaranteed[list(giver.path)].any(axis=0)
        # Where there are several lines, covered Pods of one may replace those of another.
        named = named & (not structure.kind_columns)
        of_giver = np.concatenate([candidates, spare(giver.leaf)])
        together = parties.requests[of_giver].sum(axis=0)
        most[giver.leaf] = np.where(named, parties.surplus[giver.leaf], together)
        if giver.rule == SHARE:
            room = giver.room(parties.used)
            most[giver.leaf, giver.column] = min(most[giver.leaf, giver.column], room)
    kept &= ~parties.spare
    if _is_held(queues, demand, parties, yields, most):
        return NOT_ENOUGH
    bound = Bound(
        fit,
        running,
        parties.leaves,
        {name: parties.requests[:, c] for name, c in zip(names, columns.tolist(), strict=True)},
        yields,
        kept,
        {name: most[:, c] for name, c in zip(names, columns.tolist(), strict=True)},
    )
    if fit.is_enough(bound.bounded):
        return None
    if not fit.is_enough(bound.whole):
        return NOT_ENOUGH
    in_the_way = bound.in_the_way()
    first = next(giver for giver in parties.givers if giver.leaf in in_the_way)
    name = structure.name(first.leaf)
    kept_by = refusals.get(name) or KEEPS[first.rule].format(name)
    return NoRoom(kept_by)


def _is_held(
    queues: QueueTree,
    demand: Demand,
    parties: Parties,
    yields: BoolArray,
    most: IntArray,
) -> bool:
    """Whether a limit holds the preemptor back even if all possible victims go.

    Args:
        queues: the tree.
        demand: of the preemptor.
        parties: who takes and gives.
        yields: (p,) who may go, whatever its queue may give.
        most: (q, r) what a queue may give; less than nothing where it is not a giver.
    """
    sums = queues.sums
    structure = sums.structure
    for link, column, excess in demand.excesses():
        if sums.user_at(link) is not None:  # Pods of one shape may be of several users
            continue
        amounts = parties.requests[:, column]
        inside = structure.is_below(link)[parties.leaves] & (parties.leaves != NO_QUEUE)
        below = [leaf for leaf in structure.leaves if link in structure.links[leaf]]
        going = int(amounts[inside & yields].sum())
        going += sum(max(int(most[leaf, column]), 0) for leaf in below)
        as_counted = int(amounts[inside].sum()) == sums.used_rows[link][column]
        if as_counted and going < excess:
            return True
    return False
