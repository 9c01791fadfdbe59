"""The PersistentVolumeClaims of a Pod: names, owners and storage classes.

Shared by the volume plugins. Texts are those of the API machinery, since they end up in messages.
"""

from __future__ import annotations

from typing import NamedTuple

from bayplan.api.pod import Pod, SpecPart
from bayplan.api.pod_spec import PodSpec
from bayplan.api.storage import PersistentVolume, PersistentVolumeClaim
from bayplan.framework.points import Selective

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class UsesVolumes(Selective):
    """A plugin that has nothing to do with Pods without volumes."""

    def concerns(self, spec: PodSpec) -> bool:
        """Whether there are volumes."""
        return bool(spec.volumes)


class ClaimUse(NamedTuple):
    """A claim as a volume of a Pod names it; an ephemeral one must be owned by the Pod."""

    name: str
    ephemeral: bool


def claim_uses(pod: Pod) -> list[ClaimUse]:
    """The claims of ``pod``, in the order of its volumes, with repetitions."""
    named = iter(pod.claim_names)
    return [
        ClaimUse(next(named), False)
        if ephemeral is None
        else ClaimUse(f"{pod.name}-{ephemeral}", True)
        for ephemeral in pod.shape.constraints.memo(_claim_volumes)
    ]


def _claim_volumes(constraints: SpecPart) -> tuple[str | None, ...]:
    """Per volume with a claim: its name if the volume is generic ephemeral, or None."""
    return tuple(
        v.name if v.persistent_volume_claim is None else None
        for v in constraints.spec.volumes
        if v.persistent_volume_claim is not None or v.ephemeral is not None
    )


def has_claims(pod: Pod) -> bool:
    """Whether any volume of ``pod`` stands for a claim."""
    return bool(pod.shape.constraints.memo(_claim_volumes))


def uses_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether ``claim`` is one of the claims of ``pod``."""
    return claim.namespace == pod.namespace and any(
        use.name == claim.name for use in claim_uses(pod)
    )


def names_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """As `uses_claim`, generic ephemeral volumes left out."""
    return claim.namespace == pod.namespace and claim.name in pod.claim_names


def not_owner(claim: PersistentVolumeClaim, pod: Pod) -> str | None:
    """What is wrong where the claim of an ephemeral volume was not made for ``pod``, or None."""
    owner = claim.metadata.controller
    if owner is not None and owner.uid == pod.uid and claim.namespace == pod.namespace:
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Name of the StorageClass that ``claim`` asks for; empty for none."""
    beta = claim.metadata.annotations.get(BETA_CLASS)
    return claim.spec.storage_class_name or "" if beta is None else beta


def volume_class(volume: PersistentVolume) -> str:
    """Name of the StorageClass that ``volume`` is of; empty for none."""
    return volume.metadata.annotations.get(BETA_CLASS, volume.spec.storage_class_name)


def not_found(resource: str, name: str) -> str:
    """How the API machinery says that an object is missing."""
    return f'{resource} "{name}" not found'
