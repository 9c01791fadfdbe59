"""What the plugin knows of one Pod's claims during one attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayplan.api.resource import AllocationResult, ResourceClaim
from bayplan.cache.node_table import BoolArray
from bayplan.devices.fleet import Answers, Shapes


@dataclass(slots=True)
class PodDevices:
    """See the module's docstring.

    Attributes:
        claims: all claims; PreBind puts those that it has written in their place.
        to_allocate: indexes of those that have no devices yet.
        shapes: of those to allocate.
        answers: what the nodes have for those to allocate.
        unavailable: per allocated claim that is of no use on some node, the rows of these nodes.
        allocations: what Reserve has chosen, by index.
        written: indexes of claims that PreBind has stored.
        doubt: whether a write of PreBind may have taken effect, or not.
    """

    claims: list[ResourceClaim]
    to_allocate: list[int] = field(default_factory=list)
    shapes: Shapes = ()
    answers: Answers | None = None
    unavailable: dict[int, BoolArray] = field(default_factory=dict)
    allocations: dict[int, AllocationResult] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    doubt: bool = False

    @property
    def new_claims(self) -> list[ResourceClaim]:
        """The claims to allocate."""
        return [self.claims[i] for i in self.to_allocate]
