"""Sorts the claims of a Pod before Filter: claims with devices, and claims to be allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayplan.api.kinds import DEVICE_CLASS
from bayplan.api.pod import Pod, SpecPart
from bayplan.api.resource import ResourceClaim
from bayplan.cache.node_table import BoolArray
from bayplan.cache.requests import pod_requests, spec_requests
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.status import Status
from bayplan.plugins.dynamic_resources.extended import special_claim
from bayplan.plugins.dynamic_resources.state import Option, PodDevices
from bayplan.plugins.shared.device_classes import DeviceClasses, may_have_class
from bayplan.plugins.shared.device_tracker import DeviceTracker
from bayplan.plugins.shared.pod_claims import ClaimNotReadyError, pod_claims

if TYPE_CHECKING:
    from bayplan.devices.requests import ClaimShape


class ClaimSorter:
    """What PreEnqueue and PreFilter have to know of claims."""

    def __init__(self, handle: InTreeHandle, tracker: DeviceTracker) -> None:
        self._handle = handle
        self._tracker = tracker
        self._classes = handle.objects.shared(DeviceClasses, handle.objects)

    def sort(self, pod: Pod) -> PodDevices | Status | None:
        """The claims of the Pod; None for no claims, a status if the claims cannot be used."""
        resources, others = self._extended_resources(pod)
        if not pod.spec.resource_claims and not resources:
            return None
        self._tracker.expire()
        claims = self.claims(pod)
        if isinstance(claims, Status):
            return claims
        if not claims and not resources:
            return None
        mine = PodDevices(claims)
        new = [index for index, claim in enumerate(claims) if claim.status.allocation is None]
        shapes = self._tracker.fleet.shapes([claims[index] for index in new])
        for index, shape in zip(new, shapes, strict=True):
            if trouble := self._trouble(claims[index], shape):
                return trouble
        if resources:
            self._add_extended(mine, pod, resources, Option(new, [claims[i] for i in new], shapes))
            mine.lacking = self._lacking(others)
        elif new:
            mine.options = [Option(new, [claims[i] for i in new], shapes)]
        return mine

    def claims(self, pod: Pod) -> list[ResourceClaim] | Status:
        """The claims named by the Pod, or why the Pod has to wait for one."""
        try:
            return pod_claims(pod, self._tracker.claim)
        except ClaimNotReadyError as error:
            return Status.unresolvable(str(error))

    def _extended_resources(self, pod: Pod) -> tuple[list[str], list[str]]:
        """The requested extended resources: the ones with a device class, and the others."""
        if not self._classes or not pod.shape.requests.memo(_names_that_may_have_class):
            return [], []
        amounts = pod_requests(pod).amounts
        names = [name for name, n in amounts.items() if n and may_have_class(name)]
        backed = [name for name in names if self._classes.behind(name)]
        return backed, [name for name in names if name not in backed]

    def _lacking(self, resources: list[str]) -> BoolArray | None:
        """Rows without one of ``resources``, as NodeResourcesFit may ignore these resources."""
        if not resources:
            return None
        amounts = (node.status.allocatable if node else {} for node in self._handle.nodes.nodes)
        return np.array([not all(name in has for name in resources) for has in amounts])

    def _add_extended(
        self, mine: PodDevices, pod: Pod, resources: list[str], named: Option
    ) -> None:
        """One option for each set of resources that some node does not offer by itself."""
        mine.stale = self._tracker.extended_claim(pod.uid)
        nodes = self._handle.nodes
        without = [nodes.allocatable(name) == 0 for name in resources]
        sets = sum((mask.astype(np.int64) << bit for bit, mask in enumerate(without)), start=0)
        mine.option_of = np.full(len(nodes), -1, np.int64)
        for one in np.unique(sets[nodes.exists]).tolist():
            missing = [name for bit, name in enumerate(resources) if one >> bit & 1]
            if not missing and not named.claims:
                continue
            mine.option_of[sets == one] = len(mine.options)
            mine.options.append(self._with_extended(mine, pod, missing, named))

    def _with_extended(
        self, mine: PodDevices, pod: Pod, missing: list[str], named: Option
    ) -> Option:
        """``named``, the claims that the Pod names, and one for the ``missing`` resources."""
        if not missing:
            return named
        claim, mappings = special_claim(pod, missing, self._classes)
        indexes, claims = [*named.indexes, len(mine.claims)], [*named.claims, claim]
        shapes = (*named.shapes, *self._tracker.fleet.shapes([claim]))
        return Option(indexes, claims, shapes, mappings)

    def _trouble(self, claim: ResourceClaim, shape: ClaimShape) -> Status | None:
        """Why a claim cannot be allocated, whatever the node; None when it can."""
        if self._tracker.in_flight(claim):
            text = f"resource claim {claim.key} is in the process of being allocated"
            return Status.unresolvable(text)
        return None if shape.valid else self._fault(claim)

    def _fault(self, claim: ResourceClaim) -> Status | None:
        for request in claim.spec.devices.requests:
            named = (
                [(request.name, request.exactly.device_class_name)]
                if request.exactly
                else [
                    (f"{request.name}/{sub.name}", sub.device_class_name)
                    for sub in request.first_available
                ]
            )
            if not named:
                text = f"resource claim {claim.key}, request {request.name}: unknown request type"
                return Status.unresolvable(text)
            for name, class_name in named:
                if not class_name:
                    return Status.error(f"request {name}: unsupported request type")
                if self._handle.objects.get(DEVICE_CLASS, class_name) is None:
                    text = f"request {name}: device class {class_name} does not exist"
                    return Status.unresolvable(text)
        return None


def _names_that_may_have_class(requests: SpecPart) -> list[str]:
    return [name for name in requests.memo(spec_requests) if may_have_class(name)]
