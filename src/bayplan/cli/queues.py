"""``bayplan queues``: what each tenant has, is owed, borrows and waits for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.console import Console

from bayplan.api import quantity
from bayplan.api.kinds import (
    COMPOSITE_POD_GROUP,
    KUBERNETES_POD_GROUP,
    NAMESPACE,
    NODE,
    NODE_KIND,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    Kind,
)
from bayplan.api.meta import ObjectFault
from bayplan.api.queues import State
from bayplan.app.sources import Sources
from bayplan.cache.queue_tree.past_use import PastUse
from bayplan.cache.queue_tree.report import Amounts, QueueReport, percent, reports
from bayplan.cli import live, offline, plugins
from bayplan.cli.offline import Output
from bayplan.client.kubeconfig import Kubeconfig
from bayplan.config.args import FairShareArgs
from bayplan.explain.queues import plain
from bayplan.framework.turns import Place
from bayplan.inbox.messages import Replaced
from bayplan.plugins.fair_share.coverage import covered_amounts
from bayplan.plugins.fair_share.turns import QueueTurns
from bayplan.simulation import load_cluster
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.telemetry.instrument import Instrument
from bayplan.world import World

OF_GROUPS = (POD_GROUP, KUBERNETES_POD_GROUP, COMPOSITE_POD_GROUP)
"""They and budgets matter for what a guarantee covers."""
KINDS = (
    *(NODE, NAMESPACE, NODE_KIND, PRIORITY_CLASS, QUEUE),
    *(POD_DISRUPTION_BUDGET, *OF_GROUPS, POD),
)
TITLES = (*Amounts._fields, "borrowed", "of share", "past use", "weight")
_NOTHING = ("", "0", "-")


class Standing(NamedTuple):
    """A queue as it is shown.

    Attributes:
        report: its sums.
        covered: by resource, what of `used` is covered by what is guaranteed.
        place: whose turn it is; None if none of its Pods may run.
    """

    report: QueueReport
    covered: dict[str, int]
    place: Place | None


app = typer.Typer(add_completion=False)


@app.command()
def queues(
    file: offline.FileOrClusterOption = None,
    kubeconfig: live.KubeconfigOption = None,
    context: live.ContextOption = None,
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
    args = FairShareArgs() if config is None else _args(config)
    with offline.reporting():
        cluster = load_cluster(file, None, namespace) if file else None
        objects = _listed(Kubeconfig(kubeconfig, context)) if cluster is None else cluster.objects
    if cluster is not None:
        offline.print_notes(cluster)
    world = _world(objects)
    if (past := args.past_use) is not None:
        world.queues.adopt(PastUse(past.half_life, past.interval, lambda: now))
    if not world.queues.active:
        plugins.unusable("there are no Queues")
    covered = covered_amounts(world.queues, world.cache)
    places = QueueTurns(world.queues, args.attempt_share, args.ageing, lambda: now).places()
    standings = [
        Standing(report, covered.get(report.name, {}), places.get(report.name))
        for report in reports(world.queues, now)
    ]
    faults = world.queues.faults()
    if output is Output.TEXT:
        _print(offline.console(), standings, faults)
    else:
        offline.print_data([_plain(standing, faults) for standing in standings], output)
    if cluster is not None:
        offline.end(cluster, [])


def _listed(kubeconfig: Kubeconfig) -> Mapping[Kind[Any], list[Any]]:
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


def _args(config: Path) -> FairShareArgs:
    """Of the first profile with FairShare, rather of one where past use counts."""
    _, effective = plugins.load(Sources(config), elects=False)
    found: list[FairShareArgs] = [
        args
        for profile in effective.profiles
        if (args := profile.plugin_args.get("FairShare")) is not None
    ]
    with_past = (args for args in found if args.past_use is not None)
    return next(with_past, found[0] if found else FairShareArgs())


def _print(console: Console, queues: Sequence[Standing], faults: Iterable[ObjectFault]) -> None:
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


def _lines(standing: Standing) -> Iterator[tuple[str, list[str]]]:
    """What begins a line, and what stands in the columns; nothing for a queue."""
    state = standing.report
    indent = "  " * state.depth
    yield f"{indent}{_title(standing)}", []
    for resource, amounts in _shown(state):
        values = (*amounts, amounts.borrowed)
        texts = ["-" if v is None else quantity.shown(resource, v) for v in values]
        full = state.saturation.get(resource)
        past = state.past.get(resource)
        texts_of_past = (quantity.shown(resource, past.use), f"{past.weight:g}") if past else "--"
        of_share = "-" if full is None else percent(full)
        yield f"{indent}  {resource}", [*texts, of_share, *texts_of_past]
        covered = standing.covered.get(resource, 0)
        if amounts.guaranteed and covered != min(amounts.used, amounts.guaranteed):
            yield f"{indent}    covered", _of_used(resource, covered)
        if never := state.never_evicted.get(resource):
            yield f"{indent}    never evicted", _of_used(resource, never)
    for user, used in state.users.items():
        for resource, amount in used.items():
            label = f"{indent}  {resource} of {user or 'Pods without user'}"
            yield label, _of_used(resource, amount)


def _title(standing: Standing) -> str:
    """The queue, what is special about it, and who waits."""
    state = standing.report
    closed = "" if state.state is State.OPEN else f" ({state.state})"
    facts = [f"{state.pending} waiting"] if state.pending else []
    if state.oldest is not None:
        facts.append(f"the oldest for {offline.age(state.oldest)}")
    if state.late:
        facts.append(f"late: the target is {offline.age(state.target)}")
    if standing.place is not None:
        facts.append(f"turn {standing.place.turn}")
    return f"{state.name}{closed}{': ' if facts else ''}{', '.join(facts)}"


def _of_used(resource: str, amount: int) -> list[str]:
    """The columns of a line that says what a part of `used` is."""
    cells = [""] * len(TITLES)
    cells[TITLES.index("used")] = quantity.shown(resource, amount)
    return cells


def _shown(state: QueueReport) -> list[tuple[str, Amounts]]:
    """The resources that there is anything to say about."""
    filled = state.amounts.items()
    return [pair for pair in filled if any(pair[1]) or pair[1].limit is not None]


def _plain(standing: Standing, faults: Iterable[ObjectFault]) -> dict[str, Any]:
    """As docs/tenants.md describes it; amounts are milli-CPU, bytes and counts."""
    return plain(standing.report, standing.place, faults, standing.covered)
