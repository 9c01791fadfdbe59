"""What NodeResourcesFit and NodeResourcesBalancedAllocation score: resources of a Pod on nodes.

Both look at the resources that their args name, and of those only at what bears on the Pod: a
resource besides CPU, memory and ephemeral storage counts only if the Pod asks for it. On a node
that does not offer a resource, it does not count either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from bayplan.cache.requests import Exact, units
from bayplan.plugins.shared.resource_names import CORE, is_scalar

_NONE = Fraction(0)


class Spec(Protocol):
    """A resource in a plugin's args."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def weight(self) -> int:
        """Its weight among the others."""


@dataclass(frozen=True, slots=True)
class ScoredResource:
    """A resource that counts for a Pod.

    Attributes:
        amount: what the Pod asks for: milli-CPU, bytes or a count.
    """

    name: str
    weight: int
    amount: int


def scored_resources(specs: Iterable[Spec], requests: Exact) -> tuple[ScoredResource, ...]:
    """The resources among ``specs`` that count for a Pod with these ``requests``."""
    every = (
        ScoredResource(spec.name, spec.weight, units(spec.name, requests.get(spec.name, _NONE)))
        for spec in specs
    )
    return tuple(r for r in every if r.name in CORE or (r.amount and is_scalar(r.name)))
