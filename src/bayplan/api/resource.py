"""Devices (resource.k8s.io/v1): slices, classes, claims, templates, taint rules.

A field that is absent in the API has its default value here.
``allocationMode`` and ``count`` are set by the API server, so an absent one is taken for the
server's default.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from bayplan.api.meta import Object, Wire
from bayplan.api.pod_spec import NodeSelector
from bayplan.api.quantity import Amount

EXACT_COUNT = "ExactCount"
ALL = "All"
MAX_RESULTS = 32
"""Devices of one claim at most."""
FINALIZER = "resource.kubernetes.io/delete-protection"

Typed = tuple[str, str | int | bool]


class DeviceAttribute(Wire, frozen=True):
    """One value, or a list; a type from the future leaves all unset."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")
    int_values: tuple[int, ...] | None = msgspec.field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    string_values: tuple[str, ...] | None = msgspec.field(default=None, name="strings")
    version_values: tuple[str, ...] | None = msgspec.field(default=None, name="versions")

    @property
    def typed(self) -> Typed | None:
        """The type's wire name and the value; None for a list: those cannot be compared."""
        if self.string_value is not None:
            return "string", self.string_value
        if self.int_value is not None:
            return "int", self.int_value
        if self.bool_value is not None:
            return "bool", self.bool_value
        if self.version_value is not None:
            return "version", self.version_value
        return None


class CapacityRange(Wire, frozen=True):
    """Amounts that may be asked for: from min to max in steps."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class CapacityRequestPolicy(Wire, frozen=True):
    """How a requested amount becomes the consumed amount."""

    default: Amount | None = None
    valid_values: tuple[Amount, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Wire, frozen=True):
    """How much a device has of something."""

    value: Amount = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire, frozen=True):
    """An amount of a counter."""

    value: Amount = 0


class CounterSet(Wire, frozen=True):
    """Counters that the devices of a pool draw from."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Wire, frozen=True):
    """What a device draws from a counter set while it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(Wire, frozen=True):
    """A taint of a device; equal taints compare equal (timeAdded is not read)."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Device(Wire, frozen=True):
    """A device, or a partition of one."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Wire, frozen=True):
    """The pool that a slice is a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Wire, frozen=True):
    """Devices, or counters, of one pool, and the nodes from which the devices can be used."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool = False
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True):
    """A part of a driver's inventory."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class CelDeviceSelector(Wire, frozen=True):
    """A CEL expression over one device."""

    expression: str = ""


class DeviceSelector(Wire, frozen=True):
    """Must hold for a device; None is a type of selector from the future."""

    cel: CelDeviceSelector | None = None


class OpaqueDeviceConfiguration(Wire, frozen=True):
    """Parameters for a driver; the scheduler does not read them."""

    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw()


class DeviceClassConfiguration(Wire, frozen=True):
    """Configuration that a class adds to every allocation."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire, frozen=True):
    """Which devices belong to a class, and the configuration of the class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A class of devices."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceToleration(Wire, frozen=True):
    """Tolerates taints; see `bayplan.devices.taints`."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Wire, frozen=True):
    """How much of a device's capacity a request needs, by name."""

    requests: dict[str, Amount] = {}


class DeviceDerivedAttribute(Wire, frozen=True):
    """An attribute computed per request: not supported, as in kube-scheduler's defaults."""

    name: str = ""


class ExactDeviceRequest(Wire, frozen=True):
    """A number of devices of a class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(Wire, frozen=True):
    """One alternative of a prioritized list."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(Wire, frozen=True):
    """One request of a claim: exactly one of the two fields is set."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire, frozen=True):
    """What devices of some requests (none named: of all) must have in common, or not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Wire, frozen=True):
    """Configuration of some requests (none named: of all)."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire, frozen=True):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Wire, frozen=True):
    """What a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Wire, frozen=True):
    """One device that a claim has got."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Amount] = {}


class DeviceAllocationConfiguration(Wire, frozen=True):
    """Configuration that goes with an allocation."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire, frozen=True):
    """All devices of a claim with their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire, frozen=True):
    """The devices allocated to a claim, and the nodes on which the claim can be used."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class ResourceClaimConsumerReference(Wire, frozen=True):
    """Who uses a claim; a Pod has no API group."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(Wire, frozen=True):
    """A condition that a driver reports of an allocated device."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(Wire, frozen=True):
    """What a driver reports of one allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[DeviceCondition, ...] = ()


class ResourceClaimStatus(Wire, frozen=True):
    """What a claim has got, and who uses it."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Object, frozen=True):
    """A claim."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    def reserved_by(self, uid: str) -> bool:
        """Whether the Pod with ``uid`` is among the claim's users."""
        return any(user.uid == uid for user in self.status.reserved_for)


class ResourceClaimTemplateSpec(Wire, frozen=True):
    """The claims that a template makes."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    """A template of claims; read from files only, for a cluster's controller makes the claims."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceTaintSelector(Wire, frozen=True):
    """Devices that a rule is about; an absent field is any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire, frozen=True):
    """A taint for all devices that are selected; without a selector, for none."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Object, frozen=True):
    """A taint that an administrator gives to devices."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
