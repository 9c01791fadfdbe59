"""Rules: how many Pods of a workload must survive, and where a rule is said.

The annotation is looked for on the Pod, then on the object of its group, then on its owner. The
number of Pods intended is the ``size`` of the annotation, else the minimum of the group, else the
replicas of the owner (of the Deployment, where a ReplicaSet belongs to one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import ceil
from typing import Literal, NamedTuple

import msgspec

from bayplan.api import workloads
from bayplan.api.kinds import (
    JOB,
    JOB_SET,
    KUBERNETES_POD_GROUP,
    LEADER_WORKER_SET,
    POD_GROUP,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)
from bayplan.api.meta import Object, ObjectReference
from bayplan.api.pod import Pod, PodShape
from bayplan.cache.groups import Groups
from bayplan.cache.inferred_groups import owner_of
from bayplan.cache.kubernetes_groups import KubernetesGroups
from bayplan.cache.objects import ObjectStore

SURVIVE = "bayplan.dev/survive"
OWNERS = (REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER)
"""Owners of Pods that say how many there are to be."""
NO_SIZE = "size must say how many Pods there are to be: no group and no owner does"
_OWNERS: Mapping[str, Kind[workloads.Replicated]] = {
    f"{kind.api_version}/{kind.name}": kind for kind in OWNERS
}
_INFERRED: Mapping[str, Kind[Object]] = {
    kind.name: kind for kind in (JOB, JOB_SET, LEADER_WORKER_SET)
}
_OF_REVISIONS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller-revision-hash",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Labels in which Pods of one workload differ; the last two the API server adds at the binding."""

Workload = str | frozenset[tuple[str, str]]
"""The key of a group, else labels; "" where there is neither."""


class Rule(NamedTuple):
    """Of ``size`` Pods, ``need`` survive the loss of any ``lose`` domains of a label.

    Attributes:
        domain: the label of nodes.
        hard: whether nodes are rejected, or score less.
    """

    domain: str
    size: int
    need: int
    lose: int
    hard: bool

    @property
    def most(self) -> int:
        """How many Pods any ``lose`` domains may have together."""
        return self.size - self.need


class Survive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The annotation; ``keep`` is a number of Pods, or a percentage."""

    domain: str
    keep: int | str
    size: int | None = None
    lose: int = 1
    mode: Literal["hard", "soft"] = "hard"

    def rule(self, size: int) -> Rule | str:
        """The rule for ``size`` Pods, or what is wrong with it."""
        percent = self.keep.removesuffix("%") if isinstance(self.keep, str) else "0"
        if percent == self.keep or not (percent.isascii() and percent.isdigit()):
            return "keep must be a number or a percentage such as 60%"
        if not self.domain:
            return "domain must name a label of nodes"
        if size < 1 or self.lose < 1:
            return "size and lose must be at least 1"
        by_share = ceil(int(percent) * size / 100)
        need = self.keep if isinstance(self.keep, int) else by_share
        if not 0 <= need <= size:
            return f"keep must be from 0 to size, which is {size}"
        return Rule(self.domain, size, need, self.lose, self.mode == "hard")


@lru_cache(1024)
def _read(text: str) -> Survive | str:
    try:
        return msgspec.json.decode(text, type=Survive)
    except ValueError as error:  # msgspec's are ValueErrors
        return str(error)


class Rules:
    """Finds the rule of a Pod. Scheduling thread only."""

    def __init__(
        self, objects: ObjectStore, groups: Groups, kubernetes_groups: KubernetesGroups
    ) -> None:
        self._objects = objects
        self._groups, self._kubernetes_groups = groups, kubernetes_groups

    def of(self, pod: Pod) -> Rule | str | None:
        """The rule, or what is wrong with it; None for none."""
        text = self._text(pod)
        if text is None:
            return None
        said = _read(text)
        if isinstance(said, Survive):
            size = self._size(pod) if said.size is None else said.size
            rule = said.rule(size) if size is not None else NO_SIZE
        else:
            rule = said
        return f"annotation {SURVIVE}: {rule}" if isinstance(rule, str) else rule

    def workload(self, shape: PodShape) -> Workload:
        """The workload that Pods of this shape belong to."""
        if key := self._groups.key_of_shape(shape):
            return key
        return frozenset(pair for pair in shape.labels.items() if pair[0] not in _OF_REVISIONS)

    def subject(self, pod: Pod) -> ObjectReference:
        """What an event about the workload is about."""
        kind, said = next(self._above(pod), (None, None))
        if kind is None or said is None:
            return ObjectReference("Pod", pod.namespace, pod.name, pod.uid, "v1")
        return kind.reference(said)

    def is_about(self, pod: Pod, obj: Object) -> bool:
        """Whether ``obj`` may say something about the Pod."""
        return any(said.key == obj.key for _, said in self._above(pod))

    def _text(self, pod: Pod) -> str | None:
        text = pod.annotations.get(SURVIVE)
        if text is not None:
            return text
        texts = (said.metadata.annotations.get(SURVIVE) for _, said in self._above(pod))
        return next((text for text in texts if text is not None), None)

    def _above(self, pod: Pod) -> Iterator[tuple[Kind[Object], Object]]:
        """The object of the group, and the owner."""
        objects, owner = self._objects, _OWNERS.get(pod.shape.owner[0])
        if key := self._groups.key_of(pod):
            inferred = owner_of(key)
            kind = POD_GROUP if inferred is None else _INFERRED[inferred[0]]
            said = objects.get(kind, key if inferred is None else inferred[1])
            if said is not None:
                yield kind, said
        leaf = self._kubernetes_groups.leaf(pod) if pod.pod_group else None
        if leaf is not None and leaf.pod_group is not None:
            yield KUBERNETES_POD_GROUP, leaf.pod_group
        if owner is not None:
            found = objects.get(owner, f"{pod.namespace}/{pod.shape.owner[1]}")
            if found is not None:
                yield owner, found

    def _size(self, pod: Pod) -> int | None:
        """How many Pods are intended; None where nothing says so."""
        group = self._kubernetes_groups.leaf(pod) if pod.pod_group else None
        if key := self._groups.key_of(pod):
            group = self._groups.find(key)
        if group is not None:
            return group.minimum
        kind, name = pod.shape.owner
        owner = (
            self._objects.get(_OWNERS[kind], f"{pod.namespace}/{name}") if kind in _OWNERS else None
        )
        return None if owner is None else workloads.replicas(owner)
