"""DeviceTracker: slices, rules and claims of the cluster, and what we have decided ourselves.

Made once for the plugins of all profiles (`device_tracker`). The scheduling thread alone changes
it, but for the end of an entry of `leaving`: objects come from the store, Reserve and Unreserve
from DynamicResources. So a device is never free and in use at once:

- from Reserve on, a claim's devices are *in flight*: in use, though the claim does not say so yet;
- when the claim is seen with an allocation, that counts, and the claim is no longer in flight;
- where the Pod is given up after its claim was written, the written claim counts until the store
  has one that is as new; where it is unknown whether the write took effect, the devices stay in
  flight for `DOUBT_SECONDS`, in which the claim would be seen.

Two schedulers may allocate one device to two claims: nothing in the API prevents it. That is seen
here, logged and counted; `gives_way` says whether a claim has to give its devices back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bayplan.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
)
from bayplan.api.resource import (
    AllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.devices.usage import DeviceId
from bayplan.framework.handle import Logger, PluginMetrics, WaitingPods, plugin_logger
from bayplan.framework.in_tree_handle import InTreeHandle, PreparingPod

if TYPE_CHECKING:
    from bayplan.devices.fleet import Fleet

PLUGIN = "DynamicResources"
"""Whose name logs and metrics have."""
DOUBT_SECONDS = 30.0
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY = "<extended-resources>"
"""Name of a claim for extended resources that is not in the API yet; invalid there."""
Results = Sequence[DeviceRequestAllocationResult]


def is_special(claim: ResourceClaim) -> bool:
    """Whether a scheduler made the claim for extended resources."""
    return claim.metadata.annotations.get(ANNOTATION) == "true"


@dataclass(slots=True)
class InFlight:
    """An allocation that the claim does not show yet.

    Attributes:
        pod_uid: the Pod that it was made for.
        expires: when it ends although nothing was seen, `monotonic` seconds.
    """

    claim: ResourceClaim
    allocation: AllocationResult
    pod_uid: str
    expires: float = float("inf")


class DeviceTracker:
    """See the module's docstring.

    Args:
        monotonic: seconds, for durations.
        waiting: Pods in Permit, of which one may have to be given up.
        preparing: Pods in PreBind, likewise, by uid.

    Attributes:
        leaving: by the uids of a claim and a Pod that is being taken out of its users, what is set
            when that is over.
    """

    def __init__(
        self,
        nodes: LiveNodeTable,
        objects: ObjectStore,
        monotonic: Callable[[], float],
        logger: Logger,
        metrics: PluginMetrics,
        waiting: WaitingPods,
        preparing: Mapping[str, PreparingPod],
    ) -> None:
        self._nodes = nodes
        self._objects = objects
        self._monotonic = monotonic
        self._logger = logger
        self._metrics = metrics
        self._waiting = waiting
        self._preparing = preparing
        self._in_flight: dict[str, InFlight] = {}
        self._made_for: dict[str, str] = {}  # by uid of a claim: the Pod we allocated it for
        self._written: dict[str, ResourceClaim] = {}
        self._extended: dict[str, str] = {}  # by uid of the Pod: the claim's key
        self.leaving: dict[tuple[str, str], threading.Event] = {}
        objects.on_change(RESOURCE_SLICE, self._slice_changed)
        objects.on_change(DEVICE_TAINT_RULE, self._rule_changed)
        objects.on_change(RESOURCE_CLAIM, self._claim_changed)

    @cached_property
    def fleet(self) -> Fleet:
        """The devices.

        Loaded with the first object or Pod that has to do with devices: most clusters have none,
        and the search and CEL are a good part of all code.
        """
        from bayplan.devices.fleet import Fleet  # noqa: PLC0415

        return Fleet(
            self._nodes, lambda name: self._objects.get(DEVICE_CLASS, name), self._monotonic
        )

    def claim(self, key: str) -> ResourceClaim | None:
        """The newest version of a claim that we know. Any thread."""
        return self._written.get(key) or self._objects.get(RESOURCE_CLAIM, key)

    def extended_claim(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that was made for the extended resources of a Pod."""
        key = self._extended.get(pod_uid)
        return self.claim(key) if key is not None else None

    def in_flight(self, claim: ResourceClaim) -> bool:
        """Whether the claim is being allocated."""
        return claim.uid in self._in_flight

    def reserve(
        self, pod_uid: str, claims: Iterable[ResourceClaim], results: Iterable[AllocationResult]
    ) -> None:
        """The devices of ``results`` belong to ``claims`` from now on."""
        for claim, result in zip(claims, results, strict=True):
            self._in_flight[claim.uid] = InFlight(claim, result, pod_uid)
            self._made_for[claim.uid] = pod_uid
            self._use(claim.uid, claim.key, result.devices.results)

    def release(self, claim: ResourceClaim, written: ResourceClaim | None, *, doubt: bool) -> None:
        """A Pod is given up after `reserve`.

        Args:
            claim: the claim as it was before.
            written: the claim as we have stored it meanwhile, if we have.
            doubt: whether it may be stored, or not.
        """
        entry = self._in_flight.get(claim.uid)
        self._made_for.pop(claim.uid, None)
        if written is not None:
            self._in_flight.pop(claim.uid, None)
            stored = self._objects.get(RESOURCE_CLAIM, claim.key)
            if stored is not None and stored.uid == written.uid and _is_newer(written, stored):
                self._written[claim.key] = written
        elif entry is not None and doubt:
            entry.expires = self._monotonic() + DOUBT_SECONDS
        else:
            self._in_flight.pop(claim.uid, None)
        self._settle(claim.key, claim.uid)

    def expire(self) -> None:
        """End allocations in doubt whose time is over."""
        if not self._in_flight:
            return
        now = self._monotonic()
        for uid in [uid for uid, entry in self._in_flight.items() if entry.expires < now]:
            self._settle(self._in_flight.pop(uid).claim.key, uid)

    @contextmanager
    def without(self, claims: Sequence[ResourceClaim]) -> Iterator[None]:
        """As if these claims had no devices, and special ones were not there."""
        written = [(claim, self._written.get(claim.key)) for claim in claims]
        special = {owner: one.key for one in claims if (owner := _pod_of(one)) in self._extended}
        usage = self.fleet.table.usage
        for claim in claims:
            self._written[claim.key] = replace(claim, status=ResourceClaimStatus())
            usage.remove_claim(claim.uid)
        for owner in special:
            del self._extended[owner]
        try:
            yield
        finally:
            self._extended |= special
            for claim, before in written:
                if before is None:
                    del self._written[claim.key]
                else:
                    self._written[claim.key] = before
                usage.set_claim(claim.uid, self._results(claim.key, claim.uid))

    def gives_way(self, claim: ResourceClaim) -> bool:
        """Whether another claim, too, holds a device that ``claim`` holds as a whole."""
        allocation = claim.status.allocation
        return allocation is not None and any(
            result.share_id is None
            and not result.admin_access
            and self._holders(DeviceId(result.driver, result.pool, result.device)) > 1
            for result in allocation.devices.results
        )

    def _holders(self, device: DeviceId) -> int:
        return len(self.fleet.table.usage.holders(device))

    # Changes

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if new is not None:
            self.fleet.table.set_slice(new)
        elif old is not None:
            self.fleet.table.remove_slice(old.name)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if new is not None:
            self.fleet.table.set_rule(new)
        elif old is not None:
            self.fleet.table.remove_rule(old.name)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._in_flight.pop(old.uid, None)
            self._made_for.pop(old.uid, None)
            self._written.pop(old.key, None)
            self.fleet.table.usage.remove_claim(old.uid)
            if (owner := _pod_of(old)) is not None:
                self._extended.pop(owner, None)
                self._end_special(owner)
        if new is None:
            return
        if (owner := _pod_of(new)) is not None:
            self._extended[owner] = new.key
            if new.status.allocation is not None:
                self._end_special(owner)
        written = self._written.get(new.key)
        if written is not None and not _is_newer(written, new):
            del self._written[new.key]
        if (
            written is None
            and old is not None
            and old.uid == new.uid
            and old.status.allocation is new.status.allocation is None
        ):
            return  # its devices in flight, if there are any, stay in use
        if new.status.allocation is not None:
            self._in_flight.pop(new.uid, None)
        self._settle(new.key, new.uid)

    def _end_special(self, pod_uid: str) -> None:
        """The claim for extended resources is there: what stood for it in memory is not needed."""
        for uid, entry in list(self._in_flight.items()):
            if entry.pod_uid == pod_uid and entry.claim.name == IN_MEMORY:
                del self._in_flight[uid]
                self._made_for.pop(uid, None)
                self._use(uid, entry.claim.key, ())

    def _settle(self, key: str, uid: str) -> None:
        """Have the device table agree with what is known of a claim."""
        self._use(uid, key, self._results(key, uid))

    def _results(self, key: str, uid: str) -> Results:
        """The devices of a claim, as far as it is known."""
        claim, entry = self.claim(key), self._in_flight.get(uid)
        allocation = claim.status.allocation if claim is not None and claim.uid == uid else None
        if allocation is None and entry is not None:
            allocation = entry.allocation
        return () if allocation is None else allocation.devices.results

    def _use(self, uid: str, key: str, results: Results) -> None:
        for device in self.fleet.table.usage.set_claim(uid, results):
            self._metrics.count("device_in_two_claims")
            self._logger.warning(
                "A device is allocated to several claims", device=str(device), claim=key
            )
            for holder in self.fleet.table.usage.holders(device):
                if (pod_uid := self._made_for.get(holder)) is not None:
                    self._call_back(pod_uid, f"device {device} was allocated to another claim")

    def _call_back(self, pod_uid: str, reason: str) -> None:
        """Give up a Pod that is not bound yet."""
        waiting, preparing = self._waiting.get(pod_uid), self._preparing.get(pod_uid)
        if waiting is not None:
            waiting.reject(PLUGIN, reason)
        elif preparing is not None:
            preparing.cancel(reason)


def device_tracker(handle: InTreeHandle) -> DeviceTracker:
    """The tracker that all plugins share."""
    return handle.objects.shared(
        DeviceTracker,
        handle.nodes,
        handle.objects,
        handle.monotonic,
        plugin_logger(PLUGIN, handle.profile),
        PluginMetrics(handle.instrument, PLUGIN),
        handle.waiting,
        handle.preparing,
    )


def _pod_of(claim: ResourceClaim) -> str | None:
    """The uid of the Pod for whose extended resources the claim was made."""
    owner = claim.metadata.controller if is_special(claim) else None
    return owner.uid if owner is not None else None


def _is_newer(one: ResourceClaim, other: ResourceClaim) -> bool:
    """Whether ``one`` is a later version than ``other``; etcd's versions are growing numbers."""
    first, second = one.metadata.resource_version, other.metadata.resource_version
    return (len(first), first) > (len(second), second)
