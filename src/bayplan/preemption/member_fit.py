"""How many Pods of a preemptor fit on nodes, by resources alone, if so much is free on each.

`MemberFit.copies` says how often one Pod fits on each node, for each kind of Pod (`MemberNeed`);
summed by domain, at most as many as there are Pods of the kind. This is an upper bound, and exact
for Pods of one kind: kinds are counted as if each had the nodes for itself. Filter plugins are not
asked: they may say no where the answer is yes, never the reverse. What is free (`Free`) changes as
Pods are added and removed in thought.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.api.pod import Pod, SpecPart
from bayplan.cache.group_topology import Slice
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.requests import pod_requests
from bayplan.framework.room import RoomRequest

PODS = "pods"
"""Stands for the number of Pods among the resources."""
_UNBOUNDED = np.iinfo(np.int64).max


OnRow = tuple[int, Pod]
"""A row, and a Pod there."""


def amounts_of(pod: Pod) -> dict[str, int]:
    """The amounts that ``pod`` takes of the node, by resource, without zeros."""
    amounts = {name: amount for name, amount in pod_requests(pod).amounts.items() if amount}
    return {**amounts, PODS: 1}


@dataclass(frozen=True, eq=False)
class MemberNeed:
    """Members of a group with equal requests and equal possible nodes.

    Attributes:
        pod: one of them.
        count: how many there are.
        amounts: what one of them takes.
        rows: (n,) the nodes that it may go to.
    """

    pod: Pod
    count: int
    amounts: Mapping[str, int]
    rows: BoolArray


def needs_of(request: RoomRequest) -> list[MemberNeed]:
    """What the Pods of a preemptor need."""
    counts: Counter[tuple[SpecPart, SpecPart]] = Counter()
    examples: dict[tuple[SpecPart, SpecPart], Pod] = {}
    for pod in request.preemptor.pods:
        alike = pod.shape.constraints, pod.shape.requests
        counts[alike] += 1
        examples[alike] = pod
    return [
        MemberNeed(pod, counts[alike], amounts_of(pod), request.rows_for(pod))
        for alike, pod in examples.items()
    ]


class Free:
    """What is free on each row, of the resources that count; less than nothing is possible."""

    def __init__(self, nodes: NodeTable, resources: Iterable[str]) -> None:
        self.offered: dict[str, IntArray] = {}
        self.requested: dict[str, IntArray] = {}
        for name in resources:
            if name == PODS:
                self.offered[name], self.requested[name] = nodes.allowed_pods, nodes.pod_count
            else:
                self.offered[name] = nodes.allocatable(name)
                self.requested[name] = nodes.requested(name)
        self.columns: dict[str, IntArray] = {
            name: offered - self.requested[name] for name, offered in self.offered.items()
        }

    def take(self, placed: Iterable[OnRow], sign: int = 1) -> None:
        """Count these Pods; with a ``sign`` of -1, count them no longer."""
        for row, pod in placed:
            for name, amount in amounts_of(pod).items():
                if name in self.columns:
                    self.columns[name][row] -= sign * amount

    def is_overdrawn(self, placed: Iterable[OnRow], among: Container[int]) -> bool:
        """Whether one of ``among`` is a row of ``placed`` and has less than nothing free."""
        rows = [row for row, _ in placed if row in among]
        return any(self.columns[name][row] < 0 for row in rows for name in self.columns)


class MemberFit:
    """How many Pods of a preemptor fit on the nodes, with so much free on each.

    Args:
        nodes: the full table; it is not changed.
        needs: those of the preemptor.
        minimum: as many of its Pods have to fit in one domain.
        domains: (n,) the domain of each row; negative for rows that are in none.
        held: Pods that are not there yet, but whose room is kept for them.
        slices: what the minimum is cut into, the widest level first.

    Attributes:
        needs, minimum, domains: as given.
        cells: (n,) the domain of the innermost slices; `domains` where there are none.
        free: what is free now.
    """

    def __init__(
        self,
        nodes: NodeTable,
        needs: Sequence[MemberNeed],
        minimum: int,
        domains: IntArray,
        held: Iterable[OnRow],
        slices: Sequence[Slice] = (),
    ) -> None:
        self.needs, self.minimum, self.domains = needs, minimum, domains
        self.cells, self._steps = domains, list[tuple[int, IntArray, int]]()
        for layer in slices:
            above, codes = self.cells, nodes.domains(layer.topology)
            self.cells = np.where(above >= 0, codes, -1)
            of_cell = np.zeros(int(self.cells.max(initial=-1)) + 1, np.int64)
            of_cell[self.cells[self.cells >= 0]] = above[self.cells >= 0]
            self._steps.insert(0, (layer.size, of_cell, int(above.max(initial=-1)) + 1))
        self._size = slices[0].size if slices else 1
        self._inside = self.cells >= 0
        self.free = Free(nodes, {name for need in needs for name in need.amounts})
        self.free.take(held)

    def is_enough(self, free: Mapping[str, IntArray]) -> bool:
        """Whether the minimum fits in one domain."""
        return self.is_minimum(self.by_domain(free))

    def is_minimum(self, fit: IntArray) -> bool:
        """Whether the minimum fits where so many Pods do, by domain."""
        return int(fit.max(initial=0)) >= self.minimum

    def by_domain(self, free: Mapping[str, IntArray]) -> IntArray:
        """``(domains,)`` how many Pods fit at most."""
        return self.at_most([self.sums(self.copies(need, free)) for need in self.needs])

    def sums(self, copies: IntArray, rows: IntArray | slice = slice(None)) -> IntArray:
        """``(cells,)`` the sum of ``copies``, those of ``rows``."""
        inside = self._inside[rows]
        return _sums(self.cells[rows][inside], copies[inside], self.cells)

    def in_cells(self, sums: Sequence[IntArray]) -> IntArray:
        """``(cells,)`` how many Pods fit; ``sums`` has those of each need, by cell."""
        fit = np.zeros(int(self.cells.max(initial=-1)) + 1, np.int64)
        for need, copies in zip(self.needs, sums, strict=True):
            fit += np.minimum(copies, self._most(need))
        return fit

    def at_most(self, sums: Sequence[IntArray]) -> IntArray:
        """``(domains,)`` how many Pods fit, in whole slices; ``sums`` as `in_cells` has it."""
        fit = self.in_cells(sums)
        for size, above, count in self._steps:
            fit = np.bincount(above, fit // size * size, minlength=count).astype(np.int64)
        return fit

    def holds_slices(self, free: Mapping[str, IntArray]) -> BoolArray:
        """``(n,)`` whether the cell of a row has room for one of the innermost slices."""
        fit = self.in_cells([self.sums(self.copies(need, free)) for need in self.needs])
        size = self._steps[0][0] if self._steps else 0
        return self._inside & (fit >= size)[self.cells]

    def _most(self, need: MemberNeed) -> int:
        """As many Pods as could be counted; a slice with fewer takes the room of a whole one."""
        return -(-need.count // self._size) * self._size

    def copies(
        self, need: MemberNeed, free: Mapping[str, IntArray], rows: IntArray | slice = slice(None)
    ) -> IntArray:
        """``(rows,)`` how often a Pod fits on each of ``rows``, at most as often as there are Pods.

        A node that offers nothing of a resource and will do nevertheless has it from somewhere
        else: from a driver of devices.
        """
        return self._copies(need, {name: free[name][rows] for name in need.amounts}, rows)

    def _copies(
        self, need: MemberNeed, free: Mapping[str, IntArray], rows: IntArray | slice
    ) -> IntArray:
        """The same; ``free`` is that of ``rows``."""
        copies: IntArray = np.where(need.rows[rows], self._most(need), 0)
        for name, amount in need.amounts.items():
            offered = self.free.offered[name][rows]
            bound = np.where(offered > 0, free[name] // amount, _UNBOUNDED)
            copies = np.minimum(copies, bound)
        return np.maximum(copies, 0)

    def is_enough_without_each(
        self, free: Mapping[str, IntArray], rows: IntArray, amounts: Mapping[str, IntArray]
    ) -> BoolArray:
        """(p,) whether the minimum fits if one Pod is gone, by itself; slices are not looked at.

        Args:
            free: (n,) by resource.
            rows: (p,) the nodes of the Pods.
            amounts: (p,) by resource, what they take.
        """
        domains, fit = self.domains[rows], np.zeros(len(rows), np.int64)
        for need in self.needs:
            now = self.copies(need, free)
            then = self._copies(need, {n: free[n][rows] + amounts[n] for n in need.amounts}, rows)
            inside = self.domains >= 0
            sums = _sums(self.domains[inside], now[inside], self.domains)
            fit += np.minimum(sums[domains] - now[rows] + then, need.count)
        enough: BoolArray = (fit >= self.minimum) & (domains >= 0)
        return enough | self.is_enough(free)


def _sums(codes: IntArray, copies: IntArray, all_codes: IntArray) -> IntArray:
    """The sum of ``copies`` for each of the codes."""
    count = int(all_codes.max(initial=-1)) + 1
    return np.bincount(codes, copies, minlength=count).astype(np.int64)
