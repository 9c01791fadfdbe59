"""NodeBackoff: for a while, an owner's Pods avoid nodes that rejected one of the Pods.

A controller replaces a rejected Pod within milliseconds. Why the kubelet rejected it may be unknown
here (NUMA alignment, a device that failed, labels that it has read itself). Without this memory the
replacement would go to the same node again, many times a second. The time doubles with each
rejection. It is forgotten when it has been over for as long as it took.

Whether a Pod that left was rejected is known only when it has been looked up, and its replacement
may come before that. So the node is suspected meanwhile: the owner's Pods go there only if no other
node fits.

With no rejection and no suspicion, nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, LiveNodeTable

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 300.0

Owner = tuple[str, tuple[str, str]]
"""Namespace, and the controlling owner as `Pod.controller` has it."""


class _Pause(NamedTuple):
    until: float
    seconds: float


class NodeBackoff:
    """Pauses by owner and node; scheduling thread only.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pauses: dict[Owner, dict[str, _Pause]] = {}
        self._suspected: list[Pod] = []

    def __bool__(self) -> bool:
        return bool(self._pauses or self._suspected)

    def suspect(self, pod: Pod) -> None:
        """Its node may have rejected ``pod``; `clear` must follow."""
        self._suspected.append(pod)

    def clear(self, pod: Pod) -> None:
        """Whether its node has rejected ``pod`` is known now."""
        self._suspected.remove(pod)

    def add(self, pod: Pod, node: str) -> float:
        """The node rejected ``pod``: from now on the owner's Pods avoid the node.

        Returns:
            For how many seconds; 0.0 for a Pod without an owner, as no controller replaces it.
        """
        if pod.controller == ("", ""):
            return 0.0
        self._forget()
        pauses = self._pauses.setdefault(_owner(pod), {})
        previous = pauses.get(node)
        seconds = FIRST_SECONDS if previous is None else previous.seconds * 2
        seconds = min(seconds, LONGEST_SECONDS)
        pauses[node] = _Pause(self._clock() + seconds, seconds)
        return seconds

    def rows(self, pod: Pod, nodes: LiveNodeTable) -> IntArray:
        """Rows that ``pod`` keeps off now."""
        self._forget()
        now = self._clock()
        pauses = self._pauses.get(_owner(pod), {})
        return _rows(nodes, [name for name, pause in pauses.items() if now < pause.until])

    def suspected_rows(self, pod: Pod, nodes: LiveNodeTable) -> IntArray:
        """Rows that ``pod`` avoids if other nodes fit; none for a Pod without an owner."""
        if pod.controller == ("", ""):
            return _rows(nodes, [])
        owner = _owner(pod)
        return _rows(nodes, [one.node_name for one in self._suspected if _owner(one) == owner])

    def _forget(self) -> None:
        now = self._clock()
        for owner, pauses in list(self._pauses.items()):
            for name, pause in list(pauses.items()):
                if now >= pause.until + pause.seconds:
                    del pauses[name]
            if not pauses:
                del self._pauses[owner]


def _rows(nodes: LiveNodeTable, names: list[str]) -> IntArray:
    rows = [nodes.row(name) for name in names]
    return np.array([row for row in rows if row is not None], np.int64)


def _owner(pod: Pod) -> Owner:
    return pod.namespace, pod.controller
