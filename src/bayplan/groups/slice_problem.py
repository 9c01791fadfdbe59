"""SliceProblem: slices to be placed, and the domains for them.

The *leaves* are the domains of the innermost slices' level, such as racks; each holds a number of
slices. Levels above may have slices of their own, made of the inner ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayplan.cache.node_table import IntArray


class SliceProblem(NamedTuple):
    """Where slices could go.

    Attributes:
        slices: ``(m,)`` how many of the innermost slices each leaf holds, at most.
        room: ``(m,)`` how much is free in each leaf, in Pods.
        above: for each level above the leaves, the widest first, ``(m,)`` the domain of each leaf.
        ratios: for each of these levels, of how many slices of the next layer one slice there is
            made; 0 where no slice has that level.
        number: how many of the outermost slices are to be placed.
    """

    slices: IntArray
    room: IntArray
    above: Sequence[IntArray]
    ratios: Sequence[int]
    number: int

    @property
    def inner(self) -> int:
        """How many of the innermost slices are to be placed."""
        return self.number * product(self.ratios)


class Chosen(NamedTuple):
    """The leaves of some slices.

    Attributes:
        open: leaves that share slices with others of the same outer slices.
        shares: others, and how many of the innermost slices these share.
    """

    open: list[int]
    shares: list[tuple[list[int], int]]

    def closed(self, amount: int) -> list[tuple[list[int], int]]:
        """All leaves with the number of slices of each set; ``amount`` for the open ones."""
        return [*self.shares, (self.open, amount)] if self.open else self.shares


def held(problem: SliceProblem) -> int:
    """How many of the outermost slices there is room for."""
    return held_in(problem, np.arange(len(problem.slices)), 0)


def held_in(problem: SliceProblem, leaves: IntArray, depth: int) -> int:
    """How many slices of the outermost layer from ``depth`` on there is room for in ``leaves``."""
    if depth == len(problem.above):
        return int(problem.slices[leaves].sum())
    ratio = problem.ratios[depth] or 1
    if not any(problem.ratios[depth:]):
        return int(problem.slices[leaves].sum())
    return sum(
        held_in(problem, inside, depth + 1) // ratio
        for inside in by_domain(problem.above[depth], leaves)
    )


def by_domain(domains: IntArray, leaves: IntArray) -> Sequence[IntArray]:
    """The leaves of each domain."""
    order = leaves[np.argsort(domains[leaves], kind="stable")]
    _, first = np.unique(domains[order], return_index=True)
    return np.split(order, first[1:]) if len(order) else ()


def product(ratios: Sequence[int]) -> int:
    """Of all that are not 0; 1 for none."""
    return int(np.prod([ratio for ratio in ratios if ratio], dtype=np.int64))
