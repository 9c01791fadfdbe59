"""Holdings: the devices of Pods on nodes, for those who ask what would be without a Pod.

A claim that was made for a Pod, from a template or for extended resources, goes with the Pod, and
its owner's next Pod gets a new one. A claim that Pods name stays, with its devices.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from bayplan.api.pod import Pod
from bayplan.api.resource import ResourceClaim
from bayplan.framework.status import Status
from bayplan.plugins.dynamic_resources.claim_sorter import ClaimSorter
from bayplan.plugins.shared.device_tracker import PLUGIN, DeviceTracker


class PodHoldings:
    """See the module's docstring, and `bayplan.framework.services.Holdings`."""

    name: ClassVar[str] = PLUGIN

    def __init__(self, sorter: ClaimSorter, tracker: DeviceTracker) -> None:
        self._sorter, self._tracker = sorter, tracker

    def keeps(self, pod: Pod) -> str:
        """Why a Pod made again could not have devices elsewhere; "" if it could."""
        if any(entry.resource_claim_name is not None for entry in pod.spec.resource_claims):
            return "names a ResourceClaim, which stays with its devices"
        claims = self._sorter.claims(pod)
        if isinstance(claims, Status):
            return "has ResourceClaims that are not all there"
        for claim in claims:
            if self._tracker.in_flight(claim):
                return "has a ResourceClaim that is being allocated"
            if any(user.uid != pod.uid for user in claim.status.reserved_for):
                return "has a ResourceClaim that another Pod uses, too"
        return ""

    def without(self, pod: Pod) -> AbstractContextManager[None]:
        """As if the claims that were made for the Pod were without devices."""
        claims = self._made_for(pod)
        return self._tracker.without(claims) if claims else nullcontext()

    def _made_for(self, pod: Pod) -> list[ResourceClaim]:
        claims = self._sorter.claims(pod) if pod.spec.resource_claims else []
        made = [] if isinstance(claims, Status) else [c for c in claims if _is_owned(c, pod)]
        special = self._tracker.extended_claim(pod.uid)
        return made if special is None else [*made, special]


def _is_owned(claim: ResourceClaim, pod: Pod) -> bool:
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.uid
