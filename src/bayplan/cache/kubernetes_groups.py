"""KubernetesGroups: PodGroups of Kubernetes, the groups above them, and the Pods of each.

A Pod names its PodGroup in ``spec.schedulingGroup``. With the feature gate CompositePodGroup, a
PodGroup may name a CompositePodGroup as its parent, and that another one: trees of at most
`MOST_LEVELS` levels. The Pods of a tree are placed together, so the group of a Pod is the root::

    trainer (CompositePodGroup, both of 2)       key  ns/CompositePodGroup/trainer
      |-- ring-a (PodGroup, minCount 4)
      `-- ring-b (PodGroup, minCount 4)               both are placed, or nothing is

As long as a group above it is missing, a PodGroup is by itself, and cannot be tried (`gap`).

Answers to ``workload_forest.go`` and ``podgroupstate.go`` of kube-scheduler.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from bayplan.api.kinds import COMPOSITE_POD_GROUP, KUBERNETES_POD_GROUP
from bayplan.api.pod import Pod
from bayplan.api.scheduling import (
    CompositePodGroup,
    KubernetesPodGroup,
    SchedulingConstraints,
    TopologyConstraint,
)
from bayplan.cache.group_policy import KUBERNETES
from bayplan.cache.group_topology import (
    REQUIRED_TOPOLOGY,
    SLICE_PLACEMENT,
    SLICES,
    GroupTopology,
    Slice,
    topology_of,
)
from bayplan.cache.index import discard
from bayplan.cache.kueue_topology import asked_by, asks
from bayplan.cache.objects import ObjectStore
from bayplan.cache.pod_groups import Group, only_itself

MOST_LEVELS = 4
"""Levels of a tree, that of the PodGroups included: ``WorkloadMaxTreeDepth`` of the API."""


def pod_group_key(pod: Pod) -> str:
    """``namespace/name`` of the PodGroup that the spec of ``pod`` names; "" for none."""
    return f"{pod.namespace}/{pod.pod_group}" if pod.pod_group else ""


def pods_of(group: Group, pods: Iterable[Pod]) -> list[Pod]:
    """The Pods of the tree, one PodGroup after the other."""
    by_group = _by_pod_group(pods)
    return [pod for leaf in group.leaves() for pod in by_group[leaf.key]]


def with_asks_of(group: Group, pods: Iterable[Pod]) -> Group:
    """The tree with what Kueue's annotations of the Pods ask of each PodGroup that asks nothing."""
    by_group = _by_pod_group(pod for pod in pods if asks(pod))
    return _with_asks(group, _by_pod_group(pods)) if by_group else group


def _by_pod_group(pods: Iterable[Pod]) -> defaultdict[str, list[Pod]]:
    by_group: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        by_group[pod_group_key(pod)].append(pod)
    return by_group


def _with_asks(group: Group, pods: Mapping[str, Sequence[Pod]]) -> Group:
    if group.is_composite:
        return replace(group, children=tuple(_with_asks(child, pods) for child in group.children))
    obj, mine = group.pod_group, pods.get(group.key, ())
    asked = asked_by(mine, only_itself) if group.topology is None and mine else None
    if asked is None or obj is None:
        return group
    (required, preferred, slices), layers = asked.names, asked.slices
    if asked.preferred and not layers:
        # Slices of one Pod: as few domains as there can be.
        slices, layers = preferred, (Slice(asked.preferred),)
    topology = replace(asked, preferred="", slices=layers, names=(required, preferred, slices))
    if asked.required:
        constraints = SchedulingConstraints((TopologyConstraint(asked.required),))
        obj = replace(obj, spec=replace(obj.spec, scheduling_constraints=constraints))
    return replace(group, topology=topology, pod_group=obj)


class KubernetesGroups:
    """PodGroups and CompositePodGroups of Kubernetes. Scheduling thread only.

    A Pod counts from when it is seen until it is gone or has ended: one without a node if a profile
    of ours is responsible for it, a Pod with a node in any case.

    Args:
        objects: the groups.
        counted: by uid, the Pods that count on a node; kept up to date by their owner.
    """

    def __init__(self, objects: ObjectStore, counted: Mapping[str, Pod]) -> None:
        self._objects, self._counted = objects, counted
        self._composites = False
        self._uids: dict[str, dict[str, None]] = {}
        """By PodGroup, the uids of its Pods."""
        self._below: dict[str, dict[str, None]] = {}
        """By CompositePodGroup, whether it exists or not, those that name it as their parent."""
        self._groups: dict[str, Group] = {}
        """Trees and parts of trees, until one of their objects changes: each Pod asks for them."""
        self._roots: dict[str, str] = {}
        """By PodGroup, the key of its root; each Pod asks for it."""
        self._chains: dict[str, Sequence[KubernetesPodGroup]] = {}
        """By PodGroup, the objects from itself to its root, until an object changes."""
        objects.on_change(KUBERNETES_POD_GROUP, self._changed)
        objects.on_change(COMPOSITE_POD_GROUP, self._changed)

    @property
    def composites(self) -> bool:
        """Whether parents count."""
        return self._composites

    @composites.setter
    def composites(self, on: bool) -> None:
        if on is not self._composites:
            self._composites = on
            self._groups.clear()
            self._roots.clear()
            self._chains.clear()

    # Trees

    def key_of(self, pod: Pod) -> str:
        """The key of the group that the Pod is placed with; "" for none."""
        key = pod_group_key(pod)
        return self.root_of(key) if key and self._composites else key

    def root_of(self, key: str) -> str:
        """The key of the root above the group called ``key``; itself where one is missing."""
        root = self._roots.get(key)
        if root is None:
            above = list(self._above(key))
            whole = above and not self._parent(above[-1])
            root = self._roots[key] = _key(above[-1]) if whole else key
        return root

    def root_above(self, obj: KubernetesPodGroup) -> str:
        """The key of the root above ``obj``; its own where one is missing."""
        return self.root_of(_key(obj))

    def find(self, key: str) -> Group | None:
        """The tree whose root is called ``key``; None while it is missing or is no root."""
        group = self._tree(key)
        is_root = group is not None and group.pod_group and not self._parent(group.pod_group)
        return group if is_root else None

    def above(self, pod: Pod) -> Sequence[KubernetesPodGroup]:
        """The PodGroup of the Pod and the groups above, as far as these exist."""
        if not pod.pod_group:
            return ()
        key = pod_group_key(pod)
        above = self._chains.get(key)
        if above is None:
            above = self._chains[key] = tuple(self._above(key))
        return above

    def leaf(self, pod: Pod) -> Group | None:
        """The PodGroup of the Pod; None while it does not exist."""
        return self._tree(pod_group_key(pod))

    def whole(self, pod: Pod) -> Group | None:
        """The highest group of the Pod whose disruption mode is "all"; None for none."""
        key = next((_key(o) for o in reversed(self.above(pod)) if o.is_one_unit), "")
        return self._tree(key) if key else None

    def gap(self, key: str) -> str:
        """What the tree of the PodGroup lacks, in kube-scheduler's words; "" for nothing."""
        above = list(self._above(key))
        if not above:
            return f"pod group object not found in state for podgroup/{key}"
        parent = self._parent(above[-1])
        if not parent:
            return ""
        shown = parent.replace(f"/{COMPOSITE_POD_GROUP.name}/", "/")
        if parent in map(_key, above):
            return f"cycle detected in composite pod group hierarchy: compositepodgroup/{shown}"
        if len(above) == MOST_LEVELS:
            return f"exceeded maximum hierarchy depth at compositepodgroup/{shown}"
        return f"composite pod group object not found in state for compositepodgroup/{shown}"

    def _above(self, key: str) -> Iterator[KubernetesPodGroup]:
        """The object called ``key`` and the groups above, as far as these exist."""
        for _ in range(MOST_LEVELS):
            obj = self._object(key)
            if obj is None:
                return
            yield obj
            key = self._parent(obj)
            if not key:
                return

    def _parent(self, obj: KubernetesPodGroup) -> str:
        name = obj.spec.parent_composite_pod_group_name
        if not name or not self._composites:
            return ""
        return f"{obj.namespace}/{COMPOSITE_POD_GROUP.name}/{name}"

    def _object(self, key: str) -> KubernetesPodGroup | None:
        if not _is_composite(key):
            return self._objects.get(KUBERNETES_POD_GROUP, key)
        namespace, _, name = key.split("/")
        known = self._objects.get(COMPOSITE_POD_GROUP, f"{namespace}/{name}")
        return known if self._composites else None

    def _tree(self, key: str) -> Group | None:
        group = self._groups.get(key)
        if group is None:
            obj = self._object(key)
            if obj is None:
                return None
            below = self._below.get(key, ()) if len(list(self._above(key))) < MOST_LEVELS else ()
            trees = (self._tree(child) for child in below)
            children = [tree for tree in trees if tree is not None]
            children.sort(key=lambda child: (child.created or 0.0, child.key.rpartition("/")[2]))
            group = self._groups[key] = _group(key, obj, tuple(children))
        return group

    def _changed(self, old: KubernetesPodGroup | None, new: KubernetesPodGroup | None) -> None:
        self._chains.clear()
        for obj in (old, new):
            if obj is None:
                continue
            key, name = _key(obj), obj.spec.parent_composite_pod_group_name
            parent = f"{obj.namespace}/{COMPOSITE_POD_GROUP.name}/{name}"
            if name and obj is new:
                self._below.setdefault(parent, {})[key] = None
            elif name:
                discard(self._below, parent, key)
            for above in (key, *map(_key, self._above(parent) if name else ())):
                self._groups.pop(above, None)
        if old is None or new is None:
            self._roots.clear()
            self._groups.clear()

    # Pods

    def moved_by(self, old: KubernetesPodGroup | None, new: KubernetesPodGroup | None) -> list[str]:
        """Uids of the Pods that may be in another tree after a change of an object.

        Args:
            old: the object before it; None for a new one.
            new: the object after it; None for one that goes.
        """
        objects = [obj for obj in (old, new) if obj is not None]
        stays = old is not None and new is not None and self._parent(old) == self._parent(new)
        is_alone = not any(self._parent(o) or isinstance(o, CompositePodGroup) for o in objects)
        if stays or is_alone:
            return []
        keys, seen = [_key(objects[0])], list[str]()
        while keys:
            if (key := keys.pop()) not in seen:
                seen.append(key)
                keys += self._below.get(key, ())
        return [uid for key in seen for uid in self._uids.get(key, ())]

    def add(self, pod: Pod) -> None:
        """The Pod is seen; nothing happens where it has no group."""
        if key := pod_group_key(pod):
            self._uids.setdefault(key, {})[pod.uid] = None

    def remove(self, pod: Pod) -> None:
        """The Pod is gone."""
        discard(self._uids, pod_group_key(pod), pod.uid)

    def count(self, key: str) -> int:
        """How many Pods the PodGroup has."""
        return len(self._uids.get(key, ()))

    def scheduled(self, group: Group) -> list[Pod]:
        """The Pods of the tree with a node, assumed ones included."""
        uids = (uid for leaf in group.leaves() for uid in self._uids.get(leaf.key, ()))
        return [pod for pod in map(self._counted.get, uids) if pod is not None]


def _is_composite(key: str) -> bool:
    return key.count("/") > 1


def _key(obj: KubernetesPodGroup) -> str:
    if isinstance(obj, CompositePodGroup):
        return f"{obj.namespace}/{COMPOSITE_POD_GROUP.name}/{obj.name}"
    return obj.key


def _topology(obj: KubernetesPodGroup) -> GroupTopology | None:
    """Where the Pods are to be together; the slices are those of a PodGroup, by annotation."""
    label, annotations = obj.topology_key, obj.metadata.annotations
    asked = GroupTopology(required=label, levels=(label,)) if label else None
    if isinstance(obj, CompositePodGroup) or SLICES not in annotations:
        return asked
    placed = {name: annotations.get(name, "") for name in (SLICES, SLICE_PLACEMENT)}
    whole = obj.minimum if obj.is_gang else 0
    found, fault = topology_of(placed | {REQUIRED_TOPOLOGY: label}, only_itself, whole)
    names = ("schedulingConstraints.topology", "", SLICES)
    return replace(found or GroupTopology(), names=names, fault=fault)


def _group(key: str, obj: KubernetesPodGroup, children: tuple[Group, ...]) -> Group:
    """What the object asks for; ``minimum`` is in Pods, whatever the object counts."""
    created = obj.metadata.creation_timestamp
    minimum = obj.minimum
    if isinstance(obj, CompositePodGroup):
        minimum = sum(sorted(child.minimum for child in children)[: obj.minimum])
    kind = COMPOSITE_POD_GROUP if isinstance(obj, CompositePodGroup) else KUBERNETES_POD_GROUP
    return Group(
        key=key,
        uid=obj.uid,
        minimum=minimum,
        topology=_topology(obj),
        whole=obj.is_one_unit,
        created=None if created is None else created.timestamp(),
        subject=kind.reference(obj),
        policy=KUBERNETES,
        pod_group=obj,
        children=children,
    )
