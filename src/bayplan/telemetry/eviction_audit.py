"""EvictionAudit: whether evictions made room, and how long the victims were without a node.

Three questions of users whose Pods are evicted: does one preemptor evict again and again? Did it
help any Pod? When was my Pod back? The answers follow from who is evicted for whom, and from Pods
that are bound. As long as no Pod was evicted there is nothing to follow.

What is remembered is bounded: preemptors and owners that are heard of no more are forgotten, the
oldest first, and are not counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

import structlog

from bayplan.api.pod import Pod
from bayplan.telemetry.histogram import exponential
from bayplan.telemetry.preemption import CounterMaker, HistogramMaker

REMEMBERED = 4096
"""Preemptors, and owners of victims."""

Owner = tuple[str, str, str]
"""Namespace, apiVersion/kind and name."""

K = TypeVar("K", str, Owner)
V = TypeVar("V")

log = structlog.get_logger("evictions")


class MadeRoom(NamedTuple):
    """Where others were evicted for a Pod.

    Attributes:
        nodes: the nodes; None where only a limit stood in the way.
        at: when, by the clock of the audit.
    """

    nodes: Collection[str] | None
    at: float


class EvictionAudit:
    """Follows preemptors and the owners of their victims. Scheduling thread only.

    Attributes:
        follows: whether it wants to know of Pods that are bound.
    """

    def __init__(
        self, counter: CounterMaker, histogram: HistogramMaker, clock: Callable[[], float]
    ) -> None:
        self._repeated = counter(
            "bayplan_preemptions_repeated_total",
            "Evictions for a Pod or group for which others had been evicted before.",
            (),
        )
        self._in_vain = counter(
            "bayplan_preemptions_in_vain_total",
            "Pods that were bound elsewhere than where others had been evicted for them, unless "
            "each of these stood in the way of a limit.",
            (),
        )
        self._away = histogram(
            "bayplan_victim_return_seconds",
            "From the eviction of a Pod to the next binding of a Pod of the same owner.",
            (),
            exponential(1, 2, 14),
        ).labels()
        self._clock = clock
        self._rooms: OrderedDict[str, MadeRoom] = OrderedDict()
        """By uid of each Pod that others were evicted for."""
        self._left: OrderedDict[Owner, deque[float]] = OrderedDict()
        """By owner, when its Pods were evicted."""
        self.follows = False

    def evicted(
        self, preemptors: Sequence[Pod], nodes: Collection[str] | None, victims: Sequence[Pod]
    ) -> None:
        """See `bayplan.telemetry.instrument.Instrument.leaving`."""
        self.follows = True
        if any(pod.uid in self._rooms for pod in preemptors):
            self._repeated.inc()
        now = self._clock()
        for pod in preemptors:
            _remember(self._rooms, pod.uid, MadeRoom(nodes, now))
        for victim in victims:
            if victim.shape.owner[1]:
                owner = _owner(victim)
                times = self._left.get(owner, deque())
                times.append(now)
                _remember(self._left, owner, times)

    def bound(self, pod: Pod) -> None:
        """The Pod is bound."""
        room = self._rooms.pop(pod.uid, None)
        if room is not None and room.nodes is not None and pod.node_name not in room.nodes:
            self._in_vain.inc()
            log.info(
                "Pod was bound elsewhere than where others were evicted for it",
                pod=pod.key,
                node=pod.node_name,
                evicted_on=sorted(room.nodes),
                seconds=round(self._clock() - room.at, 3),
            )
        owner = _owner(pod)
        times = self._left.get(owner)
        if times:
            self._away.observe(self._clock() - times.popleft())
            if not times:
                del self._left[owner]
        self.follows = bool(self._rooms or self._left)


def _owner(pod: Pod) -> Owner:
    return pod.namespace, *pod.shape.owner


def _remember(entries: OrderedDict[K, V], key: K, value: V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > REMEMBERED:
        entries.popitem(last=False)
