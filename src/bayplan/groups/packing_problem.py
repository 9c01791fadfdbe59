"""PackingProblem: Pods of several kinds or parts to be placed in slices, and the nodes for them.

The answer is a `How`: what goes to which node (`bayplan.groups.slice_packing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Vector = tuple[int, ...]


class PackingNode(NamedTuple):
    """A node.

    Attributes:
        row: in the table of nodes.
        path: its domain on each level, the widest first; -1 for none.
        copies: by kind, how many Pods of it fit at most.
        free: what is free of each resource.
        room: how much is free, to compare domains.
    """

    row: int
    path: Vector
    copies: Vector
    free: Vector
    room: int


class PackingPart(NamedTuple):
    """A part of a group, with slices or a required level.

    Attributes:
        columns: those of its Pods, and of the parts below it.
        required: the level of which one domain has all of them; -1 for none.
        sizes: by level, the size of its slices there.
        slices: where Pods have an index, for each different slice how many Pods of each of
            ``columns`` it has, and how many such slices there are; none where any Pods will do.
    """

    columns: Vector
    required: int = -1
    sizes: Mapping[int, int] = {}
    slices: Sequence[tuple[Vector, int]] = ()

    @property
    def inner(self) -> int:
        """The level of its innermost slices; -1 for none."""
        return max(self.sizes, default=-1)


class PackingProblem(NamedTuple):
    """What is to be placed, and the nodes for it.

    Attributes:
        nodes: all that may be used.
        needs: by kind, what one Pod takes of each resource.
        columns: the kind of each column, and how many Pods it has.
        parts: of the group.
        depth: how many levels there are.
    """

    nodes: Sequence[PackingNode]
    needs: Sequence[Vector]
    columns: Sequence[tuple[int, int]]
    parts: Sequence[PackingPart]
    depth: int


class Taken(NamedTuple):
    """So many Pods of each column go to a node."""

    row: int
    vector: Vector


class Cut(NamedTuple):
    """What is below it is so many slices of each kind of one part."""

    part: int
    numbers: Vector
    below: How


class Both(NamedTuple):
    """What is in two domains together."""

    first: How
    second: How


How = Taken | Cut | Both | None
"""How a vector is made."""


def taken(how: How) -> Iterator[Taken]:
    """What goes to each node; slices of Pods with an index, too."""
    hows = [how]
    while hows:
        match hows.pop():
            case Taken() as one:
                yield one
            case Cut(_, _, below):
                hows.append(below)
            case Both(first, second):
                hows += (second, first)


def cuts(how: How) -> Iterator[Cut]:
    """The domains of slices of Pods with an index."""
    hows = [how]
    while hows:
        match hows.pop():
            case Cut(_, _, below) as one:
                yield one
                hows.append(below)
            case Both(first, second):
                hows += (second, first)
