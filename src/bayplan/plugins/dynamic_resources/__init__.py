"""DynamicResources: a Pod goes to a node with the devices for its ResourceClaims.

- PreEnqueue keeps a Pod out of the queue until its claims exist.
- PreFilter sorts the claims: allocated already, or to be allocated.
- Filter asks `bayplan.devices.fleet` for all nodes at once; claims that have devices are of use
  where these can be used.
- Reserve takes the devices of the chosen node (`bayplan.plugins.shared.device_tracker`), Unreserve
  gives them back.
- PreBind writes them into the claims and waits until the devices are ready (`binding`).
- PostFilter takes the devices of a claim away that is of no use anywhere, so that the Pod gets
  others the next time.
- Score prefers nodes that have the first alternatives of prioritized lists.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import chain

import numpy as np

from bayplan.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
)
from bayplan.api.pod import Pod
from bayplan.api.pod_spec import PodSpec
from bayplan.api.resource import ResourceClaim
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.args import DynamicResourcesArgs
from bayplan.devices.codes import DOES_NOT_FIT, FITS, INVALID_POOLS
from bayplan.devices.errors import AllocationError, AllocationTimeoutError
from bayplan.framework.cluster_events import EventRegistration
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.effects import Effect
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import (
    FilterFailure,
    Integers,
    Normalizer,
    Plugin,
    PostFilterResult,
)
from bayplan.framework.points import (
    CarriesOut,
    EnqueueExtensions,
    ExplainsFilter,
    FilterNodes,
    PostFilter,
    PreBind,
    PreBindPreFlight,
    PreEnqueue,
    PreFilter,
    Reserve,
    ScoreNodes,
    Selective,
    Unreserve,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.dynamic_resources.binding import BindError
from bayplan.plugins.dynamic_resources.claim_effects import Deallocate, DeleteClaim, LeaveClaim
from bayplan.plugins.dynamic_resources.claim_sorter import ClaimSorter
from bayplan.plugins.dynamic_resources.claim_writes import ClaimWrites
from bayplan.plugins.dynamic_resources.conditions import (
    Readiness,
    allocated_devices,
    has_conditions,
    readiness,
    too_late,
)
from bayplan.plugins.dynamic_resources.hints import Hints
from bayplan.plugins.dynamic_resources.holdings import PodHoldings
from bayplan.plugins.dynamic_resources.state import PodDevices
from bayplan.plugins.shared.device_classes import may_have_class
from bayplan.plugins.shared.device_tracker import IN_MEMORY, device_tracker, is_special
from bayplan.plugins.shared.node_selectors import compile_selector

_NOTHING_TO_DO = PostFilterResult(Status.unschedulable())
_NO_STATE = PostFilterResult(Status.error("not found"))
_REASONS = {
    DOES_NOT_FIT: "cannot allocate all claims",
    INVALID_POOLS: "invalid resource pools were encountered",
    3: "resourceclaim not available on the node",
    4: "cannot schedule extended resource claim",
    5: "cannot fit resource",
}
_UNAVAILABLE, _STALE, _LACKS_RESOURCE = 3, 4, 5
_FIRST_ERROR = 10
"""Codes of errors are ``-_FIRST_ERROR - row``: their text is made for the row that is asked."""
_MAX_PREFERENCE = 8


class DynamicResources(
    Plugin,
    PreEnqueue,
    PreFilter,
    Selective,
    FilterNodes,
    ExplainsFilter,
    PostFilter,
    ScoreNodes,
    Reserve,
    Unreserve,
    PreBindPreFlight,
    PreBind,
    EnqueueExtensions,
    CarriesOut,
):
    """See the module's docstring."""

    Args = DynamicResourcesArgs
    args: DynamicResourcesArgs
    kinds = (RESOURCE_SLICE, RESOURCE_CLAIM, DEVICE_CLASS, DEVICE_TAINT_RULE)
    normalizer = Normalizer()
    pure = True

    def __init__(self, args: DynamicResourcesArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        self._tracker = device_tracker(handle)
        self._sorter = ClaimSorter(handle, self._tracker)
        self._writes = ClaimWrites(handle, self._tracker)
        self._hints = Hints(self._tracker.claim)
        handle.services.holdings.append(PodHoldings(self._sorter, self._tracker))

    # Scheduling cycle

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the Pod back until its claims exist."""
        if not pod.spec.resource_claims:
            return None
        claims = self._sorter.claims(pod)
        return claims if isinstance(claims, Status) else None

    def concerns(self, spec: PodSpec) -> bool:
        """Whether there are claims, or resources that a class may stand for."""
        asking = (c.resources.requests for c in (*spec.init_containers, *spec.containers))
        names = chain(spec.overhead, *asking)
        return bool(spec.resource_claims) or any(map(may_have_class, names))

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: NodeTable) -> Status | None:
        """Sort the Pod's claims; Skip when it has none."""
        state.write(self.name, None)
        mine = self._sorter.sort(pod)
        if isinstance(mine, Status):
            return mine
        if mine is None:
            return SKIP
        self._tracker.fleet.timeout = self.args.filter_timeout
        state.write(self.name, mine)
        return None

    def filter_nodes(self, state: CycleState, _pod: Pod, nodes: NodeTable) -> Integers:
        """Whether claims can get devices, and allocated devices can be used, on each node."""
        mine = state.get(self.name, PodDevices)
        if mine is None:
            return np.zeros(len(nodes), np.int8)
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

    def _allocation_codes(self, mine: PodDevices, nodes: NodeTable) -> Integers:
        for option in mine.options:
            option.answers = self._tracker.fleet.answers(option.shapes)
        codes = _by_option(mine, nodes, [option.of_all.codes for option in mine.options])
        if mine.lacking is None and not any(option.of_all.errors for option in mine.options):
            # Unsigned: there are no errors to look for.
            return codes.view(np.uint8)
        rows = np.arange(len(nodes)) if nodes.origin is None else nodes.origin
        codes = codes.astype(np.int64)
        errors = codes < FITS
        codes[errors] = -_FIRST_ERROR - rows[errors]
        if mine.lacking is not None:
            codes[mine.lacking[rows]] = _LACKS_RESOURCE
        return codes

    def _usable(self, claim: ResourceClaim, nodes: NodeTable) -> BoolArray:
        """The nodes from which the devices of ``claim`` can be used."""
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
        mine = state.read(self.name, PodDevices)
        return self._error(mine, -_FIRST_ERROR - code)

    def explain_filter(self, state: CycleState, _pod: Pod, rows: IntArray) -> list[str]:
        """Per request, what stands against the devices of the nodes where the claims do not fit."""
        from bayplan.devices.tally import merge  # noqa: PLC0415 - only explanations need it

        mine = state.get(self.name, PodDevices)
        tallies = []
        for row in rows.tolist():
            option = mine.option_at(row) if mine is not None else None
            node = self.handle.nodes.nodes[row]
            if option is None or option.answers is None or node is None:
                continue
            if option.answers.codes[row] in (DOES_NOT_FIT, INVALID_POOLS):
                tallies += self._tracker.fleet.tallies(node, option.claims)
        return [one.describe() for one in merge(tallies)]

    def _error(self, mine: PodDevices, row: int) -> Status:
        option, node = mine.option_at(row), self.handle.nodes.nodes[row]
        assert option is not None
        assert node is not None
        late = option.of_all.late_node
        if not late:
            try:
                self._tracker.fleet.allocate(node, option.claims)
            except AllocationTimeoutError:
                late = node.name
            except AllocationError as error:
                return Status.error(str(error))
        return Status.error(f"node {late}: timed out trying to allocate devices")

    def post_filter(self, state: CycleState, pod: Pod, failure: FilterFailure) -> PostFilterResult:
        """Deallocate a claim whose devices cannot be used on a node possible for the Pod.

        When another plugin's PreFilter ended the cycle before ours, our state is missing, which
        kube-scheduler reports as an error; no PostFilter plugin after this one runs then.
        """
        if self.name in state.skip_filter:
            return _NOTHING_TO_DO
        try:
            mine = self._prepared(state)
        except MissingStateError:
            return _NO_STATE
        if mine is None:
            return _NOTHING_TO_DO
        if mine.stale is not None:
            state.effects.append(DeleteClaim(self.name, mine.stale))
            done = Status.unschedulable("deletion of ResourceClaim completed")
            return PostFilterResult(done)
        for index, rows in mine.unavailable.items():
            claim = mine.claims[index]
            statuses = (failure.statuses.status(row) for row in np.flatnonzero(rows).tolist())
            users = [user.uid for user in claim.status.reserved_for]
            if users in ([], [pod.uid]) and any(s.plugin == self.name for s in statuses):
                state.effects.append(Deallocate(self.name, claim))
                done = Status.unschedulable("deallocation of ResourceClaim completed")
                return PostFilterResult(done)
        return _NOTHING_TO_DO

    def _prepared(self, state: CycleState) -> PodDevices | None:
        """What PreFilter has written, None for a Pod without claims.

        Raises:
            MissingStateError: it did not run.
        """
        try:
            mine = state.read(self.name, object)
        except MissingStateError:
            raise MissingStateError("not found") from None
        return mine if isinstance(mine, PodDevices) else None

    def score_nodes(self, state: CycleState, _pod: Pod, nodes: NodeTable) -> Integers | None:
        """How early in their prioritized lists the alternatives stand that the nodes have.

        Nothing counts where a profile has no DynamicResources at Filter.
        """
        mine = self._prepared(state)
        if mine is None or not mine.options:
            return None
        answers = [option.answers for option in mine.options if option.answers is not None]
        if len(answers) < len(mine.options):
            return None
        given = sum([_preference(c) for c in mine.claims if c.status.allocation is not None])
        if not given and not any(each.prioritized for each in answers):
            return None
        return _by_option(mine, nodes, [each.scores + given for each in answers])

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Take the devices that the node has for the Pod."""
        mine = state.get(self.name, PodDevices)
        row = self.handle.nodes.row(node_name)
        option = mine.option_at(row) if mine is not None and row is not None else None
        if mine is None or option is None or row is None:
            return None
        node = self.handle.nodes.nodes[row]
        if option.answers is None and all(map(is_special, option.claims)):
            # The profile has no DynamicResources at Filter, so the node has to offer the resources.
            return None
        fleet = self._tracker.fleet
        choices = fleet.answers(option.shapes).choices(row) if option.answers is not None else None
        if node is None or choices is None:
            return Status.error("claim allocation not found for node")
        results = fleet.results(node, option.claims, option.shapes, choices)
        mine.allocations = dict(zip(option.indexes, results, strict=True))
        mine.reserved = dict(zip(option.indexes, option.claims, strict=True))
        mine.mappings = option.mappings
        mine.claims += option.claims[-1:] if len(mine.claims) in option.indexes else []
        self._tracker.reserve(pod.uid, option.claims, results)
        return None

    def unreserve(self, state: CycleState, pod: Pod, _node_name: str) -> None:
        """Give back the devices, and remove the Pod from the consumers of its claims."""
        mine = state.get(self.name, PodDevices)
        if mine is None:
            return
        for index, claim in enumerate(mine.claims):
            before = mine.reserved.get(index)
            created = is_special(claim) and claim.name != IN_MEMORY
            if before is not None:
                # A claim that was created is deleted: until then, its devices are in use.
                written = claim if index in mine.written and not created else None
                self._tracker.release(before, written, doubt=mine.doubt or created)
            if claim.status.allocation is not None and claim.reserved_by(pod.uid):
                state.effects.append(LeaveClaim(self.name, claim, pod))
            if created:
                state.effects.append(DeleteClaim(self.name, claim))
        mine.reserved.clear()

    def carry_out(self, effect: Effect) -> None:
        """Write what the end of an attempt, or its failure, asks for; does not wait."""
        match effect:
            case DeleteClaim():
                self._writes.delete(effect.claim)
            case Deallocate():
                self._writes.deallocate(effect.claim)
            case LeaveClaim():
                self._writes.leave(effect.claim, effect.pod)

    # Binding cycle

    def pre_bind_pre_flight(self, state: CycleState, _pod: Pod, _node_name: str) -> Status:
        """Skip where the Pod has no claims."""
        return SKIP if state.get(self.name, PodDevices) is None else Status()

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the claims and wait until their devices are ready."""
        mine = state.get(self.name, PodDevices)
        if mine is None:
            return None
        preparing = self._handle.preparing.get(pod.uid)
        try:
            for index in range(len(mine.claims)):
                if preparing is None or not preparing.cancelled:
                    self._writes.store(mine, index, pod)
            if any(has_conditions(claim) for claim in mine.claims):
                cancelled = threading.Event()
                if preparing is not None:
                    preparing.on_cancel(cancelled.set)
                timeout = self.args.binding_timeout
                self._writes.wait(mine, pod, node_name, cancelled, timeout)
        except BindError as error:
            mine.doubt = error.in_doubt
            return Status.error(str(error))
        return None

    def events_to_register(self) -> list[EventRegistration]:
        """What may undo a rejection."""
        return self._hints.registrations()


def _by_option(mine: PodDevices, nodes: NodeTable, answers: Sequence[Integers]) -> Integers:
    """Per node of ``nodes`` the answer for the node's option, 0 for none; a copy.

    ``answers`` are per option, by row of the live table.
    """
    if not answers:
        return np.zeros(len(nodes), np.int8)
    if mine.option_of is None:
        return answers[0].copy() if nodes.origin is None else answers[0][nodes.origin]
    every = np.zeros(len(mine.option_of), answers[0].dtype)
    for index, answer in enumerate(answers):
        here = mine.option_of == index
        every[here] = answer[here]
    return every if nodes.origin is None else every[nodes.origin]


def _preference(claim: ResourceClaim) -> int:
    """What the alternatives score that an allocated claim has."""
    chosen = {result.request for result in allocated_devices(claim)}
    return sum(
        _MAX_PREFERENCE - index
        for request in claim.spec.devices.requests
        for index, sub in enumerate(request.first_available)
        if f"{request.name}/{sub.name}" in chosen
    )
