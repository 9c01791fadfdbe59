"""Columns: the cluster as a picture needs it, in the format ``view.bayplan.dev/v1alpha1``.

`Bays` makes columns of what was taken out of a world (`bayplan.view.taken`), one value a row, and
remembers what changed: ``document`` is all of it, ``delta`` what a reader of the previous columns
has to write into these::

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
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from bayplan.api.node import Node
from bayplan.api.pod import Pod
from bayplan.cache.node_price import PriceRule
from bayplan.cache.requests import pod_requests
from bayplan.explain.why import API_VERSION
from bayplan.measures import stranded
from bayplan.view.table import NONE, Delta, Table
from bayplan.view.taken import Taken
from bayplan.view.timeline import History, Timeline

LEVELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/rack",
)
BOUND, TERMINATING, BINDING = 0, 1, 2
"""States of a Pod with a node."""
SPARE_TEXTS = 20_000
"""Texts that may be of no use any more before whoever follows begins anew."""
_PRICE = PriceRule(annotation="bayplan.dev/hourly-price")
_PARTS = re.compile(r"(\d+)")


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
        self._timeline = Timeline()
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
        bays._timeline = self._timeline.continued()
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
        elif moment := self._timeline.look(int(taken.at), len(self._pending.rows)):
            delta["timeline"] = moment
        if taken.reports != self._queues:
            self._queues = delta["queues"] = list(taken.reports)
        return {name: part for name, part in delta.items() if part}

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
            "timeline": list(self._timeline.moments),
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
                self._timeline.forget(uid)
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
            self._timeline.count(pod, bound=unbound and state == BOUND)
            seen[pod.uid] = pod if state != BINDING else _UNBOUND

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
