"""``bayplan simulate``: where all pending Pods of a file would go, one after the other."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bayplan.cli import offline, plugins
from bayplan.cli.explain_text import some
from bayplan.cli.offline import Output
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.simulation.offline import judged
from bayplan.simulation.simulate import ResourceUsage, Result, usage
from bayplan.simulation.simulate import simulate as simulate_pods

app = typer.Typer(add_completion=False)


@app.command()
def simulate(
    file: offline.FileOption,
    config: plugins.ConfigOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    output: offline.OutputOption = Output.TEXT,
    evict: Annotated[
        bool, typer.Option("--evict", help="Let Pods that would be evicted be gone from then on.")
    ] = False,
) -> None:
    """Say where all pending Pods of a file would go, and who would be evicted for them.

    Each sees the Pods placed before it. Who would be evicted is still there
    for the next one, unless --evict is given: then all evictions together are
    those that the file would cause.
    """
    with offline.reporting():
        cluster, core = offline.load(
            file, config, plugin_dir, namespace, feature_gates=feature_gates
        )
        before = usage(core)
        placements = simulate_pods(core, judged(cluster, core), evict=evict)
    offline.print_notes(cluster)
    if output is Output.TEXT:
        _print(offline.console(), placements, before, usage(core))
    else:
        offline.print_data(placements, output)
    offline.end(cluster, placements)


def _print(
    console: Console,
    placements: list[Result],
    before: list[ResourceUsage],
    after: list[ResourceUsage],
) -> None:
    table = Table("pod", "node", "as good, or why not", box=None, pad_edge=False)
    for placement in placements:
        node = placement["node"]
        others = [name for name in placement.get("best", []) if name != node]
        remark = placement["message"] or some(others)
        table.add_row(placement["pod"], node or "-", remark, style="" if node else "yellow")
    console.print(table)
    placed = sum(placement["node"] is not None for placement in placements)
    console.print(f"\n{placed} placed, {len(placements) - placed} not\n", style="bold")
    if victims := _preemptors(placements):
        evicted = Table("would be evicted", "for", box=None, pad_edge=False)
        for victim, preemptors in sorted(victims.items()):
            evicted.add_row(victim, some(preemptors))
        console.print(evicted)
        console.print()
    console.print(_usage(before, after))


def _preemptors(placements: list[Result]) -> dict[str, list[str]]:
    """For whom each Pod would be evicted: Pods and groups."""
    preemptors: dict[str, list[str]] = {}
    for placement in placements:
        preemptor = placement.get("group") or placement["pod"]
        victims = placement.get("victims") or placement.get("podGroup", {}).get("victims", ())
        for victim in victims:
            names = preemptors.setdefault(victim, [])
            if preemptor not in names:
                names.append(preemptor)
    return preemptors


def _usage(before: list[ResourceUsage], after: list[ResourceUsage]) -> Table:
    table = Table("resource", box=None, pad_edge=False)
    for title in ("allocatable", "requested before", "", "and after", ""):
        table.add_column(title, justify="right")
    for old, new in zip(before, after, strict=True):
        table.add_row(
            new.resource,
            _amount(new.resource, new.allocatable),
            _amount(old.resource, old.requested),
            _share(old),
            _amount(new.resource, new.requested),
            _share(new),
        )
    return table


def _share(one: ResourceUsage) -> str:
    return f"{one.requested / one.allocatable:.0%}" if one.allocatable else "-"


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return f"{amount / 2**30:.1f}Gi"
    return str(amount)
