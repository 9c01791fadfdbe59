"""SliceLayout: how many slices go in which domains, by arithmetic alone.

The answer is exact: slices find domains whenever there are domains for them, and in the fewest
domains that do, at the widest level first, then at the next one; of equally few, those with the
least room, so that the least is left over (`bayplan.groups.slice_tables`). For so many slices that
this would take too long, domains are filled one after the other, those with most room first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayplan.cache.group_topology import SlicePlacement
from bayplan.cache.node_table import IntArray
from bayplan.groups.slice_problem import Chosen, SliceProblem, by_domain, held, held_in
from bayplan.groups.slice_tables import NEVER, Knapsack, TooLargeError, Weights

MOST_CELLS = 1 << 27
"""Numbers that are looked at for one layout: about a quarter of a second's work."""
Rank = tuple[int, int, int]


class Layout(NamedTuple):
    """Where slices go.

    Attributes:
        slices: ``(m,)`` how many of the innermost slices go in each leaf.
        rank: of layouts with the same weights, that with the lowest rank is the best: number of
            domains, how evenly they are used where that matters, room.
    """

    slices: IntArray
    rank: Rank = (0, 0, 0)


def layout(problem: SliceProblem, weights: Weights, placement: SlicePlacement) -> Layout | None:
    """The domains of the slices; None where these do not fit.

    Args:
        problem: the leaves and the slices.
        weights: the same ones for all problems whose costs are compared.
        placement: which of several layouts is taken.
    """
    if held(problem) < problem.number:
        return None
    rank: Rank = (0, 0, 0)
    chosen = Chosen([], [])
    least_first = placement is SlicePlacement.LEAST_FREE
    by_room = least_first or placement is SlicePlacement.MOST_FREE
    try:
        if not by_room:
            rank, chosen = _best(problem, weights, even=placement is SlicePlacement.BALANCED)
    except TooLargeError:
        rank, by_room = (NEVER, 0, 0), True
    if by_room:
        everywhere = np.arange(len(problem.slices))
        chosen = _one_after_the_other(problem, everywhere, 0, problem.number, least_first)
    slices = np.zeros_like(problem.slices)
    for leaves, amount in chosen.closed(problem.inner):
        _hand_out(problem.slices, leaves, amount, placement, slices)
    return Layout(slices, rank)


def _best(problem: SliceProblem, weights: Weights, *, even: bool) -> tuple[Rank, Chosen]:
    """The rank and the leaves of the best layout; all slices fit.

    With ``even``, as few domains are used as without, and each gets as much at least as can be, or
    as was found until it took too long.

    Raises:
        TooLargeError: that takes too long.
    """
    knapsack, number = Knapsack(problem, weights, MOST_CELLS), problem.number
    best, low = knapsack.table(1), 1
    cost = int(best.cost[number])
    numbers, leaves = weights.numbers(cost), int(weights.number_of_leaves(best.cost[number]))
    high = problem.inner // leaves if even else 1
    while low < high:
        middle = (low + high + 1) // 2
        try:
            table = knapsack.table(middle)
        except TooLargeError:
            break
        fits = len(table.cost) > number and weights.numbers(int(table.cost[number])) == numbers
        if fits:
            best, low = table, middle
        else:
            high = middle - 1
    return (numbers, -low, int(best.cost[number])), best.chosen(number)


def _one_after_the_other(
    problem: SliceProblem, leaves: IntArray, depth: int, number: int, least_first: bool
) -> Chosen:
    """The leaves for so many slices if each domain is filled, that with least or most room first.

    At every level that takes the fewest domains there can be, if those with most room are first.
    """
    sign = 1 if least_first else -1
    if depth == len(problem.above):
        order = leaves[np.lexsort((sign * problem.room[leaves], sign * problem.slices[leaves]))]
        before = np.cumsum(problem.slices[order]) - problem.slices[order]
        return Chosen(order[(before < number) & (problem.slices[order] > 0)].tolist(), [])
    ratio, all_ = problem.ratios[depth], Chosen([], [])
    inside = list(by_domain(problem.above[depth], leaves))
    holds = [held_in(problem, each, depth + 1) // (ratio or 1) for each in inside]
    room = [int(problem.room[each].sum()) for each in inside]
    for index in sorted(range(len(inside)), key=lambda i: (sign * holds[i], sign * room[i], i)):
        share = min(holds[index], number)
        if share:
            amount = share * (ratio or 1)
            chosen = _one_after_the_other(problem, inside[index], depth + 1, amount, least_first)
            all_.open.extend([] if ratio else chosen.open)
            all_.shares.extend(chosen.closed(amount) if ratio else chosen.shares)
        number -= share
    return all_


def _hand_out(
    holds: IntArray, leaves: list[int], amount: int, placement: SlicePlacement, slices: IntArray
) -> None:
    """Split ``amount`` slices among ``leaves``, into ``slices``.

    Evenly, or the largest leaf filled first, or the leaves filled in their order.
    """
    even = placement is SlicePlacement.BALANCED
    order = leaves
    if even or placement is SlicePlacement.TIGHTEST:
        order = sorted(leaves, key=lambda leaf: (holds[leaf] if even else -holds[leaf], leaf))
    for index, leaf in enumerate(order):
        share = amount // (len(order) - index) if even else amount
        slices[leaf] = min(int(holds[leaf]), share)
        amount -= int(slices[leaf])
