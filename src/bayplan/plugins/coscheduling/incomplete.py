"""IncompleteGroups: gives up groups that stay below their minimum although their Pods are there.

A group is bound whole. But a node may be lost while its Pods run, or a leader while it binds them,
and others may take the room that is missing: then a part of the group holds nodes for nothing, and
two such groups may wait for each other. Where the configuration says so, what has nodes is evicted
after a while, and its controllers make Pods that wait as a group again.

A group is left as it is

- while Pods of it are being bound, or wait for room that is being made;
- if Pods that it lacks are not there: one that ends member by member is not incomplete;
- if a Pod of it has no controller, which would be lost, or a PodDisruptionBudget protects one.

The time counts from when the scheduler sees that the group is incomplete, and again whenever one
more Pod of it has a node. Until all that is evicted has left, Pods that wait are held back: one of
them would take the first node that gets free.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import Group
from bayplan.cache.sub_groups import sub_group_of
from bayplan.framework.effects import Effect, Evict
from bayplan.framework.handle import PluginMetrics
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.status import Status
from bayplan.preemption.budgets import Budgets


class _Since(NamedTuple):
    """When a group was first seen incomplete, and how many of its Pods had nodes."""

    seen: float
    placed: int


class IncompleteGroups:
    """See the module's docstring. Scheduling thread only.

    Args:
        handle: of the profile whose groups are looked at.
        find: what the group called so asks for.
        patience: seconds until an incomplete group is given up.
    """

    def __init__(
        self, handle: InTreeHandle, find: Callable[[str], Group | None], patience: float
    ) -> None:
        self._handle, self._groups = handle, handle.groups
        self._find, self._patience = find, patience
        self._metrics = PluginMetrics(handle.instrument, "Coscheduling")
        self._budgets = handle.objects.shared(Budgets, handle.objects)
        self._since: dict[str, _Since] = {}
        self._told: dict[str, str] = {}
        self._leaving: dict[str, set[str]] = {}
        """By group, the uids of what was evicted."""

    def hold(self, pod: Pod) -> Status | None:
        """Hold a Pod back until all evicted Pods of its group have left."""
        if not self._leaving:
            return None
        key = self._groups.key_of(pod)
        counted = map(self._handle.pods.pod, self._leaving.get(key, ()))
        # One whose eviction has failed is not terminating any more: the next look tries again.
        if any(pod is not None and pod.deleted is not None for pod in counted):
            return Status.unresolvable(f"the group {key} gives up its nodes")
        self._leaving.pop(key, None)
        return None

    def look(self) -> Sequence[Effect]:
        """Give up what has been incomplete for too long."""
        now = self._handle.monotonic()
        effects: list[Effect] = []
        since, self._since = self._since, {}
        for key, waiting in self._waiting().items():
            group, counts = self._find(key), self._groups.counts(key)
            if group is None or group.fault or not group.short(counts):
                continue
            if group.short(Counter(counts) + Counter(sub_group_of(pod.shape) for pod in waiting)):
                continue
            if any(self._handle.nominator.nominated_node(pod.uid) for pod in waiting):
                continue
            placed = sum(counts.values())
            before = since.get(key)
            kept = before if before and placed <= before.placed else _Since(now, placed)
            self._since[key] = kept
            if now - kept.seen >= self._patience:
                effects += self._give_up(group)
        self._told = {key: told for key, told in self._told.items() if key in self._since}
        return effects

    def _waiting(self) -> Mapping[str, list[Pod]]:
        """By group with Pods on nodes, the Pods without a node and without scheduling gates."""
        waiting: dict[str, list[Pod]] = defaultdict(list)
        for pod in self._handle.queued.waiting_pods():
            spec = pod.spec
            if spec.scheduler_name == self._handle.profile and not spec.scheduling_gates:
                key = self._groups.key_of(pod)
                if key and self._groups.counts(key) and self._handle.pods.pod(pod.uid) is None:
                    waiting[key].append(pod)
        return waiting

    def _give_up(self, group: Group) -> Iterator[Effect]:
        pods = self._groups.pods_of(group.key, group)
        if any(pod.uid in self._handle.queued for pod in pods):  # one is being bound
            return
        victims = [pod for pod in pods if pod.deleted is None]
        have = f"{len(pods)} of {group.minimum} Pods have had nodes for {self._patience:g}s"
        alone = next((pod for pod in pods if not pod.controller[0]), None)
        if alone is not None:
            self._tell(group, pods, f"{have}; {alone.key} has no controller, so all stay")
            return
        if self._budgets.violations(victims):
            self._tell(group, pods, f"{have}; a PodDisruptionBudget protects them, so all stay")
            return
        self._tell(group, pods, f"{have}; they are evicted, to wait with the others")
        self._metrics.count("evicted_of_incomplete_groups", len(victims))
        self._leaving[group.key] = {victim.uid for victim in victims}
        message = f"{self._handle.profile}: {group.key} is incomplete: {have}"
        yield Evict("Coscheduling", tuple(victims), message, "IncompleteGroup")

    def _tell(self, group: Group, pods: list[Pod], note: str) -> None:
        if self._told.get(group.key) == note:
            return
        self._told[group.key] = note
        subject = group.subject or pods[0]
        profile = self._handle.profile
        self._handle.events.event(
            subject, None, "Warning", "Incomplete", "Scheduling", note, profile
        )
