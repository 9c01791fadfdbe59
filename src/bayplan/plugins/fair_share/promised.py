"""Promised: the future usage of nominated Pods, reserved against Pods of lower priority.

On a node a Pod has to fit beside the Pods of the same or a higher priority that are nominated there
(`bayplan.engine.what_if`). Limits are alike: room under a limit that others are evicted for is
kept for whom it is made. So what is used for a limit is what counts on nodes, and what is promised
to nominated Pods of the same or a higher priority, or of other queues, unless their node does not
exist (yet).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from bayplan.api.pod import Pod, PodShape
from bayplan.cache.amounts import Rows, add_amounts
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.queue_tree import NO_QUEUE, QueueTree
from bayplan.framework.handle import PodNominator

_Kind = tuple[PodShape, Sequence[int], int]
"""The shape of a Pod, where it counts, as Pods of one shape may be of several users, and the kind
of its node."""
_Key = tuple[int, int, tuple[_Kind, ...]]


class Promised:
    """See the module's docstring. Sums are kept as long as nominations, nodes and Queues stay."""

    def __init__(self, queues: QueueTree, nominator: PodNominator, nodes: LiveNodeTable) -> None:
        self._queues, self._nominator, self._nodes = queues, nominator, nodes
        self._seen: object = None
        self._examples: dict[_Kind, Pod] = {}
        self._counts: Counter[_Kind] = Counter()
        """How many nominated Pods of each kind there are."""
        self._kept: dict[_Key, Rows] = {}

    def to(self, pod: Pod) -> bool:
        """Whether anything is promised to ``pod``."""
        return bool(self._nominator.nominated_node(pod.uid))

    def besides(self, pods: Sequence[Pod]) -> Rows | None:
        """What is promised to others than ``pods`` and matters to them; None for nothing.

        By row as `bayplan.cache.amounts.Sums.used_rows`.
        """
        nominator = self._nominator
        if not nominator.nominated_nodes():
            return None
        seen = nominator.version, self._queues.sums, self._nodes.node_journal.position
        if self._seen != seen:
            self._seen, self._kept = seen, {}
            nodes = [n for n in nominator.nominated_nodes() if self._nodes.row(n) is not None]
            pairs = [(pod, node) for node in nodes for pod in nominator.promised_pods(node)]
            nominated = [self._kind(pod, node) for pod, node in pairs]
            examples = dict(zip(nominated, pairs, strict=True))
            self._examples = {kind: pod.on_node(node) for kind, (pod, node) in examples.items()}
            self._counts = Counter(nominated)
        named = ((pod, nominator.nominated_node(pod.uid)) for pod in pods)
        own = tuple([self._kind(pod, node) for pod, node in named if node])
        key = min([pod.priority for pod in pods]), self._queues.leaf(pods[0]), own
        if key not in self._kept:
            self._kept[key] = self._sum(*key)
        return self._kept[key]

    def _kind(self, pod: Pod, node: str) -> _Kind:
        charge = self._queues.charge(pod)
        links = () if charge is None else charge.links
        return pod.shape, links, self._queues.kinds.of(node)

    def _sum(self, priority: int, leaf: int, own: Iterable[_Kind]) -> Rows:
        queues = self._queues
        counts = [
            (queues.charge(self._examples[kind]), count)
            for kind, count in (self._counts - Counter(own)).items()
            if kind[0].spec.priority >= priority
            or leaf not in (NO_QUEUE, queues.leaf(self._examples[kind]))
        ]
        rows = queues.sums.zeros()
        for charge, count in counts:
            if charge is not None:
                add_amounts(rows, charge.links, [count * amount for amount in charge.requests])
        return rows
