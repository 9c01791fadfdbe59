"""What the plugin knows of one Pod's claims during one attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bayplan.api.resource import AllocationResult, ResourceClaim
from bayplan.cache.node_table import BoolArray, IntArray
from bayplan.plugins.dynamic_resources.extended import Mapping

if TYPE_CHECKING:
    from bayplan.devices.fleet import NodeOutcomes, Shapes


@dataclass(slots=True)
class Option:
    """The claims that are to be allocated on some of the nodes.

    Attributes:
        indexes: where they stand among all claims of the Pod.
        mappings: who uses which request of the claim for extended resources.
        answers: what the nodes have for them.
    """

    indexes: list[int]
    claims: list[ResourceClaim]
    shapes: Shapes
    mappings: Sequence[Mapping] = ()
    answers: NodeOutcomes | None = None

    @property
    def of_all(self) -> NodeOutcomes:
        """The answers, which Filter has asked for."""
        assert self.answers is not None
        return self.answers


@dataclass(slots=True)
class PodDevices:
    """See the module's docstring.

    Attributes:
        claims: all claims; PreBind puts those that it has written in their place.
        options: what is to be allocated; empty where all claims have their devices.
        option_of: per row of the live table the index of its option, -1 for none; None where the
            first one, if there is one, is that of all nodes.
        lacking: per row of the live table, whether the node lacks an extended resource that no
            class stands for; None where the Pod asks for none.
        stale: a claim that an earlier attempt made for extended resources.
        unavailable: per allocated claim that is of no use on some node, the rows of these nodes.
        allocations: what Reserve has chosen, by index.
        reserved: the claims as Reserve had them, by index.
        mappings: of the option that Reserve has chosen.
        written: indexes of claims that PreBind has stored.
        doubt: whether a write of PreBind may have taken effect, or not.
    """

    claims: list[ResourceClaim]
    options: list[Option] = field(default_factory=list)
    option_of: IntArray | None = None
    lacking: BoolArray | None = None
    stale: ResourceClaim | None = None
    unavailable: dict[int, BoolArray] = field(default_factory=dict)
    allocations: dict[int, AllocationResult] = field(default_factory=dict)
    reserved: dict[int, ResourceClaim] = field(default_factory=dict)
    mappings: Sequence[Mapping] = ()
    written: set[int] = field(default_factory=set)
    doubt: bool = False

    def option_at(self, row: int) -> Option | None:
        """What is to be allocated on the node at ``row`` of the live table."""
        index = 0 if self.option_of is None else int(self.option_of[row])
        return self.options[index] if 0 <= index < len(self.options) else None
