"""``bayplan simulate``: where all pending Pods of a file would go, one after the other."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bayplan.cli import offline, plugins, replan_text
from bayplan.cli.explain_text import some
from bayplan.cli.offline import Output
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.simulation.loss import Loss
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
    lose: Annotated[
        str | None,
        typer.Option(
            "--lose",
            metavar="LABEL=VALUE",
            help="What if the nodes with this label were gone? Implies --evict.",
        ),
    ] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="Place all Pods that run anew, too.")
    ] = False,
) -> None:
    """Say where all pending Pods of a file would go, and who would be evicted for them.

    Each sees the Pods placed before it. Who would be evicted is still there
    for the next one, unless --evict is given: then all evictions together are
    those that the file would cause. With --lose, the Pods of lost nodes that
    a controller makes again are pending, too. With --replan, all Pods but
    those of DaemonSets and static ones are: how much better could it be?
    """
    with offline.reporting():
        cluster, core = offline.load(
            file,
            config,
            plugin_dir,
            namespace,
            feature_gates=feature_gates,
            losing=None if lose is None else _label(lose),
            adopts_running=replan,
        )
        if replan:
            replan_text.replan(cluster, core, output, evict=evict)
            return
        before = usage(core)
        placements = simulate_pods(core, judged(cluster, core), evict=evict or lose is not None)
    loss = cluster.loss
    if loss is not None:
        for placement in placements:
            if placement["pod"] in loss.pods:
                placement["lost"] = loss.pods[placement["pod"]]
    offline.print_notes(cluster)
    if output is Output.TEXT:
        if loss is not None:
            _print_loss(offline.console(), loss, placements)
        _print(offline.console(), placements, before, usage(core))
    elif loss is None:
        offline.print_data(placements, output)
    else:
        lost = {"nodes": loss.nodes, "pods": loss.pods, "gone": loss.gone}
        offline.print_data({"lost": msgspec.to_builtins(lost), "placements": placements}, output)
    offline.end(cluster, placements)


def _label(text: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not label or not equals:
        raise typer.BadParameter("must be LABEL=VALUE", param_hint="--lose")
    return label, value


def loss_sentence(loss: Loss, placements: list[Result]) -> str:
    """What becomes of the Pods of lost nodes."""
    back = sum(p["pod"] in loss.pods and p["node"] is not None for p in placements)
    return (
        f"{len(loss.nodes)} nodes lost, {len(loss.pods) + len(loss.gone)} Pods with them: "
        f"{back} come back, {len(loss.pods) - back} stay down, {len(loss.gone)} are gone"
    )


def _print_loss(console: Console, loss: Loss, placements: list[Result]) -> None:
    console.print(f"{loss_sentence(loss, placements)}\n", style="bold")
    if loss.gone:
        table = Table("gone", "why", box=None, pad_edge=False)
        for pod, why in sorted(loss.gone.items()):
            table.add_row(pod, why)
        console.print(table)
        console.print()


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
    if victims := evicted_for(placements):
        evicted = Table("would be evicted", "for", box=None, pad_edge=False)
        for victim, preemptors in sorted(victims.items()):
            evicted.add_row(victim, some(preemptors))
        console.print(evicted)
        console.print()
    console.print(_usage(before, after))


def evicted_for(placements: list[Result]) -> dict[str, list[str]]:
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
