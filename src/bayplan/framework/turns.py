"""Turns: what the plugin that lets tenants take turns says to the queue."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bayplan.api.pod import Pod
from bayplan.api.queues import Order
from bayplan.framework.points import Named


@runtime_checkable
class TakesTurns(Named, Protocol):
    """A plugin that decides from which tenant the next Pod comes. In-tree only.

    A tenant is a number. The queue says who has Pods to be tried (`enters`, `leaves`), and asks
    for whom it is (`next_tenant`). Within a tenant it orders Pods itself.

    Attributes:
        ageing: seconds after which a Pod is ordered as if it had the next higher priority; 0 for
            never.
    """

    ageing: float

    @property
    def active(self) -> bool:
        """Whether there are tenants."""

    @property
    def version(self) -> int:
        """Changes when Pods may be of other tenants, or tenants have other numbers."""

    def tenant(self, pod: Pod, /) -> int:
        """Whose Pod it is."""

    def order(self, tenant: int, /) -> Order | None:
        """Whose turn it is within a tenant; None where QueueSort alone says so."""

    def restart(self) -> None:
        """Nobody has Pods to be tried any more; what `tenant` says is new."""

    def enters(self, tenant: int, /) -> None:
        """The tenant has Pods to be tried from now on."""

    def leaves(self, tenant: int, /) -> None:
        """It has none any more."""

    def next_tenant(self) -> int:
        """Whose turn it is among those that have Pods."""

    def tried(self, tenant: int, pods: int, /) -> None:
        """So many Pods of the tenant are being tried."""

    def now(self) -> float:
        """Seconds since the epoch."""
