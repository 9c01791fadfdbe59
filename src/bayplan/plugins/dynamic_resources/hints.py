"""Events after which a Pod rejected by DynamicResources may become schedulable."""

from __future__ import annotations

from bayplan.api.kinds import DEVICE_CLASS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.api.pod import Pod
from bayplan.api.resource import ResourceClaim
from bayplan.framework.cluster_events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintIndex,
    Resource,
)
from bayplan.plugins.shared.pod_claims import (
    ClaimLookup,
    ClaimNotReadyError,
    pod_claims,
)


class Hints:
    """The registrations of the plugin; hints look at the claims as they are then."""

    def __init__(self, lookup: ClaimLookup) -> None:
        self._lookup = lookup

    def registrations(self) -> list[EventRegistration]:
        """The events and their hints."""
        changed = Action.ADD | Action.UPDATE
        node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        made = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
        claim = ClusterEvent(RESOURCE_CLAIM, changed | Action.DELETE)
        return [
            EventRegistration(ClusterEvent(NODE, node), gates=False),
            EventRegistration(claim, self.claim_changed, HintIndex(_pod_keys, _claim_keys)),
            EventRegistration(made, self.claim_made),
            EventRegistration(ClusterEvent(DEVICE_CLASS, changed), gates=False),
            EventRegistration(ClusterEvent(RESOURCE_SLICE, changed), gates=False),
        ]

    def claim_changed(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> Hint:
        """Devices became free, or a claim of the Pod is there or has another status."""
        if new is None:
            return _queue_if(old is not None and old.status.allocation is not None)
        try:
            mine = any(claim.uid == new.uid for claim in pod_claims(pod, self._lookup))
        except ClaimNotReadyError:
            return Hint.SKIP
        if old is not None and old.status.allocation and new.status.allocation is None:
            return Hint.QUEUE
        return _queue_if(mine and (old is None or old.status != new.status))

    def claim_made(self, _pod: Pod, _old: Pod, new: Pod) -> Hint:
        """Whether all claims made for the Pod are named in its status now."""
        try:
            pod_claims(new, self._lookup)
        except ClaimNotReadyError:
            return Hint.SKIP
        return Hint.QUEUE


def _pod_keys(pod: Pod) -> list[str]:
    """The keys of the named claims, and the Pod's uid: claims made for the Pod name this uid."""
    named = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    return [pod.uid, *(f"{pod.namespace}/{name}" for name in named if name is not None)]


def _claim_keys(old: ResourceClaim | None, new: ResourceClaim | None) -> tuple[str, ...] | None:
    """None where devices become free, which may help any Pod."""
    had = old is not None and old.status.allocation is not None
    if new is None:
        return None if had else ()
    if had and new.status.allocation is None:
        return None
    owner = new.metadata.controller
    return (new.key,) if owner is None else (new.key, owner.uid)


def _queue_if(useful: bool) -> Hint:
    return Hint.QUEUE if useful else Hint.SKIP
