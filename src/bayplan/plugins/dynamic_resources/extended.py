"""Extended resources backed by devices: the claim made for a Pod's extended resources.

On a node that offers none of a resource by itself, and if a DeviceClass stands for it, the Pod gets
devices of that class, through a claim that the scheduler makes. The claim depends on the node: it
is for the resources that the node does not offer, so there is one variant for each such set. It
exists in memory until PreBind. Answers to ``extendeddynamicresources.go``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bayplan.api import quantity
from bayplan.api.meta import ObjectMeta, OwnerReference
from bayplan.api.pod import Pod
from bayplan.api.pod_spec import Container
from bayplan.api.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from bayplan.plugins.shared.device_classes import DeviceClasses
from bayplan.plugins.shared.device_tracker import ANNOTATION, IN_MEMORY


@dataclass(frozen=True, slots=True)
class Mapping:
    """Which request of the claim serves a container's resource."""

    container: str
    resource: str
    request: str


def special_claim(
    pod: Pod, resources: Iterable[str], classes: DeviceClasses
) -> tuple[ResourceClaim, list[Mapping]]:
    """The claim for the devices behind ``resources``, and the containers of each request."""
    requests: list[DeviceRequest] = []
    mappings: list[Mapping] = []
    for resource in sorted(resources):
        device_class = classes.behind(resource)
        if device_class is not None:
            made = _Resource(pod, resource, device_class.name)
            requests += made.requests()
            mappings += made.mappings
    requests.sort(key=lambda request: request.name)
    owner = OwnerReference(
        kind="Pod", name=pod.name, uid=pod.uid, api_version="v1", controller=True
    )
    metadata = ObjectMeta(
        name=IN_MEMORY,
        namespace=pod.namespace,
        uid=str(uuid.uuid4()),
        annotations={ANNOTATION: "true"},
        owner_references=(owner,),
    )
    spec = ResourceClaimSpec(DeviceClaim(tuple(requests)))
    return ResourceClaim(metadata, spec), mappings


class _Resource:
    """The requests for one resource: init containers use devices of later containers again."""

    def __init__(self, pod: Pod, resource: str, class_name: str) -> None:
        self.mappings: list[Mapping] = []
        self._resource = resource
        self._class_name = class_name
        spec = pod.spec
        containers = list(enumerate((*spec.init_containers, *spec.containers)))
        short = {
            index
            for index, container in containers[: len(spec.init_containers)]
            if container.restart_policy != "Always"
        }
        self._lasting: dict[int, DeviceRequest] = {}
        for index, container in containers:
            if index not in short and (request := self._request(index, container, ())):
                self._lasting[index] = request
        lasting, self.mappings = self.mappings, []
        self._largest = self._largest_of(c for c in containers if c[0] in short)
        self.mappings = lasting + self.mappings

    def requests(self) -> Iterator[DeviceRequest]:
        """All requests of the resource."""
        if self._largest is not None:
            yield self._largest
        yield from self._lasting.values()

    def _largest_of(self, containers: Iterable[tuple[int, Container]]) -> DeviceRequest | None:
        """The request for all short-lived containers; their mappings name this request."""
        made = []
        for index, container in containers:
            later = [request for i, request in self._lasting.items() if i >= index]
            if (request := self._request(index, container, later)) is not None:
                made.append(request)
        if not made:
            return None
        largest = max(made, key=_count)
        names = {request.name for request in made}
        self.mappings = [
            Mapping(m.container, m.resource, largest.name if m.request in names else m.request)
            for m in self.mappings
        ]
        return largest

    def _request(
        self, index: int, container: Container, reusable: Iterable[DeviceRequest]
    ) -> DeviceRequest | None:
        asked = container.resources.requests
        missing = quantity.value(asked.get(self._resource, 0))
        if not missing:
            return None
        for request in reusable:
            self._map(container, request.name)
            missing -= _count(request)
            if missing <= 0:
                return None
        name = f"container-{index}-request-{sorted(asked).index(self._resource)}"
        self._map(container, name)
        exactly = ExactDeviceRequest(device_class_name=self._class_name, count=missing)
        return DeviceRequest(name, exactly)

    def _map(self, container: Container, request: str) -> None:
        self.mappings.append(Mapping(container.name, self._resource, request))


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0
