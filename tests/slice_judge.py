"""The judge of slices: every way to place them is looked at, with plain loops, on small clusters.

It knows nothing of the search. It is given racks with room for some Pods, and says how good the
best way is, and how good a given way is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

Rank = tuple[tuple[int, ...], int, int]
"""Number of domains by level, the widest first; minus the least share; room of the racks used."""


class Rack(NamedTuple):
    """A rack, the domains that it is in (the widest first), and how many Pods it has room for."""

    name: str
    path: tuple[str, ...]
    room: int


class Question(NamedTuple):
    """So many Pods are to be placed.

    Attributes:
        racks: all there are.
        pods: how many Pods.
        size: every so many are in one rack.
        outer: by position in the path, every so many are in one domain there.
        within: position in the path of the level of which one domain has all; -1 for none.
        even: whether the least share of a rack is to be as large as possible.
    """

    racks: Sequence[Rack]
    pods: int
    size: int
    outer: Mapping[int, int]
    within: int = -1
    even: bool = False


def best(question: Question) -> Rank | None:
    """The rank of the best way; None where there is no way."""
    ranks = (rank_of(question, way) for way in _ways(question))
    return min((rank for rank in ranks if rank is not None), default=None)


def rank_of(question: Question, way: Sequence[int]) -> Rank | None:
    """How good a way is; None where it breaks a rule. ``way`` has the Pods of each rack."""
    racks, used = question.racks, [index for index, pods in enumerate(way) if pods]
    if sum(way) != question.pods or any(pods % question.size for pods in way):
        return None
    if any(pods > rack.room for pods, rack in zip(way, racks, strict=True)):
        return None
    for position, size in question.outer.items():
        if any(pods % size for pods in _sums(question, way, position).values()):
            return None
    if question.within >= 0 and len(_sums(question, way, question.within)) > 1:
        return None
    depth = len(racks[0].path)
    levels = range(question.within + 1, depth)
    numbers = (*(len(_sums(question, way, level)) for level in levels), len(used))
    least = min(way[index] for index in used) // question.size if question.even else 0
    return numbers, -least, sum(racks[index].room for index in used)


def _ways(question: Question) -> Iterator[Sequence[int]]:
    counts = [range(0, rack.room + 1, question.size) for rack in question.racks]
    return (way for way in product(*counts) if sum(way) == question.pods)


def _sums(question: Question, way: Sequence[int], position: int) -> dict[str, int]:
    sums: dict[str, int] = {}
    for rack, pods in zip(question.racks, way, strict=True):
        if pods:
            domain = rack.path[position]
            sums[domain] = sums.get(domain, 0) + pods
    return sums
