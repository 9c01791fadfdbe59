"""Transfer: what the traffic of a Pod with Pods on nodes costs, by node.

Pods say in the annotation `TALKS_TO` to whom they send how much. A Pod that talks to m Pods on
nodes sends each the m-th part. The traffic between two Pods costs what a GB costs between the
domains of their nodes::

    cost on n = sum over q that p talks to   GB an hour / m       x price(n, q)
              + sum over q that talks to p   GB an hour / (m + 1) x price(n, q)

where m counts the Pods on nodes that match the selector; in the second sum ``p`` will be one more.

Pods are counted by row, summed by site (`bayplan.plugins.shared.sites`), and multiplied by the
prices between sites; so the number of Pods does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
import numpy as np

from bayplan.api.meta import LabelSelector
from bayplan.api.pod import Pod
from bayplan.api.selectors import Predicate, SelectorError, label_selector
from bayplan.cache.counters import DomainCounters, DomainSpec, PodSelection, SelectionCounter
from bayplan.cache.counters.domains import Integers
from bayplan.cache.node_price import FloatArray
from bayplan.cache.node_table import IntArray, LiveNodeTable
from bayplan.config.args import TransferArgs
from bayplan.framework.handle import PluginMetrics
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.plugins.shared.sites import Site, Sites

TALKS_TO = "bayplan.dev/talks-to"
_COUNTERS_KEPT = 1024


class _Peer(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    selector: LabelSelector
    gb_per_hour: float


class Peer(msgspec.Struct, frozen=True):
    """Whom a Pod talks to, in its own namespace.

    Attributes:
        key: equal for equal selectors.
        selects: whether a Pod with these labels is meant.
        gb: GB an hour to all of them together.
    """

    key: str
    selects: Predicate
    gb: float


@lru_cache(4096)
def peers_of(text: str) -> tuple[Peer, ...] | str:
    """What the annotation says, or what is wrong with it."""
    try:
        said = msgspec.json.decode(text, type=list[_Peer])
        peers = tuple(
            Peer(
                msgspec.json.encode(each.selector).decode(),
                label_selector(each.selector),
                each.gb_per_hour,
            )
            for each in said
        )
    except (ValueError, SelectorError) as error:  # msgspec's are ValueErrors
        return str(error)
    if any(not 0 <= peer.gb < float("inf") for peer in peers):
        return "gbPerHour must be a number of at least 0"
    return peers


def _peers(pod: Pod) -> tuple[Peer, ...]:
    text = pod.annotations.get(TALKS_TO)
    peers = peers_of(text) if text is not None else ()
    return () if isinstance(peers, str) else peers


class Prices:
    """The site of each row, and the price of a GB between two sites."""

    def __init__(self, nodes: LiveNodeTable, keys: Sequence[str], args: TransferArgs) -> None:
        self._sites, self._args = Sites(nodes, keys), args
        self._matrix = {(each.from_, each.to): each.cost for each in args.matrix}
        self._matrix |= {(to, from_): cost for (from_, to), cost in self._matrix.items()}
        self._prices: FloatArray = np.zeros((0, 0))

    def now(self) -> tuple[IntArray, FloatArray]:
        """(n,) the site of each row, and (k, k) the prices."""
        if self._sites.refresh():
            names = self._sites.names
            self._prices = np.array([[self._price(a, b) for b in names] for a in names])
        return self._sites.codes, self._prices

    def _price(self, one: Site, other: Site) -> float:
        args = self._args
        for a, b in zip(reversed(one), reversed(other), strict=True):
            if a is not None and b is not None and (a, b) in self._matrix:
                return self._matrix[a, b]
        if None in one or None in other:
            return args.other
        if one == other:
            return args.same_finest
        return args.same_coarsest if len(one) > 1 and one[0] == other[0] else args.other


class Transfer:
    """See the module's docstring. Scheduling thread only."""

    def __init__(
        self, handle: InTreeHandle, keys: Sequence[str], args: TransferArgs, metrics: PluginMetrics
    ) -> None:
        self._nodes, self._pods = handle.nodes, handle.pods
        self._metrics, self._logger = metrics, handle.logger
        self._counters: DomainCounters = handle.counters
        self._prices = Prices(handle.nodes, keys, args)
        self._kept: dict[tuple[str, str], SelectionCounter] = {}
        self._talkers: dict[tuple[str, str], Counter[str]] = {}
        """By namespace and annotation, on which nodes Pods with the annotation are."""
        handle.pods.listen(self)
        for pod in handle.pods.pods():
            self.pod_counted(pod)

    # Who talks

    def pod_counted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        text = pod.annotations.get(TALKS_TO)
        if text is not None and isinstance(wrong := peers_of(text), str):
            self._report(pod, wrong)
        elif text is not None:
            self._talkers.setdefault((pod.namespace, text), Counter())[pod.node_name] += 1

    def pod_uncounted(self, pod: Pod) -> None:
        """See `bayplan.cache.counted_pods.PodListener`."""
        text = pod.annotations.get(TALKS_TO)
        nodes = self._talkers.get((pod.namespace, text)) if text is not None else None
        if text is None or nodes is None:
            return
        nodes[pod.node_name] -= 1
        if nodes[pod.node_name] <= 0:
            del nodes[pod.node_name]
            if not nodes:
                del self._talkers[pod.namespace, text]

    def _report(self, pod: Pod, wrong: str) -> None:
        """The annotation counts as none."""
        self._metrics.count("invalid_peers")
        self._logger.warning(
            "An annotation is ignored", annotation=TALKS_TO, pod=pod.key, why=wrong
        )

    def recount(self) -> int:
        """How many annotations have other numbers of Pods than there are."""
        fresh: dict[tuple[str, str], Counter[str]] = {}
        for pod in self._pods.pods():
            text = pod.annotations.get(TALKS_TO)
            if text is not None and not isinstance(peers_of(text), str):
                fresh.setdefault((pod.namespace, text), Counter())[pod.node_name] += 1
        return sum(fresh.get(key) != self._talkers.get(key) for key in {*fresh, *self._talkers})

    # What it costs

    def concerns(self, pod: Pod) -> bool:
        """Whether the Pod talks to others, or others to the Pod."""
        return bool(_peers(pod)) or any(True for _ in self._talking_to(pod))

    def cost(self, pod: Pod) -> FloatArray:
        """(n,) an hour, of ``pod``, which is on no node, on each row of the live table."""
        codes, prices = self._prices.now()
        gb = np.zeros(len(prices))
        for peer in _peers(pod):
            counter = self._counter(pod.namespace, peer)
            if counter.total:
                gb += peer.gb / counter.total * self._by_site(counter.by_domain()[:-1], codes, gb)
        for peer, nodes in self._talking_to(pod):
            matching = self._counter(pod.namespace, peer).total + 1
            rows = [(self._nodes.row(name), count) for name, count in nodes.items()]
            for row, count in rows:
                if row is not None:
                    gb[codes[row]] += peer.gb / matching * count
        of_row: FloatArray = (prices @ gb).take(codes)
        return of_row

    def _by_site(self, counts: Integers, codes: IntArray, like: FloatArray) -> FloatArray:
        return np.bincount(codes, counts[: len(codes)], len(like)).astype(np.float64)

    def _talking_to(self, pod: Pod) -> Iterator[tuple[Peer, Counter[str]]]:
        for (namespace, text), nodes in self._talkers.items():
            peers = peers_of(text) if namespace == pod.namespace else ()
            for peer in () if isinstance(peers, str) else peers:
                if peer.selects(pod.shape.labels):
                    yield peer, nodes

    def _counter(self, namespace: str, peer: Peer) -> SelectionCounter:
        key = namespace, peer.key
        counter = self._kept.get(key)
        if counter is None:
            if len(self._kept) >= _COUNTERS_KEPT:
                self._counters.release(self._kept.pop(next(iter(self._kept))))
            selection = PodSelection(
                id=("talks-to", *key),
                namespaces=frozenset({namespace}),
                selects=lambda shape, _: peer.selects(shape.labels),
            )
            counter = self._kept[key] = self._counters.acquire(selection, DomainSpec(None))
        return counter
