"""Results: what is written into a claim's status for the devices that the search chose."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from bayplan.api.meta import LabelSelectorRequirement
from bayplan.api.pod_spec import NodeSelector, NodeSelectorTerm
from bayplan.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from bayplan.devices.errors import AllocationError
from bayplan.devices.nodes import NAME_FIELD
from bayplan.devices.requests import ClaimShape, RequestShape
from bayplan.devices.search import DeviceChoice
from bayplan.devices.table import DeviceRow

_FROM_CLASS, _FROM_CLAIM = "FromClass", "FromClaim"


def allocation(
    claim: ResourceClaim,
    shape: ClaimShape,
    choices: Sequence[tuple[DeviceChoice, DeviceRow]],
    node_name: str,
) -> AllocationResult:
    """The allocation of one claim.

    Args:
        claim: the claim.
        shape: what the claim asks for.
        choices: the devices in order, each with its row.
        node_name: the node they were chosen for.

    Raises:
        AllocationError: a slice has more than one node selector term.
    """
    chosen = [choice.request for choice, _ in choices]
    # Of each request the alternative that has devices; the first where none has any.
    requests = [next((r for r in chosen if r in listed), listed[0]) for listed in shape.requests]
    devices = DeviceAllocationResult(
        tuple(_device(choice, entry) for choice, entry in choices),
        tuple(_configuration(claim, requests)),
    )
    entries = [entry for _, entry in choices]
    return AllocationResult(devices, _node_selector(claim, entries, node_name))


def _device(choice: DeviceChoice, entry: DeviceRow) -> DeviceRequestAllocationResult:
    consumed = choice.consumed or {}
    return DeviceRequestAllocationResult(
        request=choice.request.full_name,
        driver=entry.id.driver,
        pool=entry.id.pool,
        device=entry.id.device,
        admin_access=choice.request.admin_access or None,
        tolerations=choice.request.tolerations,
        binding_conditions=entry.device.binding_conditions,
        binding_failure_conditions=entry.device.binding_failure_conditions,
        share_id=None if choice.consumed is None else str(uuid.uuid4()),
        consumed_capacity={name: str(amount) for name, amount in consumed.items()},
    )


def _configuration(
    claim: ResourceClaim, requests: Sequence[RequestShape]
) -> Iterable[DeviceAllocationConfiguration]:
    """Each class's once with all its requests, then the claim's own; no names stand for all."""
    by_class: dict[str, list[RequestShape]] = {}
    for request in requests:
        if request.device_class is not None:
            by_class.setdefault(request.device_class.name, []).append(request)
    for same_class in by_class.values():
        names = tuple(request.full_name for request in same_class)
        device_class = same_class[0].device_class
        for config in device_class.spec.config if device_class is not None else ():
            applies_to = () if _all_among(requests, names) else names
            yield DeviceAllocationConfiguration(_FROM_CLASS, applies_to, config.opaque)
    for own in claim.spec.devices.config:
        if not own.requests or any(request.among(own.requests) for request in requests):
            applies_to = () if _all_among(requests, own.requests) else own.requests
            yield DeviceAllocationConfiguration(_FROM_CLAIM, applies_to, own.opaque)


def _all_among(requests: Iterable[RequestShape], names: tuple[str, ...]) -> bool:
    return all(request.among(names) for request in requests)


def _node_selector(
    claim: ResourceClaim, entries: Iterable[DeviceRow], node_name: str
) -> NodeSelector | None:
    """Where the devices can be used: on one node, where all requirements hold, or anywhere."""
    expressions: list[LabelSelectorRequirement] = []
    fields: list[LabelSelectorRequirement] = []
    for entry in entries:
        spec = entry.slice.spec
        place = entry.device if spec.per_device_node_selection else spec
        if place.node_name is not None or entry.device.binds_to_node:
            only = LabelSelectorRequirement(NAME_FIELD, "In", (node_name,))
            return NodeSelector((NodeSelectorTerm(match_fields=(only,)),))
        terms = place.node_selector.node_selector_terms if place.node_selector is not None else ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.name}: unsupported "
                f"ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(expressions, term.match_expressions)
            _add_new(fields, term.match_fields)
    if not expressions and not fields:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(
    merged: list[LabelSelectorRequirement], more: Iterable[LabelSelectorRequirement]
) -> None:
    """Add the requirements that are not there yet; the order of values makes no difference."""
    for requirement in more:
        if not any(
            (r.key, r.operator) == (requirement.key, requirement.operator)
            and set(r.values) == set(requirement.values)
            for r in merged
        ):
            merged.append(requirement)
