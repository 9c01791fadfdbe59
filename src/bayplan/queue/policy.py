"""QueuePolicy: what profiles and settings decide about the queue; a reload replaces all of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.api.pod import Pod
from bayplan.framework.groups import GroupSource
from bayplan.framework.status import Status
from bayplan.framework.turns import Turns
from bayplan.queue.heap import Key
from bayplan.queue.hints import HintTable

Gate = tuple[str, Callable[[Pod], Status | None]]
"""A PreEnqueue plugin's name and method."""


@dataclass(frozen=True)
class QueueSettings:
    """Times in seconds.

    Attributes:
        initial_backoff: podInitialBackoffSeconds: after the first failure.
        max_backoff: podMaxBackoffSeconds: where doubling stops; 0 switches backoff off.
        max_unschedulable: how long a rejected Pod waits when no event wakes it.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_unschedulable: float = 300.0


@dataclass(frozen=True)
class QueuePolicy:
    """How Pods are ordered, held back, woken and tried again.

    Attributes:
        sort_key: the order of QueueSort; see `bayplan.queue.heap.sort_key`.
        hints: what wakes the Pods that a plugin rejected.
        pre_enqueue: PreEnqueue plugins by profile, in order.
        settings: times.
        groups: by profile, the sources of groups; none in most.
        inferred_groups: the kinds of owners whose Pods are groups without a PodGroup.
        turns: decides which tenant is next; None where tenants take no turns.
    """

    sort_key: Key
    hints: HintTable
    pre_enqueue: Mapping[str, Sequence[Gate]]
    settings: QueueSettings = field(default_factory=QueueSettings)
    groups: Mapping[str, Sequence[GroupSource]] = field(default_factory=dict)
    inferred_groups: Collection[str] = ()
    turns: Turns | None = None


NO_POLICY = QueuePolicy(lambda queued: queued.timestamp, HintTable({}), {})
"""That of a queue without profiles."""
