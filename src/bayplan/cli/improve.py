"""``bayplan improve``: the fewest moves of Pods so that a goal holds.

Its commands show a plan and change nothing; ``--apply`` carries a plan out. The running scheduler
is asked, unless files, a configuration or plugins are given: then the plan is made here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from bayplan.cli import asking, improve_apply, improve_text, live, offline, plugins
from bayplan.cli.offline import Output
from bayplan.client import kubeconfig as credentials
from bayplan.client.errors import ApiError
from bayplan.client.kubeconfig import Kubeconfig, KubeconfigError, Where
from bayplan.improve.asked import Asked
from bayplan.improve.goals import GoalError
from bayplan.improve.plan import MOST_MOVES, SECONDS
from bayplan.simulation.checks import DEFAULT_NAMESPACE

NO_PLAN = 1
"""Exit code: no plan was found."""
ASKED = "asked of the running scheduler, by its own state"
"""What is said where the plan was not made here."""
Answer = dict[str, Any]

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


def _improve(
    goal: Any,
    subject: str,
    file: offline.FileOrClusterOption = None,
    config: plugins.ConfigOption = None,
    namespace: live.OurNamespaceOption = None,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    server: asking.ServerOption = None,
    lease: asking.LeaseOption = asking.LEASE,
    authority: asking.AuthorityOption = None,
    insecure: asking.InsecureOption = False,
    kubeconfig: live.KubeconfigOption = None,
    context: live.ContextOption = None,
    output: offline.OutputOption = Output.TEXT,
    moves: Annotated[
        int, typer.Option(min=0, help="How many Pods may be moved at most.")
    ] = MOST_MOVES,
    seconds: Annotated[
        float,
        typer.Option(
            min=0, help="How long to look for a plan; the running scheduler takes half a second."
        ),
    ] = SECONDS,
) -> None:
    where = Kubeconfig(kubeconfig, context)
    if namespace is None:
        namespace = DEFAULT_NAMESPACE if file else credentials.namespace(where)
    asked = Asked(goal, subject, namespace, moves, seconds)
    is_complete = True
    with offline.reporting():
        if file is None and not (config or plugin_dir or feature_gates):
            answer = _of_scheduler(asked, server, lease, authority, where, insecure=insecure)
            typer.echo(ASKED, err=True)
        else:
            answer, is_complete = _made_here(asked, file, config, plugin_dir, feature_gates, where)
    if output is Output.TEXT:
        improve_text.show(offline.console(), answer)
    else:
        offline.print_data(answer, output)
    if not is_complete:
        raise typer.Exit(offline.INCOMPLETE)
    if not answer["reached"]:
        raise typer.Exit(NO_PLAN)


def _of_scheduler(
    asked: Asked,
    server: str | None,
    lease: str,
    authority: Path | None,
    where: Where,
    *,
    insecure: bool,
) -> Answer:
    try:
        http = asking.connect(server, lease, authority, where, insecure=insecure)
        answer: Answer = msgspec.json.decode(http.post("/improve", msgspec.json.encode(asked)))
    except (ApiError, KubeconfigError, msgspec.DecodeError) as error:
        plugins.unusable(error)
    return answer


def _made_here(
    asked: Asked,
    file: list[Path] | None,
    config: Path | None,
    plugin_dir: list[Path] | None,
    feature_gates: list[str] | None,
    where: Where,
) -> tuple[Answer, bool]:
    """The answer, and whether nothing was left out."""
    if file is None:
        typer.echo(offline.JUDGED_HERE, err=True)
    cluster, core = offline.load(
        file,
        config,
        plugin_dir,
        asked.namespace,
        feature_gates=feature_gates,
        kubeconfig=where,
        adopts_running=True,
    )
    offline.print_notes(cluster)
    try:
        answer = asked.answer(core, time.time())
    except GoalError as error:
        plugins.unusable(error)
    return answer, not cluster.notes.left_out


def _command(goal: str) -> Callable[[Callable[..., object]], None]:
    """A command with the parameters of the function, which are the subject, and of `_improve`."""

    def add(said: Callable[..., object]) -> None:
        own = signature(said, eval_str=True).parameters
        common = list(signature(_improve, eval_str=True).parameters.values())[2:]

        def command(**values: Any) -> None:
            subject = "".join(str(values.pop(name)) for name in own)
            _improve(goal, subject, **values)

        command.__doc__ = said.__doc__
        command.__signature__ = Signature([*own.values(), *common])  # type: ignore[attr-defined]
        app.command(goal)(command)

    return add


@_command("for")
def _(
    subject: Annotated[
        str, typer.Argument(metavar="POD|podgroup/NAME", help="A Pod or a group that waits.")
    ],
) -> None:
    """Say which Pods have to move to make a waiting Pod or group fit.

    Only Pods that say bayplan.dev/movable=true move. Exit code 0: there is a
    plan. 1: none was found. 2: it cannot be said.
    """


@_command("empty")
def _(
    where: Annotated[str, typer.Argument(metavar="NODE|LABEL=VALUE", help="Which nodes.")],
) -> None:
    """Say where the Pods of a node, a rack or a zone can go.

    Pods of DaemonSets and static ones stay; all others have to say
    bayplan.dev/movable=true. Exit codes as of improve for.
    """


@_command("survive")
def _() -> None:
    """Say which Pods have to move for every workload to survive by the rules.

    The rules are those of the plugin BlastRadius, which a profile has to
    have. Exit codes as of improve for.
    """


@_command("cost")
def _(
    amount: Annotated[float, typer.Argument(metavar="AMOUNT", help="How much an hour.", min=0)],
) -> None:
    """Say which Pods have to move to save at least so much an hour.

    What Pods cost is said by the plugin DomainCost, which a profile has to
    have. Exit codes as of improve for.
    """


@_command("packing")
def _(
    devices: Annotated[float, typer.Argument(metavar="DEVICES", help="How many.", min=0)],
) -> None:
    """Say which Pods have to move to let so many devices fewer be stranded.

    What is of no use for typical Pods is said by the plugin
    LeastFragmentation, which a profile has to have. Exit codes as of improve
    for.
    """
