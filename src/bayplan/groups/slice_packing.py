"""SlicePacking: where unlike Pods go in slices, or those of several parts of a group, exactly.

For Pods that are all alike what fits is a number (`bayplan.groups.slice_layout`). Here it is a set
of *vectors*: how many Pods of each column go to a domain, a column being one kind of Pods of one
part. A table has for each vector that a domain holds what that costs at least. The table of a node
is made by trying all vectors, that of a domain by joining those of the domains within, and at the
levels of slices and of required domains what is not whole drops out. The last table has the answer.

A cost is one number whose highest digits count the domains of the widest level that each part uses,
and whose last ones are the room of the innermost domains, as in `bayplan.groups.slice_tables`.

Vectors are many: their number is that of the Pods of each column, multiplied. So the work is
limited, and beyond that nothing is said (`TooLargeError`).

Example: slices of 2 in racks, a leader of 3 CPU and three workers of 1 CPU. Rack r0 has one node of
4 CPU, r1 two of 1 CPU. r0 holds (0, 0), (1, 1), (0, 2), r1 holds (0, 0), (0, 2). The sum is (1, 3)
in one way: the leader and a worker in r0, two workers in r1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from operator import add, gt, mul

from bayplan.groups.packing_problem import (
    Both,
    Cut,
    How,
    PackingNode,
    PackingPart,
    PackingProblem,
    Taken,
    Vector,
)
from bayplan.groups.slice_tables import TooLargeError

MOST_STEPS = 500_000
"""Vectors that are made or added for the packings of one search: a quarter of a second's work."""

Table = dict[Vector, tuple[int, How]]


class Steps:
    """How much work may still be done; packings of one search share it."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    @property
    def any(self) -> bool:
        """Whether there are some left."""
        return self._left > 0

    def spend(self, steps: int) -> None:
        """Take so many; raises `TooLargeError` where there are too few, now and ever after."""
        self._left -= steps
        if self._left < 0:
            raise TooLargeError


def pack(problem: PackingProblem, steps: Steps) -> How:
    """The cheapest way to place all Pods; None where there is none.

    Raises:
        TooLargeError: there were too few steps left.
    """
    return _Packing(problem, steps.spend).run()


class _Packing:
    """One packing.

    A vector has a number for each column of Pods, and after those one for each different slice of
    Pods with an index: from the level of its slices on these stand for the Pods.
    """

    def __init__(self, problem: PackingProblem, spend: Callable[[int], None]) -> None:
        self._problem, self._spend = problem, spend
        pods, slices = [most for _, most in problem.columns], list[int]()
        self._first_slice: list[int] = []
        for part in problem.parts:
            self._first_slice.append(len(pods) + len(slices))
            slices += [number for _, number in part.slices]
        self._most = (*pods, *slices)
        self._no_slices = (0,) * len(slices)
        cut = {column for part in problem.parts if part.slices for column in part.columns}
        self._goal = (*(0 if i in cut else most for i, most in enumerate(pods)), *slices)
        self._counted = [self._counted_for(part) for part in problem.parts]
        self._totals = [sum(pods[column] for column in part.columns) for part in problem.parts]
        self._pods = sum(pods)
        stand_for = [sum(each) for part in problem.parts for each, _ in part.slices]
        self._weights = [*(1 for _ in pods), *stand_for]
        used = len(problem.parts) * len(problem.nodes) + 1
        rooms = len(problem.parts) * sum(node.room for node in problem.nodes) + 1
        depth = problem.depth
        self._digits = [rooms * used ** (depth - 1 - level) for level in range(depth)]
        self._held: dict[tuple[Vector, Vector, Vector], Sequence[Vector]] = {}

    def _counted_for(self, whole: PackingPart) -> Sequence[int]:
        """Where in a vector Pods and slices of a part are, with the parts below."""
        counted = list(whole.columns)
        for first, part in zip(self._first_slice, self._problem.parts, strict=True):
            if set(part.columns) <= set(whole.columns):
                counted += range(first, first + len(part.slices))
        return counted

    def run(self) -> How:
        """See `pack`."""
        found = self._inside(self._problem.nodes, 0).get(self._goal)
        return None if found is None else found[1]

    def _inside(self, nodes: Sequence[PackingNode], level: int) -> Table:
        """The table of nodes that are in one domain of each level above ``level``."""
        if level == self._problem.depth:
            return self._joined(map(self._of_node, nodes))
        domains: dict[int, list[PackingNode]] = {}
        for node in nodes:
            domains.setdefault(node.path[level], []).append(node)
        return self._joined(
            self._of_domain(self._inside(inside, level + 1), inside, level)
            for inside in domains.values()
        )

    def _joined(self, tables: Iterable[Table]) -> Table:
        """The cheapest way to make each vector in domains of one parent.

        Of domains with equal tables no more are looked at than could have Pods.
        """
        joined: Table = {(0,) * len(self._most): (0, None)}
        everything = (*self._most[: len(self._problem.columns)], *self._no_slices)
        seen: Counter[tuple[tuple[Vector, int], ...]] = Counter()
        for table in tables:
            alike = tuple((vector, cost) for vector, (cost, _) in table.items())
            least = min((self._pods_in(v) for v in table if any(v)), default=self._pods + 1)
            if seen[alike] < self._pods // least:
                joined = self._sum(joined, table)
            seen[alike] += 1
            if everything in joined and not joined[everything][0]:
                break
        return joined

    def _pods_in(self, vector: Vector) -> int:
        return sum(map(mul, vector, self._weights))

    def _sum(self, first: Table, second: Table) -> Table:
        self._spend(len(first) * len(second))
        both: Table = {}
        for left, (left_cost, left_how) in first.items():
            for right, (right_cost, right_how) in second.items():
                vector = tuple(map(add, left, right))
                if any(map(gt, vector, self._most)):
                    continue
                cost, before = left_cost + right_cost, both.get(vector)
                if before is None or cost < before[0]:
                    both[vector] = cost, _both(left_how, right_how)
        return both

    def _of_domain(self, table: Table, nodes: Sequence[PackingNode], level: int) -> Table:
        """What of ``table`` is whole in one domain of the level, with what the domain costs."""
        room = sum(node.room for node in nodes)
        for index, part in enumerate(self._problem.parts):
            if level == part.inner and part.slices:
                table = self._cut(table, index)
        kept: Table = {}
        for vector, (cost, how) in table.items():
            counts = [sum(vector[i] * self._weights[i] for i in each) for each in self._counted]
            if self._is_whole(counts, level):
                kept[vector] = cost + self._price(counts, level, room), how
        return kept

    def _is_whole(self, counts: Sequence[int], level: int) -> bool:
        """Whether so many Pods of each part may be in one domain of the level."""
        return all(
            (level != part.required or count in (0, total)) and not count % part.sizes.get(level, 1)
            for count, total, part in zip(counts, self._totals, self._problem.parts, strict=True)
        )

    def _price(self, counts: Sequence[int], level: int, room: int) -> int:
        return sum(
            self._digits[level] + (room if level == part.inner else 0)
            for count, part in zip(counts, self._problem.parts, strict=True)
            if count and part.required < level <= part.inner
        )

    def _cut(self, table: Table, index: int) -> Table:
        """With slices in place of the Pods of a part; what is no sum of slices drops out."""
        part, first = self._problem.parts[index], self._first_slice[index]
        cut: Table = {}
        for numbers in product(*(range(most + 1) for _, most in part.slices)):
            pods = [0] * len(part.columns)
            for number, (each, _) in zip(numbers, part.slices, strict=True):
                pods = [before + number * more for before, more in zip(pods, each, strict=True)]
            self._spend(len(table))
            for vector, (cost, how) in table.items():
                if [vector[column] for column in part.columns] == pods:
                    changed = list(vector)
                    for column in part.columns:
                        changed[column] = 0
                    changed[first : first + len(numbers)] = numbers
                    cut[tuple(changed)] = cost, Cut(index, numbers, how) if any(numbers) else how
        return cut

    def _of_node(self, node: PackingNode) -> Table:
        """What a node holds, at no cost."""
        most = [
            most if self._may_use(column, node) else 0
            for column, (_, most) in enumerate(self._problem.columns)
        ]
        key = node.copies, node.free, tuple(most)
        if key not in self._held:
            self._held[key] = self._vectors(node, most)
        pairs = ((vector, (*vector, *self._no_slices)) for vector in self._held[key])
        return {long: (0, Taken(node.row, short) if any(short) else None) for short, long in pairs}

    def _may_use(self, column: int, node: PackingNode) -> bool:
        """Whether the node is in a domain wherever the Pods of the column need one."""
        return all(
            node.path[level] >= 0
            for part in self._problem.parts
            if column in part.columns
            for level in (*part.sizes, *([part.required] if part.required >= 0 else ()))
        )

    def _vectors(self, node: PackingNode, most: Sequence[int]) -> Sequence[Vector]:
        held: list[tuple[Vector, Vector, Vector]] = [((), node.copies, node.free)]
        for (kind, _), limit in zip(self._problem.columns, most, strict=True):
            needs, longer = self._problem.needs[kind], []
            for vector, copies, free in held:
                for number in range(min(limit, copies[kind]) + 1):
                    left = tuple(has - number * need for has, need in zip(free, needs, strict=True))
                    if number and any(
                        over < 0 and need for over, need in zip(left, needs, strict=True)
                    ):
                        break
                    others = (*copies[:kind], copies[kind] - number, *copies[kind + 1 :])
                    longer.append(((*vector, number), others, left))
            held = longer
            self._spend(len(held))
        return [vector for vector, _, _ in held]


def _both(first: How, second: How) -> How:
    if first is None or second is None:
        return second if first is None else first
    return Both(first, second)
