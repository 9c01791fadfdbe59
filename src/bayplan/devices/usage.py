"""Usage: which devices claims hold, exclusively or in shares.

One writer: the scheduling thread adds what claims of the API server say and what it has just
decided itself, so a device is never free and in use at once. A device that two claims hold
exclusively is a conflict, which two schedulers can cause; `holders` names the claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.api.resource import DeviceRequestAllocationResult
from bayplan.devices.quantity import quantity

ClaimKey = str
"""Namespace, name and uid of a claim, whatever way the caller joins them."""


class DeviceId(NamedTuple):
    """A device's name in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(slots=True)
class DeviceUsage:
    """Who holds one device.

    Attributes:
        exclusive: claims that hold the whole device.
        shares: claims that hold shares, with what these consume by capacity name (1e-9 units).
    """

    exclusive: list[ClaimKey] = field(default_factory=list)
    shares: list[tuple[ClaimKey, dict[str, int]]] = field(default_factory=list)

    def consumed(self) -> dict[str, int]:
        """What all shares together consume, by capacity name."""
        total: dict[str, int] = {}
        for _, amounts in self.shares:
            for name, nano in amounts.items():
                total[name] = total.get(name, 0) + nano
        return total


_UNUSED = DeviceUsage()


class Usage:
    """All allocations, by claim and by device.

    Args:
        changed: called with a device's id after its usage has changed.
    """

    def __init__(self, changed: Callable[[DeviceId], None]) -> None:
        self._changed = changed
        self._by_claim: dict[ClaimKey, tuple[DeviceRequestAllocationResult, ...]] = {}
        self._by_device: dict[DeviceId, DeviceUsage] = {}

    def of(self, device: DeviceId) -> DeviceUsage:
        """Who holds ``device``."""
        return self._by_device.get(device, _UNUSED)

    def holders(self, device: DeviceId) -> list[ClaimKey]:
        """The claims that hold the whole device: more than one is a conflict."""
        return list(self.of(device).exclusive)

    def set_claim(
        self, claim: ClaimKey, results: Iterable[DeviceRequestAllocationResult]
    ) -> list[DeviceId]:
        """Replace what ``claim`` holds; admin access holds nothing.

        Returns:
            Devices that another claim holds exclusively too.
        """
        held = tuple([r for r in results if not r.admin_access])
        if held == self._by_claim.get(claim, ()):
            return []
        self.remove_claim(claim)
        if held:
            self._by_claim[claim] = held
        for result in held:
            self._add(claim, result)
        ids = (DeviceId(r.driver, r.pool, r.device) for r in held)
        return [i for i in ids if len(self.of(i).exclusive) > 1]

    def remove_claim(self, claim: ClaimKey) -> None:
        """``claim`` holds nothing any more."""
        for result in self._by_claim.pop(claim, ()):
            device = DeviceId(result.driver, result.pool, result.device)
            usage = self._by_device.get(device)
            if usage is None:
                continue
            usage.exclusive = [key for key in usage.exclusive if key != claim]
            usage.shares = [share for share in usage.shares if share[0] != claim]
            if not usage.exclusive and not usage.shares:
                del self._by_device[device]
            self._changed(device)

    def _add(self, claim: ClaimKey, result: DeviceRequestAllocationResult) -> None:
        device = DeviceId(result.driver, result.pool, result.device)
        usage = self._by_device.setdefault(device, DeviceUsage())
        if result.share_id is None:
            usage.exclusive.append(claim)
        else:
            amounts = {name: quantity(q).nano for name, q in result.consumed_capacity.items()}
            usage.shares.append((claim, amounts))
        self._changed(device)
