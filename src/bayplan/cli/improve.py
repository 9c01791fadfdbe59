"""``bayplan improve``: the fewest moves of Pods so that something fits, or nodes are empty.

Its commands show a plan and change nothing; ``--apply`` carries a plan out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bayplan import measures
from bayplan.app.assembly import Core
from bayplan.cli import asking, improve_apply, live, offline, plugins
from bayplan.cli.offline import Output
from bayplan.client.kubeconfig import Kubeconfig
from bayplan.improve import plan
from bayplan.improve.gains import saving, surviving, unstranding
from bayplan.improve.goals import Goal, GoalError, empty, fitting
from bayplan.simulation.checks import DEFAULT_NAMESPACE

NO_PLAN = 1
"""Exit code: no plan was found."""

MostOption = Annotated[
    int, typer.Option("--moves", min=0, help="How many Pods may be moved at most.")
]
SecondsOption = Annotated[
    float, typer.Option("--seconds", min=0, help="How long to look for a plan.")
]

app = typer.Typer(
    help="Show the fewest moves of Pods so that something fits, or nodes are empty.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def improve(
    context: typer.Context,
    apply: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN", help="Carry out a plan: a file that -o json has printed; - for stdin."
        ),
    ] = None,
    kubeconfig: live.KubeconfigOption = None,
    kube_context: live.ContextOption = None,
    lease: Annotated[
        str, typer.Option(help="NAMESPACE/NAME of the Lease of the scheduler that is to help.")
    ] = asking.LEASE,
    wait: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds a Pod may take to be bound, after the grace period of the old one."
        ),
    ] = improve_apply.WAIT_SECONDS,
) -> None:
    """Show the fewest moves of Pods so that something fits, or nodes are empty; or make moves.

    With --apply: exit code 0: all moves are made, and the goal holds. 1: it
    was stopped; what stands is said. 2: it is refused; nothing was touched.
    """
    if apply is None:
        return
    if context.invoked_subcommand is not None:
        plugins.unusable("--apply is about a plan that was made before: give no command with it")
    improve_apply.apply(apply, Kubeconfig(kubeconfig, kube_context), lease, wait)


@app.command("for")
def for_(
    subject: Annotated[
        str, typer.Argument(metavar="POD|podgroup/NAME", help="A Pod or a group that waits.")
    ],
    file: offline.FileOrClusterOption = None,
    config: plugins.ConfigOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    kubeconfig: live.KubeconfigOption = None,
    output: offline.OutputOption = Output.TEXT,
    most: MostOption = plan.MOST_MOVES,
    seconds: SecondsOption = plan.SECONDS,
) -> None:
    """Say which Pods have to move to make a waiting Pod or group fit.

    Only Pods that say bayplan.dev/movable=true move. Exit code 0: there is a
    plan. 1: none was found. 2: it cannot be said.
    """
    _improve(
        lambda core: fitting(core, subject, namespace),
        *(file, config, namespace, plugin_dir, feature_gates, kubeconfig, output, most, seconds),
    )


@app.command("empty")
def empty_(
    where: Annotated[str, typer.Argument(metavar="NODE|LABEL=VALUE", help="Which nodes.")],
    file: offline.FileOrClusterOption = None,
    config: plugins.ConfigOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    kubeconfig: live.KubeconfigOption = None,
    output: offline.OutputOption = Output.TEXT,
    most: MostOption = plan.MOST_MOVES,
    seconds: SecondsOption = plan.SECONDS,
) -> None:
    """Say where the Pods of a node, a rack or a zone can go.

    Pods of DaemonSets and static ones stay; all others have to say
    bayplan.dev/movable=true. Exit codes as of improve for.
    """
    _improve(
        lambda core: empty(core, where),
        *(file, config, namespace, plugin_dir, feature_gates, kubeconfig, output, most, seconds),
    )


@app.command()
def survive(
    file: offline.FileOrClusterOption = None,
    config: plugins.ConfigOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    kubeconfig: live.KubeconfigOption = None,
    output: offline.OutputOption = Output.TEXT,
    most: MostOption = plan.MOST_MOVES,
    seconds: SecondsOption = plan.SECONDS,
) -> None:
    """Say which Pods have to move for every workload to survive by the rules.

    The rules are those of the plugin BlastRadius, which a profile of --config
    has to have. Exit codes as of improve for.
    """
    _improve(
        surviving,
        *(file, config, namespace, plugin_dir, feature_gates, kubeconfig, output, most, seconds),
    )


@app.command()
def cost(
    amount: Annotated[float, typer.Argument(metavar="AMOUNT", help="How much an hour.", min=0)],
    file: offline.FileOrClusterOption = None,
    config: plugins.ConfigOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    kubeconfig: live.KubeconfigOption = None,
    output: offline.OutputOption = Output.TEXT,
    most: MostOption = plan.MOST_MOVES,
    seconds: SecondsOption = plan.SECONDS,
) -> None:
    """Say which Pods have to move to save at least so much an hour.

    What Pods cost is said by the plugin DomainCost, which a profile of
    --config has to have. Exit codes as of improve for.
    """
    _improve(
        lambda core: saving(core, amount),
        *(file, config, namespace, plugin_dir, feature_gates, kubeconfig, output, most, seconds),
    )


@app.command()
def packing(
    devices: Annotated[float, typer.Argument(metavar="DEVICES", help="How many.", min=0)],
    file: offline.FileOrClusterOption = None,
    config: plugins.ConfigOption = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    kubeconfig: live.KubeconfigOption = None,
    output: offline.OutputOption = Output.TEXT,
    most: MostOption = plan.MOST_MOVES,
    seconds: SecondsOption = plan.SECONDS,
) -> None:
    """Say which Pods have to move to let so many devices fewer be stranded.

    What is of no use for typical Pods is said by the plugin
    LeastFragmentation, which a profile of --config has to have. Exit codes as
    of improve for.
    """
    _improve(
        lambda core: unstranding(core, devices),
        *(file, config, namespace, plugin_dir, feature_gates, kubeconfig, output, most, seconds),
    )


def _improve(
    goal: Callable[[Core], Goal],
    file: list[Path] | None,
    config: Path | None,
    namespace: str,
    plugin_dir: list[Path] | None,
    feature_gates: list[str] | None,
    kubeconfig: str | None,
    output: Output,
    most: int,
    seconds: float,
) -> None:
    with offline.reporting():
        cluster, core = offline.load(
            file,
            config,
            plugin_dir,
            namespace,
            feature_gates=feature_gates,
            kubeconfig=kubeconfig,
            adopts_running=True,
        )
        offline.print_notes(cluster)
        try:
            answer = plan.improve(core, goal(core), time.time(), most=most, seconds=seconds)
        except GoalError as error:
            plugins.unusable(error)
    if output is Output.TEXT:
        _print(offline.console(), answer)
    else:
        offline.print_data(answer, output)
    offline.end(cluster, ())
    if not answer["reached"]:
        raise typer.Exit(NO_PLAN)


def _print(console: Console, answer: dict[str, Any]) -> None:
    console.print(answer["sentence"], style="bold")
    for line in answer.get("against", ()):
        console.print(f"  {line}", soft_wrap=True)
    if moves := answer.get("moves"):
        table = Table("step", "pod", "from", "to", "why", box=None, pad_edge=False)
        for move in moves:
            table.add_row(str(move["step"]), move["pod"], move["from"], move["to"], _why(move))
        console.print()
        console.print(table)
    if placed := answer.get("placed"):
        table = Table("then", "to", box=None, pad_edge=False)
        for pod, node in placed.items():
            table.add_row(pod, node)
        console.print()
        console.print(table)
    if moves:
        console.print()
        console.print(_measures(answer["before"], answer["after"]))
        console.print(f"\nPods that start anew: {answer['restarts']}; token {answer['token']}")


def _why(move: dict[str, Any]) -> str:
    if "fits" not in move:
        return "with its group"
    nodes = f"{move['fits']} node{'s fit' if move['fits'] > 1 else ' fits'}"
    if move["rank"] == 1:
        return f"{nodes}, this one is the scheduler's choice"
    return f"{nodes}, this one is number {move['rank']}"


def _measures(before: dict[str, float], after: dict[str, float]) -> Table:
    """The measures with another value afterwards."""
    table = Table("measure", box=None, pad_edge=False)
    for title in ("before", "after"):
        table.add_column(title, justify="right")
    for name, value in before.items():
        texts = [measures.shown(name, one) for one in (value, after.get(name, value))]
        if texts[0] != texts[1]:
            table.add_row(name, *texts)
    return table
