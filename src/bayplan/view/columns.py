"""Columns: the cluster as a picture needs it, in the format ``view.bayplan.dev/v1alpha1``.

`take` copies what is needed out of a world, on the thread that the world belongs to; that is
shallow, since nodes and Pods are immutable. `Bays` makes columns of it on any thread, one value a
row, and remembers what changed: ``document`` is all of it, ``delta`` what a reader of the previous
columns has to write into these::

    document  {"nodes": {"name": ["n1", "n2"], "requested/cpu": [500, 0], ...}, "pods": {...}, ...}
    delta     {"nodes": {"requested/cpu": [[1], [250]]}, ...}      250 milli-CPU in row 1

A row keeps its place as long as there is what it stands for; then it is empty and used again. In
the first columns rows are in the order of domains and names, so the same cluster gives the same
bytes. Texts stand once, in ``texts``, which only grows: when most of them are of no use any more,
whoever follows has to begin anew (`Bays.worn`). The columns are listed in docs/view.md.
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.node_load import NodeLoads
from bayplan.cache.node_price import PriceRule
from bayplan.cache.node_table import IntArray
from bayplan.cache.queue_tree.report import reports
from bayplan.cache.requests import pod_requests
from bayplan.config.args import LoadSource
from bayplan.explain.names import Names
from bayplan.explain.why import API_VERSION
from bayplan.measures import stranded
from bayplan.profiles import Profiles
from bayplan.view.devices import Counts, devices
from bayplan.world import World

LEVELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/rack",
)
BOUND, TERMINATING, BINDING = 0, 1, 2
"""States of a Pod with a node."""
NONE = -1
"""In a column of numbers: there is no such thing, or nobody knows."""
SPARE_TEXTS = 20_000
"""Texts that may be of no use any more before whoever follows begins anew."""
MOMENTS = 1200
"""Looks in the time line: ten minutes at two a second."""
_PRICE = PriceRule(annotation="bayplan.dev/hourly-price")
_PARTS = re.compile(r"(\d+)")

Delta = dict[str, Any]


class History(NamedTuple):
    """What happened in a recording, any moment of which can be shown.

    Attributes:
        since: seconds since the epoch: before it nothing is known.
        until: likewise, the end.
        moments: the time line of all of it, as of docs/view.md.
    """

    since: int
    until: int
    moments: list[list[int]]


class Taken(NamedTuple):
    """What is drawn of a world, at one moment.

    Attributes:
        nodes: node objects, ``(n,)``.
        on_nodes: the Pods on each of them, assumed ones included, ``(n,)``.
        offered: by resource, what each node offers, ``(n,)``; ``pods`` is one of the resources.
        requested: what its Pods request, likewise.
        load: by resource, the measured use as a share of the capacity, ``(n,)``; NaN where it is
            not known. Empty without a source.
        shares: by the name of a lens, a share of each node, likewise.
        devices: by column, the counts of `bayplan.view.devices`.
        pending: the Pods that have neither node nor ended.
        binding: uids of the Pods that are not bound yet, but have a node.
        queues: by the id of a shape, the Queue that its Pods count in.
        groups: by the id of a shape, the key of the group of its Pods.
        reports: the Queues, as ``bayplan queues -o json`` has them.
        messages: by uid, what is said of Pods that wait, as it may be read.
        at: seconds since the epoch.
    """

    nodes: Sequence[Node]
    on_nodes: Sequence[Collection[Pod]]
    offered: Mapping[str, IntArray]
    requested: Mapping[str, IntArray]
    load: Mapping[str, Any]
    shares: Mapping[str, Any]
    devices: Counts
    pending: Sequence[Pod]
    binding: Collection[str]
    queues: Mapping[int, str]
    groups: Mapping[int, str]
    reports: Sequence[dict[str, Any]]
    messages: Mapping[str, str]
    at: float


def take(world: World, profiles: Profiles, only: str = "") -> Taken:
    """What there is to draw of ``world``. On the thread that the world belongs to.

    Args:
        world: the cluster.
        profiles: whose plugins say where the load of nodes comes from (the first counts), and have
            lenses of their own; these only for a reader who may know everything.
        only: a namespace: for a reader who may know of its Pods, and of the rest what is requested
            and offered; "" for a reader who may know everything.
    """
    table = world.cache.nodes
    rows = table.exists.nonzero()[0]
    offered = {name: table.allocatable(name)[rows] for name in sorted(table.resources)}
    requested = {name: table.requested(name)[rows] for name in offered}
    offered["pods"], requested["pods"] = table.allowed_pods[rows], table.pod_count[rows]
    on_nodes = [
        tuple([p for p in table.pods[row].values() if not only or p.namespace == only])
        for row in rows.tolist()
    ]
    is_assumed = world.cache.is_assumed
    pending = [
        pod
        for pod in world.handlers.pods.values()
        if not pod.node_name and (not only or pod.namespace == only) and not is_assumed(pod.uid)
    ]
    shapes = {pod.shape.id: pod for pods in (*on_nodes, pending) for pod in pods}
    queues: dict[int, str] = {}
    if world.queues.active:
        structure = world.queues.refresh_shares().structure
        for shape, pod in shapes.items():
            row = world.queues.leaf(pod)
            queues[shape] = structure.name(row) if row >= 0 else ""
    key_of = world.cache.groups.key_of_shape
    hidden = Names(world, (only,)).hidden
    nodes = [node for row in rows.tolist() if (node := table.nodes[row]) is not None]
    shares = {} if only else profiles.node_shares()
    return Taken(
        nodes,
        on_nodes,
        offered,
        requested,
        _load(world, profiles.load_sources(), rows),
        {name: values[rows] for name, values in shares.items()},
        devices(world.cache.objects, [node.name for node in nodes]),
        pending,
        {pod.uid for pods in on_nodes for pod in pods if is_assumed(pod.uid)},
        queues,
        {shape: key for shape, pod in shapes.items() if (key := key_of(pod.shape))},
        [one for one in _reports(world) if not only or one["queue"] in queues.values()],
        {pod.uid: hidden(said(pod)) if only else said(pod) for pod in pending},
        time.time(),
    )


def _load(world: World, sources: Sequence[LoadSource], rows: IntArray) -> dict[str, Any]:
    if not sources:
        return {}
    load = world.cache.nodes.column(NodeLoads)[sources[0]]
    return {name: values[rows] for name, values in load.mean.items()}


def _reports(world: World) -> list[dict[str, Any]]:
    if not world.queues.active:
        return []
    return [
        {
            "queue": queue.name,
            "depth": queue.depth,
            "pending": queue.pending,
            "resources": {
                name: {**amounts._asdict(), "borrowed": amounts.borrowed}
                for name, amounts in queue.amounts.items()
            },
        }
        for queue in reports(world.queues, 0.0)
    ]


class Table:
    """Columns of equal length; remembers the cells that were written since the last `changes`.

    A cell where nothing was written is "" in a column of texts, else `NONE`.

    Args:
        first: the column that is there before anything is written.
        empty: what it has in rows that are free.
    """

    def __init__(self, first: str, empty: Any) -> None:
        self.columns: dict[str, list[Any]] = {first: []}
        self.rows: dict[str, int] = {}
        """By the key of what a row stands for."""
        self._free: list[int] = []
        self._size = 0
        self._empty: dict[str, Any] = {first: empty}
        self._written: dict[str, set[int]] = {}

    def add(self, key: str) -> int:
        """A row for something new."""
        if self._free:
            row = self._free.pop()
        else:
            row, self._size = self._size, self._size + 1
            for name, column in self.columns.items():
                column.append(self._empty[name])
        self.rows[key] = row
        return row

    def write(self, row: int, values: Iterable[tuple[str, Any]]) -> None:
        """The values of columns in a row."""
        for name, value in values:
            column = self.columns.get(name)
            if column is None:
                self._empty[name] = empty = "" if isinstance(value, str) else NONE
                column = self.columns[name] = [empty] * self._size
                self._written[name] = set()
            if column[row] != value:
                column[row] = value
                self._written.setdefault(name, set()).add(row)

    def remove(self, key: str) -> None:
        """The row of ``key`` is empty from now on."""
        row = self.rows.pop(key)
        self.write(row, self._empty.items())
        self._free.append(row)

    def changes(self) -> Delta:
        """By column the rows that were written since the last call, and their values."""
        written, self._written = self._written, {}
        delta = {}
        for name, rows in written.items():
            column = self.columns[name]
            where = sorted(rows)
            delta[name] = [where, [column[row] for row in where]]
        return delta


class Bays:
    """The columns of a cluster that is followed.

    Args:
        levels: node labels that divide the cluster, the widest first.
        named: whether nodes are named.
        history: of the recording that is looked at; None for what is followed.
    """

    def __init__(
        self,
        levels: Sequence[str] = LEVELS,
        *,
        named: bool = True,
        history: History | None = None,
    ) -> None:
        self._history = history
        self._at = 0.0
        self._levels = tuple(levels) if named else ()
        self._named = named
        self._nodes, self._pending = Table("name", ""), Table("name", "")
        self._pods = Table("node", NONE)
        self._seen: dict[str, Node | Pod] = {}
        """By the key of a row, the object that was written there last."""
        self._texts: dict[str, int] = {"": 0}
        self._requests: dict[str, int] = {}
        self._amounts: list[dict[str, int]] = []
        self._moments: deque[list[int]] = deque(maxlen=MOMENTS)
        self._bound, self._evicted = 0, 0
        """How many Pods were since the last look."""
        self._leaving = set[str]()
        """Uids of Pods whose eviction was counted."""
        self._waited: int | None = None
        """How many waited then; None before the first."""
        self._told = 0, 0
        """How many texts and requests the last delta has reached."""
        self._queues: list[dict[str, Any]] = []

    @property
    def node_rows(self) -> Mapping[str, int]:
        """The row of each node, by name."""
        return self._nodes.rows

    @property
    def worn(self) -> bool:
        """Whether most of the texts are of no use any more."""
        alive = sum(len(table.rows) for table in (self._nodes, self._pods, self._pending))
        return len(self._texts) > SPARE_TEXTS + alive

    def renewed(self) -> Bays:
        """Empty columns of the same form, whose time line goes on."""
        bays = Bays(self._levels, named=self._named, history=self._history)
        bays._moments = self._moments
        return bays

    def update(self, taken: Taken) -> Delta:
        """Write what is there now into the columns; returns `delta`, empty if nothing changed."""
        self._update_nodes(taken)
        self._update_pods(taken)
        self._update_pending(taken)
        delta: Delta = {
            "nodes": self._nodes.changes(),
            "pods": self._pods.changes(),
            "pending": self._pending.changes(),
        }
        texts, requests = self._told
        delta["texts"] = list(self._texts)[texts:]
        delta["requests"] = self._amounts[requests:]
        self._told = len(self._texts), len(self._amounts)
        if self._history is not None:
            if taken.at != self._at:
                self._at = delta["at"] = taken.at
        elif moment := self._moment(int(taken.at)):
            delta["timeline"] = moment
        if taken.reports != self._queues:
            self._queues = delta["queues"] = list(taken.reports)
        return {name: part for name, part in delta.items() if part}

    def _moment(self, at: int) -> list[int]:
        """Time, bindings, Pods that wait, evictions; empty at first, and if nothing is new."""
        moment = [at, self._bound, len(self._pending.rows), self._evicted]
        self._bound = self._evicted = 0
        waited, self._waited = self._waited, moment[2]
        if waited is None or (moment[2] == waited and not moment[1] and not moment[3]):
            return []
        self._moments.append(moment)
        return moment

    def document(self) -> dict[str, Any]:
        """All columns."""
        document = self._columns()
        if self._history is not None:
            since, until, moments = self._history
            recorded = {"since": since, "until": until}
            document |= {"timeline": moments, "recorded": recorded, "at": self._at}
        return document

    def _columns(self) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION,
            "kind": "Bays",
            "levels": self._levels,
            "named": self._named,
            "nodes": self._nodes.columns,
            "pods": self._pods.columns,
            "pending": self._pending.columns,
            "texts": list(self._texts),
            "requests": self._amounts,
            "queues": self._queues,
            "timeline": list(self._moments),
        }

    # Nodes

    def _update_nodes(self, taken: Taken) -> None:
        table, names = self._nodes, {node.name for node in taken.nodes}
        for name in [name for name in table.rows if name not in names]:
            table.remove(name)
            del self._seen[name]
        offered, requested = taken.offered, taken.requested
        free = {name: np.maximum(offered[name] - requested[name], 0) for name in offered}
        order: Iterable[int] = range(len(taken.nodes))
        if not table.rows:
            order = sorted(order, key=lambda i: self._place(taken.nodes[i]))
        sums = [
            *((f"allocatable/{name}", values.tolist()) for name, values in offered.items()),
            *((f"requested/{name}", values.tolist()) for name, values in requested.items()),
            *((f"stranded/{name}", v.tolist()) for name, v in stranded(offered, free).items()),
            *((f"load/{name}", _shares(values)) for name, values in taken.load.items()),
            *((f"lens/{name}", _shares(values)) for name, values in taken.shares.items()),
            *taken.devices.items(),
        ]
        for i in order:
            node = taken.nodes[i]
            row = table.rows.get(node.name)
            if row is None:
                row = table.add(node.name)
            if self._seen.get(node.name) is not node:
                self._seen[node.name] = node
                table.write(row, self._of_node(node, row))
            table.write(row, [(name, values[i]) for name, values in sums])

    def _place(self, node: Node) -> tuple[Any, ...]:
        domains = tuple(_natural(node.labels.get(level, "")) for level in self._levels)
        return *domains, _natural(node.name)

    def _of_node(self, node: Node, row: int) -> list[tuple[str, Any]]:
        if not self._named:
            return [("name", f"node {row + 1}"), ("unschedulable", int(node.spec.unschedulable))]
        taints = ", ".join(
            f"{taint.key}={taint.value}:{taint.effect}"
            if taint.value
            else f"{taint.key}:{taint.effect}"
            for taint in node.spec.taints
        )
        price = _PRICE.price(node)
        return [
            ("name", node.name),
            ("created", _seconds(node.metadata.creation_timestamp)),
            ("unschedulable", int(node.spec.unschedulable)),
            ("taints", self._text(taints)),
            ("price", NONE if price is None or math.isnan(price) else price),
            *(
                (f"domain/{level}", self._text(node.labels.get(level, "")))
                for level in self._levels
            ),
        ]

    # Pods

    def _update_pods(self, taken: Taken) -> None:
        table, seen, present = self._pods, self._seen, set()
        new: list[tuple[int, Pod]] = []
        for node, pods in zip(taken.nodes, taken.on_nodes, strict=True):
            row = self._nodes.rows[node.name]
            for pod in pods:
                present.add(pod.uid)
                if seen.get(pod.uid) is not pod or pod.uid in taken.binding:
                    new.append((row, pod))
        if len(present) < len(table.rows) + len(new):
            for uid in [uid for uid in table.rows if uid not in present]:
                table.remove(uid)
                del seen[uid]
                self._leaving.discard(uid)
        if not table.rows:
            new.sort(key=lambda one: (one[0], one[1].key))
        for node_row, pod in new:
            row_or_none = table.rows.get(pod.uid)
            row = table.add(pod.uid) if row_or_none is None else row_or_none
            if seen.get(pod.uid) is not pod:
                table.write(row, [("node", node_row), *self._of_pod(pod, taken)])
            binding = BINDING if pod.uid in taken.binding else BOUND
            state = TERMINATING if pod.deleted is not None else binding
            table.write(row, [("state", state)])
            unbound = row_or_none is None or seen.get(pod.uid) is _UNBOUND
            self._count(pod, state, new=unbound)
            seen[pod.uid] = pod if state != BINDING else _UNBOUND

    def _count(self, pod: Pod, state: int, *, new: bool) -> None:
        """For the time line."""
        self._bound += new and state == BOUND
        if pod.uid not in self._leaving and any(
            c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions
        ):
            self._leaving.add(pod.uid)
            self._evicted += 1

    def _of_pod(self, pod: Pod, taken: Taken) -> list[tuple[str, Any]]:
        kind, name = pod.controller
        owner = f"{pod.namespace}/{kind.rpartition('/')[2]}/{name}" if name else pod.namespace
        return [
            ("requests", self._request(pod)),
            ("owner", self._text(owner)),
            ("queue", self._text(taken.queues.get(pod.shape.id, ""))),
            ("group", self._text(_group(pod, taken))),
            ("created", _seconds(pod.created)),
        ]

    def _request(self, pod: Pod) -> int:
        amounts = {name: n for name, n in sorted(pod_requests(pod).amounts.items()) if n}
        key = str(amounts)
        if key not in self._requests:
            self._requests[key] = len(self._amounts)
            self._amounts.append(amounts)
        return self._requests[key]

    # Pods that wait

    def _update_pending(self, taken: Taken) -> None:
        table, seen = self._pending, self._seen
        pods = list(taken.pending)
        keys = {_waiting(pod) for pod in pods}
        for key in [key for key in table.rows if key not in keys]:
            table.remove(key)
            del seen[key]
        if not table.rows:
            pods.sort(key=lambda pod: (_seconds(pod.created), pod.key))
        for pod in pods:
            key = _waiting(pod)
            if seen.get(key) is pod:
                continue
            row = table.rows.get(key)
            seen[key] = pod
            table.write(table.add(key) if row is None else row, self._of_pending(pod, taken))

    def _of_pending(self, pod: Pod, taken: Taken) -> list[tuple[str, Any]]:
        nominated = pod.status.nominated_node_name if self._named else ""
        return [
            ("name", pod.key),
            ("created", _seconds(pod.created)),
            ("priority", pod.priority),
            ("requests", self._request(pod)),
            ("queue", self._text(taken.queues.get(pod.shape.id, ""))),
            ("group", self._text(_group(pod, taken))),
            ("scheduler", self._text(pod.spec.scheduler_name)),
            ("nominated", self._text(nominated)),
            ("message", self._text(taken.messages[pod.uid])),
        ]

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


_UNBOUND: Any = object()
"""What was written of a Pod that is being bound: it is written again when it is."""


def said(pod: Pod) -> str:
    """What was said last of a Pod without a node: the condition PodScheduled; "" for nothing."""
    conditions = (c for c in pod.status.conditions if c.type == "PodScheduled")
    condition = next(conditions, None)
    if condition is None or condition.status == "True":
        return ""
    return condition.message or condition.reason


def _group(pod: Pod, taken: Taken) -> str:
    """The key of the Pod's group; "" for none."""
    if pod.pod_group:
        return f"{pod.namespace}/{pod.pod_group}"
    return taken.groups.get(pod.shape.id, "")


def _waiting(pod: Pod) -> str:
    return f"waiting {pod.uid}"


def _shares(values: Any) -> list[float]:
    return [NONE if math.isnan(value) else round(value, 3) for value in values.tolist()]


def _seconds(time: datetime | None) -> int:
    return NONE if time is None else int(time.timestamp())


def _natural(text: str) -> tuple[Any, ...]:
    """n2 before n10, and no domain after every domain."""
    parts = _PARTS.split(text)
    return not text, tuple((int(p), "") if p.isdecimal() else (-1, p) for p in parts)
