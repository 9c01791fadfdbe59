"""Binding: writes a claim's devices and its user into the API, and waits for binding conditions.

Two writes a claim that was allocated by us: the finalizer that keeps the claim while it has
devices, then the status. A claim that had devices before gets its user only. Both writes name the
version that they were made for, so a claim that changed meanwhile is read again and retried.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.api.kinds import POD, RESOURCE_CLAIM
from bayplan.api.pod import Pod
from bayplan.api.resource import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from bayplan.client.connection import STRATEGIC_MERGE_PATCH
from bayplan.client.errors import ApiError, Conflict
from bayplan.framework.handle import ClusterWriter
from bayplan.plugins.dynamic_resources.conditions import (
    FAILED,
    TIMEOUT,
    Readiness,
    readiness,
    too_late,
)
from bayplan.plugins.dynamic_resources.extended import Mapping

TRIES = 5
POLL_SECONDS = 5.0


class BindError(Exception):
    """The Pod cannot be bound with its claims now; the text is kube-scheduler's.

    Attributes:
        in_doubt: whether a write may have taken effect.
    """

    def __init__(self, text: str, *, in_doubt: bool = False) -> None:
        super().__init__(text)
        self.in_doubt = in_doubt


def bind_claim(
    writer: ClusterWriter,
    claim: ResourceClaim,
    pod: Pod,
    allocation: AllocationResult | None,
    now: float,
) -> ResourceClaim:
    """Store the allocation, if there is one, and the Pod as a user of the claim. On workers only.

    Returns:
        The stored claim.

    Raises:
        BindError: the claim changed so that the Pod cannot have it, or a write failed.
    """
    for tries_left in reversed(range(TRIES)):
        try:
            return _try(writer, claim, pod, allocation, now)
        except _ConflictError:
            if not tries_left:
                raise
        claim = read_claim(writer, claim, "after conflict")
    raise AssertionError("the last try returns or raises")


def read_claim(writer: ClusterWriter, claim: ResourceClaim, when: str) -> ResourceClaim:
    """The claim as stored now; errors contain ``when``. On workers only.

    Raises:
        BindError: it cannot be read, or is another one of that name.
    """
    try:
        stored = RESOURCE_CLAIM.decode(writer.read(claim_path(claim)))
    except ApiError as error:
        raise BindError(f"get updated claim {claim.key} {when}: {error}") from None
    if stored.uid != claim.uid:
        raise BindError(f"claim {claim.key} was replaced in the meantime")
    return stored


def wait_until_ready(
    claims: Callable[[], list[ResourceClaim] | None],
    now: Callable[[], float],
    monotonic: Callable[[], float],
    cancelled: threading.Event,
    timeout: float,
) -> None:
    """Wait until all binding conditions of all claims are True. On workers only.

    Args:
        claims: the claims as they are now; None where one is gone.
        now: wall clock, which allocation timestamps are compared with.
        monotonic: seconds, which the wait itself is measured with.
        cancelled: set when the Pod is called back.
        timeout: seconds from an allocation, and to wait here at most.

    Raises:
        BindError: a failure condition is True, a claim is gone, or it takes too long.
    """
    deadline = monotonic() + timeout
    while not _all_ready(claims(), now(), timeout):
        left = deadline - monotonic()
        if left <= 0:
            raise BindError(f"{TIMEOUT}: context deadline exceeded")
        if cancelled.wait(min(POLL_SECONDS, left)):
            raise BindError("context canceled")


def wait_outcome(error: BindError) -> str:
    """What metrics call the end of `wait_until_ready` by ``error``: failure, timeout or error."""
    text = str(error)
    if text.startswith(TIMEOUT):
        return "timeout"
    return "failure" if text.startswith(FAILED) else "error"


def create_claim(writer: ClusterWriter, claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """Create a claim that existed in memory only; the API server chooses the name. On workers only.

    Raises:
        BindError: it cannot be created.
    """
    metadata = {
        "generateName": f"{pod.name}-extended-resources-",
        "annotations": claim.metadata.annotations,
        "ownerReferences": claim.metadata.owner_references,
    }
    body = {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.name,
        "metadata": metadata,
        "spec": claim.spec,
    }
    try:
        stored = writer.create(RESOURCE_CLAIM.path(pod.namespace), msgspec.json.encode(body))
    except ApiError as error:
        text = f"create claim for extended resources {claim.key}: {error}"
        raise BindError(text) from None
    return RESOURCE_CLAIM.decode(stored)


def name_claim(
    writer: ClusterWriter, claim: ResourceClaim, pod: Pod, mappings: Iterable[Mapping]
) -> None:
    """Write the claim for extended resources into the Pod's status. On workers only.

    Raises:
        BindError: the status cannot be written.
    """
    listed = [
        {"containerName": m.container, "resourceName": m.resource, "requestName": m.request}
        for m in mappings
    ]
    named = {"resourceClaimName": claim.name, "requestMappings": listed}
    change = {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": named}}
    try:
        path = f"{POD.path(pod.namespace, pod.name)}/status"
        writer.patch(path, msgspec.json.encode(change), STRATEGIC_MERGE_PATCH)
    except ApiError as error:
        text = f"update pod {pod.key} ExtendedResourceClaimStatus: {error}"
        raise BindError(text) from None


def unprotect_patch(claim: ResourceClaim) -> bytes:
    """The patch to remove the finalizer, so that a deletion takes effect at once."""
    gone = {"uid": claim.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    return msgspec.json.encode({"metadata": gone})


def with_user(claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> ResourceClaim:
    """The claim as `bind_claim` stores it."""
    user = ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
    status = msgspec.structs.replace(
        claim.status, allocation=allocation, reserved_for=(*claim.status.reserved_for, user)
    )
    return msgspec.structs.replace(claim, status=status)


def release_patch(claim: ResourceClaim, pod: Pod) -> bytes:
    """The patch that takes the Pod out of the claim's users, whatever else has changed."""
    gone = {"$patch": "delete", "uid": pod.uid}
    return msgspec.json.encode({"metadata": {"uid": claim.uid}, "status": {"reservedFor": [gone]}})


def deallocation_patch(claim: ResourceClaim) -> bytes:
    """The patch that takes the claim's devices away."""
    nothing = {"allocation": None, "reservedFor": None, "devices": None}
    return msgspec.json.encode({"metadata": _version(claim), "status": nothing})


def claim_path(claim: ResourceClaim) -> str:
    """API path of the claim."""
    return RESOURCE_CLAIM.path(claim.namespace, claim.name)


def status_path(claim: ResourceClaim) -> str:
    """API path of the claim's status."""
    return f"{claim_path(claim)}/status"


class _ConflictError(BindError):
    """The claim has changed since."""


def _try(
    writer: ClusterWriter,
    claim: ResourceClaim,
    pod: Pod,
    allocation: AllocationResult | None,
    now: float,
) -> ResourceClaim:
    if claim.metadata.deletion_timestamp is not None:
        raise BindError(f"claim {claim.key} got deleted in the meantime")
    what = "add reservation to claim"
    if allocation is not None:
        if claim.status.allocation is not None:
            raise BindError(f"claim {claim.key} got allocated elsewhere in the meantime")
        what = "add allocation and reservation to claim"
        if FINALIZER not in claim.metadata.finalizers:
            metadata: dict[str, Any] = {**_version(claim), "finalizers": [FINALIZER]}
            body: dict[str, Any] = {"metadata": metadata}
            claim = _patch(writer, claim, claim_path(claim), body, "add finalizer to claim")
    elif claim.status.allocation is None:
        raise BindError(f"claim {claim.key} got deallocated elsewhere in the meantime")
    user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    status: dict[str, Any] = {"reservedFor": [user]}
    current = allocation or claim.status.allocation
    if current is not None and current.allocation_timestamp is None:
        stamp = datetime.fromtimestamp(int(now), UTC)
        status["allocation"] = (
            {"allocationTimestamp": stamp}
            if allocation is None
            else msgspec.structs.replace(allocation, allocation_timestamp=stamp)
        )
    body = {"metadata": _version(claim), "status": status}
    return _patch(writer, claim, status_path(claim), body, what)


def _patch(
    writer: ClusterWriter, claim: ResourceClaim, path: str, body: dict[str, Any], what: str
) -> ResourceClaim:
    try:
        stored = writer.patch(path, msgspec.json.encode(body), STRATEGIC_MERGE_PATCH)
    except Conflict as conflict:
        raise _ConflictError(f"{what} {claim.key}: {conflict}") from None
    except ApiError as error:
        text = f"{what} {claim.key}: {error}"
        raise BindError(text, in_doubt=error.outcome_unknown) from None
    return RESOURCE_CLAIM.decode(stored)


def _all_ready(claims: list[ResourceClaim] | None, now: float, timeout: float) -> bool:
    if claims is None:
        raise BindError("a claim is gone")
    for claim in claims:
        state, why = readiness(claim)
        if state is Readiness.FAILED:
            raise BindError(why)
        if state is Readiness.WAITING:
            if too_late(claim, now, timeout):
                raise BindError(f"{TIMEOUT}: claim={claim.name}")
            return False
    return True


def _version(claim: ResourceClaim) -> dict[str, str]:
    return {"uid": claim.uid, "resourceVersion": claim.metadata.resource_version}
