"""What can go wrong in an allocation, in kube-scheduler's words."""

from __future__ import annotations


class AllocationError(Exception):
    """The claims, classes or slices are at fault: the attempt ends, whatever other nodes offer."""


class NodeAllocationError(AllocationError):
    """Only this node's devices are at fault: other nodes may do."""


class AllocationTimeoutError(AllocationError):
    """The search took longer than filterTimeout allows."""
