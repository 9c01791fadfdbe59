"""Sub-groups: the parts of a group that have a minimum or a topology of their own.

A group is a tree. Its root is the group itself; the annotation `SUB_GROUPS` of its object lists the
other parts, as JSON, and the label `SUB_GROUP_LABEL` of a Pod names the one that it is in. A Pod
without the label is in the root alone. A group without sub-groups is a tree of one part, and all
that places, counts or evicts Pods of groups goes by the tree.

An example: a group of a leader and two rings of workers in one zone, each ring in one rack::

    [{"name": "leader"},
     {"name": "ring-a", "minMember": 4, "requiredTopology": "example.com/rack"},
     {"name": "ring-b", "minMember": 4, "requiredTopology": "example.com/rack"}]

The minimum of a part is at least that of all parts below it, here 9 for the group.

The reasons: docs/decisions/0023-sub-groups-are-a-tree.md.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.group_topology import (
    SLICES,
    GroupTopology,
    Levels,
    Slice,
    fault_of,
    of_parts,
    placement_in,
    topology_of,
)

SUB_GROUPS = "bayplan.dev/sub-groups"
"""Annotation of a PodGroup: its sub-groups, a JSON list of `_Item`."""
SUB_GROUP_LABEL = "bayplan.dev/sub-group"
"""Label of a Pod: the name of its sub-group."""

MOST_PARTS = 64
"""Sub-groups of one group: they are searched for by recursion."""
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class SubGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a group, or the whole of it.

    Attributes:
        name: what the label of its Pods says; "" for the group itself.
        minimum: as many of its Pods, those of its parts included, have to fit at once; at least 1.
        topology: where its Pods are to be together; None for anywhere that its parent allows.
        parts: the sub-groups below it.
        begun: whether Pods of it have nodes, so that others go where these are (`rest`).
        whole: whether preemption takes all of its Pods or none.
    """

    name: str = ""
    minimum: int = 1
    topology: GroupTopology | None = None
    parts: tuple[SubGroup, ...] = ()
    begun: bool = False
    whole: bool = False

    @property
    def required_level(self) -> str:
        """The node label with one value for all Pods of the sub-group; "" for none."""
        return "" if self.topology is None else self.topology.required

    @property
    def slices(self) -> tuple[Slice, ...]:
        """What its Pods are cut into, the widest level first; none for no slices."""
        return () if self.topology is None else self.topology.slices

    def walk(self) -> Iterator[SubGroup]:
        """Itself and all parts below it, parents before children."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def path(self, name: str) -> tuple[SubGroup, ...]:
        """The parts from this one down to that of the ``name``; this one alone for others."""
        for part in self.parts:
            below = part.path(name)
            if below[-1].name == name:
                return (self, *below)
        return (self,)

    def count(self, counts: Mapping[str, int]) -> int:
        """The number of Pods, from the counts by sub-group; a group has all Pods."""
        if not self.name:
            return sum(counts.values())
        return sum(counts.get(part.name, 0) for part in self.walk())

    def short(self, counts: Mapping[str, int]) -> list[SubGroup]:
        """The parts that have fewer Pods than their minimum, given how many name each sub-group."""
        return [part for part in self.walk() if part.count(counts) < part.minimum]

    def rest(self, scheduled: Mapping[str, int]) -> Self:
        """What is still to be placed at once, given how many Pods of each sub-group have nodes.

        A part that has begun gets more Pods one by one, so only the parts below it that have not
        begun ask for anything.
        """
        if not self.count(scheduled):
            return self
        parts = tuple(part.rest(scheduled) for part in self.parts)
        minimum = sum(part.minimum for part in parts)
        return replace(self, minimum=minimum, parts=parts, begun=True)

    def missing(self, counts: Mapping[str, int]) -> int:
        """How many Pods lack to the minimum, of this part and of all parts below it."""
        below = sum(part.missing(counts) for part in self.parts)
        return max(self.minimum - self.count(counts), below)

    def lacks(self, counts: Mapping[str, int], name: str) -> bool:
        """Whether one more Pod of the sub-group called ``name`` is needed for a minimum.

        It is not where the Pods that other parts lack bring a common parent to its minimum.
        """
        path = self.path(name)
        return any(
            part.minimum - part.count(counts)
            > sum(other.missing(counts) for other in part.parts if other not in path)
            for part in path
        )

    def needed_first(self, pods: Sequence[Pod]) -> list[Pod]:
        """The same Pods; as many as the minimum come first that make up every part's minimum."""
        if not self.parts:
            return list(pods)
        paths = [self.path(sub_group_of(pod.shape)) for pod in pods]
        needed: set[int] = set()
        for part in reversed(list(self.walk())):
            mine = [index for index, path in enumerate(paths) if part in path]
            others = [index for index in mine if index not in needed]
            needed.update(others[: max(part.minimum - len(mine) + len(others), 0)])
        order = sorted(range(len(pods)), key=lambda index: index not in needed)
        return [pods[index] for index in order]


class Surplus:
    """Which Pods a group can do without, one after the other.

    ``counts`` says how many of its Pods name each sub-group.
    """

    def __init__(self, group: SubGroup, counts: Mapping[str, int]) -> None:
        self._group = group
        self._above = {
            part.name: 0 if part.whole else part.count(counts) - part.minimum
            for part in group.walk()
        }
        self._paths: dict[str, list[str]] = {}

    def take(self, sub_group: str) -> bool:
        """Whether one more Pod of this sub-group may be evicted; if so, count the Pod as gone."""
        path = self._paths.get(sub_group)
        if path is None:
            path = self._paths[sub_group] = [part.name for part in self._group.path(sub_group)]
        if min(map(self._above.__getitem__, path)) <= 0:
            return False
        for name in path:
            self._above[name] -= 1
        return True


def sub_group_of(shape: PodShape) -> str:
    """The name of the sub-group of Pods of that shape; "" for none."""
    return shape.labels.get(SUB_GROUP_LABEL, "")


def least(minimum: int, parts: Sequence[SubGroup]) -> int:
    """The minimum of a part: what its object says, but 1, and no less than ``parts`` need."""
    return max(minimum, 1, sum(part.minimum for part in parts))


class Asked(NamedTuple):
    """What the annotations of an object ask for, as fields of its `SubGroup`; and their fault."""

    minimum: int
    topology: GroupTopology | None
    parts: tuple[SubGroup, ...]
    fault: str


def asked_of(
    annotations: Mapping[str, str], levels: Levels, minimum: int, *, in_whole_slices: bool
) -> Asked:
    """What an object asks for of whose Pods ``minimum`` have to be placed at once.

    With ``in_whole_slices`` a minimum that cannot be cut into slices is a fault.
    """
    parts, fault = parts_of(annotations, levels)
    minimum = least(minimum, parts)
    topology, wrong = topology_of(annotations, levels, minimum if in_whole_slices else 0)
    if not wrong and parts and topology is not None and topology.slices:
        wrong = f"{SLICES} and {SUB_GROUPS} exclude each other; a sub-group may have slices"
    return Asked(minimum, topology, parts, fault or wrong)


class _Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One sub-group, as the annotation has it; a ``minMember`` of 0, like none, means 1."""

    name: str
    min_member: Annotated[int, msgspec.Meta(ge=0)] = 0
    parent: str = ""
    required_topology: str = ""
    preferred_topology: str = ""
    slices: tuple[Slice, ...] = ()
    slice_placement: str = ""

    def topology(self, levels: Levels) -> GroupTopology | None:
        """Where its Pods are to be together; None for anywhere."""
        asked = of_parts(self.required_topology, self.preferred_topology, self.slices, levels)
        if asked is None:
            return None
        fields = ("requiredTopology", "preferredTopology", "slices")
        required, preferred, slices = (f"{self.name}'s {field}" for field in fields)
        placement, _ = placement_in(self.slice_placement, "")
        return replace(asked, placement=placement, names=(required, preferred, slices))


def parts_of(annotations: Mapping[str, str], levels: Levels) -> tuple[tuple[SubGroup, ...], str]:
    """The sub-groups in the annotations of an object, and the first fault in them."""
    text = annotations.get(SUB_GROUPS, "")
    if not text:
        return (), ""
    items, fault = _parse(text)
    if fault:
        return (), f"{SUB_GROUPS}: {fault}"
    return _tree(items, tuple(item.topology(levels) for item in items)), ""


@lru_cache(maxsize=1024)
def _tree(
    items: tuple[_Item, ...], topologies: tuple[GroupTopology | None, ...]
) -> tuple[SubGroup, ...]:
    """The sub-groups of the root, cached, as every event needs them.

    ``topologies`` has for each of ``items`` what it asks for.
    """
    below: defaultdict[str, list[tuple[_Item, GroupTopology | None]]] = defaultdict(list)
    for item, topology in zip(items, topologies, strict=True):
        below[item.parent].append((item, topology))

    def parts(parent: str) -> tuple[SubGroup, ...]:
        return tuple(part(*pair) for pair in below[parent])

    def part(item: _Item, topology: GroupTopology | None) -> SubGroup:
        inner = parts(item.name)
        minimum = least(item.min_member, inner)
        return SubGroup(name=item.name, minimum=minimum, topology=topology, parts=inner)

    return parts("")


@lru_cache(maxsize=1024)
def _parse(text: str) -> tuple[tuple[_Item, ...], str]:
    """The items of the annotation, or what is wrong with it."""
    try:
        items = msgspec.json.decode(text, type=tuple[_Item, ...])
    except (msgspec.DecodeError, ValueError) as error:
        return (), str(error)
    return items, _fault(items) or _fault_of_slices(items)


def _fault(items: Sequence[_Item]) -> str:
    if len(items) > MOST_PARTS:
        return f"there are {len(items)} sub-groups; at most {MOST_PARTS} are possible"
    parents: dict[str, str] = {}
    for item in items:
        if not _LABEL_VALUE.fullmatch(item.name):
            return f'the name "{item.name}" cannot be the value of a label'
        if item.name in parents:
            return f"two sub-groups have the name {item.name}"
        parents[item.name] = item.parent
    for name, parent in parents.items():
        if parent and parent not in parents:
            return f"{name} has the parent {parent}, which is no sub-group"
    for name in parents:
        above = [name]
        while (parent := parents[above[-1]]) and parent not in above:
            above.append(parent)
        if parent == name:
            return f"the parents go in a cycle: {' > '.join([*above, name])}"
    return ""


def _fault_of_slices(items: Sequence[_Item]) -> str:
    parents = {item.parent for item in items}
    for item in items:
        _, wrong = placement_in(item.slice_placement, f"{item.name}'s slicePlacement")
        if fault := fault_of(item.slices, max(item.min_member, 1)):
            return f"{item.name}'s slices: {fault}"
        if item.slices and item.name in parents:
            return f"{item.name} has slices and sub-groups"
        if wrong:
            return wrong
    return ""
