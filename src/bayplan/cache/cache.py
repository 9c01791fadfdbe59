"""Cache: the nodes and the Pods on them, assumed Pods included.

A Pod is in one of these states here; the queue holds the Pods that are in none of them.

::

                assume                      add (its binding is seen)
    (absent) ------------> assumed ------------------------------------> added
        ^                     |                                          |   ^
        |       forget        |                                  remove  |   | update
        +---------------------+                                          |   |
        +----------------------------------------------------------------+   +

A Pod that is to be evicted is terminating from the moment of the decision (`Cache.evict`), as a Pod
that is to be bound is on its node: sums, searches and counters see it as the API server will show
it. This ends when the API server does so, when the Pod is gone, or when the eviction has failed
(`Cache.keep`).

Invariants:
- A Pod, by uid, counts on at most one node.
- Pods on a node that does not exist are in `orphans`; they count when the node appears.
- The API server is right: a Pod that is assumed on one node and seen on another moves there.
- During a `trial` Pods are only assumed, forgotten and removed; at its end this is rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from bayplan.api.meta import Condition
from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.counted_pods import PodListener
from bayplan.cache.groups import Groups
from bayplan.cache.index import discard
from bayplan.cache.kubernetes_groups import KubernetesGroups
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.cache.requests import pod_requests
from bayplan.cache.subscription import Subscribers, Subscription
from bayplan.cache.trial import Before, Trial


@dataclass
class _AssumedEviction:
    """An eviction whose deletion is not seen yet.

    Attributes:
        shown: the Pod as the API server shows it.
        condition: what it gets before it is deleted.
        at: when the eviction was decided.
    """

    shown: Pod
    condition: Condition
    at: datetime


class Cache:
    """Nodes, the Pods that count on nodes, and every other watched object.

    Attributes:
        nodes: the node table.
        objects: all kinds but Pods and Nodes.
        groups: which Pods belong together.
        kubernetes_groups: likewise of PodGroups of Kubernetes, and their Pods.
        forgotten: how many assumed Pods were not bound.
    """

    def __init__(self) -> None:
        self.nodes = LiveNodeTable()
        self.objects = ObjectStore()
        self._pods: dict[str, Pod] = {}
        self.kubernetes_groups = KubernetesGroups(self.objects, self._pods)
        self._assumed: set[str] = set()
        self._evictions: dict[str, _AssumedEviction] = {}
        self.forgotten = 0
        self._orphans: dict[str, dict[str, Pod]] = {}
        self._trial: Trial | None = None
        self._listeners: Subscribers[PodListener] = Subscribers()
        self.groups = Groups(self.objects, self._pods)

    def listen(self, listener: PodListener) -> Subscription:
        """Tell ``listener`` of every Pod that comes and goes, in trials, too; see `Subscribers`."""
        return self._listeners.add(listener)

    def pods(self) -> Collection[Pod]:
        """All Pods that count on a node."""
        return self._pods.values()

    def pod(self, uid: str) -> Pod | None:
        """The Pod with this uid, its node filled in; None if the Pod does not count here."""
        return self._pods.get(uid)

    def is_assumed(self, uid: str) -> bool:
        """Whether the Pod is assumed and its binding is not confirmed yet."""
        return uid in self._assumed

    def counts(self) -> dict[str, int]:
        """Numbers for metrics: nodes, pods, assumed_pods; any thread may ask."""
        return {
            "nodes": self.nodes.node_count,
            "pods": len(self._pods),
            "assumed_pods": len(self._assumed),
        }

    # Nodes

    def node(self, name: str) -> Node | None:
        """The node called ``name``."""
        return self.nodes.node(name)

    def node_names(self) -> set[str]:
        """The names of all nodes."""
        return {name for name in self.nodes.names if name is not None}

    def set_node(self, node: Node) -> Node | None:
        """Add or replace a node; returns what it replaced."""
        self._refuse_in_trial()
        old = self.node(node.name)
        row = self.nodes.set_node(node)
        for pod in self._orphans.pop(node.name, {}).values():
            self.nodes.add_pod(row, pod)
        return old

    def remove_node(self, name: str) -> Node | None:
        """Remove a node; its Pods are kept until the node comes back or the Pods end."""
        self._refuse_in_trial()
        old = self.node(name)
        pods = self.nodes.remove_node(name)
        if pods:
            self._orphans.setdefault(name, {}).update((p.uid, p) for p in pods)
        return old

    # Pods

    def assume(self, pod: Pod, node_name: str) -> Pod:
        """Count ``pod`` on the node from now on, before its binding is written.

        Returns:
            The assumed Pod: a copy with its node filled in.

        Raises:
            ValueError: the Pod counts already.
        """
        if pod.uid in self._pods:
            raise ValueError(f"Pod {pod.key} ({pod.uid}) is in the cache, so it cannot be assumed")
        self._remember(pod.uid)
        assumed = pod.on_node(node_name)
        self._count(assumed)
        self._pods[pod.uid] = assumed
        self._assumed.add(pod.uid)
        return assumed

    def forget(self, uid: str) -> Pod | None:
        """Remove an assumed Pod that was not bound; a confirmed Pod stays."""
        if uid not in self._assumed:
            return None
        self.forgotten += 1
        return self.remove(uid)

    def add(self, pod: Pod) -> Pod:
        """``pod`` is seen with a node: confirm the assumed one, replace an older one, or add it.

        Returns:
            The Pod as it counts from now on, which is terminating where its eviction is assumed.
        """
        self._refuse_in_trial()
        eviction = self._evictions.get(pod.uid)
        if eviction is not None:
            if pod.deleted is None:
                eviction.shown = pod
                pod = pod.evicted(eviction.condition, eviction.at)
            else:
                del self._evictions[pod.uid]
        self._assumed.discard(pod.uid)
        self._set(pod)
        return pod

    def _set(self, pod: Pod) -> None:
        """Count ``pod``, in place of an older version."""
        old = self._pods.get(pod.uid)
        if old is None:
            self._count(pod)
        elif old.node_name != pod.node_name:
            self._uncount(old)
            self._count(pod)
        else:
            self._swap(old, pod)
        self._pods[pod.uid] = pod

    def remove(self, uid: str) -> Pod | None:
        """The Pod is gone from the API server, or as if it were, in a trial."""
        self._remember(uid)
        if self._trial is None:
            self._evictions.pop(uid, None)
        return self._drop(uid)

    def _drop(self, uid: str) -> Pod | None:
        pod = self._pods.pop(uid, None)
        self._assumed.discard(uid)
        if pod is not None:
            self._uncount(pod)
        return pod

    # Evictions

    def evict(self, uid: str, condition: Condition, at: datetime) -> None:
        """Count the Pod as terminating from ``at`` (now) on, before its deletion is sent.

        Before it is deleted it gets ``condition``. A Pod that does not count here, or is
        terminating already, stays as it is.
        """
        self._refuse_in_trial()
        pod = self._pods.get(uid)
        if pod is not None and pod.deleted is None:
            self._evictions[uid] = _AssumedEviction(pod, condition, at)
            self._set(pod.evicted(condition, at))

    def keep(self, uid: str) -> None:
        """The eviction has failed: the Pod counts as the API server shows it."""
        self._refuse_in_trial()
        eviction = self._evictions.pop(uid, None)
        if eviction is not None:
            self._set(eviction.shown)

    @property
    def any_eviction_assumed(self) -> bool:
        """Whether the deletion of any Pod that is to be evicted is not seen yet."""
        return bool(self._evictions)

    def is_eviction_assumed(self, uid: str) -> bool:
        """Whether the Pod is to be evicted and its deletion is not seen yet."""
        return uid in self._evictions

    # Trials

    @property
    def in_trial(self) -> bool:
        """Whether changes are hypothetical; see `trial`."""
        return self._trial is not None

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Until the end of the ``with`` block, changes of Pods are tried out; see `Trial`.

        Raises:
            ValueError: at the end, if the outermost trial was kept with Pods removed in it.
        """
        outer, trial = self._trial, Trial()
        self._trial = trial
        self.nodes.tentative = True
        try:
            yield trial
        except BaseException:
            trial.kept = False
            raise
        finally:
            self._trial = outer
            before = (pod for pod, _ in trial.before.values() if pod is not None)
            removed = [pod for pod in before if self._pods.get(pod.uid) is not pod]
            possible = outer is not None or not removed
            if not (trial.kept and possible):
                self._put_back(trial)
            elif outer is not None:
                outer.before = trial.before | outer.before
                outer.orders = trial.orders | outer.orders
            self.nodes.tentative = outer is not None
        if trial.kept and not possible:
            raise ValueError(f"a trial with {len(removed)} Pods removed in it cannot be kept")

    def _remember(self, uid: str) -> None:
        if self._trial is not None:
            pod = self._pods.get(uid)
            self._trial.before.setdefault(uid, Before(pod, uid in self._assumed))
            row = None if pod is None else self.nodes.row(pod.node_name)
            if row is not None and row not in self._trial.orders:
                self._trial.orders[row] = tuple(self.nodes.pods[row])

    def _put_back(self, trial: Trial) -> None:
        for uid, (pod, assumed) in reversed(trial.before.items()):
            current = self._pods.get(uid)
            if current is pod:
                continue
            self._drop(uid)
            if pod is not None:
                self._count(pod)
                self._pods[uid] = pod
                if assumed:
                    self._assumed.add(uid)
        for row, order in trial.orders.items():
            self.nodes.reorder_pods(row, order)

    def _refuse_in_trial(self) -> None:
        if self._trial is not None:
            raise RuntimeError("no message is applied during a trial")

    # Counting

    def _count(self, pod: Pod) -> None:
        if self._listeners:
            for listener in self._listeners:
                listener.pod_counted(pod)
        row = self.nodes.row(pod.node_name)
        if row is None:
            self._orphans.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            self.nodes.add_pod(row, pod)

    def _uncount(self, pod: Pod) -> None:
        if self._listeners:
            for listener in self._listeners:
                listener.pod_uncounted(pod)
        row = self.nodes.row(pod.node_name)
        if row is None:
            discard(self._orphans, pod.node_name, pod.uid)
        else:
            self.nodes.remove_pod(row, self.nodes.pods[row][pod.uid])

    def _swap(self, old: Pod, pod: Pod) -> None:
        """Count ``pod`` in place of an ``old`` version on the same node."""
        alike = _counts_alike(old, pod)
        if self._listeners and not (alike and old.annotated_like(pod)):
            # Rules of plugins are in annotations; no column has them.
            for listener in self._listeners:
                listener.pod_uncounted(old)
                listener.pod_counted(pod)
        row = self.nodes.row(pod.node_name)
        if row is None:
            self._orphans[pod.node_name][pod.uid] = pod
        elif alike:
            self.nodes.replace_pod(row, pod)
        else:
            self.nodes.recount_pod(row, pod)


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Whether no column or counter can tell the two apart, so that no row moves.

    What counts beside the shape is: terminating or not, and what a resize changes.
    """
    if old.shape is not new.shape or (old.deleted is None) != (new.deleted is None):
        return False
    before, after = pod_requests(old), pod_requests(new)
    return before is after or before == after
