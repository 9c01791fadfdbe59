"""What NodeResourcesFit and NodeResourcesBalancedAllocation score: resources of a Pod on nodes.

Both look at the resources that their args name, and of those only at what bears on the Pod: a
resource besides CPU, memory and ephemeral storage counts only if the Pod asks for it. On a node
that does not offer a resource, by itself or as devices, it does not count either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

from bayplan.cache.node_table import LiveNodeTable, NodeTable
from bayplan.cache.requests import Exact, units
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.shared.device_classes import may_have_class
from bayplan.plugins.shared.device_offers import Columns, DeviceOffers
from bayplan.plugins.shared.kept_columns import KeptColumns
from bayplan.plugins.shared.resource_names import CORE, is_scalar

_NONE = Fraction(0)
_SETS_KEPT = 16
"""Sets of resources for which a plugin keeps columns."""


class ResourceSpec(Protocol):
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
        devices: what else nodes may offer as this resource.
    """

    name: str
    weight: int
    amount: int
    devices: DeviceOffers | None = None

    def columns(self, nodes: NodeTable) -> Columns:
        """What nodes offer, and what Pods there take of it, ``(n,)`` each."""
        columns = nodes.allocatable(self.name), nodes.requested(self.name)
        if self.devices is None:
            return columns
        return self.devices.added_to(columns, self.name, nodes)


def device_offers(specs: Iterable[ResourceSpec], handle: InTreeHandle) -> DeviceOffers | None:
    """What is needed to score ``specs``: None where no class can stand for any of them."""
    return DeviceOffers(handle) if any(may_have_class(spec.name) for spec in specs) else None


def device_epoch(resources: Iterable[ScoredResource]) -> int:
    """Changes when devices that count for one of ``resources`` do."""
    return max((r.devices.epoch for r in resources if r.devices is not None), default=0)


def scored_resources(
    specs: Iterable[ResourceSpec], requests: Exact, devices: DeviceOffers | None
) -> tuple[ScoredResource, ...]:
    """The resources among ``specs`` that count for a Pod with these ``requests``."""
    every = (
        ScoredResource(
            spec.name,
            spec.weight,
            units(spec.name, requests.get(spec.name, _NONE)),
            devices if may_have_class(spec.name) else None,
        )
        for spec in specs
    )
    return tuple(r for r in every if r.name in CORE or (r.amount and is_scalar(r.name)))


KeptT = TypeVar("KeptT", bound=KeptColumns)


class ColumnsOf(Generic[KeptT]):
    """The `KeptColumns` of a plugin for each set of resources, whatever Pods request of them."""

    def __init__(self, make: Callable[[Sequence[ScoredResource]], KeptT]) -> None:
        self._make = make
        self._kept: dict[tuple[str, ...], KeptT] = {}

    def of(self, resources: Sequence[ScoredResource], nodes: NodeTable) -> KeptT:
        """The columns for ``nodes``; kept for the live table, unless devices count.

        Devices come and go, which no journal of the table tells. For a what-if table, what Pods do
        not change is taken from the kept columns.
        """
        kept = None if any(r.devices for r in resources) else self._columns(resources)
        if kept is not None and isinstance(nodes, LiveNodeTable):
            kept.refresh(nodes)
            return kept
        if kept is not None and nodes.origin is not None and kept.is_of(nodes.live):
            columns = kept.take(nodes.origin)
            columns.update(nodes, slice(None))
        else:
            columns = self._make(resources)
            columns.start(nodes)
        return columns

    def _columns(self, resources: Sequence[ScoredResource]) -> KeptT:
        names = tuple([resource.name for resource in resources])
        kept = self._kept.get(names)
        if kept is None:
            if len(self._kept) >= _SETS_KEPT:
                self._kept.clear()
            kept = self._kept[names] = self._make(resources)
        return kept
