"""DynamicResources: a Pod goes where the devices are that its ResourceClaims ask for.

- PreEnqueue keeps a Pod out of the queue until its claims exist.
- PreFilter sorts the claims: allocated already, or to be allocated.
- Filter asks `bayplan.devices.fleet` for all nodes at once; claims that have devices are of use
  where these can be used.
- Reserve takes the devices of the chosen node (`tracker`), Unreserve gives them back.
- PreBind writes them into the claims and waits until the devices are ready (`binding`).
- PostFilter takes the devices of a claim away that is of no use anywhere, so that the Pod gets
  others the next time.
- Score prefers nodes that have the first alternatives of prioritized lists.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar, Protocol

import numpy as np

from bayplan.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    Kind,
)
from bayplan.api.pod import Pod
from bayplan.api.resource import ResourceClaim
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.cache.requests import pod_requests
from bayplan.client.connection import STRATEGIC_MERGE_PATCH
from bayplan.config.args import DynamicResourcesArgs
from bayplan.devices.errors import AllocationError, AllocationTimeoutError
from bayplan.devices.fleet import DOES_NOT_FIT, FITS, INVALID_POOLS
from bayplan.framework.cluster_events import EventRegistration
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import ClusterWriter, InTreeHandle, PluginMetrics, plugin_logger
from bayplan.framework.interface import (
    FilterFailure,
    Normalizer,
    Plugin,
    PostFilterResult,
)
from bayplan.framework.points import (
    EnqueueExtensions,
    FilterNodes,
    PostFilter,
    PreBind,
    PreBindPreFlight,
    PreEnqueue,
    PreFilter,
    Reserve,
    ScoreNodes,
    Unreserve,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.dynamic_resources.binding import (
    BindError,
    bind_claim,
    claim_path,
    create_claim,
    deallocation_patch,
    name_claim,
    release_patch,
    status_path,
    unprotect_patch,
    wait_until_ready,
)
from bayplan.plugins.dynamic_resources.conditions import (
    Readiness,
    has_conditions,
    readiness,
    too_late,
)
from bayplan.plugins.dynamic_resources.extended import IN_MEMORY, is_special, special_claim
from bayplan.plugins.dynamic_resources.hints import Hints
from bayplan.plugins.dynamic_resources.pod_claims import ClaimNotReadyError, pod_claims
from bayplan.plugins.dynamic_resources.state import Option, PodDevices
from bayplan.plugins.dynamic_resources.tracker import Tracker
from bayplan.plugins.shared.device_classes import DeviceClasses
from bayplan.plugins.shared.node_selectors import compile_selector

_NOTHING_TO_DO = PostFilterResult(Status.unschedulable())
_NO_STATE = PostFilterResult(Status.error("not found"))
_REASONS = {
    DOES_NOT_FIT: "cannot allocate all claims",
    INVALID_POOLS: "invalid resource pools were encountered",
    3: "resourceclaim not available on the node",
    4: "cannot schedule extended resource claim",
}
_UNAVAILABLE, _STALE = 3, 4
_FIRST_ERROR = 10
"""Codes of errors are ``-_FIRST_ERROR - row``: their text is made for the row that is asked."""
_MAX_PREFERENCE = 8


class DynamicResources(Plugin):
    """See the module's docstring."""

    Args = DynamicResourcesArgs
    kinds: ClassVar[tuple[Kind[Any], ...]] = (
        RESOURCE_SLICE,
        RESOURCE_CLAIM,
        DEVICE_CLASS,
        DEVICE_TAINT_RULE,
    )
    normalizer = Normalizer()

    def __init__(self, args: DynamicResourcesArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        self._tracker = handle.objects.shared(
            Tracker,
            handle.nodes,
            handle.objects,
            handle.monotonic,
            plugin_logger(self.name, handle.profile),
            PluginMetrics(handle.instrument, self.name),
            self._call_back,
        )
        self._classes = handle.objects.shared(DeviceClasses, handle.objects)
        self._hints = Hints(self._tracker.claim)

    # Scheduling cycle

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the Pod back until its claims exist."""
        if not pod.spec.resource_claims:
            return None
        claims = self._claims(pod)
        return claims if isinstance(claims, Status) else None

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: NodeTable) -> Status | None:
        """Sort the Pod's claims; Skip when it has none."""
        state.write(self.name, None)
        resources = self._extended_resources(pod)
        if not pod.spec.resource_claims and not resources:
            return SKIP
        self._tracker.expire()
        claims = self._claims(pod)
        if isinstance(claims, Status):
            return claims
        if not claims and not resources:
            return SKIP
        mine = PodDevices(claims)
        new = [index for index, claim in enumerate(claims) if claim.status.allocation is None]
        for index in new:
            if trouble := self._trouble(claims[index]):
                return trouble
        self._tracker.fleet.timeout = self.args.filter_timeout
        if resources:
            self._add_extended(mine, pod, resources, new)
        elif new:
            mine.options = [self._option(mine, new)]
        state.write(self.name, mine)
        return None

    def _option(
        self, mine: PodDevices, new: list[int], extended: ResourceClaim | None = None
    ) -> Option:
        indexes, claims = new, [mine.claims[i] for i in new]
        if extended is not None:
            indexes, claims = [*indexes, len(mine.claims)], [*claims, extended]
        return Option(indexes, claims, self._tracker.fleet.shapes(claims))

    def _extended_resources(self, pod: Pod) -> list[str]:
        """The resources that the Pod asks for and a class stands for."""
        if not self._classes:
            return []
        amounts = pod_requests(pod).amounts
        return [name for name, n in amounts.items() if n and self._classes.behind(name)]

    def _add_extended(
        self, mine: PodDevices, pod: Pod, resources: list[str], new: list[int]
    ) -> None:
        """One option for each set of resources that some node does not offer by itself."""
        mine.stale = self._tracker.extended_claim(pod.uid)
        nodes = self.handle.nodes
        without = [nodes.allocatable(name) == 0 for name in resources]
        sets = sum((mask.astype(np.int64) << bit for bit, mask in enumerate(without)), start=0)
        mine.option_of = np.full(len(nodes), -1, np.int64)
        for one in np.unique(sets[nodes.exists]).tolist():
            missing = [name for bit, name in enumerate(resources) if one >> bit & 1]
            if not missing and not new:
                continue
            extended, mappings = special_claim(pod, missing, self._classes)
            option = self._option(mine, new, extended if missing else None)
            option.mappings = mappings
            mine.option_of[sets == one] = len(mine.options)
            mine.options.append(option)

    def _claims(self, pod: Pod) -> list[ResourceClaim] | Status:
        try:
            return pod_claims(pod, self._tracker.claim)
        except ClaimNotReadyError as error:
            return Status.unresolvable(str(error))

    def _trouble(self, claim: ResourceClaim) -> Status | None:
        """Why a claim cannot be allocated, whatever the node; None when it can."""
        if self._tracker.in_flight(claim):
            text = f"resource claim {claim.key} is in the process of being allocated"
            return Status.unresolvable(text)
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
                if self.handle.objects.get(DEVICE_CLASS, class_name) is None:
                    text = f"request {name}: device class {class_name} does not exist"
                    return Status.unresolvable(text)
        return None

    def filter_nodes(self, state: CycleState, _pod: Pod, nodes: NodeTable) -> IntArray:
        """Whether the claims get their devices, and those that have some can be used."""
        mine: PodDevices | None = state.get(self.name)
        if mine is None:
            return np.zeros(len(nodes), np.int64)
        if mine.stale is not None:
            return np.full(len(nodes), _STALE, np.int64)
        codes = self._allocation_codes(mine, nodes)
        live = nodes.origin is None
        for index, claim in enumerate(mine.claims):
            if claim.status.allocation is not None:
                useless = (codes == FITS) | (codes == _UNAVAILABLE)
                useless &= ~self._usable(claim, nodes)
                codes[useless] = _UNAVAILABLE
                if live:
                    mine.unavailable[index] = useless
        return codes

    def _allocation_codes(self, mine: PodDevices, nodes: NodeTable) -> IntArray:
        rows = np.arange(len(nodes)) if nodes.origin is None else nodes.origin
        codes = np.zeros(len(nodes), np.int64)
        option_of = np.zeros(len(nodes), np.int64)
        if mine.option_of is not None:
            option_of = mine.option_of[rows]
        for index, option in enumerate(mine.options):
            here = option_of == index
            option.answers = self._tracker.fleet.answers(option.shapes)
            codes[here] = option.answers.codes[rows[here]]
        errors = codes < FITS
        codes[errors] = -_FIRST_ERROR - rows[errors]
        return codes

    def _usable(self, claim: ResourceClaim, nodes: NodeTable) -> BoolArray:
        """Which nodes can use the devices that ``claim`` has."""
        allocation = claim.status.allocation
        assert allocation is not None
        nowhere = np.zeros(len(nodes), np.bool_)
        if self._tracker.gives_way(claim):
            return nowhere
        readiness_, _ = readiness(claim)
        late = too_late(claim, self.handle.now(), self.args.binding_timeout)
        if readiness_ is Readiness.FAILED or (readiness_ is Readiness.WAITING and late):
            return nowhere
        if allocation.node_selector is None:
            return ~nowhere
        return compile_selector(allocation.node_selector).mask(nodes)

    def reasons(self, state: CycleState, _pod: Pod, code: int) -> Status:
        """What the code says."""
        if code in _REASONS:
            return Status.unresolvable(_REASONS[code])
        mine: PodDevices = state.read(self.name)
        return self._error(mine, -_FIRST_ERROR - code)

    def _error(self, mine: PodDevices, row: int) -> Status:
        option, node = mine.option_at(row), self.handle.nodes.nodes[row]
        assert option is not None
        assert option.answers is not None
        assert node is not None
        late = option.answers.late_node
        if not late:
            try:
                self._tracker.fleet.allocate(node, option.claims)
            except AllocationTimeoutError:
                late = node.name
            except AllocationError as error:
                return Status.error(str(error))
        return Status.error(f"node {late}: timed out trying to allocate devices")

    def post_filter(self, state: CycleState, pod: Pod, failure: FilterFailure) -> PostFilterResult:
        """Take its devices from a claim that is of no use where the Pod may go.

        When another plugin's PreFilter ended the cycle before ours, our state is missing, which
        kube-scheduler reports as an error; no PostFilter plugin after this one runs then.
        """
        try:
            mine: PodDevices | None = state.read(self.name)
        except LookupError:
            return _NO_STATE
        if mine is None:
            return _NOTHING_TO_DO
        if mine.stale is not None:
            if not state.dry_run:
                self._delete(mine.stale)
            done = Status.unschedulable("deletion of ResourceClaim completed")
            return PostFilterResult(done)
        for index, rows in mine.unavailable.items():
            claim = mine.claims[index]
            statuses = (failure.statuses.status(row) for row in np.flatnonzero(rows).tolist())
            users = [user.uid for user in claim.status.reserved_for]
            if users in ([], [pod.uid]) and any(s.plugin == self.name for s in statuses):
                if not state.dry_run:
                    self._patch_status(claim, deallocation_patch(claim), "deallocate a claim")
                done = Status.unschedulable("deallocation of ResourceClaim completed")
                return PostFilterResult(done)
        return _NOTHING_TO_DO

    def score_nodes(self, state: CycleState, _pod: Pod, nodes: NodeTable) -> IntArray | None:
        """How early in their prioritized lists the alternatives stand that the nodes have."""
        mine: PodDevices | None = state.get(self.name)
        if mine is None or not mine.options:
            return None
        rows = np.arange(len(nodes)) if nodes.origin is None else nodes.origin
        option_of = mine.option_of[rows] if mine.option_of is not None else 0 * rows
        scores = np.zeros(len(nodes), np.int64)
        given = sum(_preference(claim) for claim in mine.claims)
        for index, option in enumerate(mine.options):
            assert option.answers is not None
            here = option_of == index
            scores[here] = option.answers.scores[rows[here]] + given
        return scores

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Take the devices that the node has for the Pod."""
        mine: PodDevices | None = state.get(self.name)
        fleet, row = self._tracker.fleet, self.handle.nodes.row(node_name)
        option = mine.option_at(row) if mine is not None and row is not None else None
        if mine is None or option is None or row is None:
            return None
        node = self.handle.nodes.nodes[row]
        choices = fleet.answers(option.shapes).choices(row)
        if node is None or choices is None:
            return Status.error("claim allocation not found for node")
        results = fleet.results(node, option.claims, choices)
        mine.allocations = dict(zip(option.indexes, results, strict=True))
        mine.reserved = dict(zip(option.indexes, option.claims, strict=True))
        mine.mappings = option.mappings
        mine.claims += option.claims[-1:] if len(mine.claims) in option.indexes else []
        self._tracker.reserve(pod.uid, option.claims, results)
        return None

    def unreserve(self, state: CycleState, pod: Pod, _node_name: str) -> None:
        """Give back devices that were taken, and leave the claims that the Pod was written into."""
        mine: PodDevices | None = state.get(self.name)
        if mine is None:
            return
        for index, claim in enumerate(mine.claims):
            before = mine.reserved.get(index)
            created = is_special(claim) and claim.name != IN_MEMORY
            if before is not None:
                # A claim that was created is deleted: until then, its devices are in use.
                written = claim if index in mine.written and not created else None
                self._tracker.release(before, written, doubt=mine.doubt or created)
            if state.dry_run:
                continue
            if claim.status.allocation is not None and claim.reserved_by(pod.uid):
                self._patch_status(claim, release_patch(claim, pod), "leave a claim")
            if created:
                self._delete(claim)
        mine.reserved.clear()

    def _delete(self, claim: ResourceClaim) -> None:
        """Delete a claim that was made for extended resources, and its finalizer before."""
        writer = self.handle.writer

        def unprotected(error: Exception | None) -> None:
            if writer is not None and error is None:
                writer.delete_later(claim_path(claim), claim.uid, done)
            else:
                done(error)

        def done(error: Exception | None) -> None:
            if error is not None:
                text = "Could not delete a claim for extended resources"
                self.handle.logger.error(text, claim=claim.key, error=str(error))

        if writer is not None:
            body = unprotect_patch(claim)
            writer.patch_later(claim_path(claim), body, STRATEGIC_MERGE_PATCH, unprotected)

    def _patch_status(self, claim: ResourceClaim, body: bytes, what: str) -> None:
        def done(error: Exception | None) -> None:
            if error is not None:
                self.handle.logger.error(f"Could not {what}", claim=claim.key, error=str(error))

        if self.handle.writer is not None:
            path = status_path(claim)
            self.handle.writer.patch_later(path, body, STRATEGIC_MERGE_PATCH, done)

    # Binding cycle

    def pre_bind_pre_flight(self, state: CycleState, _pod: Pod, _node_name: str) -> Status:
        """Skip where the Pod has no claims."""
        return SKIP if state.get(self.name) is None else Status()

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the claims and wait until their devices are ready."""
        mine: PodDevices | None = state.get(self.name)
        if mine is None:
            return None
        writer = self.handle.writer
        assert writer is not None, "without a cluster nothing is bound"
        cancelled = threading.Event()
        preparing = self._handle.preparing.get(pod.uid)
        if preparing is not None:
            preparing.on_call_back(cancelled.set)
        try:
            for index in range(len(mine.claims)):
                if not cancelled.is_set():
                    self._write(writer, mine, index, pod)
            if any(has_conditions(claim) for claim in mine.claims):
                self._wait(mine, pod, node_name, cancelled)
        except BindError as error:
            mine.doubt = error.in_doubt
            return Status.error(str(error))
        return None

    def _write(self, writer: ClusterWriter, mine: PodDevices, index: int, pod: Pod) -> None:
        """Write one claim, unless it says already that the Pod uses it."""
        if mine.claims[index].reserved_by(pod.uid):
            return
        if mine.claims[index].name == IN_MEMORY:
            mine.claims[index] = create_claim(writer, mine.claims[index], pod)
        allocation, now = mine.allocations.get(index), self.handle.now()
        claim = bind_claim(writer, mine.claims[index], pod, allocation, now)
        mine.claims[index] = claim
        mine.written.add(index)
        if is_special(claim):
            name_claim(writer, claim, pod, mine.mappings)

    def _wait(self, mine: PodDevices, pod: Pod, node_name: str, cancelled: threading.Event) -> None:
        self.handle.events.event(
            pod,
            None,
            "Normal",
            "BindingConditionsPending",
            "Scheduling",
            f"waiting for binding conditions for device on node {node_name}",
            self.handle.profile,
        )

        def current() -> list[ResourceClaim] | None:
            claims = [self._tracker.claim(claim.key) for claim in mine.claims]
            known = [claim for claim in claims if claim is not None]
            return known if len(known) == len(claims) else None

        handle = self.handle
        timeout = self.args.binding_timeout
        wait_until_ready(current, handle.now, handle.monotonic, cancelled, timeout)

    def events_to_register(self) -> list[EventRegistration]:
        """What may undo a rejection."""
        return self._hints.registrations()

    def _call_back(self, uid: str, reason: str) -> None:
        """Give up a Pod that is not bound yet."""
        waiting = self.handle.waiting.get(uid)
        preparing = self._handle.preparing.get(uid)
        if waiting is not None:
            waiting.reject(self.name, reason)
        elif preparing is not None:
            preparing.call_back(reason)


def _preference(claim: ResourceClaim) -> int:
    """What the alternatives score that an allocated claim has; none where it has no devices."""
    allocation = claim.status.allocation
    chosen = {r.request for r in allocation.devices.results} if allocation is not None else set()
    return sum(
        _MAX_PREFERENCE - index
        for request in claim.spec.devices.requests
        for index, sub in enumerate(request.first_available)
        if f"{request.name}/{sub.name}" in chosen
    )


class _Implements(
    PreEnqueue,
    PreFilter,
    FilterNodes,
    PostFilter,
    ScoreNodes,
    Reserve,
    Unreserve,
    PreBindPreFlight,
    PreBind,
    EnqueueExtensions,
    Protocol,
):
    """The points that the plugin implements; mypy checks it against them."""


_: type[_Implements] = DynamicResources
