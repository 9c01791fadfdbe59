"""What is written into claims: on a worker in PreBind, or handed to the dispatcher elsewhere."""

from __future__ import annotations

import threading

from bayplan.api.pod import Pod
from bayplan.api.resource import ResourceClaim
from bayplan.client.connection import STRATEGIC_MERGE_PATCH
from bayplan.framework.handle import ClusterWriter, InTreeHandle
from bayplan.plugins.dynamic_resources.binding import (
    BindError,
    bind_claim,
    claim_path,
    create_claim,
    name_claim,
    status_path,
    unprotect_patch,
    wait_until_ready,
)
from bayplan.plugins.dynamic_resources.extended import IN_MEMORY, is_special
from bayplan.plugins.dynamic_resources.state import PodDevices
from bayplan.plugins.dynamic_resources.tracker import Tracker


class ClaimWrites:
    """The writes of one profile's plugin; without a cluster they come to nothing."""

    def __init__(self, handle: InTreeHandle, tracker: Tracker) -> None:
        self._handle = handle
        self._tracker = tracker

    # Scheduling thread: does not wait

    def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim that was made for extended resources, and its finalizer before."""
        writer = self._handle.writer

        def unprotected(error: Exception | None) -> None:
            if writer is not None and error is None:
                writer.delete_later(claim_path(claim), claim.uid, done)
            else:
                done(error)

        def done(error: Exception | None) -> None:
            if error is not None:
                text = "Could not delete a claim for extended resources"
                self._handle.logger.error(text, claim=claim.key, error=str(error))

        if writer is not None:
            body = unprotect_patch(claim)
            writer.patch_later(claim_path(claim), body, STRATEGIC_MERGE_PATCH, unprotected)

    def patch_status(self, claim: ResourceClaim, body: bytes, what: str) -> None:
        """Patch the status; ``what`` it is for stands in the log if it fails."""

        def done(error: Exception | None) -> None:
            if error is not None:
                self._handle.logger.error(f"Could not {what}", claim=claim.key, error=str(error))

        if self._handle.writer is not None:
            path = status_path(claim)
            self._handle.writer.patch_later(path, body, STRATEGIC_MERGE_PATCH, done)

    # Binding worker

    def store(self, mine: PodDevices, index: int, pod: Pod) -> None:
        """Store one claim, unless it says already that the Pod uses it.

        Raises:
            BindError: it cannot be stored.
        """
        writer = self._handle.writer
        assert writer is not None, "without a cluster nothing is bound"
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
            known = [claim for claim in claims if claim is not None]
            return known if len(known) == len(claims) else None

        handle = self._handle
        wait_until_ready(current, handle.now, handle.monotonic, cancelled, timeout)
