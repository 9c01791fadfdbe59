"""Movable: the Pods that may be evicted to run elsewhere.

A Pod has to say so, by the label or annotation `MOVABLE`, itself or by its Namespace, its Queue or
a Queue above; the nearest of them counts, so a Pod can say "false" for itself. And somebody has to
make it again, with nothing lost but what it computes: not for a Pod of a DaemonSet, a static one,
one without a controller, or one that has files on its node.

Members of a group move together, so one that may not move keeps all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from bayplan.api.kinds import NAMESPACE, QUEUE
from bayplan.api.pod import Pod
from bayplan.api.queues import Queue
from bayplan.api.workloads import NOT_MADE_AGAIN, Namespace
from bayplan.cache.pod_groups import Group
from bayplan.improve.deciders import Deciders
from bayplan.plugins.blast_radius.survivors import Survivors
from bayplan.preemption.gangs import Gangs

MOVABLE = "bayplan.dev/movable"
"""Label or annotation of a Pod, a Namespace or a Queue: "true" or "false"."""


class Unit(NamedTuple):
    """Pods that move together.

    Attributes:
        pods: as they run.
        group: whose members they are; None for a Pod alone.
    """

    pods: tuple[Pod, ...]
    group: Group | None = None

    @property
    def key(self) -> str:
        """What no other unit has."""
        return self.pods[0].uid


class Movable:
    """The units of the Pods that run, and why other Pods stay. A Pod is looked at when asked for.

    With ``mending``, what BlastRadius keeps may move: that too few survive is to be mended.

    The cluster is as it was when this was made: ask with nothing in trial, or of Pods in place.
    """

    def __init__(self, core: Deciders, now: float, *, mending: bool = False) -> None:
        self._world, self._profiles, self._now = core.world, core.profiles, now
        self._mending = mending
        cache = core.world.cache
        self._gangs = cache.objects.shared(
            Gangs, cache.nodes, cache.objects, cache.groups, cache.kubernetes_groups
        )
        self._on_nodes = [tuple(pods.values()) for pods in cache.nodes.pods]
        self._members = self._groups() if self._gangs.any else {}
        self._on_rows: dict[int, tuple[Unit, ...]] = {}
        self._units: dict[str, Unit | None] = {}
        self._stays: dict[str, str] = {}

    def on_row(self, row: int) -> tuple[Unit, ...]:
        """The units with Pods on the node at ``row`` of the node table."""
        units = self._on_rows.get(row)
        if units is None:
            found = filter(None, map(self.unit, self._on_nodes[row]))
            units = self._on_rows[row] = tuple({unit.key: unit for unit in found}.values())
        return units

    def unit(self, pod: Pod) -> Unit | None:
        """With whom a running Pod may move; None if it may not."""
        if pod.uid not in self._units:
            group = self._group(pod)
            pods = (pod,) if group is None else self._members[group.uid]
            reasons = {one.uid: why for one in pods if (why := self._why_not(one))}
            if reasons:
                self._stays |= dict.fromkeys((one.uid for one in pods), "not all of its group may")
                self._stays |= reasons
            unit = None if reasons else Unit(pods, group)
            self._units |= dict.fromkeys((one.uid for one in pods), unit)
        return self._units[pod.uid]

    def count(self, pods: Iterable[Pod]) -> tuple[int, Counter[str]]:
        """How many of these Pods may move, and how many stay for which reason."""
        may, stays = 0, Counter[str]()
        for pod in pods:
            if self.unit(pod) is None:
                stays[self._stays[pod.uid]] += 1
            else:
                may += 1
        return may, stays

    def _groups(self) -> dict[str, tuple[Pod, ...]]:
        members: dict[str, list[Pod]] = defaultdict(list)
        for pod in self._world.cache.pods():
            if (group := self._group(pod)) is not None:
                members[group.uid].append(pod)
        return {uid: tuple(pods) for uid, pods in members.items()}

    def _group(self, pod: Pod) -> Group | None:
        framework = self._profiles.get(pod.spec.scheduler_name)
        if framework is None or not framework.services.group_sources:
            return None
        return self._gangs.group_of(pod)

    def _why_not(self, pod: Pod) -> str:
        if pod.spec.scheduler_name not in self._profiles:
            return f"no profile is called {pod.spec.scheduler_name}"
        if not self._says_so(pod):
            return f"nothing says {MOVABLE}=true"
        kind = pod.controller[0].rpartition("/")[2]
        if kind in NOT_MADE_AGAIN:
            return NOT_MADE_AGAIN[kind]
        if pod.local_storage:
            return "has files on its node (emptyDir, hostPath)"
        if pod.spec.resource_claims:
            return "uses ResourceClaims"
        if pod.pod_group:
            return "is of a PodGroup of scheduling.k8s.io"
        if pod.deleted is not None or self._world.cache.is_assumed(pod.uid):
            return "is being bound or deleted"
        if self._is_never_evicted(pod):
            return "is never evicted"
        return self._too_young(pod)

    def _is_never_evicted(self, pod: Pod) -> bool:
        keepers = self._profiles[pod.spec.scheduler_name].services.never_evicted
        return any(
            keeper.any and pod in keeper
            for keeper in keepers
            if not (self._mending and isinstance(keeper, Survivors))
        )

    def _says_so(self, pod: Pod) -> bool:
        namespace: Namespace | None = self._world.cache.objects.get(NAMESPACE, pod.namespace)
        metas = [] if namespace is None else [namespace.metadata]
        metas += [queue.metadata for queue in self._queues(pod)]
        said = [pod.labels, pod.annotations]
        said += [named for meta in metas for named in (meta.labels, meta.annotations)]
        return next((named[MOVABLE] for named in said if MOVABLE in named), "") == "true"

    def _queues(self, pod: Pod) -> list[Queue]:
        queues = self._world.queues
        charge = queues.charge(pod) if queues.active else None
        links = () if charge is None else queues.structure.links[charge.row]
        kept = [queues.structure.queues[row] for row in links]
        objects = self._world.cache.objects
        # The structure outlives a change of nothing but labels.
        return [objects.get(QUEUE, queue.key) or queue for queue in kept]

    def _too_young(self, pod: Pod) -> str:
        least = max((queue.spec.min_runtime_seconds for queue in self._queues(pod)), default=0)
        if not least:
            return ""
        began = pod.status.start_time or datetime.fromtimestamp(self._now, UTC)
        ran = self._now - began.timestamp()
        return "" if ran >= least else "runs for less than its Queue's minRuntimeSeconds"
