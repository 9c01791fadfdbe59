"""Handlers: what an informer message means for the cache and the queue.

They run on the scheduling thread. Messages are compared with what is known already, by uid and
resourceVersion, so a relist neither loses nor repeats anything; an object that was deleted and made
again with the same name is a removal and an addition.

Answers to kube-scheduler's ``pkg/scheduler/eventhandlers.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

from bayplan.api import kinds
from bayplan.api.kinds import Kind
from bayplan.api.meta import Object
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.api.scheduling import KubernetesPodGroup
from bayplan.binding.waiting import WaitingPods
from bayplan.cache.cache import Cache
from bayplan.framework.cluster_events import Action, ClusterEvent
from bayplan.inbox.messages import Changed, Removed, Replaced, WatchMessage
from bayplan.queue import update_events
from bayplan.queue.rooms import Rooms
from bayplan.queue.scheduling_queue import SchedulingQueue
from bayplan.rejections.conflicts import Conflicts

T = TypeVar("T", bound=Object)


class Handlers:
    """Applies messages to cache and queue.

    Attributes:
        pods: every Pod that the API server shows and that has not ended, by namespace/name.
        conflicts: gets Pods that leave their node; None while this process does not lead.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        waiting: WaitingPods,
        rooms: Rooms,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._waiting = waiting
        self._rooms = rooms
        self._profiles: frozenset[str] = frozenset()
        self.pods: dict[str, Pod] = {}
        self.conflicts: Conflicts | None = None

    def adopt(self, profiles: frozenset[str]) -> None:
        """Pods of these schedulerNames are ours from now on, all others are not."""
        previous, self._profiles = self._profiles, profiles
        for pod in self.pods.values():
            name = pod.spec.scheduler_name
            if pod.node_name or (name in previous) == (name in profiles):
                continue
            if name in profiles:
                self._cache.kubernetes_groups.add(pod)
                self._queue.add(pod)
            else:
                self._cache.kubernetes_groups.remove(pod)
                self._queue.delete(pod)

    def apply(self, message: WatchMessage) -> None:
        """Apply one message."""
        match message:
            case Changed(kind=kinds.POD, object=pod):
                self._see_pod(pod)
            case Removed(kind=kinds.POD, object=pod):
                self._drop_pod(pod.key, pod.uid)
            case Replaced(kind=kinds.POD, objects=pods):
                self._replace(pods, set(self.pods), self._see_pod, self._drop_pod)
            case Changed(kind=kinds.NODE, object=node):
                self._set_node(node)
            case Removed(kind=kinds.NODE, object=node):
                self._remove_node(node.name)
            case Replaced(kind=kinds.NODE, objects=nodes):
                self._cache.nodes.reserve(len(nodes))
                self._replace(nodes, self._cache.node_names(), self._set_node, self._remove_node)
            case Changed(kind=kind, object=obj):
                self._set_object(kind, obj)
            case Removed(kind=kind, object=obj):
                self._remove_object(kind, obj.key)
            case Replaced(kind=kind, objects=objects):
                previous = self._cache.objects.keys(kind)
                self._replace(
                    objects,
                    previous,
                    lambda obj: self._set_object(kind, obj),
                    lambda key: self._remove_object(kind, key),
                )

    @contextmanager
    def supposing(self, objects: Sequence[tuple[Kind[Any], Any]]) -> Iterator[None]:
        """Within it these objects are there, too: Pods without a node, last, and others.

        None of them may be there already. They come and go without a word to Pods that wait.
        """
        entered: list[tuple[Kind[Any], Any]] = []
        try:
            for kind, obj in objects:
                entered.append((kind, obj))
                if kind is kinds.POD:
                    self._set_pod(obj)
                else:
                    with self._regrouping(None, obj):
                        self._cache.objects.set(kind, obj)
            yield
        finally:
            for kind, obj in reversed(entered):
                if kind is kinds.POD:
                    self.pods.pop(obj.key, None)
                    self._queue.delete(obj, bound=True)
                    if obj.pod_group:
                        self._cache.kubernetes_groups.remove(obj)
                else:
                    with self._regrouping(obj, None):
                        self._cache.objects.remove(kind, obj.key)

    def _replace(
        self,
        objects: list[Any],
        previous: set[str],
        set_: Callable[[Any], None],
        remove: Callable[[str], None],
    ) -> None:
        """Apply a whole list: objects of ``previous`` missing in the list are gone."""
        for key in previous - {obj.key for obj in objects}:
            remove(key)
        for obj in objects:
            set_(obj)

    def _move(self, event: ClusterEvent, old: Any, new: Any) -> None:
        self._queue.move_all(event, old, new)

    # Pods

    def _see_pod(self, pod: Pod) -> None:
        if self._rooms:
            old = self.pods.get(pod.key)
            is_known = old is not None and old.uid == pod.uid
            pod = self._rooms.seen(pod, is_new=not is_known)
        self._set_pod(pod)

    def _set_pod(self, pod: Pod) -> None:
        if pod.terminal:
            self._drop_pod(pod.key)
            return
        key = pod.key
        old = self.pods.get(key)
        if old is not None and old.uid != pod.uid:
            self._drop_pod(key)
            old = None
        if old is not None and _same_version(old.resource_version, pod.resource_version):
            return
        self.pods[key] = pod
        if pod.pod_group and (pod.node_name or pod.spec.scheduler_name in self._profiles):
            self._cache.kubernetes_groups.add(pod)
        if pod.node_name:
            self._set_assigned(old, pod)
        elif pod.spec.scheduler_name in self._profiles:
            self._set_pending(old, pod)

    def _set_assigned(self, old: Pod | None, pod: Pod) -> None:
        pod = self._cache.add(pod)
        if old is not None and not old.node_name and old.spec.scheduler_name in self._profiles:
            self._queue.delete(old, bound=True)
        if old is not None and old.node_name:
            self._queue.assigned_pod_updated(old, pod)
        else:
            self._queue.assigned_pod_added(pod)

    def _set_pending(self, old: Pod | None, pod: Pod) -> None:
        if old is None:
            self._queue.add(pod)
            return
        self._queue.update(old, pod)
        leaves = pod.deleted is not None and old.deleted is None
        if leaves and self._cache.is_assumed(pod.uid):
            self._abandon(pod)

    def _drop_pod(self, key: str, uid: str = "") -> None:
        """The Pod with this name is gone, or with ``uid`` only if the uid is the same."""
        pod = self.pods.get(key)
        if pod is None or uid not in ("", pod.uid):
            return
        del self.pods[key]
        if pod.pod_group:
            self._cache.kubernetes_groups.remove(pod)
        if pod.node_name:
            if self.conflicts is not None:
                self.conflicts.pod_left(pod, self._profiles)
            self._cache.remove(pod.uid)
            self._rooms.gone(pod)
            self._queue.assigned_pod_deleted(pod)
            return
        self._rooms.gone(pod)
        if pod.spec.scheduler_name in self._profiles:
            self._queue.delete(pod)
        if self._cache.is_assumed(pod.uid):
            self._abandon(pod)

    def _abandon(self, pod: Pod) -> None:
        """An assumed Pod is being deleted: its resources are free as soon as the binding ends."""
        assumed = self._cache.pod(pod.uid) or pod
        waiting = self._waiting.get(pod.uid)
        if waiting is not None:
            waiting.reject("", "removed")
        else:
            self._cache.forget(pod.uid)
        self._queue.assigned_pod_deleted(assumed)

    # Nodes

    def _set_node(self, node: Node) -> None:
        if _unchanged(self._cache.node(node.name), node):
            return
        old = self._cache.set_node(node)
        if old is None:
            self._move(update_events.NODE_ADD, None, node)
            return
        for event in update_events.node_update_events(old, node):
            self._move(event, old, node)

    def _remove_node(self, name: str) -> None:
        old = self._cache.remove_node(name)
        if old is not None:
            self._move(update_events.NODE_DELETE, old, None)

    # Everything else

    def _set_object(self, kind: Kind[T], obj: T) -> None:
        known = self._cache.objects.get(kind, obj.key)
        if _unchanged(known, obj):
            return
        with self._regrouping(known, obj):
            old = self._cache.objects.set(kind, obj)
        event = _event(kind, Action.ADD if old is None else Action.UPDATE_OTHER)
        self._move(event, old, obj)

    def _remove_object(self, kind: Kind[T], key: str) -> None:
        with self._regrouping(self._cache.objects.get(kind, key), None):
            old = self._cache.objects.remove(kind, key)
        if old is not None:
            self._move(_event(kind, Action.DELETE), old, None)

    @contextmanager
    def _regrouping(self, old: Object | None, new: Object | None) -> Iterator[None]:
        """Within it an object changes; Pods in the queue may belong to another group then."""
        if not isinstance(old or new, KubernetesPodGroup):
            yield
            return
        groups = [obj if isinstance(obj, KubernetesPodGroup) else None for obj in (old, new)]
        pods = self._queue.ungroup(self._cache.kubernetes_groups.moved_by(*groups))
        yield
        self._queue.regroup(pods)


@lru_cache
def _event(kind: Kind[object], action: Action) -> ClusterEvent:
    return ClusterEvent(kind, action)


def _unchanged(previous: Object | None, obj: Object) -> bool:
    """Whether ``obj`` is what we have already: a relist repeats everything."""
    return previous is not None and _same_version(
        previous.metadata.resource_version, obj.metadata.resource_version
    )


def _same_version(previous: str, current: str) -> bool:
    """Compare resourceVersions; objects from a file have none, so they always count as changed."""
    return previous == current != ""
