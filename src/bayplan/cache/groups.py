"""Groups: the Pods, the spec and the nodes of each group.

All that places, wakes or evicts Pods together asks here; where a group comes from is known here
only: from a PodGroup that a label names (`bayplan.cache.pod_groups`), or from who owns the Pods
(`bayplan.cache.inferred_groups`), if the configuration says so. PodGroups of Kubernetes are apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from bayplan.api.batch import Job, JobSet, LeaderWorkerSet
from bayplan.api.kinds import JOB, JOB_SET, LEADER_WORKER_SET, POD_GROUP, Kind
from bayplan.api.meta import Object
from bayplan.api.pod import Pod, PodShape
from bayplan.api.scheduling import PodGroup
from bayplan.cache.counted_pods import CountedPods
from bayplan.cache.group_topology import Levels
from bayplan.cache.index import discard
from bayplan.cache.inferred_groups import JOB_SET_NAME, REPLICATED_JOB, inferred_key, owner_of
from bayplan.cache.objects import ObjectStore
from bayplan.cache.pod_groups import Group, label_key, of_pod_group, only_itself
from bayplan.cache.sub_groups import SubGroup, asked_of, sub_group_of


class Groups:
    """The groups of the label and the inferred ones. Scheduling thread only.

    Args:
        objects: PodGroups and owners.
        counted: by uid, the Pods that count on a node; kept up to date by their owner.

    Attributes:
        inferred: the kinds of owners (`bayplan.cache.inferred_groups.OWNERS`) whose Pods are groups
            without a PodGroup.
        version: changes with `inferred`.
    """

    def __init__(self, objects: ObjectStore, counted: Mapping[str, Pod]) -> None:
        self.inferred: Collection[str] = ()
        self.version = 0
        self._objects = objects
        self._counted = counted
        self._jobs: dict[str, dict[str, Job]] = {}
        self._minimums: dict[str, int] = {}
        """By JobSet, until it or one of its Jobs changes: each Pod of a group asks for it."""
        self._plain: dict[str, Group] = {}
        """Of PodGroups for which the levels do not matter: the queue asks for them all the time."""
        self._nodes: dict[str, dict[str, dict[str, str]]] = {}
        """By group and sub-group, the uids of its Pods that count, with their nodes."""
        self._follows = False
        objects.on_change(POD_GROUP, self._pod_group_changed)
        objects.on_change(JOB, self._job_changed)
        objects.on_change(JOB_SET, self._job_set_changed)

    def infer(self, owners: Collection[str]) -> bool:
        """Infer groups from these kinds of owners from now on; whether that is a change."""
        if set(owners) == set(self.inferred):
            return False
        self.inferred = frozenset(owners)
        self.version += 1
        if self._follows:
            self._count()
        return True

    @property
    def any(self) -> bool:
        """Whether there may be groups."""
        return bool(self.inferred or self._objects.all(POD_GROUP))

    def key_of(self, pod: Pod) -> str:
        """The key of the group that the Pod belongs to; "" for none."""
        return self.key_of_shape(pod.shape)

    def key_of_shape(self, shape: PodShape) -> str:
        """The key of the group of Pods with this shape; "" for none."""
        return label_key(shape) or (inferred_key(shape, self.inferred) if self.inferred else "")

    def find(self, key: str, levels: Levels = only_itself) -> Group | None:
        """The group called ``key``; None while there is no object with a spec for the group."""
        if plain := self._plain.get(key):
            return plain
        owner = owner_of(key)
        if owner is None:
            pod_group = self._objects.get(POD_GROUP, key)
            if pod_group is None:
                return None
            group = of_pod_group(pod_group, levels)
            if group.topology is None and not group.parts:
                self._plain[key] = group
            return group
        kind, name = owner
        if kind not in self.inferred:
            return None
        if kind == JOB_SET.name:
            job_set = self._objects.get(JOB_SET, name)
            return None if job_set is None else self._of_job_set(key, job_set, levels)
        if kind == JOB.name:
            job = self._objects.get(JOB, name)
            return None if job is None else _inferred(key, job, JOB, job.pods_at_once, levels)
        leaders = self._objects.get(LEADER_WORKER_SET, name)
        if leaders is None:
            return None
        return _inferred(key, leaders, None, leaders.pods_at_once, levels)

    def _of_job_set(self, key: str, job_set: JobSet, levels: Levels) -> Group:
        minimum = self._minimums.get(job_set.key)
        if minimum is None:
            jobs = self._jobs.get(job_set.key, {}).values()
            there = Counter(job.labels.get(REPLICATED_JOB, "") for job in jobs)
            minimum = sum(job.pods_at_once for job in jobs) + job_set.pods_to_come(there)
            self._minimums[job_set.key] = minimum
        return _inferred(key, job_set, JOB_SET, minimum, levels)

    def _pod_group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        for pod_group in (old, new):
            if pod_group is not None:
                self._plain.pop(pod_group.key, None)

    def _job_set_changed(self, old: JobSet | None, new: JobSet | None) -> None:
        for job_set in (old, new):
            if job_set is not None:
                self._minimums.pop(job_set.key, None)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        for job in (old, new):
            name = job.labels.get(JOB_SET_NAME) if job is not None else None
            if job is None or not name:
                continue
            key = f"{job.namespace}/{name}"
            self._minimums.pop(key, None)
            if job is new:
                self._jobs.setdefault(key, {})[job.name] = job
            else:
                discard(self._jobs, key, job.name)

    # Where the Pods of each group are

    def follow(self, pods: CountedPods) -> None:
        """Know `nodes_of` from now on; it costs nothing before."""
        if not self._follows:
            self._follows = True
            pods.listen(self)
            self._count()

    def _count(self) -> None:
        self._nodes.clear()
        for pod in self._counted.values():
            self.pod_counted(pod)

    def counts(self, key: str) -> Mapping[str, int]:
        """By sub-group, how many Pods of the group count on a node."""
        return {name: len(nodes) for name, nodes in self._nodes.get(key, {}).items()}

    def nodes_of(self, key: str, part: SubGroup | None = None) -> Mapping[str, int]:
        """By node, how many Pods of the group count there; one that does not exist counts, too.

        Those of ``part`` alone, unless it is None or the group itself.
        """
        return Counter(node for nodes in self._parts(key, part) for node in nodes.values())

    def pods_of(self, key: str, part: SubGroup) -> list[Pod]:
        """The Pods of a part of the group, or of all, on nodes."""
        return [self._counted[uid] for nodes in self._parts(key, part) for uid in nodes]

    def _parts(self, key: str, part: SubGroup | None) -> Iterable[Mapping[str, str]]:
        nodes = self._nodes.get(key, {})
        if part is None or not part.name:
            return nodes.values()
        return (nodes[below.name] for below in part.walk() if below.name in nodes)

    def pod_counted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        if key := self.key_of(pod):
            nodes = self._nodes.setdefault(key, {})
            nodes.setdefault(sub_group_of(pod.shape), {})[pod.uid] = pod.node_name

    def pod_uncounted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        key = self.key_of(pod)
        parts = self._nodes.get(key) if key else None
        if parts is not None:
            discard(parts, sub_group_of(pod.shape), pod.uid)
            if not parts:
                del self._nodes[key]


def _inferred(
    key: str,
    owner: Job | JobSet | LeaderWorkerSet,
    kind: Kind[Object] | None,
    minimum: int,
    levels: Levels,
) -> Group:
    """A group; without ``kind`` its owner has several, so events are about a Pod."""
    meta = owner.metadata
    created = meta.creation_timestamp
    asked = asked_of(meta.annotations, levels, minimum, in_whole_slices=False)
    return Group(
        key=key,
        uid=f"{meta.uid} {key}",
        minimum=asked.minimum,
        topology=asked.topology,
        parts=asked.parts,
        created=None if created is None else created.timestamp(),
        fault=asked.fault,
        subject=None if kind is None else kind.reference(owner),
    )
