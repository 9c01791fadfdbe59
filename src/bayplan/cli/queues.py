"""``bayplan queues``: what each tenant has, is owed, borrows and waits for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from bayplan.api import quantity
from bayplan.api.kinds import NAMESPACE, NODE, POD, QUEUE, Kind
from bayplan.api.meta import ObjectFault
from bayplan.cache.queue_tree.report import Amounts, QueueReport, reports
from bayplan.cli import live, offline, plugins
from bayplan.cli.offline import Output
from bayplan.inbox.messages import Replaced
from bayplan.simulation import load_cluster
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.telemetry.instrument import Instrument
from bayplan.world import World

KINDS = (NODE, NAMESPACE, QUEUE, POD)

app = typer.Typer(add_completion=False)


@app.command()
def queues(
    file: offline.FileOrClusterOption = None,
    kubeconfig: live.KubeconfigOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    output: offline.OutputOption = Output.TEXT,
) -> None:
    """Say what each Queue has, is entitled to, borrows and waits for.

    Every Pod counts, whichever scheduler it asks for.
    """
    now = time.time()
    with offline.reporting():
        cluster = load_cluster(file, None, namespace) if file else None
        objects = _listed(kubeconfig) if cluster is None else cluster.objects
    if cluster is not None:
        offline.print_notes(cluster)
    world = _world(objects)
    if not world.queues.active:
        plugins.unusable("there are no Queues")
    queues = reports(world.queues, now)
    faults = world.queues.faults()
    if output is Output.TEXT:
        _print(offline.console(), queues, faults)
    else:
        offline.print_data([_plain(queue, faults) for queue in queues], output)
    if cluster is not None:
        offline.end(cluster, [])


def _listed(kubeconfig: str | None) -> Mapping[Kind[Any], list[Any]]:
    objects: dict[Kind[Any], list[Any]] = {kind: [] for kind in KINDS}
    for kind, data in live.objects(kubeconfig, KINDS):
        objects[kind].append(kind.decode(data))
    return objects


def _world(objects: Mapping[Kind[Any], list[Any]]) -> World:
    world = World(time.monotonic, Instrument())
    world.handlers.adopt(frozenset(pod.spec.scheduler_name for pod in objects.get(POD, ())))
    for kind in KINDS:
        world.handlers.apply(Replaced(kind, objects.get(kind, [])))
    return world


def _print(console: Console, queues: Iterable[QueueReport], faults: Iterable[ObjectFault]) -> None:
    table = Table("queue", "resource", box=None, pad_edge=False)
    for title in ("guaranteed", "limit", "used", "demand", "share", "borrowed", "pending"):
        table.add_column(title, justify="right")
    table.add_column("oldest", justify="right")
    for state in queues:
        name, pending, oldest = "  " * state.depth + state.name, str(state.pending), _age(state)
        for resource, amounts in _shown(state):
            values = (*amounts, amounts.borrowed)
            texts = ("-" if v is None else quantity.shown(resource, v) for v in values)
            table.add_row(name, resource, *texts, pending, oldest)
            name = pending = oldest = ""
    console.print(table)
    for fault in faults:
        console.print(f"{fault.regarding.name}: {fault.reason}: {fault.message}", style="yellow")


def _shown(state: QueueReport) -> list[tuple[str, Amounts]]:
    """The resources that there is anything to say about; at least one."""
    filled = [pair for pair in state.amounts.items() if any(pair[1]) or pair[1].limit is not None]
    return filled or list(state.amounts.items())[:1]


def _age(state: QueueReport) -> str:
    if state.oldest is None:
        return "-"
    minutes, seconds = divmod(int(state.oldest), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _plain(state: QueueReport, faults: Iterable[ObjectFault]) -> dict[str, Any]:
    """Amounts in the scheduler's units: milli-CPU, bytes, counts."""
    return {
        "queue": state.name,
        "depth": state.depth,
        "pending": state.pending,
        "oldestSeconds": state.oldest,
        "resources": {
            name: {**amounts._asdict(), "borrowed": amounts.borrowed}
            for name, amounts in state.amounts.items()
        },
        "users": state.users,
        "faults": [
            {"reason": fault.reason, "message": fault.message}
            for fault in faults
            if fault.regarding.name == state.name
        ],
    }
