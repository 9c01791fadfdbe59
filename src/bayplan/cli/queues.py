"""``bayplan queues``: what each tenant has, is owed, borrows and waits for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from bayplan.api import quantity
from bayplan.api.kinds import NAMESPACE, NODE, NODE_KIND, POD, QUEUE, Kind
from bayplan.api.meta import ObjectFault
from bayplan.app.sources import Sources
from bayplan.cache.queue_tree.past_use import PastUse
from bayplan.cache.queue_tree.report import Amounts, QueueReport, percent, reports
from bayplan.cli import live, offline, plugins
from bayplan.cli.offline import Output
from bayplan.config.args import FairShareArgs
from bayplan.inbox.messages import Replaced
from bayplan.simulation import load_cluster
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.telemetry.instrument import Instrument
from bayplan.world import World

KINDS = (NODE, NAMESPACE, NODE_KIND, QUEUE, POD)
TITLES = (*Amounts._fields, "borrowed", "of share", "past use", "weight")
_NOTHING = ("", "0", "-")

app = typer.Typer(add_completion=False)


@app.command()
def queues(
    file: offline.FileOrClusterOption = None,
    kubeconfig: live.KubeconfigOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    config: plugins.ConfigOption = None,
    output: offline.OutputOption = Output.TEXT,
) -> None:
    """Say what each Queue has, is entitled to, borrows and waits for.

    Every Pod counts, whichever scheduler it asks for. With a --config that
    has past use count, it is estimated: by what the Pods that are there have
    used since they started.
    """
    now = time.time()
    past_use = None if config is None else _past_use(config, now)
    with offline.reporting():
        cluster = load_cluster(file, None, namespace) if file else None
        objects = _listed(kubeconfig) if cluster is None else cluster.objects
    if cluster is not None:
        offline.print_notes(cluster)
    world = _world(objects)
    world.queues.adopt(past_use)
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


def _past_use(config: Path, now: float) -> PastUse | None:
    _, effective = plugins.load(Sources(config), elects=False)
    for profile in effective.profiles:
        args: FairShareArgs | None = profile.plugin_args.get("FairShare")
        if args is not None and (past := args.past_use) is not None:
            return PastUse(past.half_life, past.interval, lambda: now)
    return None


def _print(console: Console, queues: Sequence[QueueReport], faults: Iterable[ObjectFault]) -> None:
    """A line for each queue, and below it one for each resource; of 80 columns if names are short.

    A column that says nothing of any queue is left out.
    """
    lines = [line for state in queues for line in _lines(state)]
    columns = [
        [title, *(cells[number] if cells else "" for _, cells in lines)]
        for number, title in enumerate(TITLES)
        if any(cells and cells[number] not in _NOTHING for _, cells in lines)
    ]
    labels = ["", *(label for label, _ in lines)]
    width = max((len(label) for label, cells in lines if cells), default=0)
    widths = [max(map(len, column)) for column in columns]
    for label, *cells in zip(labels, *columns, strict=True):
        numbers = (f"  {cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        line = f"{label:<{width}}{''.join(numbers)}".rstrip()
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    for fault in faults:
        text = f"{fault.regarding.name}: {fault.reason}: {fault.message}"
        console.print(text, style="yellow", markup=False, highlight=False)


def _lines(state: QueueReport) -> Iterator[tuple[str, list[str]]]:
    """What begins a line, and what stands in the columns; nothing for a queue."""
    indent = "  " * state.depth
    age = "" if state.oldest is None else f", the oldest for {offline.age(state.oldest)}"
    waiting = f": {state.pending} waiting{age}" if state.pending else ""
    yield f"{indent}{state.name}{waiting}", []
    for resource, amounts in _shown(state):
        values = (*amounts, amounts.borrowed)
        texts = ["-" if v is None else quantity.shown(resource, v) for v in values]
        full = state.saturation.get(resource)
        past = state.past.get(resource)
        texts_of_past = (quantity.shown(resource, past.use), f"{past.weight:g}") if past else "--"
        of_share = "-" if full is None else percent(full)
        yield f"{indent}  {resource}", [*texts, of_share, *texts_of_past]
    for user, used in state.users.items():
        for resource, amount in used.items():
            cells = [""] * len(TITLES)
            cells[TITLES.index("used")] = quantity.shown(resource, amount)
            yield f"{indent}  {resource} of {user or 'Pods without user'}", cells


def _shown(state: QueueReport) -> list[tuple[str, Amounts]]:
    """The resources that there is anything to say about."""
    filled = state.amounts.items()
    return [pair for pair in filled if any(pair[1]) or pair[1].limit is not None]


def _past(state: QueueReport, resource: str) -> dict[str, float]:
    past = state.past.get(resource)
    return {} if past is None else {"pastUse": past.use, "weight": past.weight}


def _plain(state: QueueReport, faults: Iterable[ObjectFault]) -> dict[str, Any]:
    """As docs/tenants.md describes it; amounts are milli-CPU, bytes and counts."""
    return {
        "queue": state.name,
        "depth": state.depth,
        "pending": state.pending,
        "oldestSeconds": state.oldest,
        "resources": {
            name: {
                **amounts._asdict(),
                "borrowed": amounts.borrowed,
                "saturation": _number(state.saturation.get(name, 0.0)),
                **_past(state, name),
            }
            for name, amounts in state.amounts.items()
        },
        "users": state.users,
        "faults": [
            {"reason": fault.reason, "message": fault.message}
            for fault in faults
            if (fault.regarding.kind, fault.regarding.name) == (QUEUE.name, state.name)
        ],
    }


def _number(ratio: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(ratio) else round(ratio, 4)
