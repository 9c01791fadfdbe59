"""``bayplan simulate``: where all pending Pods of a file would go, one after the other."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bayplan.api.kinds import NODE
from bayplan.cli import asking, live, offline, plugins, replan_text
from bayplan.cli.explain_text import some
from bayplan.cli.growth_text import counted, growth_data, print_growth
from bayplan.cli.offline import Form, Output
from bayplan.cli.plan import plan
from bayplan.client import kubeconfig as credentials
from bayplan.client.kubeconfig import Kubeconfig
from bayplan.simulation import LoadedCluster
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.simulation.growth import Gain, gain
from bayplan.simulation.loss import Loss
from bayplan.simulation.offline import judged
from bayplan.simulation.simulate import ResourceUsage, Result, usage
from bayplan.simulation.simulate import simulate as simulate_pods

app = typer.Typer(add_completion=False)


@app.command()
def simulate(
    file: offline.FileOption,
    config: plugins.ConfigOption = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="The namespace of objects that name none; without it default, and with "
            "--on-cluster that of the kubeconfig's context.",
        ),
    ] = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    output: offline.FormOption = Form.TEXT,
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
    add: Annotated[
        int | None, typer.Option("--add", min=1, help="What if there were so many more nodes?")
    ] = None,
    like: Annotated[
        str, typer.Option("--like", metavar="NODE", help="The node that those of --add are like.")
    ] = "",
    replan: Annotated[
        bool, typer.Option("--replan", help="Place all Pods that run anew, too.")
    ] = False,
    on_cluster: Annotated[
        bool,
        typer.Option(
            "--on-cluster",
            help="Place the Pods of the files in the running cluster: the running scheduler says "
            "where, as by bayplan plan; with --config they are judged here, after those that wait.",
        ),
    ] = False,
    server: asking.ServerOption = None,
    lease: asking.LeaseOption = asking.LEASE,
    authority: asking.AuthorityOption = None,
    insecure: asking.InsecureOption = False,
    kubeconfig: live.KubeconfigOption = None,
    context: live.ContextOption = None,
) -> None:
    """Say where all pending Pods of a file would go, and who would be evicted for them.

    Each sees the Pods placed before it. Who would be evicted is still there
    for the next one, unless --evict is given: then all evictions together are
    those that the file would cause. With --lose, the Pods of lost nodes that
    a controller makes again are pending, too. With --add, what is placed that
    was not without the new nodes comes first. With --replan, all Pods but
    those of DaemonSets and static ones are: how much better could it be?
    """
    where = Kubeconfig(kubeconfig, context)
    adding = _adding(add, like, replan=replan)
    if on_cluster and not (config or plugin_dir or feature_gates):
        _check_asked(output, others=any((evict, replan, lose, add)))
        plan(
            file=file,
            server=server,
            namespace=namespace,
            lease=lease,
            authority=authority,
            insecure=insecure,
            kubeconfig=kubeconfig,
            context=context,
            output=Output(output),
        )
        return
    if on_cluster:
        typer.echo(offline.JUDGED_HERE, err=True)
        namespace = namespace or credentials.namespace(where)
    with offline.reporting():
        cluster, core = offline.load(
            file,
            config,
            plugin_dir,
            namespace or DEFAULT_NAMESPACE,
            feature_gates=feature_gates,
            kubeconfig=where,
            losing=None if lose is None else _label(lose),
            adding=adding,
            adopts_running=replan,
            beside_cluster=on_cluster,
        )
        if replan:
            replan_text.replan(cluster, core, output, evict=evict)
            return
        before = usage(core)
        losing = lose is not None
        place = partial(simulate_pods, evict=evict or losing, again=losing)
        placements = place(core, judged(cluster, core), details=not output.is_data)
        gained = None
        if cluster.growth is not None:
            old, without = offline.load_before(cluster, config, plugin_dir, feature_gates)
            gained = gain(place(without, judged(old, without)), placements)
    if cluster.loss is not None:
        _mark_lost(cluster.loss, placements)
    offline.print_notes(cluster)
    if not cluster.objects[NODE]:
        typer.echo("there is no Node: with --on-cluster the Pods are placed in a cluster", err=True)
    if output.is_data:
        _print_data(cluster, gained, placements, output)
    else:
        with offline.printing(output, "bayplan simulate") as console:
            if cluster.loss is not None:
                _print_loss(console, cluster.loss, placements)
            if cluster.growth is not None and gained is not None:
                print_growth(console, cluster.growth, gained)
            _print(console, placements, before, usage(core))
    offline.end(cluster, placements)


def _check_asked(output: Form, *, others: bool) -> None:
    """What the running scheduler does not say is refused."""
    if others:
        wrong = "the running scheduler cannot be asked that; with --config it is judged here"
        raise typer.BadParameter(wrong, param_hint="--evict, --lose, --add, --replan")
    if output is Form.HTML:
        raise typer.BadParameter("not with --on-cluster alone", param_hint="-o html")


def _mark_lost(loss: Loss, placements: list[Result]) -> None:
    for placement in placements:
        if placement["pod"] in loss.pods:
            placement["lost"] = loss.pods[placement["pod"]]


def _print_data(
    cluster: LoadedCluster, gained: Gain | None, placements: list[Result], output: Form
) -> None:
    loss, changes = cluster.loss, dict[str, Any]()
    if loss is not None:
        lost = {"nodes": loss.nodes, "pods": loss.pods, "gone": loss.gone}
        changes["lost"] = msgspec.to_builtins(lost)
    if cluster.growth is not None and gained is not None:
        changes["added"] = growth_data(cluster.growth, gained)
    offline.print_data({**changes, "placements": placements} if changes else placements, output)


def _adding(add: int | None, like: str, *, replan: bool) -> tuple[int, str] | None:
    if (add is None) == bool(like):
        raise typer.BadParameter("one is not given without the other", param_hint="--add, --like")
    if add is None:
        return None
    if replan:
        raise typer.BadParameter("not with --replan", param_hint="--add")
    return add, like


def _label(text: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not label or not equals:
        raise typer.BadParameter("must be LABEL=VALUE", param_hint="--lose")
    return label, value


def loss_sentence(loss: Loss, placements: list[Result]) -> str:
    """What becomes of the Pods of lost nodes."""
    back = sum(p["pod"] in loss.pods and p["node"] is not None for p in placements)
    alone, down = len(loss.nodes) == 1, len(loss.pods) - back
    return (
        f"{counted(len(loss.nodes), 'node')} lost, "
        f"{counted(len(loss.pods) + len(loss.gone), 'Pod')} with {'it' if alone else 'them'}: "
        f"back on a node: {back}, down: {down}, gone: {len(loss.gone)}"
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
    for alike in _alike(placements):
        first = alike[0]
        node = first["node"]
        others = [name for name in first.get("best", []) if name != node]
        remark = first["message"] or some(others)
        if was_on := first.get("evicted"):
            remark = "; ".join(filter(None, (f"evicted from {was_on}", remark)))
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        table.add_row(first["pod"] + more, node or "-", remark, style="" if node else "yellow")
        for line in first.get("details", ()):
            table.add_row("", "", line)
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


def _alike(placements: list[Result]) -> list[list[Result]]:
    """Pods one after the other that are not placed for the same reason, together."""
    alike: list[list[Result]] = []
    for placement in placements:
        said = {key: value for key, value in placement.items() if key != "pod"}
        same = alike and said == {k: v for k, v in alike[-1][0].items() if k != "pod"}
        if same and placement["node"] is None:
            alike[-1].append(placement)
        else:
            alike.append([placement])
    return alike


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
