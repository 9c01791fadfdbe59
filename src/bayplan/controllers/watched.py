"""Watched: the input of statuses, namely the objects that kopf delivers. No I/O.

Pods with a node that have not finished are in a `Cache`, so the sums of queues are those that the
scheduler has. One thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from bayplan.api.kinds import (
    COMPOSITE_POD_GROUP,
    ELASTIC_QUOTA,
    KUBERNETES_POD_GROUP,
    NAMESPACE,
    NODE,
    NODE_KIND,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    Kind,
)
from bayplan.api.meta import Object
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.cache import Cache
from bayplan.cache.index import discard
from bayplan.cache.pod_groups import label_key
from bayplan.cache.queue_tree import QueueTree
from bayplan.cache.queued_pods import QueueListener
from bayplan.cache.subscription import Subscribers, Subscription
from bayplan.controllers.provisioning import (
    PROVISIONING_REQUEST,
    Members,
    ProvisioningRequest,
)
from bayplan.controllers.statuses import (
    StatusFields,
    elastic_quota_status,
    node_kind_statuses,
    pod_group_status,
    queue_statuses,
)

KINDS: tuple[Kind[Any], ...] = (
    NAMESPACE,
    NODE,
    PRIORITY_CLASS,
    POD_DISRUPTION_BUDGET,
    KUBERNETES_POD_GROUP,
    COMPOSITE_POD_GROUP,
    POD,
    POD_GROUP,
    ELASTIC_QUOTA,
    NODE_KIND,
    QUEUE,
)
REPORTED: tuple[Kind[Any], ...] = (POD_GROUP, ELASTIC_QUOTA, NODE_KIND, QUEUE)
"""Those whose status is written."""
_ENDED = ("Succeeded", "Failed")

Written = tuple[Kind[Any], str]
"""An object whose status is written: kind, and ``namespace/name`` or the name alone."""


def _group_of(pod: Pod) -> Written | None:
    if pod.pod_group:
        return KUBERNETES_POD_GROUP, f"{pod.namespace}/{pod.pod_group}"
    key = label_key(pod.shape)
    return (POD_GROUP, key) if key else None


class Watched:
    """See the module's docstring.

    Args:
        scheduler_names: Pods for other schedulers wait in no queue.

    Attributes:
        changed: whether any status may be another since `statuses` was asked.
    """

    def __init__(self, scheduler_names: Collection[str]) -> None:
        self.changed = False
        self._scheduler_names = frozenset(scheduler_names)
        self._cache = Cache()
        self._pods: dict[str, Pod] = {}
        self._groups: dict[Written, set[str]] = defaultdict(set)
        self._by_namespace: dict[str, set[str]] = defaultdict(set)
        self._statuses: dict[Written, StatusFields] = {}
        self._listeners: Subscribers[QueueListener] = Subscribers()
        self._tree = QueueTree(self._cache, self)

    def put(self, kind: Kind[Any], raw: Mapping[str, object]) -> None:
        """An object is there, or has changed.

        Raises:
            msgspec.ValidationError: it cannot be read.
        """
        obj = kind.decode(msgspec.json.encode(raw))
        self.changed = True
        if isinstance(obj, Pod):
            self._set_pod(obj)
        elif isinstance(obj, Node):
            self._cache.set_node(obj)
        elif isinstance(obj, Object):
            self._cache.objects.set(kind, obj)
            if kind in REPORTED:
                status = raw.get("status")
                self._statuses[kind, obj.key] = status if isinstance(status, dict) else {}

    def _set_pod(self, pod: Pod) -> None:
        self._pods[pod.uid] = pod
        self._by_namespace[pod.namespace].add(pod.uid)
        if (group := _group_of(pod)) is not None:
            self._groups[group].add(pod.uid)
        if pod.node_name and pod.status.phase not in _ENDED:
            self._left(pod.uid)
            self._cache.add(pod)
            return
        self._cache.remove(pod.uid)
        if self._waits(pod):
            for listener in self._listeners:
                listener.pod_waits(pod)
        else:
            self._left(pod.uid)

    def _left(self, uid: str) -> None:
        for listener in self._listeners:
            listener.pod_left(uid)

    def _waits(self, pod: Pod) -> bool:
        return (
            not pod.node_name
            and pod.deleted is None
            and pod.status.phase not in _ENDED
            and pod.spec.scheduler_name in self._scheduler_names
        )

    # The Pods that wait, as `bayplan.cache.queued_pods.QueuedPods`

    def waiting_pods(self) -> Iterator[Pod]:
        """All of them."""
        return filter(self._waits, list(self._pods.values()))

    def __contains__(self, uid: str) -> bool:
        pod = self._pods.get(uid)
        return pod is not None and self._waits(pod)

    def listen(self, listener: QueueListener) -> Subscription:
        """Tell ``listener`` of every Pod that comes, changes and goes."""
        return self._listeners.add(listener)

    def remove(self, kind: Kind[Any], uid: str, key: str) -> None:
        """An object is gone; one that was replaced under the same name stays."""
        self.changed = True
        if kind is POD:
            self._remove_pod(uid)
            return
        old = self._cache.node(key) if kind is NODE else self._cache.objects.get(kind, key)
        if old is None or old.uid != uid:
            return
        if kind is NODE:
            self._cache.remove_node(key)
        else:
            self._cache.objects.remove(kind, key)
            self._statuses.pop((kind, key), None)

    def _remove_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        discard(self._by_namespace, pod.namespace, uid)
        if (group := _group_of(pod)) is not None:
            discard(self._groups, group, uid)
        self._left(uid)
        self._cache.remove(uid)

    def keys(self, kind: Kind[Any]) -> dict[str, str]:
        """All objects of ``kind``: by uid, ``namespace/name`` or the name alone."""
        objects: Iterable[Any]
        if kind is POD:
            objects = self._pods.values()
        elif kind is NODE:
            objects = filter(None, map(self._cache.node, self._cache.node_names()))
        else:
            objects = self._cache.objects.all(kind)
        return {obj.uid: obj.key for obj in objects}

    # Groups that may need nodes

    def gangs(self) -> Iterator[Members]:
        """Groups that are placed as a whole, but none below a CompositePodGroup."""
        objects = self._cache.objects
        for group in objects.all(POD_GROUP):
            yield self._members(POD_GROUP, group)
        for gang in objects.all(KUBERNETES_POD_GROUP):
            if gang.is_gang and not gang.spec.parent_composite_pod_group_name:
                yield self._members(KUBERNETES_POD_GROUP, gang)

    def _members(self, kind: Kind[Any], group: Object) -> Members:
        pods = (self._pods[uid] for uid in self._groups.get((kind, group.key), ()))
        names = self._scheduler_names
        left = [pod for pod in pods if not pod.terminal and pod.spec.scheduler_name in names]
        return Members(kind, group, sorted(left, key=lambda pod: pod.name))

    def requests(self) -> Mapping[str, Collection[ProvisioningRequest]]:
        """By the uid of a group, what it has asked for."""
        found: dict[str, list[ProvisioningRequest]] = defaultdict(list)
        for request in self._cache.objects.all(PROVISIONING_REQUEST):
            found[request.group].append(request)
        return found

    # What to write

    def statuses(self, now: float) -> dict[Written, StatusFields]:
        """The statuses that differ from the last status seen in the object."""
        self.changed = False
        wanted = dict(self._wanted(now))
        return {
            written: status
            for written, status in wanted.items()
            if status != self._statuses.get(written)
        }

    def _wanted(self, now: float) -> Iterator[tuple[Written, StatusFields]]:
        objects = self._cache.objects
        for group in objects.all(POD_GROUP):
            pods = [self._pods[uid] for uid in self._groups.get((POD_GROUP, group.key), ())]
            previous = self._statuses[POD_GROUP, group.key]
            yield (POD_GROUP, group.key), pod_group_status(group, previous, pods, now)
        for quota in objects.all(ELASTIC_QUOTA):
            uids = self._by_namespace.get(quota.namespace, ())
            placed = [pod for uid in uids if (pod := self._cache.pod(uid)) is not None]
            yield (ELASTIC_QUOTA, quota.key), elastic_quota_status(quota, placed)
        if self._tree.active:
            of_queues = partial(queue_statuses, self._tree, self._cache)
            of_kinds = partial(node_kind_statuses, self._tree)
            for kind, statuses in ((QUEUE, of_queues), (NODE_KIND, of_kinds)):
                previous_of = {key: self._statuses[kind, key] for key in objects.keys(kind)}
                for name, status in statuses(previous_of, now).items():
                    yield (kind, name), status
