"""The columns of `bayplan.view.columns` as text: the same that the page shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from bayplan.api import quantity
from bayplan.cli.recorded import shown

_BAR = 10
_OTHERS = 8
"""Resources, beside CPU and memory, of which a node's share is shown."""
Document = Mapping[str, Any]


def print_bays(console: Console, bays: Document) -> None:
    """Nodes, waiting Pods with what was said last, and Queues."""
    nodes, pods, pending = bays["nodes"], bays["pods"], bays["pending"]
    there = [row for row, name in enumerate(nodes.get("name", ())) if name]
    on_nodes = sum(node >= 0 for node in pods.get("node", ()))
    waiting = [row for row, name in enumerate(pending.get("name", ())) if name]
    when = f"; {shown(bays['at'])}" if "at" in bays else ""
    counts = f"{len(there)} nodes, {on_nodes} Pods on them, {len(waiting)} wait{when}"
    console.print(counts, style="bold")
    for table in (_nodes(bays, there), _pending(bays, waiting), _queues(bays["queues"])):
        if table.row_count:
            console.print()
            console.print(table)


def _table(*titles: str) -> Table:
    return Table(*titles, box=None, pad_edge=False, header_style="dim")


def _nodes(bays: Document, rows: list[int]) -> Table:
    nodes, texts = bays["nodes"], bays["texts"]
    levels = [f"domain/{level}" for level in bays["levels"]]
    levels = [level for level in levels if any(texts[i] for i in nodes.get(level, ()))]
    resources = _resources(nodes)
    titles = [level.rpartition("/")[2] for level in levels]
    table = _table("node", *titles, "", "share", *resources, "taints")
    for row in rows:
        shares = {name: _share(nodes, name, row) for name in resources}
        most = max((share for share in shares.values() if share is not None), default=0.0)
        cordoned = "cordoned " if nodes["unschedulable"][row] else ""
        table.add_row(
            nodes["name"][row],
            *(texts[nodes[level][row]] for level in levels),
            ("#" * round(min(most, 1) * _BAR)).ljust(_BAR, "."),
            f"{most:.0%}",
            *("-" if share is None else f"{share:.0%}" for share in shares.values()),
            cordoned + (texts[nodes["taints"][row]] if "taints" in nodes else ""),
        )
    return table


def _resources(nodes: Mapping[str, Any]) -> list[str]:
    """The resources of nodes; CPU, memory and Pods first."""
    offered = [name.partition("/")[2] for name in nodes if name.startswith("allocatable/")]
    some = [name for name in offered if any(a > 0 for a in nodes[f"allocatable/{name}"])]
    first = [name for name in ("cpu", "memory", "pods") if name in some]
    return [*first, *[name for name in some if name not in first][:_OTHERS]]


def _share(nodes: Mapping[str, Any], name: str, row: int) -> float | None:
    offered: int = nodes[f"allocatable/{name}"][row]
    return nodes[f"requested/{name}"][row] / offered if offered > 0 else None


def _pending(bays: Document, rows: list[int]) -> Table:
    pending, texts = bays["pending"], bays["texts"]
    table = _table("waits", "priority", "queue", "group", "requests", "what was said")
    for row in rows:
        amounts = bays["requests"][pending["requests"][row]]
        table.add_row(
            pending["name"][row],
            str(pending["priority"][row]),
            texts[pending["queue"][row]],
            texts[pending["group"][row]],
            ", ".join(f"{quantity.shown(name, n)} {name}" for name, n in amounts.items()),
            texts[pending["message"][row]] or "nothing yet",
        )
    return table


def _queues(queues: list[dict[str, Any]]) -> Table:
    table = _table("queue", "resource", "guaranteed", "share", "used", "limit", "waiting")
    for queue in queues:
        for line in _of_queue(queue):
            table.add_row(*line)
    return table


def _of_queue(queue: Mapping[str, Any]) -> Iterator[list[str]]:
    name, waiting = "  " * queue["depth"] + queue["queue"], str(queue["pending"])
    for resource, amounts in queue["resources"].items():
        values = [amounts[key] for key in ("guaranteed", "share", "used", "limit")]
        if any(values):
            shown = ["-" if value is None else quantity.shown(resource, value) for value in values]
            yield [name, resource, *shown, waiting]
            name, waiting = "", ""
    if name:
        yield [name, "", "", "", "", "", waiting]
