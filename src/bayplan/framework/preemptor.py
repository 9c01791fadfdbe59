"""Preemptor: the Pod or the group for which room is made."""

from __future__ import annotations

from enum import Enum

import msgspec

from bayplan.api.pod import Pod
from bayplan.cache.group_topology import Slice

SINGLE, GROUP = "pod", "podgroup"
"""Kinds of preemptors, as in kube-scheduler's messages and metrics."""


class Victims(Enum):
    """How victims are chosen where room is made by priority."""

    FEWEST = "as few Pods as possible, in an order of who yields"
    REPRIEVED = "all of lower priority, less those that may stay: as kube-scheduler does"


class Preemptor(msgspec.Struct, frozen=True, eq=False):
    """Who needs room: a group of Pods, or one Pod.

    Attributes:
        uid: names it as long as it waits.
        key: ``namespace/name``.
        pods: those that wait for a node, in the order in which they are tried; at least one.
        minimum: as many of them have to fit at once.
        level: the node label of which they need nodes with one value; "" for none.
        victims: how preemption by priority chooses victims for them.
        slices: what the minimum is cut into, the widest level first.
    """

    uid: str
    key: str
    pods: tuple[Pod, ...]
    minimum: int
    level: str
    victims: Victims
    slices: tuple[Slice, ...] = ()

    @staticmethod
    def single(pod: Pod) -> Preemptor:
        """``pod`` alone."""
        return Preemptor(pod.uid, pod.key, (pod,), 1, "", Victims.FEWEST)

    @property
    def kind(self) -> str:
        """`SINGLE` or `GROUP`."""
        return SINGLE if self.uid == self.pods[0].uid else GROUP

    @property
    def priority(self) -> int:
        """The lowest priority of the Pods; all may take room from Pods of lower priority."""
        return min(pod.priority for pod in self.pods)
