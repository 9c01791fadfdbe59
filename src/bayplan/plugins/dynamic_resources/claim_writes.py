"""What is written into claims: on a worker in PreBind, or handed to the dispatcher elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial

from bayplan.api.pod import Pod
from bayplan.api.resource import ResourceClaim
from bayplan.client.connection import STRATEGIC_MERGE_PATCH
from bayplan.framework.handle import ClusterWriter
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.dynamic_resources.binding import (
    BindError,
    bind_claim,
    claim_path,
    create_claim,
    deallocation_patch,
    name_claim,
    read_claim,
    release_patch,
    status_path,
    unprotect_patch,
    wait_outcome,
    wait_until_ready,
)
from bayplan.plugins.dynamic_resources.conditions import allocated_devices
from bayplan.plugins.dynamic_resources.state import PodDevices
from bayplan.plugins.shared.device_tracker import IN_MEMORY, DeviceTracker, is_special

LEAVE_SECONDS = 30.0
"""How long an attempt waits for the end of an earlier one's last write; it takes one request."""


class ClaimWrites:
    """The writes of one profile's plugin; without a cluster they come to nothing."""

    def __init__(self, handle: InTreeHandle, tracker: DeviceTracker) -> None:
        self._handle = handle
        self._tracker = tracker

    # Scheduling thread: does not wait

    def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim made for extended resources; the finalizer is removed first."""
        writer = self._handle.writer
        text = "Could not delete a claim for extended resources"
        done = partial(self._log_failure, text, claim)

        def unprotected(error: Exception | None) -> None:
            if writer is not None and error is None:
                writer.delete_later(claim_path(claim), claim.uid, done)
            else:
                done(error)

        if writer is not None:
            body = unprotect_patch(claim)
            writer.patch_later(claim_path(claim), body, STRATEGIC_MERGE_PATCH, unprotected)

    def deallocate(self, claim: ResourceClaim) -> None:
        """Take the claim's devices away."""
        if self._handle.writer is not None:
            done = partial(self._log_failure, "Could not deallocate a claim", claim)
            path, body = status_path(claim), deallocation_patch(claim)
            self._handle.writer.patch_later(path, body, STRATEGIC_MERGE_PATCH, done)

    def leave(self, claim: ResourceClaim, pod: Pod) -> None:
        """Take the Pod out of the claim's users; `store` waits until that is over.

        While an earlier attempt is leaving the claim, nothing has been written that needs another.
        """
        key, over = (claim.uid, pod.uid), threading.Event()

        def done(error: Exception | None) -> None:
            self._tracker.leaving.pop(key, None)
            over.set()
            self._log_failure("Could not leave a claim", claim, error)

        if self._handle.writer is not None and key not in self._tracker.leaving:
            self._tracker.leaving[key] = over
            path, body = status_path(claim), release_patch(claim, pod)
            self._handle.writer.patch_later(path, body, STRATEGIC_MERGE_PATCH, done)

    def _log_failure(self, text: str, claim: ResourceClaim, error: Exception | None) -> None:
        if error is not None:
            self._handle.logger.error(text, claim=claim.key, error=str(error))

    # Binding worker

    def store(self, mine: PodDevices, index: int, pod: Pod) -> None:
        """Store one claim, unless the Pod is a consumer in the stored claim already.

        A claim that said so when the attempt began may have been left since, by the end of an
        earlier attempt: it is read again.

        Raises:
            BindError: it cannot be stored.
        """
        writer = self._handle.writer
        assert writer is not None, "without a cluster nothing is bound"
        claim = mine.claims[index]
        leaving = self._tracker.leaving.get((claim.uid, pod.uid))
        if leaving is not None and not leaving.wait(LEAVE_SECONDS):
            raise BindError(f"claim {claim.key} is still used by an earlier attempt")
        if claim.reserved_by(pod.uid):
            mine.claims[index] = read_claim(writer, claim, "before binding")
            if mine.claims[index].reserved_by(pod.uid):
                return
        if mine.claims[index].name == IN_MEMORY:
            mine.claims[index] = self._created(writer, mine.claims[index], pod)
        allocation, now = mine.allocations.get(index), self._handle.now()
        claim = bind_claim(writer, mine.claims[index], pod, allocation, now)
        mine.claims[index] = claim
        mine.written.add(index)
        if is_special(claim):
            name_claim(writer, claim, pod, mine.mappings)

    def _created(self, writer: ClusterWriter, claim: ResourceClaim, pod: Pod) -> ResourceClaim:
        try:
            stored = create_claim(writer, claim, pod)
        except BindError:
            self._handle.instrument.claim_created(success=False)
            raise
        self._handle.instrument.claim_created(success=True)
        return stored

    def wait(
        self,
        mine: PodDevices,
        pod: Pod,
        node_name: str,
        cancelled: threading.Event,
        timeout: float,
    ) -> None:
        """Wait until the devices of all claims are ready.

        Raises:
            BindError: they are not, and will not be.
        """
        self._handle.events.event(
            pod,
            None,
            "Normal",
            "BindingConditionsPending",
            "Scheduling",
            f"waiting for binding conditions for device on node {node_name}",
            self._handle.profile,
        )

        def current() -> list[ResourceClaim] | None:
            claims = [self._tracker.claim(claim.key) for claim in mine.claims]
            present = [claim for claim in claims if claim is not None]
            return present if len(present) == len(claims) else None

        handle, started, outcome = self._handle, self._handle.monotonic(), "success"
        try:
            wait_until_ready(current, handle.now, handle.monotonic, cancelled, timeout)
        except BindError as error:
            outcome = wait_outcome(error)
            raise
        finally:
            self._count_wait(mine.claims, outcome, handle.monotonic() - started)

    def _count_wait(self, claims: Iterable[ResourceClaim], outcome: str, seconds: float) -> None:
        for result in (result for claim in claims for result in allocated_devices(claim)):
            self._handle.instrument.device_awaited(
                self._handle.profile,
                result.driver,
                outcome,
                seconds,
                conditions=bool(result.binding_conditions),
            )
