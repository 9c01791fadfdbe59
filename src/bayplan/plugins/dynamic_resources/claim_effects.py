"""What the end of an attempt has done to claims, as effects of a decision."""

from __future__ import annotations

from bayplan.api.pod import Pod
from bayplan.api.resource import ResourceClaim
from bayplan.framework.effects import Effect


class DeleteClaim(Effect, frozen=True, eq=False):
    """Delete a claim that was made for extended resources."""

    claim: ResourceClaim


class Deallocate(Effect, frozen=True, eq=False):
    """Take the devices of a claim away."""

    claim: ResourceClaim


class LeaveClaim(Effect, frozen=True, eq=False):
    """Take a Pod out of the users of a claim."""

    claim: ResourceClaim
    pod: Pod
