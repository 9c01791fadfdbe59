"""Movable: the Pods that may be evicted to run elsewhere.

A Pod has to say so, by the label or annotation `MOVABLE`, itself or by its Namespace, its Queue or
a Queue above; the nearest of them counts, so a Pod can say "false" for itself. And somebody has to
make it again, with nothing lost but what it computes: not for a Pod of a DaemonSet, a static one,
one without a controller, or one that has files on its node.

Members of a group move together, so one that may not move keeps all of them. So do those of a
PodGroup of Kubernetes, or of the whole tree above it, if any part is a gang, is disrupted as one or
has a topology; the Pods of other ones move one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from bayplan.api.kinds import KUBERNETES_POD_GROUP, NAMESPACE, QUEUE
from bayplan.api.pod import Pod
from bayplan.api.queues import Queue
from bayplan.api.workloads import NOT_MADE_AGAIN, Namespace
from bayplan.cache.pod_groups import Group
from bayplan.framework.groups import GroupSource
from bayplan.improve.deciders import Deciders
from bayplan.plugins.blast_radius.survivors import Survivors

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
    ``keeps`` says why a Pod that could move is not to, "" for nothing.

    The cluster is as it was when this was made: ask with nothing in trial, or of Pods in place.
    """

    def __init__(
        self,
        core: Deciders,
        now: float,
        *,
        mending: bool = False,
        keeps: Callable[[Pod], str] = lambda _: "",
    ) -> None:
        self._world, self._profiles, self._now = core.world, core.profiles, now
        self._mending, self._keeps = mending, keeps
        cache = core.world.cache
        self._on_nodes = [tuple(pods.values()) for pods in cache.nodes.pods]
        self._sources: dict[tuple[int, str], tuple[GroupSource | None, str]] = {}
        self._found: dict[str, Group | None] = {}
        may_be_groups = cache.groups.any or cache.objects.all(KUBERNETES_POD_GROUP)
        self._members = self._groups() if may_be_groups else {}
        self._on_rows: dict[int, tuple[Unit, ...]] = {}
        self._units: dict[str, Unit | None] = {}
        self._stays: dict[str, str] = {}
        self._by_shape: dict[tuple[int, str], str] = {}
        self._least_runtimes: dict[int, int] = {}

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
        """The group whose members move together with the Pod."""
        source, key = self._source(pod)
        if source is None:
            return None
        if key not in self._found:
            self._found[key] = source.find(key)
        group = self._found[key]
        if group is None or group.pod_group is None:
            return group
        group = source.with_asks_of(group, [pod])
        return group if _is_one(group) else None

    def _source(self, pod: Pod) -> tuple[GroupSource | None, str]:
        """Which plugin groups the Pod, and the key of the group: the same for all of one shape."""
        like = pod.shape.id, pod.pod_group
        source = self._sources.get(like)
        if source is None:
            source = self._sources[like] = self._world.queue.groups.group_of(pod)
        return source

    def _lacks_group(self, pod: Pod) -> bool:
        source, key = self._source(pod)
        return source is not None and self._found[key] is None

    def _why_not(self, pod: Pod) -> str:
        alike = pod.shape.id, pod.annotations.get(MOVABLE, "")
        why = self._by_shape.get(alike)
        if why is None:
            why = self._by_shape[alike] = self._why_none_alike(pod)
        if why:
            return why
        if pod.local_storage:
            return "has files on its node (emptyDir, hostPath)"
        holdings = self._profiles[pod.spec.scheduler_name].services.holdings
        if kept := next(filter(None, (some.keeps(pod) for some in holdings)), ""):
            return kept
        if self._lacks_group(pod):
            return "its group is gone, so another Pod would wait for it"
        if pod.deleted is not None or self._world.cache.is_assumed(pod.uid):
            return "is being bound or deleted"
        if self._is_never_evicted(pod):
            return "is never evicted"
        return self._too_young(pod) or self._keeps(pod)

    def _why_none_alike(self, pod: Pod) -> str:
        """Why no Pod with the shape of this one, and with the same word of its own, may move."""
        if pod.spec.scheduler_name not in self._profiles:
            return f"no profile is called {pod.spec.scheduler_name}"
        if not self._says_so(pod):
            return f"nothing says {MOVABLE}=true"
        kind = pod.controller[0].rpartition("/")[2]
        if kind in NOT_MADE_AGAIN:
            return NOT_MADE_AGAIN[kind]
        has_claims = pod.spec.resource_claims
        if has_claims and not self._profiles[pod.spec.scheduler_name].services.holdings:
            return "has ResourceClaims, of which its profile knows nothing"
        return ""

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
        least = self._least_runtimes.get(pod.shape.id)
        if least is None:
            runtimes = (queue.spec.min_runtime_seconds for queue in self._queues(pod))
            least = self._least_runtimes[pod.shape.id] = max(runtimes, default=0)
        if not least:
            return ""
        began = pod.status.start_time or datetime.fromtimestamp(self._now, UTC)
        ran = self._now - began.timestamp()
        return "" if ran >= least else "runs for less than its Queue's minRuntimeSeconds"


def _is_one(group: Group) -> bool:
    """Whether the Pods of a tree of PodGroups of Kubernetes need each other."""
    return any(
        part.whole or part.topology or (part.pod_group is not None and part.pod_group.is_gang)
        for part in group.tree()
    )
