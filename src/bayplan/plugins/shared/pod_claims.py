"""The ResourceClaims of a Pod, or why the Pod has to wait for one."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api.pod import Pod
from bayplan.api.pod_spec import PodResourceClaim
from bayplan.api.resource import ResourceClaim

ClaimLookup = Callable[[str], ResourceClaim | None]


class ClaimNotReadyError(Exception):
    """A claim is missing or not the Pod's; the text is kube-scheduler's."""


def pod_claims(pod: Pod, lookup: ClaimLookup) -> list[ResourceClaim]:
    """The claims in the order of the Pod's spec; an entry that needs none is left out.

    Raises:
        ClaimNotReadyError: the Pod has to wait.
    """
    claims = []
    for entry in pod.spec.resource_claims:
        name = _claim_name(pod, entry)
        if name is not None:
            generated = entry.resource_claim_name is None
            claims.append(_claim(pod, name, lookup, generated=generated))
    return claims


def names_claim(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the Pod names the claim, in the spec or in the status."""
    if pod.namespace != claim.namespace:
        return False
    named = {entry.resource_claim_name for entry in pod.spec.resource_claims}
    made = {status.resource_claim_name for status in pod.status.resource_claim_statuses}
    return claim.name in named | made


def _claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimNotReadyError(
            f'pod "{pod.key}", spec.resourceClaim "{entry.name}": '
            "none of the supported fields are set"
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimNotReadyError(f'pod "{pod.key}": ResourceClaim not created yet')


def _claim(pod: Pod, name: str, lookup: ClaimLookup, *, generated: bool) -> ResourceClaim:
    key = f"{pod.namespace}/{name}"
    claim = lookup(key)
    if claim is None:
        raise ClaimNotReadyError(f'could not find ResourceClaim "{key}"')
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimNotReadyError(f'resourceclaim "{name}" is being deleted')
    owner = claim.metadata.controller
    if generated and (owner is None or owner.uid != pod.uid):
        raise ClaimNotReadyError(
            f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)"
        )
    return claim
