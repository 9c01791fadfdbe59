"""A cluster whose picture is looked at, and what a reader makes of its changes."""

from __future__ import annotations

from typing import Any

from tests.core_harness import Cluster

from bayplan.testing import make_node, make_pod
from bayplan.view.board import Board
from bayplan.view.columns import Bays
from bayplan.view.table import NONE
from bayplan.view.taken import take
from bayplan.view.timeline import MOMENTS

ZONE, RACK = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
GPU = "example.com/gpu"


def cluster() -> Cluster:
    """Three nodes in two zones, five Pods on them, two that wait."""
    made = Cluster()
    for name, zone, rack in (("n10", "b", "r1"), ("n2", "a", "r2"), ("n1", "a", "r1")):
        node = make_node(name).capacity(cpu="4", memory="8Gi", pods=10)
        made.add(node.label(ZONE, zone).label(RACK, rack))
    made.add(make_pod("web-1").namespace("shop").req(cpu="1", memory="1Gi").node("n1"))
    made.add(make_pod("web-2").namespace("shop").req(cpu="1", memory="1Gi").node("n2"))
    made.add(make_pod("db").namespace("bank").req(cpu="3", memory="4Gi").node("n10"))
    made.add(make_pod("big").namespace("shop").req(cpu="5").priority(7))
    made.add(make_pod("vault").namespace("bank").req(cpu="9"))
    return made


def board(made: Cluster, **options: Any) -> Board:
    """What may be asked about it, on the thread of the test; every look takes in what is new."""
    return Board(made.core, lambda answer: answer(), **options)


def updated(bays: Bays, made: Cluster) -> dict[str, Any]:
    """The delta from what ``bays`` had to what there is."""
    return bays.update(take(made.core.world, made.core.profiles))


def patched(document: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """``document`` after ``delta``, as docs/view.md says a reader has to do it."""
    for table in ("nodes", "pods", "pending"):
        columns = document[table]
        written = delta.get(table, {}).items()
        size = max((len(column) for column in columns.values()), default=0)
        size = max([size, *(max(rows, default=-1) + 1 for _, (rows, _) in written)])
        for name, (rows, values) in written:
            columns.setdefault(name, [])
            empty = "" if name == "name" else NONE
            columns[name].extend([empty] * (size - len(columns[name])))
            for row, value in zip(rows, values, strict=True):
                columns[name][row] = value
        for name, column in columns.items():
            column.extend(["" if name == "name" else NONE] * (size - len(column)))
    document["texts"] += delta.get("texts", [])
    document["requests"] += delta.get("requests", [])
    if moment := delta.get("timeline"):
        document["timeline"] = [*document["timeline"], moment][-MOMENTS:]
    document["queues"] = delta.get("queues", document["queues"])
    return document
