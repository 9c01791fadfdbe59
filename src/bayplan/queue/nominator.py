"""Nominator: the nominated Pods by node.

The scheduling thread knows a nomination before the API server does. So this may be newer than
``status.nominatedNodeName``, and an update without the nomination does not end it.

Stand-ins are nominated for Pods that are not there yet (`bayplan.queue.rooms`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from bayplan.api.pod import Pod
from bayplan.cache.fingerprint import fingerprint


class Nominator:
    """Nominated Pods; the `bayplan.framework.handle.PodNominator` that plugins see."""

    def __init__(self) -> None:
        self._fingerprint = self._changes = 0
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}
        self._stand_ins: dict[str, bool] = {}
        """By uid, whether it counts for limits, too."""
        self._takers: frozenset[str] = frozenset()

    @property
    def version(self) -> tuple[int, int]:
        """See `bayplan.framework.handle.PodNominator`."""
        return self._fingerprint, self._changes

    def nominate(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate ``pod`` to a node: "" for none, None for the node in the Pod's status."""
        self.remove(pod.uid)
        node = pod.status.nominated_node_name if node_name is None else node_name
        if node:
            self._fingerprint += fingerprint(pod, node)
            self._node_of[pod.uid] = node
            self._by_node.setdefault(node, {})[pod.uid] = pod

    def update(self, old: Pod, new: Pod) -> None:
        """The Pod has changed; a change of its status.nominatedNodeName is followed."""
        if old.uid in self._node_of:
            self._changes += 1  # annotations may have changed, of which the fingerprint has nothing
        named = old.status.nominated_node_name or new.status.nominated_node_name
        self.nominate(new, None if named else self._node_of.get(old.uid))

    def remove(self, uid: str) -> None:
        """The Pod is not nominated any more."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        self._stand_ins.pop(uid, None)
        pods = self._by_node[node]
        self._fingerprint -= fingerprint(pods.pop(uid), node)
        if not pods:
            del self._by_node[node]

    # Stand-ins

    def stand_in(self, pod: Pod, node_name: str, *, promised: bool) -> None:
        """Keep room on a node for whom ``pod`` stands in, until `remove`.

        ``promised``: it uses more than what counts already, as its Pod is gone.
        """
        self.nominate(pod, node_name)
        self._stand_ins[pod.uid] = promised
        self._changes += 1

    def admit(self, takers: frozenset[str]) -> None:
        """These may use the rooms of stand-ins on their own nominated nodes."""
        self._takers = takers
        self._changes += 1

    def keeps_off(self, nominee: Pod, pod: Pod, node_name: str) -> bool:
        """Whether the nominee's room on the node is kept from ``pod``, priorities apart."""
        if nominee.uid == pod.uid:
            return False
        is_taker = pod.uid in self._takers and pod.status.nominated_node_name == node_name
        return not (is_taker and nominee.uid in self._stand_ins)

    def promised_pods(self, node_name: str) -> Iterable[Pod]:
        """Pods nominated to the node, but for stand-ins of Pods on other nodes."""
        pods = self.nominated_pods(node_name)
        if not self._stand_ins:
            return pods
        return [pod for pod in pods if self._stand_ins.get(pod.uid, True)]

    def nominations(self, pods: Iterable[Pod]) -> list[tuple[Pod, str]]:
        """Each Pod and its node, "" for none; for `nominate_all`."""
        return [(pod, self._node_of.get(pod.uid, "")) for pod in pods]

    def nominate_all(self, nominations: Iterable[tuple[Pod, str]]) -> None:
        """These are nominated again as they were."""
        for pod, node_name in nominations:
            self.nominate(pod, node_name)

    @contextmanager
    def rehearsal(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Whatever happens to their nominations in the ``with`` block, they are then as before."""
        nominations = self.nominations(pods)
        try:
            yield
        finally:
            self.nominate_all(nominations)

    def nominated_node(self, uid: str) -> str:
        """Where the Pod is nominated to; "" for none."""
        return self._node_of.get(uid, "")

    def nominated_pods(self, node_name: str) -> Iterable[Pod]:
        """Pods nominated to that node."""
        pods = self._by_node.get(node_name)
        return tuple(pods.values()) if pods else ()

    def nominated_nodes(self) -> Collection[str]:
        """Nodes with at least one nominated Pod."""
        return self._by_node.keys()

    def __len__(self) -> int:
        return len(self._node_of)
