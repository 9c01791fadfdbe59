"""The judge of slices of unlike Pods and of several parts: every node for every Pod is looked at.

It knows nothing of the search. It is given nodes in racks and blocks, and parts of a group, and
says in how few domains the best way places all of them, and whether a given way keeps the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LEVELS = ("block", "rack")
Numbers = tuple[int, ...]
"""How many blocks, and how many racks, the parts are in; those of each part are added up."""


class Node(NamedTuple):
    """A node: its block and rack, and how much CPU it has."""

    path: tuple[str, str]
    cpu: int


class Part(NamedTuple):
    """Pods that are cut into slices.

    Attributes:
        cpus: how much each Pod needs.
        sizes: by position in `LEVELS`, the size of slices there; 0 for none.
        within: position of the level of which one domain has all; -1 for none.
        ranked: whether Pods have an index: every so many of them, in order, are one slice.
    """

    cpus: Sequence[int]
    sizes: tuple[int, int]
    within: int = -1
    ranked: bool = False


def best(nodes: Sequence[Node], parts: Sequence[Part]) -> Numbers | None:
    """The fewest domains, at the widest level first; None where there is no way."""
    cpus = [cpu for part in parts for cpu in part.cpus]
    ways = _ways([node.cpu for node in nodes], cpus)
    return min((n for way in ways if (n := numbers(nodes, parts, way)) is not None), default=None)


def _ways(free: list[int], cpus: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """A node for each Pod, such that CPUs suffice."""
    if not cpus:
        yield ()
        return
    for node, has in enumerate(free):
        if has >= cpus[0]:
            free[node] -= cpus[0]
            yield from ((node, *way) for way in _ways(free, cpus[1:]))
            free[node] += cpus[0]


def numbers(nodes: Sequence[Node], parts: Sequence[Part], way: Sequence[int]) -> Numbers | None:
    """How many domains a way uses, which has a node for each Pod; None where it breaks a rule."""
    total, first = [0] * len(LEVELS), 0
    for part in parts:
        at = [nodes[node].path for node in way[first : first + len(part.cpus)]]
        first += len(part.cpus)
        inner = max(level for level, size in enumerate(part.sizes) if size)
        for level, size in enumerate(part.sizes):
            domains = [path[level] for path in at]
            if level == part.within and len(set(domains)) > 1:
                return None
            if size and any(count % size for count in Counter(domains).values()):
                return None
            if size and part.ranked:
                slices = [domains[i : i + size] for i in range(0, len(domains), size)]
                if any(len(set(each)) > 1 for each in slices):
                    return None
            if part.within < level <= inner:
                total[level] += len(set(domains))
    return tuple(total)
