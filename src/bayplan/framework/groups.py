"""GroupSource: the Pods that belong together, as seen by the queue and the search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Protocol

from bayplan.api.pod import Pod
from bayplan.cache.group_policy import GroupPolicy
from bayplan.cache.pod_groups import Group
from bayplan.framework.interface import QueuedPod
from bayplan.framework.points import Named
from bayplan.framework.status import Status


class GroupSource(Named, Protocol):
    """By which groups of Pods are placed together; see `bayplan.framework.services`.

    Attributes:
        policy: in what its groups differ from those of other sources.
        inferred: the kinds of owners whose Pods are groups although no object says so.
        timeout: seconds that members may take to get ready, where their group does not say.
        backoff: least seconds between two attempts of a group.
    """

    policy: ClassVar[GroupPolicy]
    inferred: Collection[str]
    timeout: float
    backoff: float

    def key_of(self, pod: Pod, /) -> str:
        """``namespace/name`` of the group that the Pod belongs to; "" for none."""

    def find(self, key: str, /) -> Group | None:
        """The group called ``key``; None while its object does not exist."""

    def with_asks_of(self, group: Group, _pods: Iterable[Pod], /) -> Group:
        """The group with what the Pods ask for, where its object does not say."""
        return group

    def missing(
        self, key: str, waiting: Mapping[str, int], scheduled: Mapping[str, int], /
    ) -> Status | None:
        """What keeps the group from being tried; None for nothing.

        Args:
            key: of the group.
            waiting: by sub-group, how many Pods wait for a node; "" for those that are in none.
            scheduled: likewise, how many have one.
        """

    def order(self, queued: QueuedPod, /) -> Any:
        """The member's place among the others: lower ones are tried first."""
