"""GroupTopology: in which domains the Pods of a group, or of a sub-group, are to be.

A level is a node label, such as that of the rack; its domains are the nodes with the same value. A
group may require one domain for all of its Pods, prefer one, or be cut into *slices*: so many Pods
each, every slice in one domain. Slices may be nested: those of 32 Pods in a block, each of four
slices of 8 in a rack. Slices of one Pod keep the number of domains small, and ask for nothing else.

What a group asks for is said by annotations of its object: of the PodGroup, or of the Job or other
owner that it is inferred from.

An example: 64 Pods in one zone, every 32 in one block, every 8 in one rack::

    bayplan.dev/required-topology: topology.kubernetes.io/zone
    bayplan.dev/slices: |
      [{"topology": "example.com/block", "size": 32}, {"topology": "example.com/rack", "size": 8}]

The reasons: docs/decisions/0034-slices-by-arithmetic.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec.structs import replace

REQUIRED_TOPOLOGY = "bayplan.dev/required-topology"
"""Annotation of a PodGroup: the node label of the level of which one domain has to hold it."""
PREFERRED_TOPOLOGY = "bayplan.dev/preferred-topology"
"""Annotation of a PodGroup: the node label of the level of which one domain should hold it."""
SLICES = "bayplan.dev/slices"
"""Annotation of a PodGroup: its slices, a JSON list of `Slice`, the widest level first."""
SLICE_PLACEMENT = "bayplan.dev/slice-placement"
"""Annotation of a PodGroup: in which domains its slices go, a `SlicePlacement`."""

Levels = Callable[[str], tuple[str, ...]]
"""The hierarchy of node labels, the widest first, that a label belongs to; at least itself."""

MOST_LAYERS = 4
"""Slices within slices; Kueue has three."""


class SlicePlacement(Enum):
    """Which of the domains with room for slices are taken, and how many slices each gets."""

    TIGHTEST = "Tightest"
    """As few as possible at each level, the widest level first; then the least room left over."""
    BALANCED = "Balanced"
    """As few as possible; of those, where the least that one of them gets is most."""
    LEAST_FREE = "LeastFree"
    """Those with the least room first, each as full as it can be."""
    MOST_FREE = "MostFree"
    """Those with the most room first, each as full as it can be."""


class Slice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every ``size`` Pods are in one domain of the level ``topology``, a node label."""

    topology: Annotated[str, msgspec.Meta(min_length=1)]
    size: Annotated[int, msgspec.Meta(ge=1)] = 1


class GroupTopology(msgspec.Struct, frozen=True):
    """Where Pods are to be together.

    Attributes:
        required: a node label: all Pods go to nodes with one value of it; "" for none.
        preferred: a node label: likewise where possible; "" for none.
        levels: the hierarchy of node labels that these belong to, the widest first.
        slices: what the Pods are cut into, the widest level first; none for no slices.
        placement: in which domains slices go.
        names: what the object calls ``required``, ``preferred`` and ``slices``.
        fault: what the object says that cannot be; "" for nothing.
    """

    required: str = ""
    preferred: str = ""
    levels: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    placement: SlicePlacement = SlicePlacement.TIGHTEST
    names: tuple[str, str, str] = (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, SLICES)
    fault: str = ""

    @property
    def steps(self) -> tuple[str, ...]:
        """The levels to try, one after the other; "" for all nodes."""
        allowed = self.levels[self.levels.index(self.required) :] if self.required else self.levels
        if self.preferred not in allowed:
            return (self.required,)
        steps = tuple(reversed(allowed[: allowed.index(self.preferred) + 1]))
        return steps if self.required else (*steps, "")


def topology_of(
    annotations: Mapping[str, str], levels: Levels, minimum: int = 0
) -> tuple[GroupTopology | None, str]:
    """The topology in annotations for ``minimum`` Pods, and the first fault."""
    slices, fault = slices_in(annotations.get(SLICES, ""), minimum)
    placement, wrong = placement_in(annotations.get(SLICE_PLACEMENT, ""), SLICE_PLACEMENT)
    required = annotations.get(REQUIRED_TOPOLOGY, "")
    topology = of_parts(required, annotations.get(PREFERRED_TOPOLOGY, ""), slices, levels)
    if topology is not None and placement is not topology.placement:
        topology = replace(topology, placement=placement)
    return topology, (fault and f"{SLICES}: {fault}") or wrong


def of_parts(
    required: str, preferred: str, slices: tuple[Slice, ...], levels: Levels
) -> GroupTopology | None:
    """The topology with these labels; None where there are none.

    Where the first of them is in no hierarchy, the others are the levels below.
    """
    labels = [label for label in (required, preferred, *(s.topology for s in slices)) if label]
    if not labels:
        return None
    hierarchy = levels(labels[0])
    if len(hierarchy) == 1:
        hierarchy = tuple(dict.fromkeys(labels))
    return GroupTopology(required, preferred, hierarchy, slices)


def placement_in(text: str, field: str) -> tuple[SlicePlacement, str]:
    """The placement of this name, and what is wrong with the name; "" means Tightest."""
    try:
        return SlicePlacement(text or SlicePlacement.TIGHTEST), ""
    except ValueError:
        names = ", ".join(placement.value for placement in SlicePlacement)
        return SlicePlacement.TIGHTEST, f'{field}: "{text}" is none of {names}'


@lru_cache(maxsize=1024)
def slices_in(text: str, minimum: int) -> tuple[tuple[Slice, ...], str]:
    """The slices of a JSON list, and what is wrong with them; none for an empty text."""
    if not text:
        return (), ""
    try:
        slices = msgspec.json.decode(text, type=tuple[Slice, ...], strict=False)
    except (msgspec.DecodeError, ValueError) as error:
        return (), str(error)
    fault = fault_of(slices, minimum)
    return ((), fault) if fault else (slices, "")


def fault_of(slices: Sequence[Slice], minimum: int) -> str:
    """What is wrong with slices of ``minimum`` Pods, whatever nodes there are; "" for nothing.

    A minimum of 0 is not looked at.
    """
    if len(slices) > MOST_LAYERS:
        return f"there are {len(slices)} layers; at most {MOST_LAYERS} are possible"
    for outer, inner in pairwise(slices):
        if outer.size % inner.size:
            return f"the size {inner.size} does not divide {outer.size}, that of the slices above"
    topologies = [layer.topology for layer in slices]
    if twice := next((name for name in topologies if topologies.count(name) > 1), ""):
        return f"two layers have the topology {twice}"
    if slices and minimum % slices[0].size:
        return f"the size {slices[0].size} does not divide the minimum, {minimum}"
    return ""
