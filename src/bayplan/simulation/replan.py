"""Replan: all Pods that run, placed anew.

All Pods that a profile is responsible for are taken off their nodes, and go the way of pending ones
in the order of the queue. Pods of DaemonSets and static ones stay, and Pods that are being deleted.
Volumes stay as they are; devices of claims are given back.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from bayplan.api.kinds import POD, RESOURCE_CLAIM
from bayplan.api.pod import Pod, PodStatus
from bayplan.api.workloads import NOT_MADE_AGAIN
from bayplan.app.assembly import Core
from bayplan.inbox.messages import Changed, Removed

_STAY = NOT_MADE_AGAIN.keys() - {""}
"""Kinds of owners whose Pods belong to their node."""


def take_off(core: Core) -> list[Pod]:
    """Take the Pods off their nodes; returns the Pods as they wait in the queue."""
    apply = core.world.handlers.apply
    running = movable(core)
    for pod in running:
        apply(Removed(POD, pod))
    _give_back({pod.uid for pod in running}, core)
    waiting = []
    for pod in running:
        without = pod.on_node("")
        without.status = PodStatus(resource_claim_statuses=pod.status.resource_claim_statuses)
        waiting.append(without)
        apply(Changed(POD, without))
    return waiting


def movable(core: Core) -> list[Pod]:
    """The Pods that `take_off` takes off their nodes."""
    return [pod for pod in core.world.handlers.pods.values() if _moves(core, pod)]


def _moves(core: Core, pod: Pod) -> bool:
    owner = pod.controller[0].rpartition("/")[2]
    placed = pod.node_name and pod.deleted is None and owner not in _STAY
    return bool(placed) and pod.spec.scheduler_name in core.profiles


def _give_back(users: Collection[str], core: Core) -> None:
    for claim in list(core.world.cache.objects.all(RESOURCE_CLAIM)):
        reserved = claim.status.reserved_for
        left = tuple(user for user in reserved if user.uid not in users)
        if len(left) < len(reserved):
            allocation = claim.status.allocation if left else None
            status = msgspec.structs.replace(claim.status, reserved_for=left, allocation=allocation)
            changed = msgspec.structs.replace(claim, status=status)
            core.world.handlers.apply(Changed(RESOURCE_CLAIM, changed))
